"""Costs in the shape of OpenCost: the report's cents, OpenCost's names, and what cannot be asked."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.models import Allocation
from inventory.models import FleetSpan
from tests.factories import make_claim, make_cluster, make_team, make_user
from tests.usage.conftest import H100, NOON, hold, measure, price
from usage import opencost
from usage.closing import close_month
from usage.cost import CURRENCY_UNIT, Interval
from usage.daily import forget_from, store_days
from usage.fleet_report import GroupBy, Period, fleet_report, month_of
from usage.focus import COLUMNS, focus_rows
from usage.opencost import parse_window
from usage.reports import Month, report

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC)
NOVEMBER = Period(date(2026, 11, 1), date(2026, 11, 17))
URL = "/api/v1/costs/allocation/"


@pytest.fixture
def ask(client, root):
    def get(**query: str) -> Any:
        client.force_login(root)  # some tests go on a day later, when the session is over
        answer = client.get(URL, query)
        assert answer.status_code == 200, answer.json()
        assert answer.json()["code"] == 200
        return answer.json()["data"]

    return get


def cents(value: float) -> Decimal:
    return Decimal(repr(value)).quantize(Decimal("0.01"))


def test_one_claim_has_the_names_and_units_of_opencost(claim, ask):
    price("2.5")
    held = hold(claim, MIDNIGHT + 2 * HOUR, MIDNIGHT + 14 * HOUR, fraction=Decimal("0.5"))
    measure(held, MIDNIGHT + 2 * HOUR, [0.2, 0.6])
    store_days(now=NOON)
    [found] = ask(window="yesterday")
    [(name, one)] = found.items()
    assert name == one["name"] == "fra-1/vision/resourceclaim:sam2-finetune"
    assert one["properties"] == {
        "cluster": "fra-1", "namespace": "vision", "controllerKind": "resourceclaim",
        "controller": "sam2-finetune",
    }  # fmt: skip
    assert (one["start"], one["end"]) == ("2026-11-16T00:00:00Z", "2026-11-17T00:00:00Z")
    assert one["window"] == {"start": one["start"], "end": one["end"]}
    assert (one["minutes"], one["gpuHours"], one["gpuCount"]) == (1440, 6, 0.25)
    assert (one["gpuCost"], one["totalCost"], one["gpuCostAdjustment"]) == (15, 15, 0)
    assert (one["gpuEfficiency"], one["totalEfficiency"]) == (0.4, 0.4)
    assert one["gpuAllocation"]["gpuModel"] == H100
    assert (one["cpuCost"], one["ramCost"], one["cpuCoreHours"]) == (0, 0, None)


def test_every_grouping_has_the_cents_of_the_report(claim, vision, alice, root, ask):
    chance = Random(7)
    price("2.4999")
    nlp = make_team("nlp", members=(make_user("nina"),))
    osl = make_cluster("osl-1", teams=(nlp, vision))
    claims = [claim, *(make_claim(team, by=alice, cluster=osl, held=False) for team in (nlp, vision, nlp))]
    for number in range(40):
        start = MIDNIGHT - chance.randrange(12) * DAY + chance.randrange(86_400) * timedelta(seconds=1)
        end = min(start + chance.randrange(1, 200_000) * timedelta(seconds=1), MIDNIGHT + DAY)
        hold(claims[number % 4], start, end, fraction=chance.choice([Decimal(1), Decimal("0.142857")]))
    store_days(now=NOON)
    parts = fleet_report(NOVEMBER, GroupBy.TEAM, now=NOON).parts
    expected = Decimal(parts.billed.exact["EUR"]) / CURRENCY_UNIT
    for aggregate in ("", *opencost.AGGREGATES, "cluster,label:team"):
        for step in ("", "1d", "5d"):
            sets = ask(window="month", aggregate=aggregate, step=step)
            assert sum(cents(one["totalCost"]) for found in sets for one in found.values()) == expected
    [by_team] = ask(window="month", aggregate="label:team")
    month = Month.current(NOON)
    for team in (vision, nlp):
        amounts = report(team, month, now=MIDNIGHT + DAY).total.amounts
        assert cents(by_team[team.slug]["gpuCost"]) == amounts["EUR"]


def test_correction_of_a_closed_month_is_an_adjustment(claim, root, ask):
    price("2")
    october = datetime(2026, 10, 20, tzinfo=UTC)
    held = hold(claim, october, october + 10 * HOUR)
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR)
    store_days(now=NOON)
    close_month(by=root, month=Month.of(october.date()))
    Allocation.objects.filter(pk=held.pk).update(ended_at=october + 7 * HOUR)
    forget_from(october, now=NOON)
    store_days(now=NOON)
    with time_machine.travel(NOON + DAY, tick=False):  # it is booked today, which is stored tomorrow
        store_days(now=NOON + DAY)
        [found] = ask(window="month", aggregate="namespace")
    one = found["vision"]
    assert (one["gpuCost"], one["gpuCostAdjustment"], one["totalCost"]) == (2, -6, -4)
    [before] = ask(window="lastmonth", aggregate="namespace")
    assert before["vision"]["totalCost"] == 20


def test_hours_without_a_rate_have_no_cost_and_never_zero(claim, ask):
    hold(claim, MIDNIGHT, MIDNIGHT + 3 * HOUR)
    store_days(now=NOON)
    [found] = ask(window="2d", aggregate="cluster")
    one = found["fra-1"]
    assert (one["gpuCost"], one["totalCost"], one["x_hoursWithoutRate"]) == (None, None, 3)
    assert one["gpuEfficiency"] is None


def test_another_currency_is_not_added(claim, ask):
    price("2", product="H100")
    price("3", product="L4", currency="USD")
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR)
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR, product="NVIDIA L4")
    store_days(now=NOON)
    [found] = ask(window="2d", aggregate="cluster")
    assert (found["fra-1"]["gpuCost"], found["fra-1"]["gpuHours"]) == (2, 2)
    assert found["fra-1"]["x_amounts"] == {"EUR": "2.00", "USD": "3.00"}


def test_idle_is_what_the_fleet_costs_beside_claims(claim, fra, ask):
    price("2")
    hold(claim, MIDNIGHT, MIDNIGHT + 4 * HOUR)
    for use, parts in ((FleetSpan.Use.AVAILABLE, 10**6), (FleetSpan.Use.UNMANAGED, 5 * 10**5)):
        FleetSpan.objects.create(
            cluster=fra, driver="gpu.nvidia.com", product=H100, use=use, parts=parts, started_at=MIDNIGHT
        )
    store_days(now=NOON)
    [found] = ask(window="yesterday", aggregate="cluster", includeIdle="true")
    costs = {name: one["totalCost"] for name, one in found.items()}
    assert costs == {"fra-1": 8, "__idle__": 40, "__unallocated__": 24}
    assert "__idle__" not in ask(window="yesterday", aggregate="cluster")[0]


def test_steps_cut_the_window_and_accumulate_does_not(claim, ask):
    price("1")
    hold(claim, MIDNIGHT - 3 * DAY, MIDNIGHT + DAY)
    store_days(now=NOON)
    window = "2026-11-13T00:00:00Z,2026-11-17T00:00:00Z"
    for step, numbers in (("1d", [24] * 4), ("3d", [72, 24]), ("24h", [24] * 4), ("", [96])):
        sets = ask(window=window, aggregate="cluster", step=step)
        assert [found["fra-1"]["gpuHours"] for found in sets] == numbers
    assert len(ask(window=window, step="1d", accumulate="true")) == 1
    assert ask(aggregate="cluster") == ask(aggregate="cluster", window="7d")


@pytest.mark.parametrize(
    ("text", "first", "end"),
    [
        ("today", (11, 17), (11, 18)),
        ("yesterday", (11, 16), (11, 17)),
        ("week", (11, 15), (11, 18)),
        ("lastweek", (11, 8), (11, 15)),
        ("month", (11, 1), (11, 18)),
        ("lastmonth", (10, 1), (11, 1)),
        ("7d", (11, 11), (11, 18)),
        ("1w", (11, 11), (11, 18)),
        ("2026-11-01T00:00:00Z,2026-11-03T00:00:00Z", (11, 1), (11, 3)),
        ("2026-11-01,2026-11-03", (11, 1), (11, 3)),
        ("2026-11-01T01:00:00+01:00,2026-11-03T00:00:00Z", (11, 1), (11, 3)),
        ("2026-11-01T01:00:00 01:00,2026-11-03T00:00:00Z", (11, 1), (11, 3)),  # a plus that nobody escaped
        ("1793491200,1793664000", (11, 1), (11, 3)),
    ],
)
def test_windows_are_those_of_opencost(text, first, end):
    assert parse_window(text, now=NOON) == Period(date(2026, *first), date(2026, *end)).span


@pytest.mark.parametrize("hour", [0, 23])
def test_weeks_and_months_adjoin_on_every_day(hour):
    for number in range(40):
        now = datetime(2026, 10, 25, hour, 59, tzinfo=UTC) + number * DAY
        spans = {
            word: parse_window(word, now=now)
            for word in ("week", "lastweek", "month", "lastmonth", "today", "yesterday")
        }
        today = spans["today"]
        assert today.start <= now < today.end == today.start + DAY
        week, month = spans["week"], spans["month"]
        assert (week.start.isoweekday(), month.start.day) == (7, 1)
        assert week.end == month.end == today.end
        assert today.start - week.start < 7 * DAY
        assert (month.start.year, month.start.month) == (now.year, now.month)
        for last, this in (("lastweek", week), ("lastmonth", month), ("yesterday", today)):
            assert spans[last].end == this.start
        assert week.start - spans["lastweek"].start == 7 * DAY
        assert spans["lastmonth"].start.day == 1


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("24h", NOON - DAY, NOON),
        ("25h", NOON - 25 * HOUR, NOON),
        ("30m", NOON - HOUR / 2, NOON),
        ("2026-11-15T12:00:00Z,2026-11-17T00:00:00Z", NOON - 2 * DAY, MIDNIGHT + DAY),
    ],
)
def test_window_of_hours_is_computed_from_allocations(claim, ask, text, start, end):
    price("2.5")
    hold(claim, MIDNIGHT - 9 * DAY, NOON - 10 * timedelta(minutes=1))
    store_days(now=NOON)
    assert parse_window(text, now=NOON) == Interval(start, end)
    [found] = ask(window=text, resolution="1m", shareIdle="false", filter="")
    [one] = found.values()
    held = min(end, NOON - 10 * timedelta(minutes=1)) - start
    assert one["gpuHours"] == pytest.approx(held / HOUR, abs=1e-5)
    assert cents(one["gpuCost"]) == round(Decimal("2.5") * Decimal(str(one["gpuHours"])), 2)
    assert one["minutes"] == (end - start) / timedelta(minutes=1)


@pytest.mark.parametrize("stored", [True, False])
def test_days_until_now_are_the_bills_of_all_of_them(claim, ask, stored):
    """Also early in the day, as long as the day before is not stored."""
    price("1")
    hold(claim, MIDNIGHT - 30 * DAY, None)
    if stored:
        store_days(now=NOON)
    [found] = ask(aggregate="cluster")
    assert (found["fra-1"]["gpuHours"], found["fra-1"]["minutes"]) == (156, 6.5 * 24 * 60)
    assert found["fra-1"]["gpuCount"] == 1
    sets = ask(aggregate="cluster", accumulate="day")
    assert [of_day["fra-1"]["gpuHours"] for of_day in sets] == [24] * 6 + [12]
    at = list(COLUMNS).index
    rows = focus_rows(month_of(NOON.date()), now=NOON)
    billed = sum(
        Decimal(row[at("BilledCost")]) for row in rows if row[at("ChargePeriodStart")] >= "2026-11-11"
    )
    assert billed == cents(found["fra-1"]["gpuCost"]) == 156


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ({"window": ""}, "A window is one of"),
        ({"window": "soon"}, "A window is one of"),
        ({"window": "400d"}, "A window is one of"),
        ({"window": "2026-11-01T12:00:00Z,2026-11-13T00:00:00Z"}, "begins and ends at 00:00 UTC"),
        ({"window": "169h"}, "Ask for days, such as 30d"),
        ({"window": "24h", "includeIdle": "true"}, "ask for days, such as 7d"),
        ({"window": "2026-11-03,2026-11-01"}, "at most 366 days"),
        ({"window": "2026-13-03,x"}, "is not a time"),
        ({"window": "9999-12-31,9999-12-31"}, "no costs in the year 9999"),
        ({"window": "7d", "aggregate": "pod"}, "Aggregate by cluster, namespace"),
        ({"window": "7d", "step": "1m"}, "A step is a number of days"),
        ({"window": "7d", "includeIdle": "maybe"}, "true or false"),
        ({"window": "7d", "filter": 'namespace:"x"'}, "filter is not supported"),
        ({"window": "7d", "shareIdle": "true"}, "shareIdle is not supported"),
        ({"window": "7d", "aggregate": "node"}, "a claim is charged, not its pods"),
        ({"window": "7d", "accumulate": "week"}, "true or false"),
        ({"window": "7d", "colour": "x"}, "Unknown parameter colour"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_a_sentence(client, root, query, message):
    client.force_login(root)
    answer = client.get(URL, query)
    assert answer.status_code == 422
    assert message in answer.json()["detail"] or message in str(answer.json())


def test_too_many_allocations_are_refused(claim, client, root, monkeypatch):
    hold(claim, MIDNIGHT - DAY, MIDNIGHT + DAY)
    store_days(now=NOON)
    monkeypatch.setattr(opencost, "MOST", 1)
    client.force_login(root)
    assert client.get(URL, {"window": "7d"}).status_code == 200
    answer = client.get(URL, {"window": "7d", "step": "1d"})
    assert answer.status_code == 422
    assert "These are more than 1 allocations" in str(answer.json())


def test_it_is_for_platform_admins(client, alice):
    client.force_login(alice)
    assert client.get(URL, {"window": "7d"}).status_code == 403


def test_queries_do_not_grow_with_claims(claim, vision, alice, fra, ask):
    def queries():
        with CaptureQueriesContext(connection) as captured:
            ask(window="month", aggregate="namespace", step="1d")
        return len(captured)

    hold(claim, MIDNIGHT - DAY, MIDNIGHT)
    store_days(now=NOON)
    queries()
    before = queries()
    for number in range(10):
        more = make_claim(vision, by=alice, cluster=fra, held=False, name=f"more-{number}")
        hold(more, MIDNIGHT - 5 * DAY, MIDNIGHT)
    forget_from(MIDNIGHT - 5 * DAY, now=NOON)
    store_days(now=NOON)
    assert queries() == before


def test_today_is_computed_from_allocations_until_now(claim, vision, ask):
    price("2.5")
    hold(claim, MIDNIGHT, None)  # since yesterday
    store_days(now=NOON)
    [found] = ask(window="today")
    [one] = found.values()
    assert (one["name"], one["minutes"]) == ("fra-1/vision/resourceclaim:sam2-finetune", 720)
    assert (one["start"], one["end"]) == ("2026-11-17T00:00:00Z", "2026-11-17T12:00:00Z")
    assert (one["gpuHours"], one["gpuCost"], one["gpuCount"], one["gpuEfficiency"]) == (12, 30, 1, None)
    at = list(COLUMNS).index
    rows = focus_rows(month_of(NOON.date()), now=NOON)
    focus = [row for row in rows if row[at("ChargePeriodStart")] == "2026-11-17T00:00:00Z"]
    assert sum(Decimal(row[at("BilledCost")]) for row in focus) == cents(one["gpuCost"])


@pytest.mark.parametrize("aggregate", opencost.AGGREGATES)
def test_names_of_today_are_those_of_stored_days(claim, ask, aggregate):
    hold(claim, MIDNIGHT, None, capacity_type="spot")
    store_days(now=NOON)
    [stored], [today] = ask(window="yesterday", aggregate=aggregate), ask(window="today", aggregate=aggregate)
    assert list(today) == list(stored)
    assert [one["properties"] for one in today.values()] == [one["properties"] for one in stored.values()]


def test_today_at_midnight_has_nothing_yet(claim, ask):
    hold(claim, MIDNIGHT, None)
    with time_machine.travel(MIDNIGHT + DAY, tick=False):
        assert ask(window="today") == [{}]
