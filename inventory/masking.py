"""
Who may see who holds a device.

The mirror knows ResourceClaims, not teams: the package above registers a resolver that names the holders
which a person may know of. Without one, or where it is silent, only platform admins see namespace and name.
"""

from collections.abc import Callable, Iterable, Mapping

from django.contrib.auth.models import AbstractUser, AnonymousUser

from inventory.models import Device, ResourceClaim
from inventory.states import Holder

type Person = AbstractUser | AnonymousUser


# Asked once per page with all its claims; answers for those whose holder the person may know, by primary key.
type Resolver = Callable[[Person, Iterable[ResourceClaim]], Mapping[int, Holder]]

_resolvers: list[Resolver] = []


def register(resolver: Resolver) -> None:
    """Let a package above tell holders. Called once, when its app is ready."""
    if resolver not in _resolvers:
        _resolvers.append(resolver)


def holders_for(person: Person, claims: Iterable[ResourceClaim]) -> dict[int, Holder]:
    """
    Return a holder for each claim, masked where `person` may not know; as many queries for one as for many.
    """
    asked = {claim.pk: claim for claim in claims}
    if not asked:
        return {}
    known: dict[int, Holder] = {}
    for resolver in _resolvers:
        known |= resolver(person, asked.values())
    for pk, claim in asked.items():
        if pk not in known:
            known[pk] = (
                Holder(f"{claim.namespace}/{claim.name}")
                if person.is_superuser
                else Holder("another team", masked=True)
            )
    return known


def name_holders(person: Person, devices: Iterable[Device]) -> None:
    """Set `holder` of each device, None where nobody holds it. `held_by` must have been loaded."""
    devices = list(devices)
    holders = holders_for(person, {device.held_by for device in devices if device.held_by})
    for device in devices:
        device.holder = holders[device.held_by.pk] if device.held_by else None
