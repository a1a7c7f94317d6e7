"""
Every page and file divides money by what was measured of each kind of device: a gap is neither used nor
idle, and an idle device at a high price is not busy because a cheap one beside it computes.
"""

import csv
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest

from demo.backdate import measure as invented
from tests.usage.conftest import NOON, hold, measure, price
from usage import daily
from usage.cost import Cost
from usage.fleet_report import EntryScope, GroupBy, Period, fleet_report
from usage.idle.views import idle_in_month
from usage.models import DailyActivity, DailyUse, Rollup
from usage.month_spend import month_spend
from usage.people import team_use
from usage.rates import RateCard
from usage.reports import Month
from usage.team_month import team_month

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("at_noon")]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
USED, IDLE, NO_TELEMETRY = Decimal(24), Decimal("168.33"), Decimal("47.67")
NOVEMBER = Period(date(2026, 11, 1), date(2026, 12, 1))


@pytest.fixture
def unequal(claim):
    """A day: an idle H100 at €7, a busy L4 at €1, and an L40S at €2 of which ten minutes were measured."""
    for product, per_hour, activities in (
        ("NVIDIA H100 80GB HBM3", "7", [0.0] * 288),
        ("NVIDIA L4", "1", [1.0] * 288),
        ("NVIDIA L40S", "2", [0.0] * 2),
    ):
        price(per_hour, product=product)
        measure(hold(claim, MONDAY, MONDAY + DAY, product=product), MONDAY, activities)
    daily.store_days(now=NOON)
    return claim


def money(parts):
    return tuple(part.amounts["EUR"] for part in (parts.used, parts.idle, parts.no_telemetry))


@pytest.mark.parametrize("group_by", GroupBy)
@pytest.mark.parametrize("scope", ["all", "team", "person"])
def test_report_divides_each_kind_of_device(unequal, vision, alice, group_by, scope):
    scopes = {
        "all": EntryScope(), "team": EntryScope(teams=[vision.pk]), "person": EntryScope(person=alice.pk)
    }  # fmt: skip
    report = fleet_report(NOVEMBER, group_by, now=NOON, scope=scopes[scope], order="idle", most=10)
    assert money(report.parts) == (USED, IDLE, NO_TELEMETRY)
    assert report.adds_up
    rows = [money(row.parts) for row in report.rows]
    assert tuple(sum(column, Decimal(0)) for column in zip(*rows, strict=True)) == (USED, IDLE, NO_TELEMETRY)
    if group_by is GroupBy.MODEL:
        assert rows == [(0, 168, 0), (0, Decimal("0.33"), NO_TELEMETRY), (24, 0, 0)]


def test_month_of_a_team_divides_each_kind_of_device(unequal, vision):
    month = team_month(vision, Month(date(2026, 11, 1)), RateCard.load(), now=NOON)
    assert money(month.whole.parts) == (USED, IDLE, NO_TELEMETRY)
    assert [money(part.parts) for part in month.groups["claim"]] == [(USED, IDLE, NO_TELEMETRY)]
    assert [(part.label, money(part.parts)) for part in month.groups["product"]] == [
        ("NVIDIA H100 80GB HBM3", (0, 168, 0)),
        ("NVIDIA L40S", (0, Decimal("0.33"), NO_TELEMETRY)),
        ("NVIDIA L4", (24, 0, 0)),
    ]


def test_people_of_a_team_have_the_idle_cost_of_what_was_measured(unequal, vision, alice):
    use = team_use(vision, today=NOON.date())
    assert use.sum.idle.amounts == use.people[alice.pk].idle.amounts == {"EUR": IDLE}
    assert use.sum.measured.exact_hours == Decimal("48.166667")
    assert use.sum.utilization == pytest.approx(24 / (48 + 1 / 6))


def test_own_idle_cost_of_the_month_is_that_of_what_was_measured(unequal, vision, alice):
    assert month_spend(vision, alice, RateCard.load(), now=NOON).own_idle.amounts == {"EUR": IDLE}


def test_own_idle_cost_is_unknown_where_nothing_was_measured(claim, vision, alice):
    price("2")
    hold(claim, MONDAY, MONDAY + DAY)
    daily.store_days(now=NOON)
    assert month_spend(vision, alice, RateCard.load(), now=NOON).own_idle == Cost()


def test_waste_of_the_month_is_that_of_what_was_measured(unequal):
    assert idle_in_month(None, NOON) == ("€168.33", "70 % of the cost of claims", NOON.date() - DAY)


def test_opencost_has_the_efficiency_of_what_was_measured(unequal, client, root):
    client.force_login(root)
    url, window = "/api/v1/costs/allocation/", "2026-11-16T00:00:00Z,2026-11-17T00:00:00Z"
    (found,) = client.get(url, {"window": window, "aggregate": "controller"}).json()["data"]
    efficiency = found[f"resourceclaim:{unequal.name}"]["gpuEfficiency"]
    assert efficiency == pytest.approx(24 / (48 + 1 / 6), abs=1e-5)
    (found,) = client.get(url, {"window": window, "aggregate": "label:product"}).json()["data"]
    assert {name: one["gpuEfficiency"] for name, one in found.items()} == {
        "NVIDIA H100 80GB HBM3": 0, "NVIDIA L4": 1, "NVIDIA L40S": 0
    }  # fmt: skip


@pytest.mark.parametrize(
    ("reader", "address", "texts"),
    [
        ("alice", "/claims/{claim}/usage/", ["€24.00", "€168.33", "€47.67"]),
        ("lena", "/teams/vision/cost/?month=2026-11", ["€24.00", "€168.33", "€47.67"]),
        ("root", "/report/?month=2026-11", ["€24.00", "€168.33", "€47.67"]),
        ("lena", "/report/?month=2026-11&by=claim", ["€24.00", "€168.33", "€47.67"]),
        ("lena", "/teams/vision/", ["€168.33"]),
        ("root", "/waste/", ["€168.33"]),
    ],
)
def test_page_shows_what_was_used_idle_and_not_measured(unequal, client, request, reader, address, texts):
    client.force_login(request.getfixturevalue(reader))
    page = client.get(address.format(claim=unequal.pk))
    assert page.status_code == 200
    assert [text for text in texts if text not in page.text] == []


def test_api_and_file_of_the_report_have_what_was_used_idle_and_not_measured(unequal, client, root):
    client.force_login(root)
    parts = client.get("/api/v1/costs/reconciliation/?month=2026-11").json()["parts"]
    names = ("used", "idle", "no_telemetry")
    amounts = tuple(Decimal(parts[name]["amounts"][0]["amount"]) for name in names)
    assert amounts == (USED, IDLE, NO_TELEMETRY)
    file = client.get("/report/?format=csv&month=2026-11").getvalue().decode("utf-8-sig")
    row = next(csv.DictReader(file.splitlines()))
    assert tuple(Decimal(row[f"amount_{name}"]) for name in names) == (USED, IDLE, NO_TELEMETRY)


# What is measured of a device.


def activity():
    """Return the hours that were held, measured and used, of the only row."""
    row = DailyActivity.objects.get()
    return [float(Cost(int(value)).exact_hours) for value in (row.held, row.measured, row.used)]


def test_buckets_at_both_ends_measure_no_longer_than_the_device_was_held(claim):
    began = MONDAY + timedelta(minutes=3)
    measure(hold(claim, began, began + timedelta(minutes=6)), MONDAY, [0.5] * 2)
    daily.store_days(now=NOON)
    assert activity() == [0.1, 0.1, 0.05]


def test_devices_of_a_kind_count_by_fraction_and_time(claim):
    measure(hold(claim, MONDAY, MONDAY + HOUR), MONDAY, [1.0] * 12)
    hold(claim, MONDAY, MONDAY + 2 * HOUR, fraction=Decimal("0.5"))
    daily.store_days(now=NOON)
    assert activity() == [2, 1, 1]


def test_a_device_held_twice_under_two_capacity_types_is_divided_by_time(claim):
    for start, end, capacity in ((0, 1, "spot"), (1, 4, "on-demand")):
        held = hold(
            claim, MONDAY + start * HOUR, MONDAY + end * HOUR, device="gpu-x", share_id=capacity,
            capacity_type=capacity,
        )  # fmt: skip
    measure(held, MONDAY, [0.5] * 24)
    daily.store_days(now=NOON)
    rows = DailyActivity.objects.order_by("held")
    assert [Cost(int(row.measured)).exact_hours for row in rows] == [Decimal("0.5"), Decimal("1.5")]
    assert [row.rollups for row in rows] == [6, 18]
    assert [row.joules for row in rows] == pytest.approx([300 * 1800, 300 * 5400])


def test_held_time_of_a_kind_is_that_of_its_entries(claim):
    price("1")
    price("2", since=MONDAY + 5 * HOUR)
    for hours in (3, 7):
        held = hold(claim, MONDAY, MONDAY + hours * HOUR, fraction=Decimal("0.142857"))
        measure(held, MONDAY, [0.5])
    daily.store_days(now=NOON)
    assert DailyUse.objects.count() == 2
    assert DailyActivity.objects.get().held == sum(DailyUse.objects.values_list("held", flat=True))
    assert daily.refresh_all(check=True).total == 0


def test_a_kind_of_device_that_a_claim_did_not_hold_after_all_has_no_row(claim):
    held = hold(claim, MONDAY, MONDAY + HOUR)
    measure(held, MONDAY, [0.5] * 12)
    daily.store_days(now=NOON)
    held.product = "NVIDIA L4"
    held.save(update_fields=["product"])
    daily.refresh_all()
    assert DailyActivity.objects.get().product == "NVIDIA L4"


def test_energy_is_that_of_the_devices_that_were_measured(unequal, client, root):
    client.force_login(root)
    file = client.get("/api/v1/costs/focus/?month=2026-11").getvalue().decode()
    energies = {row["x_GpuModel"]: row["x_EnergyKWh"] for row in csv.DictReader(file.splitlines())}
    assert energies == {
        "NVIDIA H100 80GB HBM3": "7.200000", "NVIDIA L4": "7.200000", "NVIDIA L40S": "0.050000"
    }  # fmt: skip
    rows = fleet_report(NOVEMBER, GroupBy.MODEL, now=NOON).rows
    found = {row.label: row.parts.energy.kilowatt_hours for row in rows}
    assert found == {name: pytest.approx(float(value)) for name, value in energies.items()}


def test_energy_of_a_kind_without_telemetry_is_unknown(claim):
    measure(hold(claim, MONDAY, MONDAY + DAY), MONDAY, [0.5] * 288)
    hold(claim, MONDAY, MONDAY + DAY, product="NVIDIA L4")
    daily.store_days(now=NOON)
    rows = fleet_report(NOVEMBER, GroupBy.MODEL, now=NOON).rows
    found = {row.label: row.parts.energy and row.parts.energy.kilowatt_hours for row in rows}
    assert found == {"NVIDIA H100 80GB HBM3": pytest.approx(7.2), "NVIDIA L4": None}


def test_days_whose_rollups_are_gone_keep_what_was_measured(unequal):
    before = list(DailyActivity.objects.order_by("pk").values())
    Rollup.objects.all().delete()
    daily.refresh_all()
    assert list(DailyActivity.objects.order_by("pk").values()) == before


def test_the_invented_past_of_the_demo_has_days_as_they_are_stored(claim):
    price("2")
    began = MONDAY - 20 * DAY + 90 * timedelta(minutes=1)
    for number in range(2):
        fields = {"partition": "3g.40gb", "fraction": Decimal("0.5"), "share_id": str(number)}
        hold(claim, began, began + 2 * DAY, **fields)
    invented({claim.pk: 0.5}, NOON)
    daily.store_days(now=NOON)
    rows = DailyActivity.objects.order_by("day")
    assert [Cost(int(row.held)).exact_hours for row in rows] == [Decimal("22.5"), 24, Decimal("1.5")]
    assert [row.measured / row.held for row in rows] == pytest.approx([1, 1, Decimal(2) / 3], abs=1e-9)
    assert sum(row.held for row in rows) == sum(DailyUse.objects.values_list("held", flat=True))
    assert all(0.3 < row.used / row.measured < 0.7 for row in rows)
    report = fleet_report(Period(date(2026, 10, 1), date(2026, 11, 1)), GroupBy.TEAM, now=NOON)
    assert 0.3 < report.parts.utilization < 0.7
    assert daily.refresh_all(check=True).total == 0
