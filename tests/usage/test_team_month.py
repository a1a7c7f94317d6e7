"""The month of a team: every grouping adds up to what it is billed, on stored days, today and corrections."""

from datetime import date, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.states import ClaimState
from tests.factories import make_claim, make_profile
from tests.usage.conftest import NOON, hold, measure, price
from usage import team_month as module
from usage.cost import CURRENCY_UNIT, Cost
from usage.daily import forget_from, store_days
from usage.models import StoredDays
from usage.month_spend import month_spend
from usage.rates import RateCard
from usage.reports import Month, report
from usage.spend_chart import Forecast, spend_data
from usage.team_month import team_month

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOVEMBER = Month(date(2026, 11, 1))


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOON, tick=False):
        yield


def month(team, which=NOVEMBER, now=NOON):
    return team_month(team, which, RateCard.load(), now=now)


@pytest.fixture
def used(claim, vision, lena, fra):
    """Two claims of two people: one measured half busy and held today, one without telemetry that is over."""
    price("2")
    price("1", product="L4")
    held = hold(claim, NOON - 2 * DAY)
    measure(held, held.started_at, [0.5] * 144)  # the half of that day
    other = make_claim(vision, by=lena, cluster=fra, state=ClaimState.RELEASED, held=False)
    hold(other, NOON - 3 * DAY, NOON - 3 * DAY + 6 * HOUR, product="NVIDIA L4")
    store_days(now=NOON)
    return other


def test_days_are_used_idle_or_without_telemetry_and_today_is_whole(used, vision):
    found = month(vision)
    days = {day.day: part for day, part in found.days}
    assert list(days) == [14, 15, 16, 17]
    assert days[14].parts.no_telemetry.amounts == {"EUR": Decimal("6.00")}
    assert days[15].parts.used.amounts == days[15].parts.idle.amounts == {"EUR": Decimal("12.00")}
    assert days[16].parts.no_telemetry.amounts == {"EUR": Decimal("48.00")}
    assert (days[17].rest.amounts, days[17].parts.allocated) == ({"EUR": Decimal("24.00")}, Cost())
    assert found.whole.parts.utilization == 0.5


def test_every_grouping_adds_up_to_the_report_of_the_month(used, vision, alice):
    found, billed = month(vision), report(vision, NOVEMBER, now=NOON)
    assert found.whole.cost == billed.total
    for name, rows in found.groups.items():
        total = module.total(part.cost for part in rows)
        assert total == billed.total, name
    assert [(row.label, row.cost) for row in found.groups["claim"]] == [
        (row.label, row.cost) for row in billed.by_claim
    ]
    assert [(row.label, row.claims) for row in found.groups["person"]] == [("alice", 1), ("lena", 1)]
    assert [row.label for row in found.groups["product"]] == ["NVIDIA H100 80GB HBM3", "NVIDIA L4"]
    assert found.whole.claims == 2


def test_a_claim_that_begins_today_counts_once_with_its_owner_and_profile(used, vision, lena, fra):
    profile = make_profile("fresh")
    new = make_claim(
        vision, by=lena, cluster=fra, state=ClaimState.ALLOCATED, held=False, profile=profile, name="new"
    )
    hold(new, NOON - 2 * HOUR)
    hold(new, NOON - 2 * HOUR)
    found = month(vision)
    person = next(row for row in found.groups["person"] if row.label == "lena")
    assert (person.claims, person.rest.amounts) == (2, {"EUR": Decimal("8.00")})
    assert [(row.label, row.claims) for row in found.groups["profile"] if row.label == profile.title]
    assert "new" in [row.label for row in found.groups["claim"]]
    assert found.whole.cost == report(vision, NOVEMBER, now=NOON).total


def test_the_days_before_are_as_many_as_are_stored(used, claim, vision):
    hold(claim, NOON - 40 * DAY, NOON - 39 * DAY)  # 8 to 9 October
    hold(claim, NOON - 29 * DAY, NOON - 28 * DAY)  # 19 to 20 October: not among its first 16 days
    StoredDays.objects.all().delete()
    store_days(now=NOON)
    found = month(vision)
    assert found.stored_days == 16
    assert found.before.amounts == {"EUR": Decimal("48.00")}


def test_the_run_rate_is_the_mean_of_the_last_seven_stored_days(used, vision):
    # 6 + 24 + 48 on 10 to 16 November
    rate = month(vision).rate
    assert round(rate.exact["EUR"] / CURRENCY_UNIT, 4) == round(78 / (7 * 24), 4)
    assert month(vision, Month(date(2026, 12, 1))).rate is None


def test_a_past_month_has_no_today(used, vision):
    later = NOON + 20 * DAY
    with time_machine.travel(later, tick=False):
        store_days(now=later)
        found = month(vision, now=later)
    assert not found.is_running
    assert found.whole.rest == Cost()
    assert found.whole.cost == report(vision, NOVEMBER, now=later).total


def test_days_that_wait_to_be_stored_have_bars_of_their_own(used, vision, alice):
    forget_from(NOON - 2 * DAY, now=NOON)
    expected = {14: 6, 15: 24, 16: 48, 17: 24}
    found = month(vision)
    assert {day.day: part.cost.amounts["EUR"] for day, part in found.days} == expected
    assert found.whole.rest.amounts == {"EUR": 96}
    spent = month_spend(vision, alice, RateCard.load(), now=NOON)
    assert {day.day: cost.amounts["EUR"] for day, cost in spent.days} == expected


def test_the_last_day_of_a_month_is_in_its_graph_before_it_is_stored(used, vision):
    midnight = NOVEMBER.next.start
    store_days(now=midnight + timedelta(minutes=30))
    found = month(vision, now=midnight + timedelta(minutes=30))
    assert found.days[-1][0] == date(2026, 11, 30)
    assert found.days[-1][1].rest.amounts == {"EUR": Decimal("48.00")}
    days = [(day, part.cost) for day, part in found.days]
    drawn = spend_data(days, NOVEMBER, found.until, Forecast(None), "EUR")
    assert drawn["spend"][0]["values"][-1] == float(found.whole.cost.amounts["EUR"])


def test_unpriced_hours_are_in_no_amount(claim, vision):
    hold(claim, NOON - 2 * DAY)
    store_days(now=NOON)
    cost = month(vision).whole.cost
    assert (cost.is_unknown, cost.hours, cost.unpriced) == (True, Decimal("48.00"), Decimal("48.00"))


def test_an_empty_month_has_no_row(vision):
    found = month(vision)
    assert (found.days, found.whole.cost, found.rate) == ([], Cost(), None)


def test_the_queries_are_the_same_for_one_claim_and_for_many(used, vision, alice, fra):
    def queries() -> int:
        with CaptureQueriesContext(connection) as context:
            month(vision)
        return len(context)

    month(vision)
    few = queries()
    for _ in range(6):
        more = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
        hold(more, NOON - HOUR)
    assert queries() == few <= 7  # of these one for the rates
