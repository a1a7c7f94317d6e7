"""
What teams spent in a period until now, for their budgets: sums of stored days and what is held since.

Whole stored days come from `usage.daily_sums`, in one query per period for all teams; the days after them,
usually today, from the allocations of each team. No claim of a stored day is read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import Min, Sum

from claims.budgets.use import Spending, SpendingPeriod
from teams.models import Team
from usage.cost import CURRENCY_UNIT, DEVICE_HOUR, Cost, Interval, total
from usage.daily import DAY, SETTLED_AFTER, midnight, stored_until, team_costs, utc_day
from usage.models import Correction, DailySum
from usage.rates import RateCard

RATE_DAYS = 7  # of the run rate
RATE_DIGITS = Decimal("0.0001")


def spending(periods: Sequence[SpendingPeriod], *, now: datetime) -> list[Spending]:
    """Return what each team spent in its period, in the order of the periods."""
    until = stored_until()
    teams = {period.team for period in periods}
    stored = _stored(periods, until)
    live = _Live(until, now)
    rates = _run_rates(teams, live)
    return [
        _spending(stored[period], live.cost(period), *rates.get(period.team, (None, 0))) for period in periods
    ]


def _spending(stored: Cost, live: Cost, recent: Cost | None, days: int) -> Spending:
    spent = total([stored, live])
    if recent is None or not days:
        return Spending(spent.amounts, spent.hours, spent.unpriced)
    hours = 24 * days
    return Spending(
        spent.amounts,
        spent.hours,
        spent.unpriced,
        {currency: _per_hour(exact, CURRENCY_UNIT * hours) for currency, exact in recent.exact.items()},
        _per_hour(recent.held, DEVICE_HOUR * hours),
    )


def _per_hour(value: int, unit: int) -> Decimal:
    return (Decimal(value) / unit).quantize(RATE_DIGITS)


def _stored(periods: Iterable[SpendingPeriod], until: date | None) -> dict[SpendingPeriod, Cost]:
    """Return the sums of the stored days of each period; one query for each pair of first and last day."""
    costs: dict[SpendingPeriod, Cost] = defaultdict(Cost)
    teams: dict[tuple[date, date], set[UUID]] = defaultdict(set)
    for period in periods:
        teams[period.first, period.last].add(period.team)
    for (first, last), keys in teams.items():
        if until is None or first >= until:
            continue
        end = min(last + DAY, until)
        for team, cost in _sums(keys, first, end).items():
            costs[SpendingPeriod(team, first, last)].add(cost)
        for team, cost in _corrections(keys, first, end):
            costs[SpendingPeriod(team, first, last)].add(cost)
    return costs


def _corrections(teams: Iterable[UUID], first: date, end: date) -> Iterator[tuple[UUID, Cost]]:
    """Yield the corrections of closed months that were booked on these days; later ones are held since."""
    rows = Correction.objects.filter(team__in=list(teams), booked_on__gte=first, booked_on__lt=end).order_by()
    for team, currency, held, amount in rows.values_list("team", "currency").annotate(
        Sum("held"), Sum("amount")
    ):
        yield team, Cost(int(held), 0 if currency else int(held), {currency: int(amount)} if currency else {})


def _sums(teams: Iterable[UUID], first: date, end: date) -> dict[UUID, Cost]:
    """Return the sums of teams on the stored days from `first` to before `end`."""
    rows = DailySum.objects.filter(
        dimension=DailySum.Dimension.TEAM, key__in=list(teams), day__gte=first, day__lt=end
    )
    costs: dict[UUID, Cost] = defaultdict(Cost)
    by_team = rows.order_by().values_list("key", "currency")
    for team, currency, held, unpriced, amount in by_team.annotate(
        Sum("held"), Sum("unpriced"), Sum("amount")
    ):
        exact = {currency: int(amount)} if currency else {}
        costs[team].add(Cost(int(held), int(unpriced), exact))
    return costs


def _run_rates(teams: Iterable[UUID], live: _Live) -> dict[UUID, tuple[Cost, int]]:
    """
    Return what each team spent on the last RATE_DAYS past days, and how many days that were. Those that wait
    to be stored again are computed.

    Days before the first on which any team held a device do not count.
    """
    until = live.until
    if until is None:
        return {}
    known_since = DailySum.objects.filter(dimension=DailySum.Dimension.TEAM).aggregate(day=Min("day"))["day"]
    if known_since is None:
        return {}
    end = max(until, utc_day(live.now - SETTLED_AFTER))
    first = max(end - RATE_DAYS * DAY, known_since)
    teams = set(teams)
    costs = _sums(teams, first, until)
    for team in teams if until < end else ():
        costs[team].add(live.cost(SpendingPeriod(team, first, end - DAY)))
    return {team: (costs.get(team, Cost()), (end - first).days) for team in teams}


class _Live:
    """What teams held since the stored days end; read once for each team and span."""

    def __init__(self, until: date | None, now: datetime) -> None:
        self.until, self.now = until, now
        self._card: RateCard | None = None
        self._costs: dict[tuple[UUID, datetime, datetime], Cost] = {}

    def cost(self, period: SpendingPeriod) -> Cost:
        first = period.first if self.until is None else max(period.first, self.until)
        start, end = midnight(first), midnight(period.last + DAY)
        if start >= min(end, self.now):
            return Cost()
        key = (period.team, start, end)
        if key not in self._costs:
            self._card = self._card or RateCard.load()
            held = team_costs(Team(pk=period.team), Interval(start, end), self._card, now=self.now)
            self._costs[key] = total(held.values())
        return self._costs[key]
