"""What saving a profile would change: read before it is saved, and written nowhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from claims.catalogue.differences import Change, Line, limit_changes, limits_of, spec_lines
from claims.models import Claim, Draft, Profile, ProfileVersion
from claims.states import FINAL, ClaimState
from dra.canonical import spec_hash
from teams.models import Team


@dataclass(frozen=True, slots=True)
class Difference:
    """What one version has other than another; both empty where they mean the same."""

    lines: Sequence[Line]
    limits: Sequence[Change]

    def __bool__(self) -> bool:
        return bool(self.lines or self.limits)


@dataclass(frozen=True, slots=True)
class Held:
    """How many claims that are not over have a version, and how many of them wait for a decision."""

    number: int
    live: int
    waiting: int


def between(old: ProfileVersion, new: ProfileVersion) -> Difference:
    return _difference(old, new.spec, limits_of(new), to=f"v{new.number}")


def proposed(old: ProfileVersion, spec: dict[str, Any], limits: Mapping[str, Any]) -> Difference:
    """Return what a version with `spec` and `limits` after `old` would have other than that."""
    return _difference(old, spec, limits, to=f"v{old.number + 1}")


def versions_of(profile: Profile) -> QuerySet[ProfileVersion]:
    """Return all versions, newest first, each with how many claims have it (`used`), over or not."""
    rows = profile.versions.select_related("created_by").annotate(used=Count("claims"))
    return rows.order_by("-number")  # grouped rows have no order of their own


def opens(profile: Profile, teams: Collection[Team]) -> tuple[list[str], list[str]]:
    """Return the slugs of the teams that it is open to, and would be; none: everybody."""
    return sorted(team.slug for team in profile.teams.all()), sorted(team.slug for team in teams)


def held(profile: Profile) -> list[Held]:
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
    return [Held(*row) for row in rows.values_list("number", "live", "waiting")]


def live_claims(profile: Profile) -> QuerySet[Claim]:
    """Return the claims that have the profile and are not over, as one of several too; the oldest first."""
    named = Q(profile_version__profile=profile) | Q(alternatives__profile_version__profile=profile)
    return Claim.objects.live().filter(named).distinct().order_by("created_at")


def drafts_with(profile: Profile) -> int:
    """Return how many begun requests name the profile."""
    return Draft.objects.filter(
        Q(fields__profile__contains=[profile.slug]) | Q(fields__alternatives__contains=[profile.slug])
    ).count()


def _difference(
    old: ProfileVersion, spec: dict[str, Any], limits: Mapping[str, Any], *, to: str
) -> Difference:
    same = old.spec_hash == spec_hash(spec)
    lines = [] if same else spec_lines(old.spec, spec, old=f"v{old.number}", new=to)
    return Difference(lines, limit_changes(limits_of(old), limits))
