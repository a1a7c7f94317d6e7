"""The page of a team's cost in a month, and its CSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.budgets.cards import BudgetCard, month_cards
from claims.budgets.use import Spending, day_words, runs_out_at_rate, utc_day
from core.listing import csv_response
from core.text import DASH, money
from teams.access import is_platform_admin, role_in, team_for, user_of
from teams.models import Role
from usage.cost import Cost, cost_text
from usage.energy import team_energy
from usage.rates import RateCard
from usage.reports import CostReport, Month, report
from usage.spend_chart import HOURS, MonthBudget, bar_data, forecast_of, spend_data, unit_of
from usage.team_month import (
    CLAIM,
    PERSON,
    PRODUCT,
    PROFILE,
    SHOWN_CLAIMS,
    MonthPart,
    TeamMonth,
    team_month,
)
from usage.top_waste import IdleMoney, TopWaste, top_waste

MAX_ROWS = 100  # of people, profiles and products; the CSV has all
BARS = ("used", "idle", "no telemetry", "not yet split")


def parse_month(text: str) -> Month:
    """Return the requested month, by default the current one. Raises Invalid."""
    return Month.parse(text) if text else Month.current(timezone.now())


@require_safe
def team(request: HttpRequest, slug: str) -> HttpResponse:
    chosen, now = team_for(request.user, slug), timezone.now()
    role = role_in(request.user, chosen)
    month = team_month(chosen, parse_month(request.GET.get("month", "")), RateCard.load(), now=now)
    cost = month.whole.cost
    spent = Spending(cost.amounts, cost.hours, cost.unpriced)
    budgets = month_cards(chosen, month.month.first, spent, now=now)
    monthly = next((card for card in budgets if not card.budget.title), None)
    budget = MonthBudget.from_use(monthly.budget, monthly.use) if monthly else None
    usual = unit_of(cost, budget)
    unit = HOURS if request.GET.get("unit") == "hours" else usual
    forecast, drawn = (
        forecast_of(budget, month.month, month.until, cost, month.rate, one) for one in (usual, unit)
    )
    may_lead = role is not None and role.rank >= Role.LEAD.rank
    page = {
        "team": chosen,
        "month": month,
        "cost": cost,
        "budgets": budgets,
        "monthly": monthly,
        "uncounted": other_money(cost, monthly),
        "forecast": forecast,
        "unit": usual,
        "is_hours": unit == HOURS,
        "has_money": bool(cost.exact),
        "spend": spend_data(
            [(day, part.cost) for day, part in month.days], month.month, month.until, drawn, unit
        ),
        "bars": bar_data(((day, parts_of_day(part)) for day, part in month.days), BARS, month.month, unit),
        "people": shown(month, PERSON),  # below the graph, beside waste and budget
        "groups": [[shown(month, name) for name in row] for row in ((PROFILE, PRODUCT), (CLAIM,))],
        "energy": team_energy(chosen, month.month.first, month.month.next.first),
        "may_lead": may_lead,
        "may_set_budget": is_platform_admin(request.user),
    }
    if month.is_running:
        waste = top_waste(chosen, user_of(request), role, idle_money(month.groups[CLAIM]), now=now)
        page |= {"waste": waste, "acting": acting(waste, monthly, now)}
    return render(request, "usage/team.html", page)


def other_money(cost: Cost, card: BudgetCard | None) -> str:
    """Return what of a cost is in other currencies than a budget of money, which does not count it."""
    if card is None or card.use.amount is None:
        return ""
    others = {currency: amount for currency, amount in cost.amounts.items() if amount}
    others.pop(card.budget.currency, None)
    return " + ".join(money(amount, currency) for currency, amount in others.items())


def shown(month: TeamMonth, name: str) -> tuple[str, str, list[MonthPart], int]:
    """Return the name of a grouping, its head, the rows that are shown, and the number of all."""
    rows = month.groups[name]
    if name == CLAIM:
        return name, name.capitalize(), rows[:SHOWN_CLAIMS], month.whole.claims
    return name, name.capitalize(), rows[:MAX_ROWS], len(rows)


def parts_of_day(part: MonthPart) -> tuple[Cost, ...]:
    return part.parts.used, part.parts.idle, part.parts.no_telemetry, part.rest


def idle_money(claims: Iterable[MonthPart]) -> IdleMoney:
    """Return a function that says what of a claim's cost of this month was idle."""
    idle = {row.key: row.parts.idle for row in claims}

    def of(claim: UUID) -> str:
        text = cost_text(idle.get(str(claim)))
        return "" if text == DASH else f"{text} idle this month"

    return of


def acting(waste: TopWaste, card: BudgetCard | None, now: datetime) -> str:
    """Return what acting on all that is shown does: "… lowers the run rate to €31.33 / h: …"."""
    if not waste.shown or not waste.saves:
        return ""
    saved = " + ".join(money(amount, currency) for currency, amount in sorted(waste.saves.items()))
    what = {1: "it", 2: "both"}.get(len(waste.shown), f"all {len(waste.shown)}")
    now_spends = card.use.amount_rate if card else None
    if card is None or now_spends is None or waste.saves.keys() != {card.budget.currency}:
        return f"Acting on {what} saves {saved} / h."
    currency, use = card.budget.currency, card.use
    rate = max(now_spends - waste.saves[currency], Decimal(0))
    lowers = f"Acting on {what} lowers the run rate from {money(now_spends, currency)} to "
    lowers += f"{money(rate, currency)} / h"
    if use.share >= 1:
        return f"{lowers}."
    ends = runs_out_at_rate(use, rate, now=now)
    if ends is None or ends >= use.ends_at:
        return f"{lowers}: the budget then lasts until the end of the period."
    return f"{lowers}: the budget then lasts until {day_words(utc_day(ends))}."


@require_safe
def team_csv(request: HttpRequest, slug: str) -> HttpResponse:
    """Return the lines of the page's totals as CSV: one per claim, owner, product and currency."""
    chosen = team_for(request.user, slug)
    costs = report(chosen, parse_month(request.GET.get("month", "")), now=timezone.now())
    return csv_response(f"cost-{chosen.slug}-{costs.month}", CSV_HEADS, csv_rows(costs))


CSV_HEADS = (
    *("month", "team", "claim", "claim_id", "person", "profile", "cluster", "product", "partition"),
    *("device_hours", "hours_without_rate", "amount", "currency", "corrects"),
)


def csv_rows(report: CostReport) -> Iterator[list[object]]:
    """
    Yield the rows. Hours are in the first row of a line only, so that columns add up to the page's totals;
    they have six digits, as the page rounds only the sum.

    A line without a rate has no amount and no currency: an empty cell is not 0. `corrects` is the closed
    month that a line corrects.
    """
    for line in report.lines:
        claim = line.claim
        cells = [
            str(report.month),
            report.team.slug,
            claim.name,
            str(claim.pk),
            line.owner.username,
            claim.slugs,
            claim.cluster,
            line.product,
            line.partition,
        ]
        corrects = f"{line.corrects:%Y-%m}" if line.corrects else ""
        hours: list[Decimal | str] = [line.cost.exact_hours, line.cost.exact_unpriced]
        for currency, amount in line.cost.amounts.items() or [("", "")]:
            yield [*cells, *hours, amount, currency, corrects]
            hours = ["", ""]
