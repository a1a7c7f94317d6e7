"""The report of the fleet: what was used, idle and unallocated adds up to all GPUs of all days."""

import csv
import math
import random
from collections import defaultdict
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.models import Allocation
from inventory.models import FleetSpan
from tests.factories import make_claim, make_cluster, make_profile, make_team, make_user
from tests.recomputed import failed_check, recompute
from tests.usage.conftest import H100, NOON, hold, measure, price
from usage.cost import CENT, DEVICE_HOUR, Cost, Interval, UsageInterval
from usage.daily import forget_from, midnight, store_days
from usage.fleet_report import (
    FleetParts,
    GroupBy,
    HeldParts,
    Period,
    fleet_days,
    fleet_report,
    month_of,
    rest,
)
from usage.models import Correction, DailySum, Rate, Rollup
from usage.rates import PriceGroup, RateCard
from usage.templatetags.report import share_of, utilization_bar

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
MIDNIGHT = datetime(2026, 11, 16, tzinfo=UTC)  # the begin of the last stored day
WEEK = Period(date(2026, 11, 10), date(2026, 11, 17))
URL = "/report/"
GPU = 10**6
PARTS = ("used", "idle", "no_telemetry", "unmanaged", "out_of_service", "unallocated")


def had(
    cluster, gpus, start, end=None, *, use=FleetSpan.Use.AVAILABLE, product=H100, driver="gpu.nvidia.com"
):
    return FleetSpan.objects.create(
        cluster=cluster, driver=driver, product=product, use=use, parts=int(gpus * GPU), started_at=start,
        ended_at=end,
    )  # fmt: skip


def stored(period=WEEK, group_by=GroupBy.TEAM):
    """Return the report; the days that Home shows have the same parts."""
    store_days(now=NOON)
    report = fleet_report(period, group_by, now=NOON)
    by_day = fleet_days(report.period)
    for day, parts in report.by_day:
        for name in PARTS:
            one, other = getattr(parts, name), getattr(by_day.get(day, FleetParts()), name)
            assert (one.held, one.unpriced) == (other.held, other.unpriced), name
            for currency in one.exact.keys() | other.exact.keys():
                assert one.amounts.get(currency, 0) == other.amounts.get(currency, 0), name
    return report


def in_hours(report):
    return {name: float(getattr(report.parts, name).hours) for name in PARTS}


def in_money(report):
    return {name: getattr(report.parts, name).amounts.get("EUR") for name in PARTS}


def test_held_gpu_is_used_as_far_as_it_computed_and_the_rest_of_the_fleet_is_unallocated(claim, fra):
    price("2")
    had(fra, 3, MIDNIGHT - 2 * DAY)
    held = hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR)
    measure(held, MIDNIGHT, [0.25] * 120)
    report = stored()
    assert in_hours(report) == {
        "used": 2.5, "idle": 7.5, "no_telemetry": 0, "unmanaged": 0, "out_of_service": 0,
        "unallocated": 3 * 24 * 3 - 10,
    }  # fmt: skip
    assert in_money(report)["used"] == Decimal("5.00")
    assert in_money(report)["idle"] == Decimal("15.00")
    assert in_money(report)["unallocated"] == Decimal(2 * (3 * 24 * 3 - 10))
    assert report.parts.fleet.hours == 3 * 24 * 3
    assert report.parts.utilization == pytest.approx(0.25)


def test_a_gap_of_telemetry_is_neither_used_nor_idle(claim, fra):
    price("2")
    held = hold(claim, MIDNIGHT, MIDNIGHT + DAY)
    measure(held, MIDNIGHT, [0.0] * 2)
    hold(claim, MIDNIGHT - DAY, MIDNIGHT)
    report = stored()
    assert in_money(report)["idle"] == Decimal("0.33")
    assert in_money(report)["no_telemetry"] == Decimal("95.67")
    assert in_hours(report)["idle"] == 0.17
    assert in_hours(report)["no_telemetry"] == 47.83


def test_each_kind_of_device_is_used_as_far_as_it_computed(claim, fra):
    price("7", product="H100")
    price("1", product="L4")
    for product, activity in ((H100, 0.0), ("NVIDIA L4", 1.0)):
        held = hold(claim, MIDNIGHT, MIDNIGHT + DAY, product=product)
        measure(held, MIDNIGHT, [activity] * 288)
    report = stored()
    assert in_money(report)["used"] == 24
    assert in_money(report)["idle"] == 168


def test_a_device_without_telemetry_beside_one_with_it_is_neither_used_nor_idle(claim, fra):
    price("2")
    measure(hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR), MIDNIGHT, [0.25] * 120)
    hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR)
    report = stored()
    assert in_money(report)["used"] == 5
    assert in_money(report)["idle"] == 15
    assert in_money(report)["no_telemetry"] == 20


def test_a_day_without_telemetry_is_neither_used_nor_idle(claim, fra):
    price("2")
    had(fra, 1, MIDNIGHT)
    hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR)
    report = stored()
    assert in_hours(report)["no_telemetry"] == 10
    assert (in_hours(report)["used"], in_hours(report)["idle"], report.parts.utilization) == (0, 0, None)


def test_unmanaged_and_out_of_service_have_hours_and_money(claim, fra):
    price("2")
    hold(claim, MIDNIGHT - DAY, MIDNIGHT - DAY + HOUR)
    had(fra, 1, MIDNIGHT, MIDNIGHT + 6 * HOUR, use=FleetSpan.Use.OUT_OF_SERVICE)
    had(fra, 0.5, MIDNIGHT, MIDNIGHT + 6 * HOUR, use=FleetSpan.Use.UNMANAGED)
    report = stored()
    assert (in_hours(report)["out_of_service"], in_hours(report)["unmanaged"]) == (6, 3)
    assert (in_money(report)["out_of_service"], in_money(report)["unmanaged"]) == (12, 6)


def test_fleet_counts_what_was_held_before_its_size_was_recorded(claim, fra):
    hold(claim, MIDNIGHT - DAY, MIDNIGHT)
    had(fra, 2, MIDNIGHT)
    report = stored()
    assert report.parts.fleet.hours == 24 + 48
    assert report.known_since == MIDNIGHT
    assert [float(parts.fleet.hours) for _day, parts in report.by_day[-2:]] == [24, 48]


def test_hours_without_a_rate_are_in_the_hours_and_in_no_amount(claim, fra):
    had(fra, 1, MIDNIGHT)
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR)
    report = stored()
    assert (report.parts.fleet.hours, report.parts.fleet.unpriced, report.parts.fleet.amounts) == (24, 24, {})


def test_new_rate_prices_the_day_from_its_begin_on(claim, fra):
    price("1")
    price("3", since=MIDNIGHT + 12 * HOUR)
    had(fra, 1, MIDNIGHT)
    hold(claim, MIDNIGHT + 10 * HOUR, MIDNIGHT + 14 * HOUR)
    report = stored()
    assert report.parts.allocated.amounts == {"EUR": Decimal(2 + 6)}
    assert report.parts.unallocated.amounts == {"EUR": Decimal(10 + 30)}


@pytest.mark.parametrize("group_by", GroupBy)
def test_rows_add_up_to_what_was_allocated(claim, fra, vision, alice, group_by):
    price("2")
    had(fra, 8, MIDNIGHT - 3 * DAY)
    nlp = make_team("nlp", members=(make_user("nina"),))
    other = make_claim(
        nlp, by=make_user("olaf"), cluster=make_cluster("osl-1", teams=(nlp,)), held=False,
        profile=make_profile("l4"),
    )  # fmt: skip
    held = hold(claim, MIDNIGHT, MIDNIGHT + 6 * HOUR, capacity_type="spot")
    measure(held, MIDNIGHT, [0.5] * 72)
    hold(other, MIDNIGHT - DAY, MIDNIGHT + 3 * HOUR, product="NVIDIA L4")
    report = stored(group_by=group_by)
    assert len(report.rows) == 2
    assert sum((row.cost.hours for row in report.rows), Decimal(0)) == report.parts.allocated.hours == 6 + 27
    assert sum(row.parts.used.held for row in report.rows) == report.parts.used.held == 3 * DEVICE_HOUR
    labels = {
        GroupBy.TEAM: {vision.title, nlp.title},
        GroupBy.PERSON: {alice.label, "olaf"},
        GroupBy.MODEL: {H100, "NVIDIA L4"},
        GroupBy.CLUSTER: {"fra-1", "osl-1"},
        GroupBy.CAPACITY: {"Spot", "Unknown"},
    }
    if group_by in labels:
        assert {row.label for row in report.rows} == labels[group_by]


@pytest.mark.parametrize("group_by", [GroupBy.TEAM, GroupBy.PERSON, GroupBy.PROFILE])
def test_page_shows_the_rows_with_the_highest_cost(client, root, fra, monkeypatch, group_by):
    price("2")
    for number in range(5):
        person, team = make_user(f"person-{number}"), make_team(f"team-{number}")
        one = make_claim(team, by=person, cluster=fra, held=False, profile=make_profile(f"profile-{number}"))
        hold(one, MIDNIGHT, MIDNIGHT + (number + 1) * HOUR)
        hold(one, MIDNIGHT - 7 * DAY, MIDNIGHT - 7 * DAY + HOUR)
    store_days(now=NOON)
    whole, first = (fleet_report(WEEK, group_by, now=NOON, most=most) for most in (None, 2))
    assert len(whole.rows) == whole.row_count == first.row_count == 5
    assert first.rows == whole.rows[:2]
    assert [row.cost.hours for row in first.rows] == [5, 4]
    assert first.parts == whole.parts
    monkeypatch.setattr("usage.fleet_views.SHOWN", 2)
    client.force_login(root)
    text = client.get(f"{URL}?range=7d&by={group_by}").content.decode()
    assert "The 2 with the highest cost of 5." in text
    assert len(client.get(f"{URL}?range=7d&by={group_by}&format=csv").getvalue().splitlines()) == 1 + 5 + 3


def test_row_says_what_the_period_before_had(claim, fra):
    price("2")
    hold(claim, MIDNIGHT - 7 * DAY, MIDNIGHT - 7 * DAY + 4 * HOUR)
    hold(claim, MIDNIGHT, MIDNIGHT + 5 * HOUR)
    [row] = stored().rows
    assert (row.cost.hours, row.before.hours) == (5, 4)


@pytest.mark.parametrize(
    ("wrong", "altered"),  # with the sum of the month, if it is of this value
    [({"held": 1}, 2), ({"amount_used": 5}, 2), ({"held_measured": 10**18}, 1)],
)
def test_wrong_sum_is_reported_and_repaired(claim, fra, wrong, altered):
    price("2")
    measure(hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR), MIDNIGHT, [0.25] * 120)
    expected = stored().parts
    DailySum.objects.filter(dimension="team").update(**wrong)
    DailySum.objects.filter(dimension="kind").delete()
    assert failed_check("spend").endswith(f"rows to repair: 1 missing, {altered} altered.\n")
    recompute("spend")
    assert "0 rows to repair" in recompute("spend", "--check")
    assert stored().parts == expected


def test_sums_of_each_dimension_add_up_to_all_claims(claim, vision, alice, fra):
    price("2")
    other = make_claim(vision, by=make_user("olaf"), cluster=fra, held=False, profile=make_profile("l4"))
    measure(hold(claim, MIDNIGHT - DAY, MIDNIGHT + 6 * HOUR), MIDNIGHT, [0.5] * 4)
    hold(other, MIDNIGHT, MIDNIGHT + 3 * HOUR, product="NVIDIA L4", fraction=Decimal("0.5"))
    stored()
    names = ("held", "held_measured", "held_used", "amount", "amount_used")
    of_dimension = {
        dimension: tuple(
            sum(getattr(row, name) for row in DailySum.objects.filter(dimension=dimension)) for name in names
        )
        for dimension in DailySum.Dimension
        if dimension != DailySum.Dimension.FLEET
    }
    assert len(set(of_dimension.values())) == 1
    assert of_dimension[DailySum.Dimension.TEAM][0] == (30 + Decimal("1.5")) * DEVICE_HOUR


def test_rest_is_never_below_zero():
    assert rest(Cost(5, 1, {"EUR": 3}), Cost(7, 0, {"EUR": 4, "USD": 1})) == Cost(0, 1, {"EUR": 0})


def test_months_are_those_of_utc():
    assert month_of(date(2026, 12, 31)) == Period(date(2026, 12, 1), date(2027, 1, 1))
    assert month_of(date(2028, 2, 29)).days[-1] == date(2028, 2, 29)
    assert WEEK.previous == Period(date(2026, 11, 3), date(2026, 11, 10))


@pytest.mark.parametrize("seed", range(4))
def test_parts_of_random_history_equal_a_plain_computation(fra, vision, alice, seed):
    chance = random.Random(seed)
    products = (H100, "NVIDIA L4", "AMD Instinct MI300X")
    price("2.4999", product="H100")
    price("0.7001", product="L4")
    price("3.3333", product="H100", since=WEEK.span.start + 50 * HOUR + timedelta(minutes=7))
    clusters = [fra, make_cluster("osl-1", teams=(vision,))]
    claims = [make_claim(vision, by=alice, cluster=chance.choice(clusters), held=False) for _ in range(5)]
    for cluster in clusters:
        for product in products:
            at = WEEK.span.start - chance.randrange(60) * HOUR
            while at < NOON:
                end = at + chance.randrange(1, 90) * HOUR + timedelta(minutes=chance.randrange(60))
                for use in FleetSpan.Use:
                    had(cluster, chance.choice([0.5, 20, 30]), at, end, use=use, product=product)
                at = end
    for claim in claims:
        for _ in range(4):
            start = WEEK.span.start + timedelta(minutes=chance.randrange(-2000, 9000))
            held = hold(
                claim, start, start + timedelta(minutes=chance.randrange(1, 3000)),
                product=chance.choice(products), fraction=Decimal(chance.choice(["1", "0.5", "0.142857"])),
            )  # fmt: skip
            first = start.replace(minute=0, second=0)
            measured = chance.choice([0, 6, 150])
            measure(held, first, [chance.choice([None, chance.random()]) for _ in range(measured)])
    report = stored()
    expected = plain_parts(WEEK)
    for name in PARTS:
        part = getattr(report.parts, name)
        assert part.held / DEVICE_HOUR == pytest.approx(float(expected[name][0]), abs=1e-6), name
        assert part.exact.get("EUR", 0) == expected[name][1] * CENT, name
    fleet = sum(getattr(report.parts, name).held for name in PARTS)
    assert report.parts.fleet.held == fleet
    money = sum(values[1] for values in expected.values())
    assert report.parts.fleet.amounts == {"EUR": Decimal(money) / 100}


def in_cents(value):
    return math.floor(value * 100 + Fraction(1, 2))


def plain_charges(card, interval, within):
    """Return the hours of an interval in a day by rate, as fractions."""
    start, end = max(interval.start, within.start), min(interval.end or NOON, within.end)
    return [
        (segment.rate, Fraction((segment.end - segment.start) / HOUR * interval.parts) / GPU)
        for segment in card.segments(interval.kind, start, end)
    ]


def plain_time(row, within):
    """Return the hours of an allocation in a day, those measured and those used, as fractions."""
    held = Fraction((min(row.ended_at, within.end) - max(row.started_at, within.start)) / HOUR)
    of_device = {"claim": row.claim, "driver": row.driver, "pool": row.pool, "device": row.device}
    rollups = Rollup.objects.filter(**of_device, bucket__gte=within.start, bucket__lt=within.end)
    found = [Fraction(value) for value in rollups.values_list("activity", flat=True) if value is not None]
    measured = min(held, Fraction(len(found), 12))
    used = measured * sum(found) / len(found) if found else Fraction(0)
    return [hours * Fraction(row.fraction) for hours in (held, measured, used)]


def plain_parts(period):
    """
    Compute hours and cents of the parts day by day from allocations, spans and rollups. No claim holds a
    device twice.
    """
    card, parts = RateCard.load(), {name: [0.0, 0] for name in PARTS}
    for day in period.days:
        within = Interval(midnight(day), midnight(day) + DAY)
        held: dict[Any, list[Any]] = defaultdict(lambda: [Fraction(0), 0])
        charges: dict[Any, Fraction] = defaultdict(Fraction)
        times: dict[Any, list[Fraction]] = defaultdict(lambda: [Fraction(0)] * 3)
        for row in Allocation.objects.filter(started_at__lt=within.end, ended_at__gt=within.start):
            kind = row.claim, row.product, row.partition
            interval = UsageInterval.from_allocation(row, row.claim.cluster_id)
            for rate, hours in plain_charges(card, interval, within):
                charges[kind, rate] += hours
            times[kind] = [
                sum(pair, Fraction(0)) for pair in zip(times[kind], plain_time(row, within), strict=True)
            ]
        for (kind, rate), hours in charges.items():
            claim, product, _partition = kind
            cents = in_cents(hours * Fraction(rate.per_hour)) if rate else 0
            held[claim.cluster_id, product][0] += hours
            held[claim.cluster_id, product][1] += cents
            measured, used = (time / times[kind][0] for time in times[kind][1:])
            measured_cents, used_cents = (in_cents(cents * share / 100) for share in (measured, used))
            for name, time, money in (
                ("used", used, used_cents),
                ("idle", measured - used, measured_cents - used_cents),
                ("no_telemetry", 1 - measured, cents - measured_cents),
            ):
                parts[name][0] += float(hours * time)
                parts[name][1] += money
        spans: dict[Any, Fraction] = defaultdict(Fraction)
        for span in FleetSpan.objects.all():
            group = PriceGroup(span.cluster_id, span.driver, span.product)
            whole = UsageInterval(span.cluster_id, group, "", span.parts, span.started_at, span.ended_at)
            for rate, hours in plain_charges(card, whole, within):
                spans[span.cluster_id, span.product, span.use, rate] += hours
        uses: dict[Any, dict[str, list[Any]]] = defaultdict(
            lambda: {use: [Fraction(0), 0] for use in FleetSpan.Use}
        )
        for (cluster, product, use, rate), hours in spans.items():
            uses[cluster, product][use][0] += hours
            uses[cluster, product][use][1] += in_cents(hours * Fraction(rate.per_hour)) if rate else 0
        for key, of_use in uses.items():
            for index in range(2):
                parts["unmanaged"][index] += of_use[FleetSpan.Use.UNMANAGED][index]
                parts["out_of_service"][index] += of_use[FleetSpan.Use.OUT_OF_SERVICE][index]
                parts["unallocated"][index] += max(
                    of_use[FleetSpan.Use.AVAILABLE][index] - held[key][index], 0
                )
    return parts


# The page.


def test_page_is_for_platform_admins_and_leads(client, root, vision, alice, lena, eve):
    for person, status in ((alice, 403), (lena, 200), (eve, 403), (root, 200)):
        client.force_login(person)
        assert client.get(URL).status_code == status
    client.logout()
    assert client.get(URL).status_code == 302


def test_page_without_a_stored_day_says_when_there_is_one(client, root):
    client.force_login(root)
    assert "No whole day to report yet" in client.get(URL).content.decode()


def test_page_shows_the_parts_and_the_rows(client, root, claim, fra):
    price("2")
    had(fra, 1, MIDNIGHT)
    measure(hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR), MIDNIGHT, [0.25] * 120)
    store_days(now=NOON)
    client.force_login(root)
    text = client.get(URL).content.decode()
    assert "€48.00" in text
    assert "€5.00" in text
    assert "€15.00" in text
    assert "25 %" in text
    assert "vision" in text.lower()
    assert "whole fleet, November 2026" in text
    assert "Adds up, difference 0 h and 0.00" in text


def test_page_of_many_claims_has_the_queries_of_one(client, root, claim, vision, alice, fra):
    client.force_login(root)
    had(fra, 50, MIDNIGHT)
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR)
    store_days(now=NOON)

    def queries():
        with CaptureQueriesContext(connection) as captured:
            client.get(URL)
        return len(captured)

    queries()
    few = queries()
    for number in range(20):
        team = make_team(f"team-{number}", members=(alice,))
        hold(make_claim(team, by=alice, cluster=fra, held=False), MIDNIGHT, MIDNIGHT + HOUR)
    forget_from(MIDNIGHT, now=NOON)
    store_days(now=NOON)
    assert queries() == few <= 15


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("month=2026-13", "A month is written like 2026-11; “2026-13” was sent."),
        ("month=0001-01", "There are no costs in the year 1."),
        (
            "since=2026-11-05&until=2026-11-01",
            "The range ends on 2026-11-01, before it begins on 2026-11-05.",
        ),
        ("since=2025-01-01&until=2026-11-01", "The range has 670 days; the most are 366."),
        ("by=colour", "Select a valid choice."),
    ],
)
def test_bad_choice_is_a_sentence_and_the_current_month(client, root, claim, fra, query, words):
    hold(claim, MIDNIGHT, MIDNIGHT + HOUR)
    had(fra, 1, MIDNIGHT)
    store_days(now=NOON)
    client.force_login(root)
    response = client.get(f"{URL}?{query}")
    assert response.status_code == 422
    assert words in response.content.decode()
    assert "November 2026" in response.content.decode()


@pytest.mark.parametrize(
    ("query", "first", "last"),
    [
        ("since=2026-11-12", "12 Nov 2026", "16 Nov 2026"),
        ("until=2026-11-15", "1 Nov 2026", "15 Nov 2026"),
        ("since=2026-11-17", "17 Nov 2026", "17 Nov 2026"),
        ("range=7d", "10 Nov 2026", "16 Nov 2026"),
    ],
)
def test_range_with_one_day_has_a_usual_other(client, root, query, first, last):
    client.force_login(root)
    assert f"whole fleet, {first} to {last}" in client.get(f"{URL}?{query}").content.decode()


def test_api_has_the_parts_and_is_for_platform_admins(client, root, alice, claim, fra):
    price("2")
    had(fra, 2, MIDNIGHT)
    measure(hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR), MIDNIGHT, [0.25] * 120)
    store_days(now=NOON)
    client.force_login(alice)
    assert client.get("/api/v1/costs/reconciliation/").status_code == 403
    client.force_login(root)
    body = client.get("/api/v1/costs/reconciliation/?month=2026-11").json()
    assert (body["first"], body["last"]) == ("2026-11-01", "2026-11-16")
    assert body["fleet"] == {
        "device_hours": "48.00", "hours_without_rate": "0.00",
        "amounts": [{"currency": "EUR", "amount": "96.00"}],
    }  # fmt: skip
    assert sum(Decimal(part["device_hours"]) for part in body["parts"].values()) == 48
    assert (
        sum(Decimal(part["amounts"][0]["amount"]) for part in body["parts"].values() if part["amounts"]) == 96
    )
    assert client.get("/api/v1/costs/reconciliation/?month=november").status_code == 422


def test_columns_of_the_csv_add_up_to_the_fleet(client, root, claim, fra):
    price("2")
    had(fra, 2, MIDNIGHT)
    had(fra, 1, MIDNIGHT, use=FleetSpan.Use.OUT_OF_SERVICE)
    measure(hold(claim, MIDNIGHT, MIDNIGHT + 10 * HOUR), MIDNIGHT, [0.25] * 120)
    store_days(now=NOON)
    client.force_login(root)
    response = client.get(f"{URL}?format=csv&since=2026-11-16&until=2026-11-16")
    rows = list(csv.DictReader(response.getvalue().decode("utf-8-sig").splitlines()))
    assert [row["name"] for row in rows] == ["Vision", "unmanaged claims", "out of service", "unallocated"]
    assert sum(Decimal(row["hours"]) for row in rows) == 72
    assert sum(Decimal(row["amount"] or 0) for row in rows) == Decimal("144.00")
    assert (rows[0]["hours_used"], rows[0]["amount_idle"]) == ("2.500000", "15.00")


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(0, 100, "—"), (1, 10_000, "< 0.1 %"), (5, 10_000, "0.1 %"), (99, 1000, "9.9 %"), (46, 100, "46 %")],
)
def test_share_of_hours_that_is_not_0_is_never_shown_as_0(part, whole, text):
    assert share_of(Cost(part), Cost(whole)) == text


@pytest.mark.parametrize("group_by", [GroupBy.CLAIM, GroupBy.PERSON])
def test_a_correction_stands_on_the_page_of_its_row_alone(vision, fra, group_by):
    price("2")
    claims = [
        make_claim(vision, by=make_user(f"person-{number}"), cluster=fra, held=False) for number in range(3)
    ]
    idle = make_claim(vision, by=make_user("person-idle"), cluster=fra, held=False)
    for number, claim in enumerate(claims):
        hold(claim, MIDNIGHT, MIDNIGHT + (9 - number) * HOUR)
    store_days(now=NOON)
    for claim in (claims[2], idle):
        Correction.objects.create(
            booked_on=date(2026, 11, 12), team=vision, owner=claim.requested_by, claim=claim,
            day=date(2026, 10, 1), driver="gpu.nvidia.com", product=H100, partition="", capacity_type="",
            rate=Rate.objects.get(), currency="EUR", held=DEVICE_HOUR,
            amount=2 * 10**10 * DEVICE_HOUR // 10**6,
        )  # fmt: skip
    pages = [fleet_report(WEEK, group_by, now=NOON, most=2, offset=offset) for offset in (0, 2)]
    corrected = [[bool(row.parts.corrections.held) for row in page.rows] for page in pages]
    assert corrected == [[False, False, True], [True]]
    shown = sum(row.parts.corrections.held for page in pages for row in page.rows)
    assert shown == pages[0].parts.corrections.held


def test_bar_of_utilization_shows_the_time_without_telemetry():
    parts = HeldParts(used=Cost(held=1), idle=Cost(held=2), no_telemetry=Cost(held=5))
    bar = utilization_bar(parts)
    assert "33 %" in bar
    assert '<rect x="37.50%" width="62.50%" height="100%" class="dg-m-none">' in bar
