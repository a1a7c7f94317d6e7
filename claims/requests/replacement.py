"""
A claim that replaces another: another count, profile or duration, requested like any claim.

While both exist, the quota counts only the devices of the new claim beyond those of the old one
(`Claim.carried`, `ClaimCharge.carried`); `Claim.advance` ends that in the transaction in which the old
claim stops counting. Once the new claim holds its devices, the portal releases the old one. Nothing is
carried to or from a claim with alternatives, because its charge changes with the allocation.
Combined profiles carry only devices per class.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from claims.models import Claim
from claims.plans.plan import RequestPlan
from claims.quotas import quota_usage
from claims.quotas.quota_usage import QuotaLine, QuotaUsage
from claims.states import FINAL, RUNNING
from core.errors import Conflict, Invalid
from dra.objects import requests


@dataclass(frozen=True, slots=True)
class Carried:
    """
    What the new claim does not count again: devices of the profile, devices per class, and claims.

    `devices` is above 0 only if both claims have the same profile.
    """

    devices: int = 0
    classes: Mapping[str, int] = field(default_factory=dict)
    claims: int = 0  # as a quota of claims counts them


NOTHING = Carried()


def plan_quota_lines(standings: Sequence[QuotaUsage], plan: RequestPlan, carried: Carried) -> list[QuotaLine]:
    """Return the effect of `plan` on each quota, less what is carried."""
    return quota_usage.usage_lines(
        standings,
        team=plan.team,
        charge={name: count - carried.classes.get(name, 0) for name, count in plan.charge.items()},
        profiles={profile: count - carried.devices for profile, count in plan.devices_by_profile.items()},
        claims=plan.parallel - carried.claims,
    )


def carried_from(old: Claim | None, plan: RequestPlan) -> Carried:
    """
    Return the part of `plan` for which the replaced claim `old` already counts.

    Raises Conflict or Invalid if `plan` cannot replace that claim; the result is stable while it is locked.
    """
    if old is None:
        return NOTHING
    if reason := reason_not_to_replace(old):
        raise Conflict(reason)
    if old.team_id != plan.team.pk:
        raise Invalid(f"{old} belongs to {old.team}; its replacement must belong to the same team.")
    multiple = len(plan.options) > 1
    old_has_alternatives = any(request.get("firstAvailable") for request in requests(old.spec))
    if old_has_alternatives or (multiple and not plan.together):
        return NOTHING
    counted = dict(old.charges.values_list("device_class", "devices"))
    single_profiles = not multiple and not old.alternatives.exists()
    same_profile = single_profiles and old.profile_version.profile_id == plan.profile.pk
    devices = min(old.devices * old.parallel, plan.total_devices) if same_profile else 0
    return Carried(
        devices=devices,
        claims=min(old.parallel, plan.parallel) if devices else 0,
        classes={name: min(count, counted.get(name, 0)) for name, count in plan.charge.items()},
    )


def reason_not_to_replace(old: Claim) -> str:
    """Return why this claim cannot be replaced now, "" if it can."""
    if old.state not in RUNNING:
        return f"{old} is “{old.get_state_display()}”; only a running claim can be replaced."
    if successor := old.successors.live().first():
        return f"{old} is already being replaced by {successor}."
    if old.replaces is not None and old.replaces.state not in FINAL:
        # It still shares its charge with the claim before it, so the charge cannot be carried on.
        return f"{old} itself replaces {old.replaces}; wait until {old.replaces} is released."
    return ""
