"""
What was spent of budgets until each day of their period, and where that leads: of one budget, and of the
monthly ones together. The line ends with the use that is stored with the budget, so graph and figures agree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from uuid import UUID

from django.db.models import QuerySet, Subquery, Sum

from claims.budgets.cards import BudgetCard
from claims.budgets.use import end_of, runs_out_in_period, utc_day
from claims.models import BudgetUse, QuotaRequest
from usage.cost import CURRENCY_UNIT, DEVICE_HOUR
from usage.daily import DAY, UNTIL, midnight
from usage.models import Correction, DailySum
from usage.spend_chart import HOURS


@dataclass(frozen=True, slots=True)
class SpentDay:
    """What was spent on a stored day (UTC), and since the begin of the period."""

    day: date
    spent: Decimal
    so_far: Decimal


@dataclass(frozen=True, slots=True)
class SpendGraph:
    """
    Spending over a period in one unit: a currency, or HOURS. `spent` is that until `as_of`; `forecast` that
    at the end of the period, None if it is not known; `with_extra` the limit with a pending request.
    """

    first: date
    last: date
    unit: str
    days: list[SpentDay]
    spent: Decimal
    as_of: datetime
    limit: Decimal
    forecast: Decimal | None
    runs_out_at: datetime | None = None  # only in the period
    with_extra: Decimal | None = None

    @property
    def start(self) -> datetime:
        return midnight(self.first)

    @property
    def end(self) -> datetime:
        return end_of(self.last)

    @property
    def is_running(self) -> bool:
        return self.start <= self.as_of < self.end


def graph_of(card: BudgetCard, pending: QuotaRequest | None = None) -> SpendGraph:
    """Return the graph of the limit of a budget that is used most; one query."""
    use, budget = card.use, card.budget
    is_money = use.amount is not None and not (
        use.hours
        and use.used_amount is not None
        and use.used_hours / use.hours > use.used_amount / use.amount
    )
    if is_money:
        unit, limit, spent, forecast = budget.currency, use.amount, use.used_amount, use.forecast_amount
    else:
        unit, limit, spent, forecast = HOURS, use.hours, use.used_hours, use.forecast_hours
    extra = (pending.amount if is_money else pending.hours) if pending else None
    limit, spent = limit or Decimal(0), spent or Decimal(0)
    return SpendGraph(
        first=use.first,
        last=use.last,
        unit=unit,
        days=_days([budget.team_id], use.first, use.as_of, unit),
        spent=spent,
        as_of=use.as_of,
        limit=limit,
        forecast=forecast,
        runs_out_at=use.runs_out_at if runs_out_in_period(use) else None,
        with_extra=limit + extra if extra else None,
    )


@dataclass(frozen=True, slots=True)
class MonthBudgets:
    """The budgets of this month in one currency: their sum, and by team the share that the forecast is."""

    number: int
    graph: SpendGraph
    forecast_shares: dict[UUID, float | None]

    @property
    def share(self) -> float | None:
        """Return which share of all limits the forecast is."""
        forecast = self.graph.forecast
        return None if forecast is None else float(forecast / self.graph.limit)


def month_budgets(teams: Collection[UUID] | None, currency: str, *, now: datetime) -> MonthBudgets | None:
    """
    Return the monthly budgets of money of these teams, None: of all; None without one. Two queries at most.

    The forecast is not known while that of a team is not.
    """
    first = utc_day(now).replace(day=1)
    uses: QuerySet[BudgetUse] = BudgetUse.objects.filter(
        first=first,
        amount__isnull=False,
        budget__currency=currency,
        budget__title="",
        budget__ended_at=None,
    )
    if teams is not None:
        uses = uses.filter(budget__team__in=teams)
    found = list(uses.select_related("budget").order_by("budget__team"))
    if not found:
        return None
    as_of = min(use.as_of for use in found)
    forecasts = [use.forecast_amount for use in found]
    known = [forecast for forecast in forecasts if forecast is not None]
    graph = SpendGraph(
        first=first,
        last=found[0].last,
        unit=currency,
        days=_days([use.budget.team_id for use in found], first, as_of, currency),
        spent=_sum(use.used_amount for use in found),
        as_of=as_of,
        limit=_sum(use.amount for use in found),
        forecast=_sum(known) if len(known) == len(forecasts) else None,
    )
    return MonthBudgets(len(found), graph, {use.budget.team_id: use.forecast for use in found})


def _sum(amounts: Iterable[Decimal | None]) -> Decimal:
    return sum((amount for amount in amounts if amount is not None), Decimal(0))


def _days(teams: Collection[UUID], first: date, as_of: datetime, unit: str) -> list[SpentDay]:
    """Return the stored days until `as_of`, with the corrections that were booked on them; one query."""
    end = utc_day(as_of)
    sums = DailySum.objects.filter(
        dimension=DailySum.Dimension.TEAM, key__in=list(teams), day__gte=first, day__lt=end
    ).filter(day__lt=Subquery(UNTIL))
    booked = Correction.objects.filter(team__in=list(teams), booked_on__gte=first, booked_on__lt=end).filter(
        booked_on__lt=Subquery(UNTIL)
    )
    column, whole = ("held", DEVICE_HOUR) if unit == HOURS else ("amount", CURRENCY_UNIT)
    if unit != HOURS:
        sums, booked = sums.filter(currency=unit), booked.filter(currency=unit)
    spent: dict[date, int] = defaultdict(int)
    by_day = sums.order_by().values_list("day").annotate(Sum(column))
    by_day_booked = booked.order_by().values_list("booked_on").annotate(Sum(column))
    for day, amount in by_day.union(by_day_booked, all=True):
        spent[day] += int(amount)
    days, so_far, day = list[SpentDay](), Decimal(0), first
    while spent and day <= max(spent):  # also the days on which nothing was held
        amount = Decimal(spent.get(day, 0)) / whole
        so_far += amount
        days.append(SpentDay(day, amount, so_far))
        day += DAY
    return days
