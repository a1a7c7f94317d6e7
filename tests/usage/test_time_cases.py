"""
Money at the times at which it goes wrong: one table of cases, run over everything that says what was spent.

The oracle is a few lines: hours held in a month, up to now, times 2.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from claims.budgets.use import current_uses, reclaimable_namespaces, refresh_current
from claims.models import Allocation, AtLimit, Claim, TeamNamespace
from claims.states import ClaimState
from tests.factories import make_budget, make_claim
from tests.usage.conftest import hold, price
from usage.alerts.conditions import short_budgets
from usage.cost import CURRENCY_UNIT, Interval
from usage.daily import store_days, team_costs
from usage.fleet_report import GroupBy, Period, fleet_report, month_of
from usage.focus import COLUMNS, focus_rows
from usage.opencost import AllocationQuery, allocation_sets, parse_window
from usage.rates import RateCard
from usage.reports import Month, claim_allocations, claim_cost, report
from usage.team_month import team_month

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
type Span = tuple[datetime, datetime | None]


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@dataclass(frozen=True)
class Case:
    """`stored` is when days were stored last; each span is of a claim of its own, which ends with it."""

    now: datetime
    stored: datetime | None
    spans: tuple[Span, ...]

    def cost(self, span: Interval) -> Decimal:
        """Return what claims held in a span, up to now, at 2 per hour."""
        last = min(span.end, self.now)
        parts = (min(end or last, last) - max(start, span.start) for start, end in self.spans)
        return sum((Decimal(max(part, timedelta(0)) / HOUR) * 2 for part in parts), Decimal(0))

    @property
    def months(self) -> list[Period]:
        current = month_of(self.now.date())
        return [current, month_of(current.first - DAY)]


LONG = (at("2026-10-20T06:00"), None)
CASES = {
    "first of the month, 00:30": Case(at("2026-12-01T00:30"), at("2026-11-30T12:00"), (LONG,)),
    "first of the month, 00:00": Case(at("2026-12-01T00:00"), at("2026-11-30T12:00"), (LONG,)),
    "first of the month, days are stored": Case(at("2026-12-01T01:30"), at("2026-12-01T01:10"), (LONG,)),
    "last day, not stored": Case(at("2026-11-30T23:30"), at("2026-11-30T02:00"), (LONG,)),
    "nothing is stored": Case(at("2026-11-20T10:00"), None, (LONG,)),
    "days of two weeks are not stored": Case(at("2026-11-20T10:00"), at("2026-11-06T10:00"), (LONG,)),
    "began and ended today": Case(
        at("2026-11-17T12:00"),
        at("2026-11-17T02:00"),
        ((at("2026-11-17T06:00"), at("2026-11-17T09:30")), (at("2026-11-17T10:00"), None)),
    ),
    "began and ended since the last stored day": Case(
        at("2026-11-17T00:30"),
        at("2026-11-16T02:00"),
        ((at("2026-11-16T06:00"), at("2026-11-16T08:00")), (at("2026-11-16T23:30"), at("2026-11-17T00:30"))),
    ),
    "ended at the last stored midnight": Case(
        at("2026-11-17T12:00"),
        at("2026-11-17T02:00"),
        ((at("2026-11-16T00:00"), at("2026-11-17T00:00")), (at("2026-11-17T00:00"), at("2026-11-17T01:00"))),
    ),
    "over the end of a month": Case(
        at("2026-11-10T12:00"), at("2026-11-10T02:00"), ((at("2026-10-20T06:00"), at("2026-11-05T18:30")),)
    ),
    "ended in the first minutes of the month": Case(
        at("2026-12-01T00:45"), at("2026-11-30T02:00"), ((at("2026-11-30T20:00"), at("2026-12-01T00:30")),)
    ),
    "leap day": Case(at("2028-02-29T13:00"), at("2028-02-29T02:00"), ((at("2028-02-28T06:00"), None),)),
    "day after a leap day": Case(
        at("2028-03-01T00:30"), at("2028-02-29T12:00"), ((at("2028-02-28T06:00"), None),)
    ),
    "February that has no leap day": Case(
        at("2027-03-01T00:30"), at("2027-02-28T12:00"), ((at("2027-02-28T06:00"), None),)
    ),
    "clocks go forward": Case(
        at("2027-03-28T12:00"), at("2027-03-28T02:00"), ((at("2027-03-27T22:00"), None),)
    ),
    "clocks go back": Case(
        at("2027-11-01T00:15"), at("2027-10-31T12:00"), ((at("2027-10-31T00:30"), at("2027-10-31T23:30")),)
    ),
    "new year": Case(at("2027-01-01T00:30"), at("2026-12-31T12:00"), ((at("2026-12-31T12:00"), None),)),
}  # fmt: skip


@pytest.fixture
def case(request, vision, alice, fra) -> Iterator[Case]:
    """Let claims of vision hold devices as a case says; the clock stands at its time."""
    one = CASES[request.param]
    price("2", valid_until=None)
    for start, end in one.spans:
        state, since = (ClaimState.RELEASED, end) if end else (ClaimState.ALLOCATED, start)
        claim = make_claim(vision, by=alice, cluster=fra, state=state, held=False, state_since=since)
        if one.stored is None or start < one.stored:
            take(claim, start, end if one.stored is None or (end and end <= one.stored) else None)
    if one.stored:
        with time_machine.travel(one.stored, tick=False):
            store_days(now=one.stored)
    with time_machine.travel(one.now, tick=False):
        for claim, (start, end) in zip(Claim.objects.order_by("pk"), one.spans, strict=True):
            if end and end <= one.now:
                Allocation.objects.filter(claim=claim).update(ended_at=end)
            if not claim.allocations.exists():
                take(claim, start, end)
        yield one


def take(claim: Claim, start: datetime, end: datetime | None) -> None:
    """Hold a GPU, and beside it what is none: its hours and its price, which the rate has, are nobody's."""
    hold(claim, start, end)
    hold(claim, start, end, driver="dra.net", product="ConnectX-7", device="nic")
    hold(claim, start, end, driver="compute-domain.nvidia.com", product="channel-0", memory_bytes=None)


def euros(exact: dict[str, int]) -> Decimal:
    return Decimal(exact.get("EUR", 0)) / CURRENCY_UNIT


def spans_of_the_table_are_held(case):
    """The table itself: each case has money in a month, and every claim holds what it says."""
    assert any(case.cost(month.span) for month in case.months)
    held = {(row.started_at, row.ended_at) for row in Allocation.objects.all()}
    assert held == set(case.spans)


def team_and_its_claims_have_spent_what_they_held(case, vision):
    card = RateCard.load()
    for month in case.months:
        expected = case.cost(month.span)
        asked = Month.of(month.first)
        assert report(vision, asked, now=case.now).total.amounts.get("EUR", 0) == expected
        assert euros(team_month(vision, asked, card, now=case.now).whole.cost.exact) == expected
        costs = team_costs(vision, month.span, card, now=case.now)
        assert sum(euros(cost.exact) for cost in costs.values()) == expected
    life = case.cost(Interval(at("2020-01-01"), case.now))
    claims = Claim.objects.filter(team=vision)
    assert (
        sum(
            euros(claim_cost(claim, claim_allocations(claim), card, now=case.now).so_far.exact)
            for claim in claims
        )
        == life
    )


def focus_of_a_month_has_its_days_alone(case):
    column = list(COLUMNS).index
    for month in case.months:
        rows = list(focus_rows(month, now=case.now))
        billed = sum((Decimal(row[column("BilledCost")]) for row in rows), Decimal(0))
        assert billed == case.cost(month.span)
        days = {row[column("ChargePeriodStart")][:10] for row in rows}
        assert days <= {day.isoformat() for day in month.days}
        keys = [(row[column("ResourceId")], row[column("ChargePeriodStart")]) for row in rows]
        assert len(keys) == len(set(keys))


def fleet_report_has_billed_the_stored_days(case):
    """It ends with the last day that is over."""
    for month in case.months:
        until = max(month.first, min(month.end, case.now.date()))
        period = Period(month.first, until)
        if not period.days:
            continue
        parts = fleet_report(period, GroupBy.TEAM, now=case.now).parts
        stored = min(until, (case.stored or at("2020-01-01")).date())
        if parts.billed.exact or stored >= until:
            assert euros(parts.billed.exact) == case.cost(Period(month.first, stored).span)


def opencost_windows_are_what_was_held_in_them(case, window):
    span = parse_window(window, now=case.now)
    days = -((span.start - span.end) // DAY)
    sets = allocation_sets(AllocationQuery(span, ("cluster",), days), now=case.now)
    spent = sum(Decimal(str(one["totalCost"])) for found in sets for one in found.values())
    assert spent == case.cost(span)


def budget_of_the_month_has_what_it_held(case, vision):
    month = case.months[0]
    budget = make_budget(vision, Decimal(100_000))
    expected = case.cost(month.span)
    assert (budget.use.first, budget.use.used_amount) == (month.first, expected)
    assert budget.use.ends_at == at(month.end.isoformat())
    assert [use.used_amount for use in current_uses(vision)] == [expected]


def used_up_budget_makes_claims_reclaimable_until_its_period_ends(case, vision, fra):
    TeamNamespace.objects.get_or_create(team=vision, cluster=fra, defaults={"namespace": "vision"})
    month = case.months[0]
    budget = make_budget(vision, Decimal("0.01"), at_limit=AtLimit.RECLAIM, title="small")
    used_up = case.cost(month.span) > 0
    assert reclaimable_namespaces(fra) == (["vision"] if used_up else [])
    assert not used_up or list(short_budgets(case.now)) == []  # it has run out already
    end = at(month.end.isoformat())
    for now, is_over in ((end - timedelta.resolution, False), (end, True), (end + HOUR / 2, True)):
        with time_machine.travel(now, tick=False):
            assert reclaimable_namespaces(fra) == (["vision"] if used_up and not is_over else [])
            assert not is_over or list(short_budgets(now)) == []
    with time_machine.travel(end + HOUR / 2, tick=False):
        refresh_current(end + HOUR / 2)
        budget.use.refresh_from_db()
        still_held = any(last is None for _start, last in case.spans)
        assert budget.use.first == month.end
        assert budget.use.used_amount == (1 if still_held else 0) * len(
            [last for _start, last in case.spans if last is None]
        )


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_money_at_a_time_of_the_table(case, vision, fra):
    """One test for all: what a case needs is made once."""
    spans_of_the_table_are_held(case)
    team_and_its_claims_have_spent_what_they_held(case, vision)
    focus_of_a_month_has_its_days_alone(case)
    fleet_report_has_billed_the_stored_days(case)
    for window in ("today", "yesterday", "7d", "month", "lastmonth", "24h", "90m"):
        opencost_windows_are_what_was_held_in_them(case, window)
    budget_of_the_month_has_what_it_held(case, vision)
    used_up_budget_makes_claims_reclaimable_until_its_period_ends(case, vision, fra)
