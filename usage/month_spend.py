"""
What a team has spent this month, with a forecast, for Home: sums of stored days and what is held since.

No line of a claim is read, so a team of a thousand claims takes as long as one of ten. Money is rounded once,
per ledger entry, so the sums are those of the month's page to the cent.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from uuid import UUID

from core.prepared import Prepared, Statement
from teams.models import Team, User
from usage.cost import Cost, Interval, Ledger
from usage.daily import held_in, midnight, utc_day
from usage.daily_sums import ACTIVITY, HELD, IDLE_AMOUNT
from usage.rates import RateCard
from usage.reports import Month
from usage.spend_chart import Forecast, MonthBudget, forecast_of, run_rate, spend_data, unit_of


@dataclass(frozen=True, slots=True)
class MonthSpend:
    """
    What a team has spent this month, day by day, the reader's part of it (`own`), and what of that was idle
    on stored days. Corrections of closed months count today.
    """

    month: Month
    until: datetime
    total: Cost
    own: Cost | None
    own_idle: Cost
    days: list[tuple[date, Cost]]
    forecast: Forecast
    unit: str

    @property
    def chart(self) -> dict[str, Any]:
        return spend_data(self.days, self.month, self.until, self.forecast, self.unit)


TEAM, OWN, IDLE, CORRECTED = "team", "own", "idle", "corrected"
UNTIL, BUDGET = "until", "budget"

# What of a stored row has no rate: an entry and a correction have one currency, and none without a rate.
UNPRICED = "SUM(CASE WHEN row.currency = '' THEN held ELSE 0 END)"
SUMS = f"SUM(held), {UNPRICED}, SUM(amount), NULL::date, NULL"


def _month(team: UUID, person: UUID, first: date, end: date) -> Statement:
    """
    Return (kind, currency, held, without a rate, amount, day, budget): the sums of the team's stored days,
    each of its own, the person's, and what of these was idle; the corrections that are booked on these days,
    twice for those of the person; the end of the stored days; and the use of the budget of each month, as
    JSON.
    """
    text = f"""
        WITH stored AS (SELECT until FROM usage_storeddays LIMIT 1)
        SELECT '{TEAM}', currency, SUM(held), SUM(unpriced), SUM(amount), day, NULL::text
        FROM usage_dailysum WHERE dimension = 'team' AND key = %s AND day >= %s AND day < %s
          AND day < (SELECT until FROM stored) GROUP BY day, currency
        UNION ALL SELECT '{OWN}', row.currency, {SUMS}
        FROM usage_dailyuse row
        WHERE team_id = %s AND owner_id = %s AND day >= %s AND day < %s
          AND day < (SELECT until FROM stored) GROUP BY row.currency
        UNION ALL
        SELECT '{IDLE}', use.currency, SUM({HELD[1]} - {HELD[2]}), 0, SUM({IDLE_AMOUNT}), NULL, NULL
        FROM usage_dailyuse use {ACTIVITY}
        WHERE use.team_id = %s AND use.owner_id = %s AND use.day >= %s AND use.day < %s
          AND use.day < (SELECT until FROM stored) AND use.currency <> '' GROUP BY use.currency
        HAVING SUM({HELD[1]}) > 0
        UNION ALL SELECT kind, row.currency, {SUMS}
        FROM usage_correction row
        CROSS JOIN (VALUES ('{CORRECTED}'), ('{OWN}')) AS kinds(kind)
        WHERE team_id = %s AND booked_on >= %s AND booked_on < %s
          AND (kind = '{CORRECTED}' OR owner_id = %s) GROUP BY kind, row.currency
        UNION ALL SELECT '{UNTIL}', '', 0, 0, 0, until, NULL FROM stored
        UNION ALL SELECT '{BUDGET}', budget.currency, 0, 0, 0, NULL,
          json_build_object('amount', use.amount::text, 'hours', use.hours::text,
            'forecast_amount', use.forecast_amount::text, 'forecast_hours', use.forecast_hours::text,
            'runs_out_at', use.runs_out_at)::text
        FROM claims_budget budget JOIN claims_budgetuse use ON use.budget_id = budget.id
        WHERE budget.team_id = %s AND budget.title = '' AND budget.ended_at IS NULL AND use.first = %s"""  # noqa: S608
    days, own = (first, end), (team, person)
    return text, (team, *days, *own, *days, *own, *days, team, *days, person, team, first)


MONTH = Prepared(_month, UUID, UUID, date, date)


def month_spend(team: Team, user: User, card: RateCard, *, now: datetime) -> MonthSpend:
    """Return the spending of this month; three queries."""
    month = Month.current(now)
    span, end = month.span, month.next.first
    sums = {TEAM: Cost(), OWN: Cost(), IDLE: Cost(), CORRECTED: Cost()}
    days: dict[date, Cost] = defaultdict(Cost)
    stored_until: date | None = None
    budget: MonthBudget | None = None
    for kind, currency, held, unpriced, amount, day, use in MONTH.rows(team.pk, user.pk, month.first, end):
        if kind == UNTIL:
            stored_until = day
        elif kind == BUDGET:
            budget = MonthBudget.from_json(currency, use)
        else:
            cost = Cost(int(held), int(unpriced), {currency: int(amount)} if currency else {})
            sums[kind].add(cost)
            if kind == TEAM:
                days[day].add(cost)
    begun = stored_until is None or stored_until <= month.first
    rest = span if begun or stored_until is None else Interval(midnight(stored_until), span.end)
    rate = run_rate(days, month.first, min(stored_until or month.first, end))
    ledger = Ledger()
    if rest.start < rest.end:
        for interval in held_in(team, rest, begun=begun):
            ledger.add(interval, card, until=now, within=rest)
    for entry in ledger:
        sums[TEAM].add(entry.cost)
        days[entry.day].add(entry.cost)
        if entry.line.owner == user.pk:
            sums[OWN].add(entry.cost)
    days[utc_day(now)].add(sums[CORRECTED])
    sums[TEAM].add(sums[CORRECTED])
    own = sums[OWN] if sums[OWN].held or sums[OWN].exact else None
    spent = sums[TEAM]
    unit = unit_of(spent, budget)
    return MonthSpend(
        month,
        min(now, span.end),
        spent,
        own,
        sums[IDLE],
        sorted(days.items()),
        forecast_of(budget, month, now, spent, rate, unit),
        unit,
    )
