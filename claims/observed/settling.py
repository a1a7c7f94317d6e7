"""
What a claim with alternatives counts for while the scheduler has decided which of them it takes.

From the request on the worst alternative is reserved; while devices are held, the one that was taken counts.
When they go back, the worst counts again: the next pod may get it.
"""

from collections import Counter
from collections.abc import Iterable

from django.db.models import F, Q

from claims.models import Alternative, Claim, ClaimCharge, Quota
from claims.observed.sightings import Sighting, held_by
from dra import quota
from dra.help.fallback import only
from dra.objects import requests


def settle_charges(claim: Claim, seen: Sighting) -> None:
    """
    Bring the charges of a claim in line with the alternatives that its ResourceClaims have been given.

    Called under the lock of the claim. Counting more again makes a quota scarcer, so it takes the lock that a
    request counts under; a request that has counted before finds the quota over, and nothing is taken back.
    """
    if not any(request.get("firstAvailable") for request in requests(claim.spec)):
        return
    held = [sorted({one.request for one in held_by(row)}) for row in seen.holders]
    taken = [names for names in held if names]
    classes = _classes(claim, taken)
    charges, options = list(claim.charges.all()), list(claim.alternatives.filter(together=False))
    counts: list[tuple[ClaimCharge | Alternative, int | None]] = [
        *((row, classes.get(row.device_class)) for row in charges),
        *((row, _devices(claim, row, taken)) for row in options),
    ]
    moved = [(row, count) for row, count in counts if row.settled != count]
    if not moved:
        return
    if any((row.devices if count is None else count) > _counted(row) for row, count in moved):
        _lock(claim, charges, options)
    for row, count in moved:
        type(row)._default_manager.filter(pk=row.pk).update(settled=count)


def _classes(claim: Claim, taken: list[list[str]]) -> dict[str, int | None]:
    """Return devices per class, None where the worst counts because nothing is held."""
    worst = quota.charge(claim.spec)
    if not taken:
        return dict.fromkeys(worst)
    counted: Counter[str] = Counter()
    for names in taken:
        counted.update(quota.charge(only(claim.spec, names)))
    waiting = max(claim.parallel - len(taken), 0)
    # More claims at once than were asked for are told as over-use; they are never charged.
    return {
        name: min(counted[name] + waiting * count, claim.parallel * count) for name, count in worst.items()
    }


def _devices(claim: Claim, row: Alternative, taken: list[list[str]]) -> int | None:
    if not taken:
        return None
    here = sum(row.name in names for names in taken) + max(claim.parallel - len(taken), 0)
    return row.devices * min(here, claim.parallel) // claim.parallel


def _counted(row: ClaimCharge | Alternative) -> int:
    return row.devices if row.settled is None else row.settled


def _lock(claim: Claim, charges: Iterable[ClaimCharge], options: Iterable[Alternative]) -> None:
    """Take the rows of the quotas concerned, in the order in which a request takes them."""
    classes = [row.device_class for row in charges]
    profiles = Alternative.objects.filter(pk__in=[row.pk for row in options])
    rows = Quota.objects.filter(team=claim.team_id).filter(
        Q(device_class__in=classes) | Q(profile__in=profiles.values(of=F("profile_version__profile")))
    )
    list(rows.select_for_update(no_key=True, of=("self",)).order_by("pk"))
