"""A claim over its life: devices side by side, used and idle money, energy, and the lines of its graphs."""

from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.urls import reverse
from django.utils import timezone

from tests.usage.conftest import NOON, hold, measure, price
from usage import daily, views
from usage.charts import chart_data, cost_plot
from usage.claim_use import cost_by_device, devices_of, energy_of, split_money
from usage.cost import CURRENCY_UNIT, rounded, total
from usage.models import DailyActivity, DailySum, HourlyRollup, Rate, Rollup, StoredHour
from usage.rates import RateCard
from usage.reports import claim_cost
from usage.series import Range, claim_series

FIVE = timedelta(minutes=5)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
GIB = 2**30


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def page(client, alice, claim, **query):
    client.force_login(alice)
    return client.get(reverse("usage:claim_fragment", args=[claim.pk], query=query))


def split(claim, now=NOON):
    found = split_money(claim, list(claim.allocations.all()), RateCard.load(), now=now)
    return {part.key: part.cost.amounts["EUR"] for part in found.parts}


def test_money_is_used_idle_or_not_measured_and_adds_up_to_the_cost(claim):
    price("2.9")
    held = hold(claim, NOON - 2 * DAY)
    measure(held, NOON - 2 * DAY, [0.25] * 12)
    measure(held, NOON - HOUR, [0.5] * 12)  # today; yesterday has nothing
    parts = split(claim)
    assert parts["used"] == Decimal("2.18")  # €2.90 × 25 %, rounded, and €2.90 × 50 %
    assert parts["idle"] == Decimal("3.62")
    assert parts["none"] == Decimal("133.40")  # 46 of 48 hours
    cost = claim_cost(claim, [held], RateCard.load(), now=NOON)
    assert sum(parts.values()) == cost.so_far.amounts["EUR"]


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_gap_of_telemetry_is_neither_used_nor_idle(claim, is_stored):
    price("2")
    midnight = NOON - 36 * HOUR
    measure(hold(claim, midnight, midnight + DAY), midnight, [0.0] * 2)
    if is_stored:
        daily.store_days(now=NOON)
    assert split(claim) == {"used": 0, "idle": Decimal("0.33"), "none": Decimal("47.67")}


@pytest.mark.parametrize("is_stored", [False, True])
def test_each_kind_of_device_is_used_as_far_as_it_computed(claim, is_stored):
    price("7", product="H100")
    price("1", product="L4")
    midnight = NOON - 36 * HOUR
    measure(hold(claim, midnight, midnight + DAY), midnight, [0.0] * 288)
    measure(hold(claim, midnight, midnight + DAY, product="NVIDIA L4"), midnight, [1.0] * 288)
    if is_stored:
        daily.store_days(now=NOON)
    assert split(claim) == {"used": 24, "idle": 168, "none": 0}


def test_used_and_idle_money_is_that_of_the_report_to_the_cent(claim):
    price("2.8973")
    for number in range(3):
        held = hold(claim, NOON - 3 * DAY - number * HOUR, NOON - DAY)
        measure(held, NOON - 2 * DAY - 5 * FIVE, [0.137, 0.411, 0.733, 0.029][number:])
    daily.store_days(now=NOON)
    parts = split(claim)
    sums = DailySum.objects.filter(dimension=DailySum.Dimension.TEAM)
    used = rounded(sum(int(row.amount_used) for row in sums), CURRENCY_UNIT)
    measured = rounded(sum(int(row.amount_measured) for row in sums), CURRENCY_UNIT)
    assert (parts["used"], parts["used"] + parts["idle"]) == (used, measured)


def test_money_is_not_divided_without_a_rate_or_in_two_currencies(claim):
    measure(hold(claim, NOON - HOUR), NOON - HOUR, [0.5])
    assert split(claim) == {}
    price("1")
    assert split(claim) != {}
    price("1", product="L40S", currency="USD")
    hold(claim, NOON - HOUR, product="NVIDIA L40S")
    assert split(claim) == {}


def test_devices_are_side_by_side_with_what_was_measured(claim):
    for device, activity in (("gpu-0", 0.2), ("gpu-1", 0.6)):
        measure(hold(claim, NOON - HOUR, device=device), NOON - HOUR, [activity] * 12, memory=3 * GIB)
    Rollup.objects.filter(device="gpu-1").update(temperature=61, ecc_corrected=2, ecc_uncorrected=0)
    first, second = devices_of(claim, list(claim.allocations.all()))
    assert first.device == "gpu-0"
    assert [first.activity, first.activity_p95] == pytest.approx([0.2, 0.2])
    assert (first.memory_p95, first.memory_peak, first.memory_total) == (3 * GIB, 3 * GIB, 80 * GIB)
    assert (first.temperature, first.ecc_corrected, first.measured) == (None, None, HOUR)
    assert (second.temperature, second.ecc_corrected, second.ecc_uncorrected) == (61, 24, 0)


def energies(claim):
    return energy_of(devices_of(claim, list(claim.allocations.all())))


def test_energy_that_the_gpu_counted_is_measured(claim):
    measure(hold(claim, NOON - HOUR), NOON - HOUR, [0.5] * 12)
    Rollup.objects.update(energy_joules=90_000.0)
    energy = energies(claim)
    assert (energy.kilowatt_hours, energy.is_measured) == (pytest.approx(0.3), True)


def test_energy_without_a_counter_is_power_times_time_and_estimated(claim):
    measure(hold(claim, NOON - HOUR), NOON - HOUR, [0.5] * 12)  # 300 W
    energy = energies(claim)
    assert (energy.kilowatt_hours, energy.is_measured) == (pytest.approx(0.3), False)


def test_energy_of_a_partition_is_its_part_of_the_gpu_and_estimated(claim):
    held = hold(claim, NOON - HOUR, partition="3g.40gb", fraction=Decimal("0.5"))
    measure(held, NOON - HOUR, [0.5] * 12)
    Rollup.objects.update(energy_joules=90_000.0)
    energy = energies(claim)
    assert (energy.kilowatt_hours, energy.is_measured) == (pytest.approx(0.15), False)


@pytest.mark.parametrize("hours_between", [0, 1], ids=["at once", "one after another"])
def test_shares_of_a_gpu_add_up_to_the_same_energy_on_the_day_and_over_the_life(claim, hours_between):
    began = NOON - DAY
    held = [
        hold(claim, since, since + HOUR, device="gpu-s", share_id=fraction, fraction=Decimal(fraction))
        for since, fraction in ((began, "0.5"), (began + hours_between * HOUR, "0.25"))
    ]
    measure(held[0], began, [0.5] * 12 * (1 + hours_between))  # 300 W
    daily.store_days(now=NOON)
    energy, day = energies(claim), DailyActivity.objects.get()
    found = [energy.joules, energy.estimated, day.joules, day.joules_estimated]
    assert found == pytest.approx([810_000] * 4)
    assert daily.refresh_all(check=True).total == 0


def test_without_power_there_is_no_energy_and_never_zero(client, alice, claim):
    measure(hold(claim, NOON - HOUR), NOON - HOUR, [0.5] * 12)
    Rollup.objects.update(power_watts=None)
    assert energies(claim) is None
    assert "kWh" not in page(client, alice, claim).text


def test_panel_shows_devices_money_and_energy(client, alice, claim):
    price("2")
    claim.expires_at = NOON + 10 * HOUR
    claim.save(update_fields=["expires_at"])
    measure(hold(claim, NOON - HOUR, device="gpu-5"), NOON - HOUR, [0.25] * 12)
    text = " ".join(page(client, alice, claim).text.split())
    for said in (
        "Use by device",
        "gpu-5",
        "Used and idle",
        "€0.50",
        "€1.50",
        "Projected to expiry",
        "€22.00",
    ):
        assert said in text
    assert "0.30 kWh" in text
    assert "estimated" in text
    Rollup.objects.update(energy_joules=90_000.0)
    assert "measured by the GPUs" in page(client, alice, claim).text


def test_panel_has_at_most_15_queries(client, alice, claim, django_assert_max_num_queries):
    price("2")
    for _ in range(8):
        measure(hold(claim, NOON - 2 * DAY), NOON - HOUR, [0.25] * 12)
    page(client, alice, claim)
    for wanted in ("1h", "24h", "7d", "life"):
        with django_assert_max_num_queries(15):
            client.get(reverse("usage:claim_fragment", args=[claim.pk], query={"range": wanted}))


def test_only_the_first_fifty_devices_are_shown(client, alice, claim, monkeypatch):
    monkeypatch.setattr(views, "MAX_DEVICES", 2)
    for number in range(3):
        measure(hold(claim, NOON - HOUR, device=f"gpu-{number}"), NOON - FIVE, [0.5])
    text = page(client, alice, claim).text
    assert "1 more device not shown" in text


def plots(claim, wanted=Range.HOUR):
    held = list(claim.allocations.all())
    series = claim_series(claim, wanted, allocations=held, now=timezone.now())
    return chart_data(series, held, idle_percent=10) | cost_plot(claim, series, held, RateCard.load())


def test_plots_of_what_was_not_measured_are_left_out(claim):
    measure(hold(claim, NOON - HOUR), NOON - FIVE, [0.5])
    assert set(plots(claim)) == {"x", "step", "activity", "memory", "power", "lines"}
    Rollup.objects.update(tensor_activity=0.25, memory_activity=0.125, pcie_bytes=2e9, power_watts=None)
    found = plots(claim)
    assert [(line["label"], line["values"][-1]) for line in found["compute"]] == [
        ("tensor cores", 25.0), ("memory bandwidth", 12.5)
    ]  # fmt: skip
    assert [(line["label"], line["values"][-1]) for line in found["traffic"]] == [("PCIe", 2.0)]
    assert "power" not in found


def test_table_has_a_column_for_each_value_that_was_measured(client, alice, claim):
    measure(hold(claim, NOON - HOUR), NOON - FIVE, [0.5])
    assert "Tensor cores" not in page(client, alice, claim).text
    Rollup.objects.update(tensor_activity=0.25, nvlink_bytes=1.5e9)
    text = page(client, alice, claim).text
    assert "Tensor cores</th>" in text
    assert "NVLink</th>" in text
    assert "1.50 GB/s" in text


def test_cost_per_hour_is_what_is_allocated_and_what_of_it_was_used_idle_and_not_measured(claim):
    price("2")
    held = hold(claim, NOON - HOUR)
    measure(held, NOON - HOUR, [0.25] * 11)
    Rollup.objects.filter(bucket=NOON - HOUR).update(samples=5)  # of ten
    used, idle, no_telemetry, allocated = plots(claim)["cost"]
    assert allocated["values"] == [2.0] * 12
    assert used["values"] == [0.25] + [0.5] * 10 + [0.0]
    assert idle["values"] == [0.75] + [1.5] * 10 + [0.0]
    assert no_telemetry["values"] == [1.0] + [0.0] * 10 + [2.0]
    hold(claim, NOON - HOUR / 2, fraction=Decimal("0.5"), partition="3g.40gb")
    assert plots(claim)["cost"][-1]["values"] == [2.0] * 6 + [3.0] * 6
    assert plots(claim)["units"] == {"cost": "€{} / h"}


def test_cost_per_hour_changes_with_the_rate(claim):
    price("2")
    price("4", since=NOON - HOUR / 2)
    measure(hold(claim, NOON - HOUR), NOON - HOUR, [1.0] * 12)
    assert plots(claim)["cost"][-1]["values"] == [2.0] * 6 + [4.0] * 6
    Rate.objects.all().delete()
    assert "cost" not in plots(claim)


def test_idle_line_is_the_limit_of_the_profile(client, alice, claim):
    version = claim.profile_version
    version.idle_percent = 25
    version.save(update_fields=["idle_percent"])
    measure(hold(claim, NOON - HOUR), NOON - FIVE, [0.5])
    chart = page(client, alice, claim).context["chart"]
    assert chart["lines"]["activity"] == [{"label": "idle below 25 %", "value": 25, "kind": "idle"}]


def test_hours_answer_for_a_claim_whose_five_minutes_are_gone(client, alice, claim):
    held = hold(claim, NOON - 90 * DAY, NOON - 60 * DAY)
    HourlyRollup.objects.create(
        claim=claim, driver=held.driver, pool=held.pool, device=held.device, bucket=NOON - 61 * DAY,
        samples=120, activity=0.4, activity_p95=0.5, memory_bytes=GIB, memory_p95=GIB,
    )  # fmt: skip
    StoredHour.objects.create(hour=NOON - HOUR, is_final=True)
    shown = page(client, alice, claim, range="24h").context["series"]
    assert shown.step == HOUR
    assert [point.activity for point in shown.points if point.samples] == [pytest.approx(0.4)]
    life = page(client, alice, claim, range="life").context
    assert life["series"].mean_activity == pytest.approx(0.4)
    assert life["devices"][0][0].activity_p95 == pytest.approx(0.5)


def test_cost_of_devices_adds_up_to_the_cost_of_the_claim_to_the_cent(claim):
    price("1.00", product="H100")
    price("0.37", product="L4", currency="USD")
    held = [hold(claim, NOON - timedelta(hours=7, minutes=number), NOON) for number in range(3)]
    held += [hold(claim, NOON - timedelta(minutes=20), NOON, product="NVIDIA L4") for _ in range(3)]
    card = RateCard.load()
    costs = cost_by_device(claim, held, card, now=NOON)
    assert list(costs) == [(row.driver, row.pool, row.device) for row in held]
    whole = claim_cost(claim, held, card, now=NOON).so_far
    assert total(costs.values()) == whole
    assert whole.amounts == {"EUR": Decimal("21.05"), "USD": Decimal("0.37")}
    dollars = [cost.amounts.get("USD") for cost in costs.values()]
    assert dollars == [None, None, None, Decimal("0.13"), Decimal("0.12"), Decimal("0.12")]


def test_device_without_a_rate_has_hours_and_no_amount(claim):
    held = hold(claim, NOON - timedelta(hours=2), NOON)
    (cost,) = cost_by_device(claim, [held], RateCard.load(), now=NOON).values()
    assert (cost.is_unknown, cost.hours, cost.amounts) == (True, Decimal("2.00"), {})


def test_page_of_a_claim_says_what_each_device_cost(client, alice, claim):
    price("2.80")
    measured, _silent = (hold(claim, NOON - timedelta(hours=hours), NOON) for hours in (2, 1))
    measure(measured, NOON - timedelta(hours=2), [0.5])
    client.force_login(alice)
    page = client.get(reverse("usage:claim_fragment", args=[claim.pk])).content.decode()
    assert "€5.60" in page
    assert "Devices without telemetry: €2.80." in page
