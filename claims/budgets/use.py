"""
How much of each budget is used, where that leads, and the rows that lists, checks and metrics read.

`settings.SPENDING` names the function that adds up what teams spent: money and telemetry are above `claims`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone
from django.utils.module_loading import import_string

from claims.models import AtLimit, Budget, BudgetExtra, BudgetTerms, BudgetUse, TeamNamespace
from core.text import money, percent
from core.times import FIRST_YEAR
from inventory.models import Cluster
from teams.models import Team

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)
SOON = timedelta(days=7)  # a budget that runs out within it needs attention
CENT = Decimal("0.01")
COLUMNS = tuple(column.attname for column in BudgetUse._meta.concrete_fields if not column.primary_key)


@dataclass(frozen=True, slots=True)
class SpendingPeriod:
    """What to add up: the days (UTC) of a team from `first` to `last`, both included."""

    team: UUID
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class Spending:
    """
    What a team spent in a period until now: exact amounts by currency, GPU-hours, and those without a rate.

    The rates are means per hour of the last seven stored days; None before the first whole day.
    """

    amounts: Mapping[str, Decimal] = field(default_factory=dict)
    hours: Decimal = Decimal(0)
    unpriced_hours: Decimal = Decimal(0)
    amount_rates: Mapping[str, Decimal] = field(default_factory=dict)
    hours_rate: Decimal | None = None


def utc_day(instant: datetime) -> date:
    return instant.astimezone(UTC).date()


def end_of(last: date) -> datetime:
    """Return the instant (UTC) at which the day ends."""
    return datetime.combine(last + DAY, time(), UTC)


def refresh(budgets: Iterable[Budget], *, now: datetime) -> list[BudgetUse]:
    """Compute the use of these budgets and store it; a number of queries that depends only on the teams."""
    budgets = list(budgets)
    uses = compute(budgets, now=now)
    BudgetUse.objects.bulk_create(
        uses, 1000, update_conflicts=True, unique_fields=["budget"], update_fields=COLUMNS
    )
    return uses


def refresh_current(now: datetime) -> list[BudgetUse]:
    """Compute the use of all budgets of today, and once more of those whose period has just ended."""
    today = utc_day(now)
    due = Q(pk__in=Budget.objects.current(today).values("pk")) | Q(last=today - DAY, ended_at=None)
    return refresh(Budget.objects.filter(due).select_related("team").order_by(), now=now)


def compute(budgets: Sequence[Budget], *, now: datetime) -> list[BudgetUse]:
    """Return the use of budgets, saved or not, without storing it."""
    return compute_with(budgets, [NO_EXTRA] * len(budgets), now=now)


def compute_with(budgets: Sequence[Budget], more: Sequence[Extra], *, now: datetime) -> list[BudgetUse]:
    """Return the use of budgets as it would be with so much more, money and hours, in the current period."""
    today = utc_day(now)
    periods = [budget.period(today) for budget in budgets]
    wanted = [
        SpendingPeriod(budget.team_id, *period) for budget, period in zip(budgets, periods, strict=True)
    ]
    spent: Sequence[Spending] = import_string(settings.SPENDING)(wanted, now=now)
    extras = extras_of([budget.pk for budget in budgets])
    return [
        use_of(budget, period, spending, _sum(extras.get((budget.pk, period[0]), NO_EXTRA), added), now=now)
        for budget, period, spending, added in zip(budgets, periods, spent, more, strict=True)
    ]


type Extra = tuple[Decimal, Decimal]
NO_EXTRA: Extra = (Decimal(0), Decimal(0))


def _sum(one: Extra, other: Extra) -> Extra:
    return one[0] + other[0], one[1] + other[1]


def extras_of(budgets: Sequence[UUID]) -> dict[tuple[UUID, date], Extra]:
    """Return what was added to budgets, money and hours, by budget and first day of the period; one query."""
    rows = BudgetExtra.objects.filter(budget__in=budgets).order_by().values_list("budget", "first")
    found: dict[tuple[UUID, date], Extra] = defaultdict(lambda: NO_EXTRA)
    for budget, first, amount, hours in rows.annotate(Sum("amount"), Sum("hours")):
        found[budget, first] = (amount, hours)
    return found


@dataclass(frozen=True, slots=True)
class _Limit:
    """One limit of a budget, in money or hours, and what is used of it."""

    limit: Decimal
    used: Decimal
    rate: Decimal | None  # per hour

    def forecast(self, left: Decimal) -> Decimal | None:
        """Return what will be used when `left` more hours are over."""
        return None if self.rate is None else (self.used + self.rate * left).quantize(CENT, ROUND_HALF_UP)

    def lasts(self) -> Decimal | None:
        """Return for how many hours it lasts at this rate; None if for ever, or if it is used up already."""
        rest = self.limit - self.used
        return rest / self.rate if self.rate and rest > 0 else None


def runs_out_at_rate(use: BudgetUse, rate: Decimal, *, now: datetime) -> datetime | None:
    """Return when the money of a budget is used up at a rate per hour; None if never, or if it is already."""
    if use.amount is None or use.used_amount is None or use.used_amount >= use.amount:
        return None
    lasting = _Limit(use.amount, use.used_amount, rate).lasts()
    return None if lasting is None or lasting >= MOST_HOURS else now + float(lasting) * HOUR


MOST_HOURS = Decimal(100 * 366 * 24)  # a budget that lasts longer never runs out


def use_of(
    budget: Budget, period: tuple[date, date], spending: Spending, extra: Extra, *, now: datetime
) -> BudgetUse:
    first, last = period
    start, end = datetime.combine(first, time(), UTC), end_of(last)
    left = Decimal(max(end - max(now, start), timedelta(0)) / HOUR)
    amount = None if budget.amount is None else budget.amount + extra[0]
    hours = None if budget.hours is None else budget.hours + extra[1]
    spent = spending.amounts.get(budget.currency, Decimal(0))
    rate = None
    if spending.hours_rate is not None:
        rate = spending.amount_rates.get(budget.currency, Decimal(0))
    money_limit = None if amount is None else _Limit(amount, spent, rate)
    hours_limit = None if hours is None else _Limit(hours, spending.hours, spending.hours_rate)
    limits = [limit for limit in (money_limit, hours_limit) if limit is not None]
    forecasts = [forecast / limit.limit for limit in limits if (forecast := limit.forecast(left)) is not None]
    lasts = [lasting for limit in limits if (lasting := limit.lasts()) is not None]
    is_used_up = any(limit.used >= limit.limit for limit in limits)
    soonest = min(lasts, default=MOST_HOURS)
    runs_out = None
    if not is_used_up and soonest < MOST_HOURS and now < end:
        runs_out = max(now, start) + float(soonest) * HOUR
    return BudgetUse(
        budget=budget,
        first=first,
        last=last,
        ends_at=end,
        as_of=now,
        amount=amount,
        hours=hours,
        used_amount=None if amount is None else spent,
        used_hours=spending.hours,
        unpriced_hours=spending.unpriced_hours,
        amount_rate=rate if amount is not None else None,
        hours_rate=spending.hours_rate,
        forecast_amount=money_limit.forecast(left) if money_limit else None,
        forecast_hours=hours_limit.forecast(left) if hours_limit else None,
        share=max((float(limit.used / limit.limit) for limit in limits), default=0.0),
        forecast=max(map(float, forecasts), default=None),
        runs_out_at=runs_out,
    )


# What pages, notices and the API say of it.


@dataclass(frozen=True, slots=True)
class BudgetState:
    """The state of a budget in its period, as text, icon and colour."""

    key: str
    label: str
    icon: str
    family: str


USED_UP = BudgetState("used-up", "Exhausted", "alert-triangle", "bad")
RUNS_OUT = BudgetState("runs-out", "Runs out", "clock-exclamation", "wait")
ENOUGH = BudgetState("enough", "On track", "circle-check", "held")
UPCOMING = BudgetState("upcoming", "Not begun", "calendar-clock", "over")
OVER = BudgetState("over", "Period is over", "calendar-off", "over")
ENDED = BudgetState("ended", "Ended", "circle-minus", "over")
STATES = (USED_UP, RUNS_OUT, ENOUGH, UPCOMING, OVER, ENDED)


def state_of(budget: Budget, use: BudgetUse, *, now: datetime) -> BudgetState:
    if budget.ended_at is not None:
        return ENDED
    if use.share >= 1:
        return USED_UP
    if utc_day(now) > use.last:
        return OVER
    if utc_day(now) < use.first:
        return UPCOMING
    return RUNS_OUT if runs_out_in_period(use) else ENOUGH


def runs_out_in_period(use: BudgetUse) -> bool:
    """Return whether the budget is used up before its period ends, at the run rate."""
    return use.runs_out_at is not None and use.runs_out_at < use.ends_at


def runs_out_soon(use: BudgetUse, *, now: datetime) -> bool:
    """Return whether the budget is used up within seven days, and before its period ends; not after that."""
    soon = use.runs_out_at is not None and use.runs_out_at <= now + SOON
    return soon and runs_out_in_period(use) and now < use.ends_at


def hours_text(hours: Decimal | None) -> str:
    """Return "1,205 GPU-hours", below 100 as "20.5 GPU-hours"."""
    if hours is None:
        return "—"
    rounded = hours.quantize(Decimal("0.1") if abs(hours) < 100 else Decimal(1), ROUND_HALF_UP)
    return f"{rounded:,}".removesuffix(".0") + " GPU-hours"


def more_budget(currency: str, amount: Decimal, hours: Decimal) -> str:
    """Return "€500.00", "20 GPU-hours", or both: what is added to a budget."""
    parts = [money(amount, currency)] if amount else []
    return " and ".join([*parts, *([hours_text(hours)] if hours else [])])


def limit_words(budget: Budget, amount: Decimal | None = None, hours: Decimal | None = None) -> str:
    """Return "€2,000.00", "500 GPU-hours", or both: the terms of a budget, or these limits."""
    if amount is None and hours is None:
        amount, hours = budget.amount, budget.hours
    parts = [] if amount is None else [money(amount, budget.currency)]
    return " and ".join([*parts, *([] if hours is None else [hours_text(hours)])])


def used_words(budget: Budget, use: BudgetUse) -> str:
    """Return "€1,840.00 of €2,000.00 and 12 of 500 GPU-hours"."""
    parts = []
    if use.amount is not None and use.used_amount is not None:
        parts.append(f"{money(use.used_amount, budget.currency)} of {money(use.amount, budget.currency)}")
    if use.hours is not None:
        parts.append(f"{hours_text(use.used_hours).removesuffix(' GPU-hours')} of {hours_text(use.hours)}")
    return " and ".join(parts)


def day_words(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def period_words(budget: Budget) -> str:
    """Return "each month", or "1 November 2026 to 31 January 2027"."""
    if budget.last is None:
        return "each month"
    return f"{day_words(budget.first)} to {day_words(budget.last)}"


def use_sentence(budget: Budget, use: BudgetUse) -> str:
    """Return how much of the budget is used: "vision has used 92 % of its monthly budget: …"."""
    which = f"the budget “{budget.title}”" if budget.title else "its monthly budget"
    return f"{budget.team} has used {percent(use.share)} of {which}: {used_words(budget, use)}."


def run_out_sentence(use: BudgetUse, *, now: datetime) -> str:
    """Return when the budget runs out at the run rate."""
    if use.share >= 1:
        return f"It is used up; the period ends on {day_words(use.last)}."
    if use.amount_rate is None and use.hours_rate is None:
        return "No forecast yet: it needs one whole stored day (UTC)."
    if use.runs_out_at is None:
        return "It does not run out at this rate: nothing was used on the last seven whole days (UTC)."
    at = day_words(utc_day(use.runs_out_at))
    if runs_out_in_period(use):
        return f"At the rate of the last seven days it runs out on {at}, before {day_words(use.last)}."
    return f"At the rate of the last seven days it lasts until {at}, after the end of the period."


def uses_of_team(team: Team) -> list[BudgetUse]:
    """Return the current budgets of a team with their use, that of each month first; one query."""
    current = Budget.objects.current(utc_day(timezone.now())).filter(team=team)
    rows = BudgetUse.objects.filter(budget__in=current)
    return list(rows.select_related("budget__team").order_by("budget__title"))


def blocking_teams(teams: Iterable[UUID]) -> set[UUID]:
    """Return those of these teams that have a current budget which refuses at its limit; one query."""
    current = Budget.objects.current(utc_day(timezone.now())).order_by()
    return set(current.filter(team__in=teams, at_limit=AtLimit.BLOCK).values_list("team", flat=True))


def lock_budgets(team: Team) -> list[BudgetUse]:
    """
    Lock the current budgets of a team and return their use, see docs/locking.md.

    Call it in a transaction after the quotas are locked, right before what live claims may cost is counted.
    """
    today = utc_day(timezone.now())
    rows = Budget.objects.current(today).filter(team=team).select_for_update(no_key=True).order_by("pk")
    return current_uses(team) if list(rows.values_list("pk")) else []


def current_uses(team: Team) -> list[BudgetUse]:
    """Return the use of a team's current budgets in the period of today: a new period has just begun."""
    now = timezone.now()
    uses = uses_of_team(team)
    stale = [use.budget for use in uses if use.first != use.budget.period(utc_day(now))[0]]
    if stale:
        refresh(stale, now=now)
        uses = uses_of_team(team)
    return uses


def reclaimable_namespaces(cluster: Cluster) -> list[str]:
    """Return the namespaces of teams whose used-up budgets make claims reclaimable; one query."""
    used_up = Budget.objects.current(utc_day(timezone.now())).filter(
        at_limit=AtLimit.RECLAIM, use__share__gte=1, use__ends_at__gt=timezone.now()
    )
    places = TeamNamespace.objects.filter(cluster=cluster, team__in=used_up.values("team"))
    return list(places.values_list("namespace", flat=True))


def month_end(first: date) -> tuple[date, datetime]:
    """Return the last day of the month that begins on `first`, and the instant (UTC) at which it ends."""
    last = (first + timedelta(days=31)).replace(day=1) - DAY
    return last, end_of(last)


def past_budgets(budgets: QuerySet[Budget], first: date) -> list[Budget]:
    """
    Return, of these, the budgets of each month that applied at the end of the past month that begins on
    `first`, unsaved with the terms that they had then, by team; one query.
    """
    last, end = month_end(first)
    terms = BudgetTerms.objects.filter(
        Q(budget__ended_at=None) | Q(budget__ended_at__gte=end),
        budget__in=budgets.order_by().values("pk"),
        budget__title="",
        first__lte=last,
        since__lt=end,
    )
    newest = terms.select_related("budget__team").order_by("budget_id", "-since", "-pk").distinct("budget_id")
    found = []
    for row in newest:
        then = row.budget
        then.amount, then.hours, then.currency = row.amount, row.hours, row.currency
        then.at_limit = row.at_limit
        found.append(then)
    return sorted(found, key=lambda budget: budget.team.slug)


def past_uses(team: Team, first: date, spending: Spending) -> list[BudgetUse]:
    """
    Return the use of the budget of each month in the past month that begins on `first`, with the terms that
    applied at its end; none without one. Two queries.
    """
    last, end = month_end(first)
    budgets = past_budgets(Budget.objects.filter(team=team), first)
    extras = extras_of([budget.pk for budget in budgets]) if budgets else {}
    return [
        use_of(budget, (first, last), spending, extras.get((budget.pk, first), NO_EXTRA), now=end)
        for budget in budgets
    ]


def past_month(budgets: QuerySet[Budget], first: date, *, now: datetime) -> list[BudgetUse]:
    """
    Return the use of these monthly budgets in the past month that begins on `first`, by team. It has no run
    rate and no forecast: the month is over.
    """
    last, end = month_end(first)
    applied = past_budgets(budgets, first)
    if not applied:
        return []
    wanted = [SpendingPeriod(budget.team_id, first, last) for budget in applied]
    spent: Sequence[Spending] = import_string(settings.SPENDING)(wanted, now=now)
    extras = extras_of([budget.pk for budget in applied])
    return [
        use_of(
            budget,
            (first, last),
            Spending(spending.amounts, spending.hours, spending.unpriced_hours),
            extras.get((budget.pk, first), NO_EXTRA),
            now=end,
        )
        for budget, spending in zip(applied, spent, strict=True)
    ]


def past_month_asked_for(text: str, now: datetime) -> date | None:
    """Return the first day of a past month (UTC) written as "2026-10"; None for anything else."""
    try:
        first = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).date()
    except ValueError:
        return None
    return first if first.year > FIRST_YEAR and first < utc_day(now).replace(day=1) else None
