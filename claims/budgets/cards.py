"""What a page shows of a budget: its bar, state and sentences, the same on every page."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import date, datetime
from uuid import UUID

from django.utils.safestring import SafeString

from claims.budgets.use import (
    BudgetState,
    Spending,
    hours_text,
    limit_words,
    past_uses,
    period_words,
    run_out_sentence,
    runs_out_in_period,
    runs_out_soon,
    state_of,
    use_sentence,
    used_words,
    uses_of_team,
    utc_day,
)
from claims.models import Budget, BudgetUse
from core.templatetags.ui import meter
from core.text import DASH, money, percent
from teams.models import Team


@dataclass(frozen=True, slots=True)
class BudgetCard:
    """A budget with its use, as pages show it."""

    budget: Budget
    use: BudgetUse
    state: BudgetState
    now: datetime

    @property
    def label(self) -> str:
        return self.budget.title or "Monthly budget"

    @property
    def period(self) -> str:
        return period_words(self.budget)

    @property
    def limit(self) -> str:
        return limit_words(self.budget, self.use.amount, self.use.hours)

    @property
    def used(self) -> str:
        return used_words(self.budget, self.use)

    @property
    def share(self) -> str:
        return percent(self.use.share)

    @property
    def sentence(self) -> str:
        return use_sentence(self.budget, self.use)

    @property
    def run_out(self) -> str:
        return run_out_sentence(self.use, now=self.now)

    @property
    def runs_out_in_period(self) -> bool:
        return runs_out_in_period(self.use)

    @property
    def runs_out_on(self) -> str:
        """Return the day (UTC) on which it runs out: "Thu 26 Nov"."""
        at = self.use.runs_out_at
        return "" if at is None else f"{utc_day(at):%a} {utc_day(at).day} {utc_day(at):%b %Y}"

    @property
    def is_soon(self) -> bool:
        return runs_out_soon(self.use, now=self.now)

    @property
    def is_due(self) -> bool:
        """Whether a lead has to do something: it is used up, or runs out within seven days."""
        return self.use.share >= 1 or self.is_soon

    @property
    def forecast_share(self) -> str:
        return DASH if self.use.forecast is None else percent(self.use.forecast)

    @property
    def forecast(self) -> str:
        """Return what is used at the end of the period at the run rate: "€11,847.85", "25,457 GPU-hours"."""
        if self.use.forecast_amount is not None:
            return money(self.use.forecast_amount, self.budget.currency)
        return hours_text(self.use.forecast_hours)

    @property
    def rate(self) -> str:
        """Return the run rate per hour."""
        if self.use.amount_rate is not None:
            return f"{money(self.use.amount_rate, self.budget.currency)} / h"
        if self.use.hours is not None and self.use.hours_rate is not None:
            return f"{self.use.hours_rate.normalize():f} GPU-hours / h"
        return DASH

    @property
    def left(self) -> str:
        """Return what is left, or by how much it is over: "€120.00", "€40.00 over"."""
        use = self.use
        if use.amount is not None and use.used_amount is not None:
            rest = use.amount - use.used_amount
            return (
                money(rest, self.budget.currency)
                if rest >= 0
                else f"{money(-rest, self.budget.currency)} over"
            )
        hours = (use.hours or 0) - use.used_hours
        return hours_text(hours) if hours >= 0 else f"{hours_text(-hours)} over"

    @property
    def bar(self) -> SafeString:
        """Draw used, what the forecast adds, and what is beyond the budget."""
        used = min(self.use.share, 1.0)
        end = max(self.use.forecast or 0.0, self.use.share)
        return meter(
            1,
            label=f"{self.sentence} {self.run_out}",
            size="tall",
            held=used,
            pend=max(min(end, 1.0) - used, 0.0),
            over=min(max(end - 1.0, 0.0), 1.0),
        )


def card_of(budget: Budget, use: BudgetUse, *, now: datetime) -> BudgetCard:
    return BudgetCard(budget, use, state_of(budget, use, now=now), now)


def team_cards(team: Team, *, now: datetime) -> list[BudgetCard]:
    """Return the current budgets of a team, that of each month first; one query."""
    return [card_of(use.budget, use, now=now) for use in uses_of_team(team)]


def left_of_budgets(teams: Collection[UUID], *, now: datetime) -> list[BudgetCard]:
    """Return the current budgets of these teams, by team, that of each month first; at most one query."""
    if not teams:
        return []
    current = Budget.objects.current(utc_day(now)).filter(team__in=teams)
    uses = BudgetUse.objects.filter(budget__in=current, ends_at__gt=now).select_related("budget__team")
    return [card_of(use.budget, use, now=now) for use in uses.order_by("budget__team__slug", "budget__title")]


def month_cards(team: Team, first: date, spending: Spending, *, now: datetime) -> list[BudgetCard]:
    """
    Return the budgets of a team in the month that begins on `first`: the current ones in this month, that of
    each month in a past one, with what the month cost. At most two queries.
    """
    if first >= utc_day(now).replace(day=1):
        return team_cards(team, now=now)
    return [card_of(use.budget, use, now=now) for use in past_uses(team, first, spending)]
