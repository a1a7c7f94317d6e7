"""What a rule would do: to examples of requests, and to what was asked for in the last 30 days."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.utils import timezone
from django.utils.translation import gettext as _

from claims.approval.rules import Rule, Rules, asked_of, rule_of
from claims.models import Approval, ApprovalRule, Claim, Profile, ProfileVersion

LOOKED_BACK = timedelta(days=30)
SIZES = (1, 2, 4, 8)
SPANS = (timedelta(hours=4), timedelta(days=1), timedelta(days=7))
WAYS = (Approval.AUTOMATIC, Approval.LEAD, Approval.ADMIN, Approval.BOTH)


@dataclass(frozen=True, slots=True)
class Example:
    devices: int
    ways: tuple[str, ...]  # one per span: who decides, in words


@dataclass(frozen=True, slots=True)
class Way:
    """How many requests of the last 30 days go this way by the rules as they are, and with the rule."""

    label: str
    now: int
    then: int


@dataclass(frozen=True, slots=True)
class Effect:
    examples: tuple[Example, ...]
    spans: tuple[timedelta, ...]
    past: tuple[Way, ...]
    counted: int
    about: str  # the profile of the examples


def effect_of(rule: ApprovalRule) -> Effect:
    """Work it out for a rule that need not be saved; the number of queries does not grow with the claims."""
    version = _example_version(rule)
    examples = []
    if version is not None:
        applied = rule_of(rule, version)
        examples = [
            Example(devices, tuple(_way(applied, devices, span) for span in SPANS)) for devices in SIZES
        ]
    now, then = _past(rule)
    ways = [Way(str(way.label), now[way], then[way]) for way in WAYS]
    return Effect(
        tuple(examples), SPANS, tuple(ways), sum(now.values()), str(version.profile) if version else ""
    )


def _example_version(rule: ApprovalRule) -> ProfileVersion | None:
    """Return what the examples ask for: the rule's profile, else the first that everybody may ask for."""
    if rule.profile is not None:
        return rule.profile.current
    first = Profile.objects.filter(retired_at=None).exclude(current=None).select_related("current__profile")
    found = first.first()
    return found.current if found else None


def _way(rule: Rule, devices: int, span: timedelta) -> str:
    if rule.lets_through(devices=devices, duration=span):
        return _("nobody")
    return str(rule.approval.label)


def _past(rule: ApprovalRule) -> tuple[Counter[Approval], Counter[Approval]]:
    claims = Claim.objects.filter(created_at__gte=timezone.now() - LOOKED_BACK)
    if rule.team_id:
        claims = claims.filter(team=rule.team_id)
    asked = claims.select_related("profile_version__profile").prefetch_related(
        "alternatives__profile_version__profile"
    )
    rules, changed = Rules(), Rules()
    changed.put(rule)
    now: Counter[Approval] = Counter()
    then: Counter[Approval] = Counter()
    for claim in asked:
        parts = asked_of(claim)
        if rule.profile_id and not _names(parts, rule.profile_id):
            continue
        for known, counted in ((rules, now), (changed, then)):
            ruling = known.on(claim)
            counted[Approval.AUTOMATIC if ruling.automatic else ruling.approval] += 1
    return now, then


def _names(parts: Sequence[tuple[ProfileVersion, int]], profile: object) -> bool:
    return any(version.profile_id == profile for version, _devices in parts)
