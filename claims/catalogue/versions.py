"""How two versions of a profile differ, and which claims and drafts have a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import unified_diff
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet

from claims.models import LIMITS, Claim, Draft, Profile, ProfileLimits, ProfileVersion
from claims.states import FINAL, ClaimState
from dra.manifests import canonical, in_key_order, spec_hash, to_yaml
from dra.objects import Json


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a unified diff; `sign` is "+", "-", "@" or " "."""

    sign: str
    text: str

    def __str__(self) -> str:
        return self.text if self.sign == "@" else self.sign + self.text


@dataclass(frozen=True, slots=True)
class LimitChange:
    """One limit that differs, in words."""

    label: str
    before: str
    after: str


def spec_diff(before: Json, after: Json, *, old: str = "", new: str = "") -> list[DiffLine]:
    """
    Return the unified diff of two specs as YAML in canonical form; empty if they are equivalent.

    `old` and `new` are the names of the two sides.
    """
    return text_diff(canonical_yaml(before), canonical_yaml(after), old=old, new=new)


def text_diff(before: str, after: str, *, old: str = "", new: str = "") -> list[DiffLine]:
    """Return the unified diff of two texts; `old` and `new` are their names."""
    texts = before.splitlines(), after.splitlines()
    lines = list(unified_diff(*texts, fromfile=old, tofile=new, n=3, lineterm=""))
    return [DiffLine(line[:1], line[1:]) if line[:1] in "+- " else DiffLine("@", line) for line in lines[2:]]


def canonical_yaml(spec: Json) -> str:
    """Return a spec as YAML; equivalent specs give the same text. Names stand before what they name."""
    return to_yaml(in_key_order(canonical(spec)))


def limit_changes(before: ProfileLimits, after: ProfileLimits) -> list[LimitChange]:
    """Return the limits that differ, in the order of `LIMITS`."""
    values = ((limit, getattr(before, limit.name), getattr(after, limit.name)) for limit in LIMITS)
    return [
        LimitChange(limit.label, limit.in_words(old), limit.in_words(new))
        for limit, old, new in values
        if old != new
    ]


@dataclass(frozen=True, slots=True)
class VersionDifference:
    """How two versions differ; both empty where they are equivalent."""

    lines: Sequence[DiffLine]
    limits: Sequence[LimitChange]

    def __bool__(self) -> bool:
        return bool(self.lines or self.limits)


@dataclass(frozen=True, slots=True)
class VersionUse:
    """How many live claims have a version, and how many of them wait for a decision."""

    number: int
    live: int
    waiting: int


def version_difference(old: ProfileVersion, new: ProfileVersion) -> VersionDifference:
    return _difference(old, new.spec, new.limits, to=f"v{new.number}")


def proposed_difference(
    old: ProfileVersion, spec: dict[str, Any], limits: ProfileLimits
) -> VersionDifference:
    """Return how a version with `spec` and `limits` after `old` would differ from it."""
    return _difference(old, spec, limits, to=f"v{old.number + 1}")


def versions_with_claim_counts(profile: Profile) -> QuerySet[ProfileVersion]:
    """Return all versions, newest first; `used` is the number of their claims, live or ended."""
    rows = profile.versions.select_related("created_by").annotate(used=Count("claims"))
    return rows.order_by("-number")  # annotations drop the default order


def live_versions(profile: Profile) -> list[VersionUse]:
    """Return the versions that live claims have, newest first."""
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


def live_claims(profile: Profile | OuterRef) -> QuerySet[Claim]:
    """Return the live claims that name the profile, alone or beside others; oldest first."""
    named = Q(profile_version__profile=profile) | Q(alternatives__profile_version__profile=profile)
    return Claim.objects.live().filter(named).distinct().order_by("created_at")


def draft_count(profile: Profile) -> int:
    """Return how many drafts of requests name the profile."""
    return Draft.objects.filter(
        Q(fields__profile__contains=[profile.slug])
        | Q(fields__alternatives__contains=[profile.slug])
        | Q(fields__together__contains=[profile.slug])
    ).count()


def _difference(
    old: ProfileVersion, spec: dict[str, Any], limits: ProfileLimits, *, to: str
) -> VersionDifference:
    same = old.spec_hash == spec_hash(spec)
    lines = [] if same else spec_diff(old.spec, spec, old=f"v{old.number}", new=to)
    return VersionDifference(lines, limit_changes(old.limits, limits))
