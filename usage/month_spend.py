"""
What a team has spent this month, with a forecast, for Home: sums of stored days and what is held since.

No line of a claim is read, so a team of a thousand claims takes as long as one of ten. Money is rounded once,
per ledger entry, so the sums are those of the month's page to the cent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from uuid import UUID

from claims.states import FINAL
from core.prepared import Prepared, Statement
from teams.models import Team, User
from usage.cost import Cost, Interval, Ledger
from usage.daily import held_in, midnight
from usage.rates import RateCard
from usage.reports import Month

MIN_FORECAST_SPAN = timedelta(days=3)  # a forecast from fewer days means nothing


@dataclass(frozen=True, slots=True)
class MonthSpend:
    """
    What a team has spent this month, and the reader's part of it (`own`).

    `forecast` per currency is the amount so far ÷ the time so far × the whole month; corrections of closed
    months are added once. It is empty in the first days of a month and if hours have no rate.
    """

    month: Month
    until: datetime
    total: Cost
    own: Cost | None
    forecast: dict[str, Decimal]


TEAM, OWN, CORRECTED, CLAIM, UNTIL = "team", "own", "corrected", "claim", "until"

# What of a stored row has no rate: an entry and a correction have one currency, and none without a rate.
SUMS = "SUM(held), SUM(CASE WHEN row.currency = '' THEN held ELSE 0 END), SUM(amount), NULL::uuid, NULL::date"


def _month(team: UUID, person: UUID, first: date, end: date, since: datetime) -> Statement:
    """
    Return (kind, currency, held, without a rate, amount, claim, day): the sums of the team's stored days, of
    the person's, and of the corrections that are booked on these days, twice for those of the person; the
    person's claims that may have held devices since the stored days; and the end of these.
    """
    text = f"""
        WITH stored AS (SELECT until FROM usage_storeddays LIMIT 1)
        SELECT '{TEAM}', currency, SUM(held), SUM(unpriced), SUM(amount), NULL::uuid, NULL::date
        FROM usage_dailysum WHERE dimension = 'team' AND key = %s AND day >= %s AND day < %s
          AND day < (SELECT until FROM stored) GROUP BY currency
        UNION ALL SELECT '{OWN}', row.currency, {SUMS}
        FROM usage_dailyuse row JOIN claims_claim claim ON claim.id = claim_id
        WHERE claim.team_id = %s AND requested_by_id = %s AND day >= %s AND day < %s
          AND day < (SELECT until FROM stored) GROUP BY row.currency
        UNION ALL SELECT kind, row.currency, {SUMS}
        FROM usage_correction row JOIN claims_claim claim ON claim.id = claim_id
        CROSS JOIN (VALUES ('{CORRECTED}'), ('{OWN}')) AS kinds(kind)
        WHERE row.team_id = %s AND booked_on >= %s AND booked_on < %s
          AND (kind = '{CORRECTED}' OR requested_by_id = %s) GROUP BY kind, row.currency
        UNION ALL SELECT '{CLAIM}', '', 0, 0, 0, id, NULL FROM claims_claim
        WHERE team_id = %s AND requested_by_id = %s AND (NOT state = ANY(%s) OR state_since >= %s)
        UNION ALL SELECT '{UNTIL}', '', 0, 0, 0, NULL, until FROM stored"""  # noqa: S608
    days, final = (first, end), [str(state) for state in FINAL]
    own = (team, person)
    return text, (team, *days, *own, *days, team, *days, person, *own, final, since)


MONTH = Prepared(_month, UUID, UUID, date, date, datetime)


def month_spend(team: Team, user: User, card: RateCard, *, now: datetime) -> MonthSpend:
    """Return the spending of this month; two queries."""
    month = Month.current(now)
    span, end = month.span, month.next.first
    sums = {TEAM: Cost(), OWN: Cost(), CORRECTED: Cost()}
    mine: set[UUID] = set()
    stored_until: date | None = None
    for kind, currency, held, unpriced, amount, claim, day in MONTH.rows(
        team.pk, user.pk, month.first, end, span.start
    ):
        if kind == CLAIM:
            mine.add(claim)
        elif kind == UNTIL:
            stored_until = day
        else:
            exact = {currency: int(amount)} if currency else {}
            sums[kind].add(Cost(int(held), int(unpriced), exact))
    begun = stored_until is None or stored_until <= month.first
    rest = span if begun or stored_until is None else Interval(midnight(stored_until), span.end)
    ledger = Ledger()
    if rest.start < rest.end:
        for interval in held_in(team, rest, begun=begun):
            ledger.add(interval, card, until=now, within=rest)
    for (claim, _product, _partition), cost in ledger.costs().items():
        sums[TEAM].add(cost)
        if claim in mine:
            sums[OWN].add(cost)
    until = min(now, span.end)
    projected = forecast(month, until, sums[TEAM])
    for currency, amount in sums[CORRECTED].amounts.items():
        if currency in projected:  # a correction happens once
            projected[currency] += amount.quantize(Decimal(1), ROUND_HALF_UP)
    sums[TEAM].add(sums[CORRECTED])
    own = sums[OWN] if sums[OWN].held or sums[OWN].exact else None
    return MonthSpend(month, until, sums[TEAM], own, projected)


def forecast(month: Month, until: datetime, spent: Cost) -> dict[str, Decimal]:
    """Return the cost of the whole month at the pace so far; see `MonthSpend`."""
    elapsed = until - month.span.start
    if elapsed < MIN_FORECAST_SPAN or spent.unpriced_held:
        return {}
    factor = Decimal((month.span.end - month.span.start) / elapsed)
    return {
        currency: (amount * factor).quantize(Decimal(1), ROUND_HALF_UP)
        for currency, amount in spent.amounts.items()
    }
