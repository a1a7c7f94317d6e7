"""
What the page of a team's cost shows: a month by day, claim, person, profile and product, with what was used.

Past days are sums of the stored entries (`DailyUse`) with their utilization (`DailyActivity`), grouped by
PostgreSQL (`usage.daily_sums` divides them into used, idle and no telemetry); the days since, usually today,
are computed from allocations, and nothing is known yet of what was used. All groupings add up to the total.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID

from core.prepared import Prepared, Statement
from teams.models import Team
from usage.cost import Cost, Interval, Ledger, LineKey, total
from usage.daily import held_in, midnight, stored_until
from usage.daily_sums import ACTIVITY, SUMS, UNPRICED, VALUES
from usage.fleet_report import HeldParts, parts_of
from usage.models import ClosedMonth
from usage.rates import RateCard
from usage.reports import Month, closed_month
from usage.spend_chart import run_rate

SHOWN_CLAIMS = 10
DAYS, CLAIM, PERSON, PROFILE, PRODUCT = "day", "claim", "person", "profile", "product"
COUNT, BEFORE, UNTIL = "count", "before", "until"

# A set of columns is grouped by those whose bit of GROUPING is 0; claims are by owner too.
SETS = {0b0011: CLAIM, 0b1011: PERSON, 0b1101: PROFILE, 0b1110: PRODUCT}
NAMES_OF_SETS = " ".join(f"WHEN {bits} THEN '{name}'" for bits, name in SETS.items())
WHOLE = "sum({held}), 0, 0, sum({unpriced}), 0, 0, sum({amount}), 0, 0"
OF_CORRECTIONS = WHOLE.format(held="use.held", unpriced=UNPRICED, amount="use.amount")
OF_BEFORE = WHOLE.format(held="held", unpriced="unpriced", amount="amount")
COLUMNS = ("h", "hm", "hu", "u", "um", "uu", "a", "am", "au")  # the sums of `usage.daily_sums.VALUES`
STORED = "(SELECT until FROM usage_storeddays LIMIT 1)"
MONTH_OF = "date_trunc('month', use.day)::date"


def _month(team: UUID, since: UUID, first: date, end: date, before: date) -> Statement:
    """
    Return (kind, key, owner of a claim, month that is corrected, claims, currency, nine sums): the days and
    the groups of the stored entries and of the corrections that are booked on these days; of the claims only
    the most expensive, and those of `since`; the number of all claims; the sum of as many days
    from `before` on.
    """
    sums = ", ".join(f"sum({column})" for column in COLUMNS)
    sql = f"""
        WITH entries (claim_id, owner_id, product, partition, corrects, currency, {", ".join(COLUMNS)}) AS (
            SELECT use.claim_id, use.owner_id, use.product, use.partition, NULL::date, use.currency, {SUMS}
            FROM usage_dailyuse use {ACTIVITY}
            WHERE use.team_id = %s AND use.day >= %s AND use.day < %s AND use.day < {STORED}
            GROUP BY use.claim_id, use.owner_id, use.product, use.partition, use.currency
            UNION ALL
            SELECT use.claim_id, use.owner_id, use.product, use.partition, {MONTH_OF}, use.currency,
                   {OF_CORRECTIONS}
            FROM usage_correction use
            WHERE use.team_id = %s AND use.booked_on >= %s AND use.booked_on < %s
            GROUP BY use.claim_id, use.owner_id, use.product, use.partition, {MONTH_OF}, use.currency
        ), most AS (
            SELECT claim_id::text FROM entries GROUP BY claim_id
            ORDER BY sum(a) DESC, sum(h) DESC, claim_id LIMIT {SHOWN_CLAIMS}
        ), grouped (kind, key, owner, corrects, claims, currency, {", ".join(COLUMNS)}) AS (
            SELECT CASE GROUPING(e.claim_id, e.owner_id, version.profile_id, e.product)
                   {NAMES_OF_SETS} END,
                   coalesce(e.claim_id::text, e.owner_id::text, version.profile_id::text,
                            trim(e.product || ' ' || e.partition)),
                   e.owner_id, corrects, count(DISTINCT e.claim_id), currency, {sums}
            FROM entries e
            JOIN claims_claim claim ON claim.id = e.claim_id
            JOIN claims_profileversion version ON version.id = claim.profile_version_id
            GROUP BY GROUPING SETS ((e.claim_id, e.owner_id, corrects, currency),
                                    (e.owner_id, corrects, currency),
                                    (version.profile_id, corrects, currency),
                                    (e.product, e.partition, corrects, currency))
        )
        SELECT * FROM grouped
        WHERE kind <> '{CLAIM}' OR key IN (SELECT claim_id FROM most) OR key = ANY(%s::text[])
        UNION ALL SELECT '{COUNT}', '', NULL, NULL, count(DISTINCT claim_id), '', {"0, " * 8}0 FROM entries
        UNION ALL SELECT '{DAYS}', day::text, NULL, NULL, 0, currency, {", ".join(VALUES)} FROM usage_dailysum
        WHERE dimension = 'team' AND key = %s AND day >= %s AND day < %s AND day < {STORED}
        UNION ALL
        SELECT '{DAYS}', use.booked_on::text, NULL, {MONTH_OF}, 0, use.currency, {OF_CORRECTIONS}
        FROM usage_correction use
        WHERE use.team_id = %s AND use.booked_on >= %s AND use.booked_on < %s
        GROUP BY use.booked_on, {MONTH_OF}, use.currency
        UNION ALL SELECT '{BEFORE}', '', NULL, NULL, 0, currency, {OF_BEFORE} FROM usage_dailysum
        WHERE dimension = 'team' AND key = %s AND day >= %s AND day < %s
          AND day < %s::date + (LEAST({STORED}, %s::date) - %s::date) GROUP BY currency"""  # noqa: S608
    span = (team, first, end)
    return sql, (*span, *span, since, *span, *span, team, before, first, before, end, first)


MONTH = Prepared(_month, UUID, UUID, date, date, date)


def _names(claims: UUID, people: UUID, profiles: UUID, since: UUID) -> Statement:
    """
    Return (kind, id, name, detail, profile) of these claims, people and profiles, and of the profiles of the
    claims of `since`.
    """
    sql = f"""
        SELECT '{CLAIM}', claim.id, claim.name, profile.title, version.profile_id
        FROM claims_claim claim
        JOIN claims_profileversion version ON version.id = claim.profile_version_id
        JOIN claims_profile profile ON profile.id = version.profile_id
        WHERE claim.id = ANY(%s)
        UNION ALL SELECT '{PERSON}', person.id, person.username,
                         trim(person.first_name || ' ' || person.last_name), NULL
        FROM teams_user person WHERE person.id = ANY(%s)
        UNION ALL SELECT '{PROFILE}', profile.id, profile.title, profile.slug, NULL
        FROM claims_profile profile
        WHERE profile.id = ANY(%s) OR profile.id IN (
            SELECT version.profile_id FROM claims_claim claim
            JOIN claims_profileversion version ON version.id = claim.profile_version_id
            WHERE claim.id = ANY(%s))"""  # noqa: S608
    return sql, (claims, people, profiles, since)


NAMES = Prepared(_names, UUID, UUID, UUID, UUID)


@dataclass(slots=True)
class MonthPart:
    """
    What is known of some entries of the month: split into used and idle on stored days, whole since then
    (`rest`), and corrections by the month that they correct. `detail` is the slug of a profile, or the
    profile of a claim.
    """

    key: str = ""
    label: str = ""
    detail: str = ""
    parts: HeldParts = field(default_factory=HeldParts)
    rest: Cost = field(default_factory=Cost)
    corrections: dict[date, Cost] = field(default_factory=dict)
    claims: int = 0

    @property
    def cost(self) -> Cost:
        """Return what the team pays: all parts, the days since and corrections."""
        return total([self.parts.billed, self.rest])


@dataclass(frozen=True, slots=True)
class TeamMonth:
    """
    The month of a team. `days` are those on which something was held or corrected, oldest first; `before` is
    what the same number of stored days of the month before cost. Of the claims, `groups` has those that may
    be among the first `SHOWN_CLAIMS`; `whole.claims` counts all. `rate` is the cost per hour of the last
    seven stored days.
    """

    team: Team
    month: Month
    until: datetime
    whole: MonthPart
    days: list[tuple[date, MonthPart]]
    groups: Mapping[str, list[MonthPart]]
    before: Cost
    stored_days: int
    rate: Cost | None
    closed: ClosedMonth | None

    @property
    def is_running(self) -> bool:
        """Return whether the month is not over, so that costs still grow."""
        return self.until < self.month.span.end

    @property
    def stored(self) -> Cost:
        """Return what the stored days cost, without corrections: to compare with `before`."""
        return self.whole.parts.allocated


def team_month(team: Team, month: Month, card: RateCard, *, now: datetime) -> TeamMonth:
    """Return the month; six queries for any number of claims and days."""
    first, end = month.first, month.next.first
    until = stored_until()
    rest = _rest(team, month, card, until, now)
    groups: dict[str, dict[str, MonthPart]] = defaultdict(lambda: defaultdict(MonthPart))
    whole, cost_before = MonthPart(), Cost()
    held_since = list({str(line.claim_id) for line, _day in rest})
    owned: set[tuple[str, UUID]] = set()  # claims with an owner to whom a stored entry counts
    for kind, key, owner, corrects, claims, currency, *sums in MONTH.rows(
        team.pk, held_since, first, end, month.previous.first
    ):
        if kind == COUNT:
            whole.claims = claims
            continue
        held, unpriced, amount = map(int, sums[::3])
        cost = Cost(held, unpriced, {currency: amount} if currency else {})
        if kind == BEFORE:
            cost_before.add(cost)
            continue
        if kind == CLAIM:
            owned.add((key, owner))
        part = groups[kind][key]
        part.claims = max(part.claims, claims)  # of several currencies, the larger number
        if corrects is None:
            part.parts.add(parts_of(currency, *sums[::3], *sums[1::3], *sums[2::3]))
        else:
            part.parts.corrections.add(cost)
            part.corrections.setdefault(corrects, Cost()).add(cost)
    whole.claims += _add_rest(groups, rest, owned)
    for of_day in groups[DAYS].values():
        whole.parts.add(of_day.parts)
        whole.rest.add(of_day.rest)
    last = min(until or first, end)
    days = sorted((date.fromisoformat(key), part) for key, part in groups[DAYS].items())
    return TeamMonth(
        team,
        month,
        min(now, month.span.end),
        whole,
        days,
        {name: _sorted(groups[name].values()) for name in (CLAIM, PERSON, PROFILE, PRODUCT)},
        cost_before,
        max((last - first).days, 0),
        run_rate({day: part.parts.allocated for day, part in days}, first, last),
        closed_month(month.first),
    )


def _sorted(parts: Iterable[MonthPart]) -> list[MonthPart]:
    """Return the parts, highest cost first."""
    costs = [(part.cost, part) for part in parts]
    costs.sort(key=lambda pair: (-sum(pair[0].exact.values()), -pair[0].held, pair[1].label))
    return [part for _cost, part in costs]


def _rest(
    team: Team, month: Month, card: RateCard, stored_until: date | None, now: datetime
) -> dict[tuple[LineKey, date], Cost]:
    """Return what the team held since the stored days, by line and day; two queries."""
    begun = stored_until is None or stored_until <= month.first
    rest = month.span if begun or stored_until is None else Interval(midnight(stored_until), month.span.end)
    ledger = Ledger()
    if rest.start < min(rest.end, now):
        for interval in held_in(team, rest, begun=begun):
            ledger.add(interval, card, until=now, within=rest)
    costs: dict[tuple[LineKey, date], Cost] = defaultdict(Cost)
    for entry in ledger:
        costs[entry.line, entry.day].add(entry.cost)
    return costs


def _add_rest(
    groups: dict[str, dict[str, MonthPart]],
    rest: Mapping[tuple[LineKey, date], Cost],
    owned: Collection[tuple[str, UUID]],
) -> int:
    """
    Add what was held since the stored days to the groups, and name them; one query. Return how many claims
    have no stored entry in the month.
    """
    claims_since, owners_since = ({str(line[column]) for line, _day in rest} for column in (0, 3))
    stored = set(groups[CLAIM])  # of the claims since, all with an entry
    claims, people = stored | claims_since, groups[PERSON].keys() | owners_since
    keys = claims, people, groups[PROFILE].keys(), claims_since
    named = NAMES.rows(*(list(map(UUID, of_kind)) for of_kind in keys)) if claims else []
    profiles: dict[UUID, str] = {}
    labels: dict[str, dict[str, tuple[str, str]]] = defaultdict(dict)
    for kind, pk, name, detail, profile in named:
        labels[kind][str(pk)] = (detail or name, name) if kind == PERSON else (name, detail)
        if kind == CLAIM:
            profiles[pk] = str(profile)
    counted: set[tuple[str, str, UUID]] = set()
    for ((claim, product, partition, owner), day), cost in rest.items():
        model = f"{product} {partition}".strip()
        is_stored, is_owned = str(claim) in stored, (str(claim), owner) in owned
        for name, key, is_counted in (
            (CLAIM, str(claim), is_stored),
            (PERSON, str(owner), is_owned),
            (PROFILE, profiles[claim], is_stored),
            (PRODUCT, model, is_stored),
            (DAYS, day.isoformat(), is_stored),
        ):
            part = groups[name][key]
            part.rest.add(cost)
            if not is_counted and (name, key, claim) not in counted:
                counted.add((name, key, claim))
                part.claims += 1
    for name in (CLAIM, PERSON, PROFILE, PRODUCT):
        for key, part in groups[name].items():
            part.key = key
            part.label, part.detail = labels[name].get(key, (key or "unknown product", ""))
    return len(claims_since - stored)
