"""Which of its alternatives a claim holds."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from django.db.models import Prefetch

from claims.models import Allocation, Alternative, Claim


@dataclass(frozen=True, slots=True)
class Standing:
    """An alternative, and how many devices the claim holds of it: 0 where another was taken, or none yet."""

    alternative: Alternative
    held: int


def with_profiles() -> Prefetch[str]:
    """Return what a query of claims fetches beforehand for `standing_of`."""
    return Prefetch("alternatives", Alternative.objects.select_related("profile_version__profile"))


def standing_of(claim: Claim, held: Iterable[Allocation]) -> list[Standing]:
    """Return the alternatives in the order of preference; none for a claim of one profile."""
    by_name = Counter(row.request for row in held)
    return [Standing(row, by_name[row.name]) for row in claim.alternatives.all()]
