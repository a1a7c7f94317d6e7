"""What the current team has spent this month, the reader's part of it, and where a straight line leads."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal

from django.utils import timezone

from teams.models import Team, User
from usage.cost import Cost
from usage.reports import Month, Report, report, zone_of_reader

ENOUGH = timedelta(days=3)  # a line through less than that says nothing


@dataclass(frozen=True, slots=True)
class Spend:
    """
    `forecast` is spent so far ÷ time so far × the whole month, per currency: a straight line, and said to be.

    It is empty in the first days of a month and where hours have no rate.
    """

    report: Report
    own: Cost | None
    forecast: dict[str, Decimal]


def spend(team: Team, user: User, *, now: datetime) -> Spend:
    """Return the figures of this month in the reader's zone, in three queries."""
    found = report(team, Month.of(timezone.localdate(now), zone_of_reader()), now=now)
    own = next((row.cost for row in found.by_person if row.person == user), None)
    return Spend(found, own, forecast(found))


def forecast(found: Report) -> dict[str, Decimal]:
    span = found.month.span
    gone = found.until - span.start
    if gone < ENOUGH or found.total.unpriced_held:
        return {}
    factor = Decimal((span.end - span.start) / gone)
    return {
        currency: (amount * factor).quantize(Decimal(1), ROUND_HALF_UP)
        for currency, amount in found.total.amounts.items()
    }
