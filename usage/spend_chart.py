"""The graph of a month: what a team has spent, where that leads, and its budget."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from claims.models import Budget, BudgetUse
from core.text import SYMBOLS, percent
from usage.cost import CURRENCY_UNIT, DEVICE_HOUR, Cost, total
from usage.daily import DAY, midnight
from usage.reports import Month

HOURS = "h"  # the unit of a graph of GPU-hours; of money it is the currency
RATE_DAYS = 7  # of the run rate
CENT = Decimal("0.01")

type Days = Sequence[tuple[date, Cost]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a month will have cost at its end, and the budget in the same unit; None is not known, or none."""

    amount: Decimal | None
    budget: Decimal | None = None
    runs_out_at: datetime | None = None  # only in this month

    @property
    def is_over(self) -> bool:
        return self.amount is not None and self.budget is not None and self.amount > self.budget

    @property
    def share(self) -> str:
        """Return which share of the budget the forecast is: "118 %", "" without a budget."""
        if self.amount is None or not self.budget:
            return ""
        return percent(float(self.amount / self.budget))


@dataclass(frozen=True, slots=True)
class MonthBudget:
    """The limits of a budget of one month with their forecasts, of which None is not limited or not known."""

    currency: str
    amount: Decimal | None
    hours: Decimal | None
    forecast_amount: Decimal | None
    forecast_hours: Decimal | None
    runs_out_at: datetime | None

    @classmethod
    def from_use(cls, budget: Budget, use: BudgetUse) -> MonthBudget:
        limits = (use.amount, use.hours, use.forecast_amount, use.forecast_hours)
        return cls(budget.currency, *limits, use.runs_out_at)

    @classmethod
    def from_json(cls, currency: str, text: str) -> MonthBudget:
        """Read what `json_build_object` made of a row of `BudgetUse`."""
        use = json.loads(text)

        def number(name: str) -> Decimal | None:
            return None if use[name] is None else Decimal(use[name])

        at = use["runs_out_at"]
        return cls(
            currency,
            number("amount"),
            number("hours"),
            number("forecast_amount"),
            number("forecast_hours"),
            datetime.fromisoformat(at) if at else None,
        )


def unit_of(cost: Cost, budget: MonthBudget | None) -> str:
    """Return the currency of the budget or of most of the cost; HOURS if there is no money."""
    if budget is not None and budget.amount is not None:
        return budget.currency
    return max(cost.exact, key=lambda currency: (cost.exact[currency], currency), default=HOURS)


def run_rate(days: Mapping[date, Cost], first: date, end: date) -> Cost | None:
    """Return the mean cost per hour of the last RATE_DAYS stored days of a month; None without one."""
    since = max(first, end - RATE_DAYS * DAY)
    if since >= end:
        return None
    recent = total(cost for day, cost in days.items() if since <= day < end)
    hours = 24 * (end - since).days
    amounts = {currency: amount // hours for currency, amount in recent.exact.items()}
    return Cost(recent.held // hours, recent.unpriced_held // hours, amounts)


def amount_in(cost: Cost, unit: str) -> Decimal:
    """Return the part of a cost in one unit: exact money or GPU-hours."""
    if unit == HOURS:
        return Decimal(cost.held) / DEVICE_HOUR
    return Decimal(cost.exact.get(unit, 0)) / CURRENCY_UNIT


def forecast_of(
    budget: MonthBudget | None, month: Month, until: datetime, spent: Cost, rate: Cost | None, unit: str
) -> Forecast:
    """
    Return the forecast of the budget, else spent + run rate × hours left. None without a rate, or while some
    hours have no price.
    """
    if budget is not None:
        limits = {
            HOURS: (budget.forecast_hours, budget.hours),
            budget.currency: (budget.forecast_amount, budget.amount),
        }
        amount, limit = limits.get(unit, (None, None))
        if limit is not None:
            at = budget.runs_out_at
            if amount is not None:  # the use of the budget is some minutes older than what is spent
                amount = max(amount, amount_in(spent, unit))
            return Forecast(amount, limit, at if at is not None and at < month.span.end else None)
    if rate is None or (unit != HOURS and spent.unpriced_held):
        return Forecast(None)
    left = Decimal((month.span.end - until).total_seconds()) / 3600
    forecast = amount_in(spent, unit) + amount_in(rate, unit) * left
    return Forecast(forecast.quantize(CENT, ROUND_HALF_UP))


def spend_data(days: Days, month: Month, until: datetime, forecast: Forecast, unit: str) -> dict[str, Any]:
    """
    Return what `charts.js` draws: the sum until the end of each day and until now, then a line to the
    forecast, and the budget. Instants are Unix seconds.
    """
    points = [(month.start, Decimal(0))]
    spent, by_day, day = Decimal(0), dict(days), month.first
    while midnight(day) < until:  # also the days on which nothing was held
        spent += amount_in(by_day.get(day, Cost()), unit)
        points.append((min(midnight(day + DAY), until), spent))
        day += DAY
    end = month.span.end
    x, sums = [at for at, _sum in points], [float(amount) for _at, amount in points]
    ahead: list[float | None] = [None] * len(points)
    if forecast.amount is not None and until < end:
        ahead[-1] = sums[-1]
        x.append(end)
        ahead.append(float(forecast.amount))
    whole = [*sums, *[None] * (len(x) - len(sums))]
    lines: list[dict[str, Any]] = [{"label": "spent", "values": whole, "fill": True}]
    if any(value is not None for value in ahead):
        lines.append({"label": "forecast", "values": ahead, "dash": True})
    data: dict[str, Any] = {
        "x": [at.timestamp() for at in x],
        "range": [month.start.timestamp(), end.timestamp()],
        "symbol": "" if unit == HOURS else SYMBOLS.get(unit, f"{unit} "),
        "unit": unit if unit == HOURS else "",
        "spend": lines,
        "level": None if forecast.budget is None else {"value": float(forecast.budget), "label": "budget"},
    }
    if forecast.budget is not None and forecast.runs_out_at is not None:
        at = forecast.runs_out_at
        data["mark"] = {
            "x": at.timestamp(),
            "y": float(forecast.budget),
            "label": f"runs out {at:%a} {at.day} {at:%b}",
        }
    return data


def bar_data(
    days: Iterable[tuple[date, Sequence[Cost]]], names: Sequence[str], month: Month, unit: str
) -> dict[str, Any]:
    """Return stacked bars of these parts of each day, in the order of `names` from below."""
    rows = [(day, [float(amount_in(part, unit)) for part in parts]) for day, parts in days]
    return {
        "x": [(midnight(day) + DAY / 2).timestamp() for day, _parts in rows],
        "range": [month.start.timestamp(), month.span.end.timestamp()],
        "symbol": "" if unit == HOURS else SYMBOLS.get(unit, f"{unit} "),
        "unit": unit if unit == HOURS else "",
        "bars": [
            {"label": name, "values": [parts[place] for _day, parts in rows]}
            for place, name in enumerate(names)
            if any(parts[place] for _day, parts in rows)
        ],
    }
