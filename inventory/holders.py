"""
Who may see which claim holds a device.

The mirror knows ResourceClaims, not teams, so `settings.DEVICE_HOLDERS` names the function that returns the
holders that a person may see. Other holders are "another team", and platform admins see namespace and name.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.utils.module_loading import import_string

from inventory.models import Device, ResourceClaim
from inventory.states import Holder

type Person = AbstractUser | AnonymousUser

HIDDEN = Holder("another team", masked=True)


class HeldClaim(NamedTuple):
    """The columns that identify a ResourceClaim as a holder."""

    pk: int
    owner: str
    cluster_id: UUID
    namespace: str
    name: str


def holders_for(person: Person, claims: Iterable[ResourceClaim | HeldClaim]) -> dict[int, Holder]:
    """Return the holder of each claim by primary key; the number of queries does not grow with the claims."""
    by_pk = {claim.pk: claim for claim in claims}
    if not by_pk:
        return {}
    visible: Mapping[int, Holder] = import_string(settings.DEVICE_HOLDERS)(person, by_pk.values())
    return {pk: visible.get(pk) or _default_holder(person, claim) for pk, claim in by_pk.items()}


def _default_holder(person: Person, claim: ResourceClaim | HeldClaim) -> Holder:
    return Holder(f"{claim.namespace}/{claim.name}") if person.is_superuser else HIDDEN


def name_holders(person: Person, devices: Iterable[Device]) -> None:
    """Set `holder` of each device, None where nobody holds it. `held_by` must have been loaded."""
    devices = list(devices)
    holders = holders_for(person, {device.held_by for device in devices if device.held_by})
    for device in devices:
        device.holder = holders[device.held_by.pk] if device.held_by else None
