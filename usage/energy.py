"""
Energy and CO₂ of what claims held, by day and over a life.

Energy is what the counter of a GPU counted; where that is missing, mean power × time. A partition gets its
fraction of its GPU. Both are estimates and said to be. A day of a claim is stored with its utilization
(`DailyActivity`), with the grams of CO₂ per kWh of its cluster, so that a closed month keeps what it had.
Without telemetry of power there is no energy, and without grams of the cluster no CO₂; neither is ever 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date

from django.db.models import Subquery, Sum

from teams.models import Team
from usage.daily import UNTIL
from usage.models import DailySum

KILOWATT_HOUR = 3_600_000  # joules


@dataclass(frozen=True, slots=True)
class Energy:
    """
    Joules, and how many of them are an estimate. `grams` of CO₂ are those of clusters that have a value; None
    if none has.
    """

    joules: float
    estimated: float = 0.0
    grams: float | None = None

    @property
    def kilowatt_hours(self) -> float:
        return self.joules / KILOWATT_HOUR

    @property
    def estimated_kilowatt_hours(self) -> float:
        return self.estimated / KILOWATT_HOUR

    @property
    def is_measured(self) -> bool:
        """Return whether counters of the GPUs counted all of it."""
        return self.estimated <= 0

    @property
    def kilograms(self) -> float | None:
        return None if self.grams is None else self.grams / 1000

    def __add__(self, other: Energy) -> Energy:
        known = [grams for grams in (self.grams, other.grams) if grams is not None]
        return Energy(
            self.joules + other.joules, self.estimated + other.estimated, sum(known) if known else None
        )


def added(parts: Iterable[Energy | None]) -> Energy | None:
    """Return the sum of what is known; None if nothing is."""
    whole: Energy | None = None
    for part in parts:
        if part is not None:
            whole = part if whole is None else whole + part
    return whole


def energy_from(joules: float | None, estimated: float | None, grams: float | None) -> Energy | None:
    """Return the energy of three sums; None if no power was measured."""
    return None if joules is None else Energy(joules, estimated or 0.0, grams)


def team_energy(team: Team, first: date, end: date) -> Energy | None:
    """Return the energy of a team on the stored days of a span; one query."""
    days = DailySum.objects.filter(dimension=DailySum.Dimension.TEAM, key=team.pk, day__gte=first)
    days = days.filter(day__lt=end).filter(day__lt=Subquery(UNTIL)).order_by()
    return energy_from(
        **days.aggregate(joules=Sum("joules"), estimated=Sum("joules_estimated"), grams=Sum("grams"))
    )
