"""
A claim that replaces another: another count, profile or duration, asked for as any request.

While both count, only what exceeds the old one counts of the new (`Claim.carried`, `ClaimCharge.carried`);
`Claim.advance` ends that in the transaction in which the old one stops counting. When the new one holds its
devices, the portal releases the old. Nothing is carried where alternatives make what a claim counts for move
up and down by itself; where one of them takes several profiles together, devices per class alone are.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from claims.models import Claim, Quota
from claims.plans.plan import RequestPlan
from claims.quotas import usage
from claims.quotas.usage import QuotaLine
from claims.states import FINAL, RUNNING
from core.errors import Conflict, Invalid
from dra.objects import requests


@dataclass(frozen=True, slots=True)
class Carried:
    """
    What does not count twice: devices of the profile that both are of, devices per class, and claims.

    Where `devices` are carried, both name one profile.
    """

    devices: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    claims: int = 0  # as `claims.quotas.counts.CLAIM_COUNT` counts them


NOTHING = Carried()


def lines_for(rows: Iterable[Quota], wish: RequestPlan, carried: Carried) -> list[QuotaLine]:
    """Return what `wish` does to each quota, less what is carried."""
    return usage.quota_lines(
        rows,
        team=wish.team,
        charge={name: count - carried.classes.get(name, 0) for name, count in wish.charge.items()},
        profiles={profile: count - carried.devices for profile, count in wish.profiles.items()},
        claims=wish.parallel - carried.claims,
    )


def carried_to(wish: RequestPlan, old: Claim | None) -> Carried:
    """
    Return what of `wish` the claim that it replaces counts for already.

    Raises Conflict or Invalid if that claim cannot be replaced by this; under its lock it stays so.
    """
    if old is None:
        return NOTHING
    if reason := reason_not_to_replace(old):
        raise Conflict(reason)
    if old.team_id != wish.team.pk:
        raise Invalid(f"{old} is of {old.team}; what replaces it has to be too.")
    several = len(wish.options) > 1
    settles = any(request.get("firstAvailable") for request in requests(old.spec))
    if settles or (several and not wish.together):
        return NOTHING
    counted = dict(old.charges.values_list("device_class", "devices"))
    alone = not several and not old.alternatives.exists()
    same = alone and old.profile_version.profile_id == wish.profile.pk
    devices = min(old.devices * old.parallel, wish.total) if same else 0
    return Carried(
        devices=devices,
        claims=min(old.parallel, wish.parallel) if devices else 0,
        classes={name: min(count, counted.get(name, 0)) for name, count in wish.charge.items()},
    )


def reason_not_to_replace(old: Claim) -> str:
    """Return why nothing can replace this claim now, "" if something can."""
    if old.state not in RUNNING:
        return f"{old} is “{old.get_state_display()}”; only a claim that runs can be replaced."
    if successor := old.successors.live().first():
        return f"{old} is being replaced by {successor} already."
    if old.replaces is not None and old.replaces.state not in FINAL:
        # What it counts for is still shared with the one before, so it cannot be lent once more.
        return f"{old} itself replaces {old.replaces}, which has to end first."
    return ""
