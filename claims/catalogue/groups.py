"""Profiles grouped by their purpose; in a group those that fit now, and that the team uses, stand first."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from uuid import UUID

from claims.catalogue.listing import CatalogueEntry
from claims.models import Claim, Profile, Purpose
from core.prepared import Prepared

COLUMNS = 4  # of cards beside each other, at most


@dataclass(frozen=True, slots=True)
class PurposeGroup[T]:
    """The cards of the profiles with one purpose; `columns` is the width of the group in cards."""

    label: str
    cards: list[T]

    @property
    def columns(self) -> int:
        return min(len(self.cards), COLUMNS)


IN_USE = Prepared(
    lambda team: (
        Claim.objects.live().filter(team=team).order_by().values_list("profile_version__profile").distinct()
    ),
    UUID,
    any_of="team_id",
)


def profiles_in_use(teams: Collection[UUID]) -> set[UUID]:
    """Return the profiles of which these teams have live claims; one query."""
    return {profile for (profile,) in IN_USE.rows(list(teams))} if teams else set()


def fitting_first(entries: Iterable[CatalogueEntry], used: Collection[UUID]) -> list[CatalogueEntry]:
    """Return the entries: those that fit on a node now first, of these those in `used`, then by title."""
    return sorted(
        entries,
        key=lambda entry: (
            *(not entry.nodes, entry.profile.pk not in used, not entry.free),
            entry.profile.title.lower(),
        ),
    )


def grouped[T](items: Iterable[T], profile: Callable[[T], Profile]) -> list[PurposeGroup[T]]:
    """Return the items by the purpose of their profiles, in the order of `Purpose`; their order stays."""
    by_purpose: dict[str, list[T]] = {}
    for item in items:
        by_purpose.setdefault(profile(item).purpose, []).append(item)
    return [PurposeGroup(str(row.label), by_purpose[row]) for row in Purpose if row in by_purpose]
