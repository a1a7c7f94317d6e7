"""How two versions of a profile differ, and whom a new version concerns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from difflib import unified_diff
from typing import Any

from django.db.models import Count, Q, QuerySet

from claims.models import Approval, Claim, Draft, Profile, ProfileVersion
from claims.states import FINAL, ClaimState
from core.times import duration
from dra.canonical import canonical, in_key_order, spec_hash
from dra.manifests import to_yaml
from dra.objects import Json
from teams.models import Team

LABELS: dict[str, str] = {
    "scalable": "Scalable request",
    "max_devices": "Max devices",
    "default_duration": "Default duration",
    "max_duration": "Longest duration",
    "grace": "Grace after the end",
    "extension": "Extension without asking",
    "deliveries": "Delivered as",
    "approval": "Who approves",
    "automatic_devices": "Approved automatically up to",
    "automatic_duration": "… for at most",
}


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a unified diff; `sign` is "+", "-", "@" or " "."""

    sign: str
    text: str

    def __str__(self) -> str:
        return self.text if self.sign == "@" else self.sign + self.text


@dataclass(frozen=True, slots=True)
class LimitChange:
    """One limit that is another, in words."""

    label: str
    before: str
    after: str


def spec_lines(before: Json, after: Json, *, old: str = "", new: str = "") -> list[DiffLine]:
    """
    Return the unified diff of two specs as YAML in canonical form; empty where they mean the same.

    `old` and `new` name the two sides.
    """
    was, becomes = text_of(before).splitlines(), text_of(after).splitlines()
    lines = list(unified_diff(was, becomes, fromfile=old, tofile=new, n=3, lineterm=""))
    return [DiffLine(line[:1], line[1:]) if line[:1] in "+- " else DiffLine("@", line) for line in lines[2:]]


def text_of(spec: Json) -> str:
    """Return a spec as YAML so that two which mean the same read the same, names before what they name."""
    return to_yaml(in_key_order(canonical(spec)))


def limit_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[LimitChange]:
    """Return the limits that differ; both sides have the names of LABELS as keys."""
    return [
        LimitChange(str(label), _words(name, before[name]), _words(name, after[name]))
        for name, label in LABELS.items()
        if before[name] != after[name]
    ]


def limits_of(version: ProfileVersion) -> dict[str, Any]:
    return {name: getattr(version, name) for name in LABELS}


def _words(name: str, value: object) -> str:
    if isinstance(value, timedelta):
        return duration(value) if value else "none"
    if name == "approval":
        return str(Approval(str(value)).label)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(map(str, value))
    return str(value) if value not in (None, "") else "—"


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """What one version has other than another; both empty where they mean the same."""

    lines: Sequence[DiffLine]
    limits: Sequence[LimitChange]

    def __bool__(self) -> bool:
        return bool(self.lines or self.limits)


@dataclass(frozen=True, slots=True)
class VersionUse:
    """How many claims that are not over have a version, and how many of them wait for a decision."""

    number: int
    live: int
    waiting: int


def between(old: ProfileVersion, new: ProfileVersion) -> VersionDifference:
    return _difference(old, new.spec, limits_of(new), to=f"v{new.number}")


def proposed(old: ProfileVersion, spec: dict[str, Any], limits: Mapping[str, Any]) -> VersionDifference:
    """Return what a version with `spec` and `limits` after `old` would have other than that."""
    return _difference(old, spec, limits, to=f"v{old.number + 1}")


def versions_of(profile: Profile) -> QuerySet[ProfileVersion]:
    """Return all versions, newest first, each with how many claims have it (`used`), over or not."""
    rows = profile.versions.select_related("created_by").annotate(used=Count("claims"))
    return rows.order_by("-number")  # grouped rows have no order of their own


def opens(profile: Profile, teams: Collection[Team]) -> tuple[list[str], list[str]]:
    """Return the slugs of the teams that it is open to, and would be; none: everybody."""
    return sorted(team.slug for team in profile.teams.all()), sorted(team.slug for team in teams)


def held(profile: Profile) -> list[VersionUse]:
    """Return the versions on which claims live, newest first."""
    live = ~Q(claims__state__in=FINAL)
    rows = (
        profile.versions.annotate(
            live=Count("claims", filter=live),
            waiting=Count("claims", filter=Q(claims__state=ClaimState.REQUESTED)),
        )
        .filter(live__gt=0)
        .order_by("-number")
    )
    return [VersionUse(*row) for row in rows.values_list("number", "live", "waiting")]


def live_claims(profile: Profile) -> QuerySet[Claim]:
    """Return the claims that have the profile and are not over, as one of several too; the oldest first."""
    named = Q(profile_version__profile=profile) | Q(alternatives__profile_version__profile=profile)
    return Claim.objects.live().filter(named).distinct().order_by("created_at")


def drafts_with(profile: Profile) -> int:
    """Return how many begun requests name the profile."""
    return Draft.objects.filter(
        Q(fields__profile__contains=[profile.slug])
        | Q(fields__alternatives__contains=[profile.slug])
        | Q(fields__together__contains=[profile.slug])
    ).count()


def _difference(
    old: ProfileVersion, spec: dict[str, Any], limits: Mapping[str, Any], *, to: str
) -> VersionDifference:
    same = old.spec_hash == spec_hash(spec)
    lines = [] if same else spec_lines(old.spec, spec, old=f"v{old.number}", new=to)
    return VersionDifference(lines, limit_changes(limits_of(old), limits))
