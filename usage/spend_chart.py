"""The graph of a month: what a team has spent, where that leads, and its budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from claims.budgets.cards import BudgetCard
from core.text import SYMBOLS
from usage.cost import CURRENCY_UNIT, DEVICE_HOUR, Cost
from usage.daily import DAY, midnight
from usage.reports import Month

HOURS = "h"  # the unit of a graph of GPU-hours; of money it is the currency
type Days = Sequence[tuple[date, Cost]]


@dataclass(frozen=True, slots=True)
class Forecast:
    """What a month will have cost at its end, and the budget in the same unit; None is not known, or none."""

    amount: Decimal | None
    budget: Decimal | None = None
    runs_out_at: datetime | None = None  # only in this month


def unit_of(cost: Cost, card: BudgetCard | None) -> str:
    """Return the currency of the budget or of most of the cost; HOURS if there is no money."""
    if card is not None and card.use.amount is not None:
        return card.budget.currency
    if card is not None and not cost.exact:
        return HOURS
    return max(cost.exact, key=lambda currency: (cost.exact[currency], currency), default=HOURS)


def amount_in(cost: Cost, unit: str) -> Decimal:
    """Return the part of a cost in one unit: exact money or GPU-hours."""
    if unit == HOURS:
        return Decimal(cost.held) / DEVICE_HOUR
    return Decimal(cost.exact.get(unit, 0)) / CURRENCY_UNIT


def forecast_of(
    card: BudgetCard | None, month: Month, until: datetime, spent: Cost, rate: Cost | None, unit: str
) -> Forecast:
    """
    Return the forecast of the budget of each month, else spent + run rate × hours left. None without a rate,
    or while some hours have no price.
    """
    if card is not None:
        use = card.use
        limits = {
            HOURS: (use.forecast_hours, use.hours),
            card.budget.currency: (use.forecast_amount, use.amount),
        }
        amount, budget = limits.get(unit, (None, None))
        if budget is not None:
            runs_out = use.runs_out_at if card.runs_out_in_period else None
            return Forecast(amount, budget, runs_out)
    if rate is None or (unit != HOURS and spent.unpriced_held):
        return Forecast(None)
    left = Decimal((month.span.end - until).total_seconds()) / 3600
    amount = amount_in(spent, unit) + amount_in(rate, unit) * left
    return Forecast(amount.quantize(Decimal("0.01"), ROUND_HALF_UP))


def spend_data(days: Days, month: Month, until: datetime, forecast: Forecast, unit: str) -> dict[str, Any]:
    """
    Return what `charts.js` draws: the sum until the end of each day and until now, then a line to the
    forecast, and the budget. Instants are Unix seconds.
    """
    points = [(month.start, Decimal(0))]
    spent = Decimal(0)
    for day, cost in days:
        spent += amount_in(cost, unit)
        points.append((min(midnight(day + DAY), until), spent))
    if points[-1][0] < until:
        points.append((until, spent))
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
