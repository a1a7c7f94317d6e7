"""Counters of exporters: differences, resets, gaps, XID and ECC events on pages of claim and device."""

import math
from datetime import timedelta

import pytest
import time_machine
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from inventory.hardware_events import KEEP, prune_events
from inventory.models import Device, HardwareEvent
from tests.usage.conftest import NOON, hold
from tests.usage.test_collect import line, mirrored
from usage.collect import collect
from usage.counters import Reading, advance, follow
from usage.models import CounterReading, Rollup
from usage.samples import ENERGY, METRICS, Series, SeriesKey, measurements
from usage.sources import parse_exposition

HALF = timedelta(seconds=30)
ECC, ROWS = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
FAILED, XID = "DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_XID_ERRORS"
CORRECTED = "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL"


@pytest.fixture
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def read(fra, serve, clock):
    """Return a function that collects these values of gpu-2, half a minute after the last time."""
    texts: list[str] = []
    fra.metrics_url = serve(lambda path, body: (200, "".join(texts)))
    fra.save(update_fields=["metrics_url"])

    def collect_now(later=HALF, **values):
        texts[:] = [line(metric, value) for metric, value in values.items()]
        collect(fra.pk)
        clock.shift(later)

    return collect_now


def joules(*readings, every=30.0, metric=ENERGY):
    """Return the energy that is booked for each reading in mJ of one GPU; None is one without the counter."""
    earlier: dict[str, Reading] = {}
    booked = []
    for number, value in enumerate(readings):
        values = {XID: 0.0} if value is None else {XID: 0.0, metric: value}
        found = measurements([Series({"UUID": "GPU-a"}, values)])
        readings_now, _events = follow(earlier, found, number * every)
        earlier |= readings_now
        (measurement,) = found.values()
        booked.append(measurement.energy_joules)
    return booked


LIFE = 1e12  # mJ: a GPU that drew 278 kWh


@pytest.mark.parametrize(
    ("readings", "booked"),
    [
        ([LIFE, LIFE + 9e6, LIFE + 9e6, LIFE + 3e7], [None, 9000, 0, 21000]),
        ([LIFE, 0, LIFE + 9e6, LIFE + 1e7], [None, 0, 9000, 1000]),  # one wrong 0
        ([LIFE, 7e6, LIFE + 9e6], [None, 7000, 2000]),  # a wrong value is taken back
        ([LIFE, LIFE / 2, LIFE + 9e6], [None, None, 9000]),
        ([LIFE, 3e13, LIFE + 9e6, LIFE + 1e7], [None, None, 9000, 1000]),  # one spike
        ([LIFE, 3e13, 0, LIFE + 9e6], [None, None, 0, 9000]),
        ([LIFE, None, 9e15, LIFE + 9e6], [None, None, None, 9000]),  # what DCGM has no value for
        ([LIFE, 0, 9e6, 2e7], [None, 0, 9000, 11000]),  # the driver was loaded again
        ([LIFE, 6e6, 9e6, 2e7], [None, 6000, 3000, 11000]),
        ([LIFE, 3e13, 3e13 + 9e6, 3e13 + 1e7], [None, None, 9000, 1000]),  # another meter goes on
        ([LIFE, LIFE, LIFE + 1e8], [None, 0, 100_000]),  # the exporter had repeated a value
        ([LIFE, LIFE + 6.1e7, LIFE + 7e7], [None, None, 70_000]),
        ([None, LIFE, LIFE + 9e6], [None, None, 9000]),
    ],
)
def test_wrong_reading_of_energy_books_nothing(readings, booked):
    assert joules(*readings) == booked


WATTS = st.integers(0, 2000)
FAULT = st.sampled_from([None, 0.0, 1.0, 5e8, 3e13, 9.2e18, math.nan, math.inf, -1.0])


@given(
    st.lists(st.tuples(WATTS, st.booleans(), FAULT), min_size=2, max_size=60), st.sampled_from([LIFE, 8e12])
)
def test_energy_is_exact_however_single_readings_go_wrong(steps, begin):
    """A wrong reading is followed by two that are right."""
    truth, readings, right = begin, [begin], 2
    for watts, is_wrong, fault in steps:
        truth += watts * 30_000
        right = 0 if is_wrong and right >= 2 else right + 1
        readings.append(truth if right else fault)
    readings += [truth] * (1 - min(right, 1))
    booked = joules(*readings)
    assert sum(one or 0 for one in booked) == pytest.approx((truth - begin) / 1000)


@given(st.lists(st.one_of(FAULT, st.floats(0, 2e14), WATTS, st.just("reset")), min_size=2, max_size=60))
def test_no_reading_books_more_than_a_gpu_draws(steps):
    """Any wrong values in any order, and resets: 2 kW for as long as the counter was read."""
    value, readings = LIFE, [LIFE]
    for one in steps:
        value = 0.0 if one == "reset" else value + one * 30_000 if isinstance(one, int) else value
        readings.append(value if one == "reset" or isinstance(one, int) else one)
    booked = joules(*readings)
    assert all(one is None or one >= 0 for one in booked)
    for end in range(1, len(booked) + 1):
        assert sum(one or 0 for one in booked[:end]) <= 2000 * 30 * (end - 1) + 1e-6


@given(st.lists(st.integers(0, 1500), min_size=3, max_size=40), st.data())
def test_reset_costs_at_most_the_energy_around_it(watts, data):
    reset = data.draw(st.integers(1, len(watts) - 1))
    value, readings = LIFE, [LIFE]
    for number, one in enumerate(watts):
        value = one * 15_000 if number == reset else value + one * 30_000  # half of the time is after it
        readings.append(value)
    drawn = sum(one * 30 for one in watts)
    booked = sum(one or 0 for one in joules(*readings))
    assert drawn - watts[reset] * 15 - 1e-6 <= booked <= drawn + 1e-6


def test_energy_is_what_was_counted_since_the_last_reading(claim, read):
    hold(claim, NOON, device="gpu-2")
    for millijoules in (5_000_000, 5_300_000, 5_900_000, 200_000):
        read(**{ENERGY: millijoules})
    assert Rollup.objects.get().energy_joules == 300 + 600 + 200


def test_energy_of_amd_is_counted_for_each_gpu_also_when_another_pod_gets_it(fra):
    def reading(pod, *microjoules):
        return measurements(
            parse_exposition(
                f'gpu_energy_consumed{{hostname="n",gpu_id="{gpu}",gpu_partition_id="0",pod="{pod}-{gpu}",'
                f'namespace="vision"}} {value}'
                for gpu, value in enumerate(microjoules)
            ).series
        )

    advance(fra.pk, reading("train", 7e12, 9e9), NOON)
    now = reading("serve", 7e12 + 6e9, 9e9 + 3e9)
    advance(fra.pk, now, NOON + HALF)
    assert {key.pod: measurement.energy_joules for key, measurement in now.items()} == {
        "serve-0": 6000,
        "serve-1": 3000,
    }


def test_nothing_is_counted_of_a_time_in_which_nobody_read(claim, read):
    hold(claim, NOON, device="gpu-2")
    read(**{ENERGY: 1_000_000}, later=timedelta(minutes=10))
    read(**{ENERGY: 9_000_000})
    read(**{ENERGY: 9_100_000})
    assert sum(row.energy_joules or 0 for row in Rollup.objects.all()) == 100


def test_errors_of_memory_are_counted(claim, read):
    hold(claim, NOON, device="gpu-2")
    for corrected in (3, 5, 5):
        read(DCGM_FI_DEV_ECC_SBE_VOL_TOTAL=corrected, DCGM_FI_DEV_ECC_DBE_VOL_TOTAL=0)
    row = Rollup.objects.get()
    assert (row.ecc_corrected, row.ecc_uncorrected) == (2, 0)
    assert not HardwareEvent.objects.exists()


def events():
    return list(
        HardwareEvent.objects.order_by("at", "kind").values_list("device", "kind", "code", "count", "at")
    )


def test_an_xid_is_an_event_with_its_code_when_it_changes(claim, read):
    hold(claim, NOON, device="gpu-2")
    for code in (0, 79, 79, 0, 79, 2147483632, 31):
        read(**{XID: code})
    found = [("gpu-2", "xid", code, 1, NOON + number * HALF) for code, number in ((79, 1), (79, 4), (31, 6))]
    assert events() == found


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("labelled_is_restarted", [True, False])
def test_two_exporters_of_a_gpu_count_it_once(fra, order, labelled_is_restarted):
    """One of both was restarted, so what it counts itself is 0; only one has the labels of DRA."""
    mirrored(fra, "gpu-2", "")
    Device.objects.filter(name="gpu-2").update(uuid="GPU-2")
    labels = {"UUID": "GPU-2", "dra_driver_name": "gpu.nvidia.com", "dra_pool_name": "fra1-h100-03"}
    with_labels, without = labels | {"dra_device_name": "gpu-2"}, {"UUID": "GPU-2"}
    restarted, other = (with_labels, without) if labelled_is_restarted else (without, with_labels)
    counted = {ECC: 4.0, ROWS: 3.0, FAILED: 1.0, XID: 79.0, CORRECTED: 50.0}
    zeros = dict.fromkeys(counted, 0.0)
    joules = []
    for number in range(6):
        energy = {ENERGY: LIFE + number * 9e6}
        before = zeros | energy
        pair = [
            Series(restarted, zeros | {ENERGY: number * 9e6} if number > 3 else before),
            Series(other, (counted if number > 1 else zeros) | energy),
        ]
        if 1 < number < 4:
            pair[0] = Series(restarted, counted | energy)
        found = measurements(pair[::order])
        advance(fra.pk, found, NOON + number * HALF)
        joules.append({one.energy_joules for one in found.values()})
    assert sorted(event[1:4] for event in events()) == [
        ("ecc", None, 4), ("remap-failed", None, 1), ("remapped", None, 3), ("xid", 79, 1),
    ]  # fmt: skip
    assert {event[4] for event in events()} == {NOON + 2 * HALF}
    assert joules == [{None}, *[{9000.0}] * 5]


def test_an_xid_from_before_the_first_reading_is_no_event(claim, read):
    hold(claim, NOON, device="gpu-2")
    read(**{XID: 79})
    read(**{XID: 79})
    assert events() == []


def test_errors_that_could_not_be_corrected_are_events_with_their_number(claim, read):
    hold(claim, NOON, device="gpu-2")
    read(**{ECC: 0, ROWS: 1, FAILED: 0})
    read(**{ECC: 2, ROWS: 2, FAILED: 1})
    found = sorted(event[1:4] for event in events())
    assert found == [("ecc", None, 2), ("remap-failed", None, 1), ("remapped", None, 1)]


def test_without_dra_labels_an_event_is_of_the_gpu_and_its_partitions(claim, fra):
    mirrored(fra, "gpu-9", "")
    Device.objects.filter(name="gpu-9").update(uuid="GPU-9")
    for number, partition in enumerate(("1g.10gb", "3g.40gb")):
        mirrored(fra, f"part-{number}", "GPU-9")
        Device.objects.filter(name=f"part-{number}").update(partition=partition)

    def see(code, **labels):
        found = measurements([Series({"UUID": "GPU-9", **labels}, {XID: code})])
        advance(fra.pk, found, NOON + code * HALF)

    see(0)
    see(13)
    assert sorted(event[0] for event in events()) == ["gpu-9", "part-0", "part-1"]
    HardwareEvent.objects.all().delete()
    see(0, GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")
    see(31, GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")
    assert [event[0] for event in events()] == ["part-0"]


def test_a_gpu_that_is_gone_for_a_week_is_forgotten(fra):
    def see(uuid, at):
        advance(fra.pk, measurements([Series({"UUID": uuid}, {ENERGY: 1000.0})]), at)

    see("GPU-a", NOON)
    see("GPU-b", NOON + timedelta(days=7))
    assert set(CounterReading.objects.get().readings) == {"GPU-a/", "GPU-b/"}
    see("GPU-b", NOON + timedelta(days=7, seconds=30))
    assert set(CounterReading.objects.get().readings) == {"GPU-b/"}


def test_reading_counters_is_two_queries_for_any_number_of_devices(fra, django_assert_num_queries):
    def see(values, at):
        found = measurements(
            Series({"UUID": f"GPU-{number}"}, {ENERGY: value}) for number, value in enumerate(values)
        )
        advance(fra.pk, found, at)
        return found

    with django_assert_num_queries(2):
        see([1000.0] * 3, NOON)
    with django_assert_num_queries(2):
        seen = see([4000.0] * 300, NOON + HALF)
    joules = [measurement.energy_joules for measurement in seen.values()]
    assert joules == [3.0] * 3 + [None] * 297


def happened(fra, at, code=79, device="gpu-2", **fields):
    return HardwareEvent.objects.create(
        cluster=fra,
        driver="gpu.nvidia.com",
        pool="fra1-h100-03",
        device=device,
        at=at,
        kind="xid",
        code=code,
        **fields,
    )


def test_claim_page_shows_the_events_of_its_devices_while_it_held_them(client, alice, claim, fra, clock):
    hold(claim, NOON - timedelta(hours=2), NOON - timedelta(hours=1), device="gpu-2")
    happened(fra, NOON - timedelta(minutes=90))
    happened(fra, NOON - timedelta(minutes=30), code=31)
    happened(fra, NOON - timedelta(minutes=90), code=48, device="gpu-7")
    client.force_login(alice)
    page = client.get(reverse("usage:claim_fragment", args=[claim.pk])).text
    assert "XID 79" in page
    assert "The GPU has fallen off the bus" in page
    assert "XID 31" not in page
    assert "XID 48" not in page


def test_device_page_shows_events_with_their_meaning(client, alice, fra, clock):
    mirrored(fra, "gpu-2", "")
    device = Device.objects.get()
    HardwareEvent.objects.create(
        cluster=fra, driver=device.driver, pool=device.pool, device="gpu-2", at=NOON, kind="xid", code=94
    )
    HardwareEvent.objects.create(
        cluster=fra, driver=device.driver, pool=device.pool, device="gpu-2", at=NOON, kind="ecc", count=2
    )
    client.force_login(alice)
    page = client.get(reverse("inventory:device", args=[device.pk])).text
    assert "XID 94" in page
    assert "Contained memory error" in page
    assert "2 uncorrected ECC errors" in page
    assert "https://docs.nvidia.com/deploy/xid-errors/" in page


def test_an_xid_that_is_not_in_the_table_leads_to_the_catalogue(client, alice, fra, clock):
    mirrored(fra, "gpu-2", "")
    device = Device.objects.get()
    HardwareEvent.objects.create(
        cluster=fra, driver=device.driver, pool=device.pool, device="gpu-2", at=NOON, kind="xid", code=999
    )
    client.force_login(alice)
    page = client.get(reverse("inventory:device", args=[device.pk])).text
    assert "XID 999" in page
    assert "See NVIDIA" in page


def test_events_are_kept_for_four_hundred_days(fra):
    happened(fra, NOON - KEEP)
    old = happened(fra, NOON - KEEP - HALF)
    assert prune_events(NOON) == 1
    assert not HardwareEvent.objects.filter(pk=old.pk).exists()


def test_every_metric_that_is_read_has_a_value_of_its_own():
    found = measurements([Series({"UUID": "GPU-a"}, {metric: 0.0}) for metric in METRICS])
    (measurement,) = found.values()
    assert found.keys() == {SeriesKey(uuid="GPU-a")}
    values = {
        name: getattr(measurement, name)
        for name in (
            "sm_activity",
            "tensor_activity",
            "memory_activity",
            "memory_total",
            "temperature",
            "pcie_bytes",
            "nvlink_bytes",
        )
    }
    assert set(values.values()) == {0}
    assert len(measurement.counters) == 6
