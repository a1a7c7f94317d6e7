"""What of each profile is free now: those that may be asked for first, then by name."""

from dataclasses import dataclass

from claims.catalogue.listing import CatalogueEntry, catalogue
from teams.models import User


@dataclass(frozen=True, slots=True)
class FreeRow:
    entry: CatalogueEntry

    @property
    def taken(self) -> int:
        return (self.entry.total or 0) - (self.entry.free or 0)


def free_now(user: User) -> list[FreeRow]:
    """Return a row per profile that is not retired."""
    entries = [entry for entry in catalogue(user) if entry.profile.retired_at is None]
    return [
        FreeRow(entry)
        for entry in sorted(entries, key=lambda entry: (not entry.may_request, entry.profile.title))
    ]
