"""Which held devices are idle or not measured, and who sees it on the map and in the list."""

import csv
import re
from datetime import timedelta

import pytest
import time_machine
from django.urls import reverse

from claims.states import ClaimState
from inventory.counts import store_counts, store_uses
from inventory.models import Device, DeviceUtilization, FleetCount, ResourceClaim
from inventory.states import DeviceUse
from tests.factories import make_claim, make_profile
from tests.usage.conftest import NOON, hold, measure
from tests.usage.test_collect import line, mirrored
from tests.usage.test_telemetry import limits
from usage.collect import collect
from usage.models import Collection, Rollup
from usage.samples import EVERY, Measurement, RollupDevice, add_samples, measurements
from usage.sources import parse_exposition
from usage.telemetry import device_uses

FIVE = timedelta(minutes=5)
IDLE, NO_TELEMETRY = DeviceUse.IDLE, DeviceUse.NO_TELEMETRY


def uses(cluster, now=NOON):
    return {name: use for (_driver, _pool, name), use in device_uses(cluster.pk, now=now).items()}


@pytest.mark.parametrize(
    ("began", "activities", "use"),
    [
        (120, [0.05] * 6, IDLE),
        (120, [0.05] * 5, None),
        (120, [*[0.05] * 5, 0.1], None),
        (120, [0.05, 0.05, None, 0.05, 0.05, 0.05], None),
        (120, [0.05, 0.05, 0.05, 0.05, None, None], None),
        (120, [0.9, 0.9, None, None, None, None], NO_TELEMETRY),
        (120, [], NO_TELEMETRY),
        (21, [], NO_TELEMETRY),
        (20, [], None),
    ],
)
def test_six_quiet_buckets_are_idle_and_three_missing_ones_no_telemetry(claim, fra, began, activities, use):
    held = hold(claim, NOON - timedelta(minutes=began), device="gpu-0")
    measure(held, NOON - len(activities) * FIVE, activities)
    assert [kind for kind, _since in uses(fra).values()] == ([use] if use else [])


def test_buckets_of_the_future_and_of_ended_holdings_do_not_count(claim, fra):
    measure(hold(claim, NOON - timedelta(hours=2), device="gpu-0"), NOON - 6 * FIVE, [*[0.0] * 6, 1.0])
    measure(hold(claim, NOON - timedelta(hours=2), NOON, device="gpu-1"), NOON - 6 * FIVE, [0.0] * 6)
    assert uses(fra, NOON + FIVE / 2) == {"gpu-0": (IDLE, NOON - timedelta(minutes=30))}


def test_the_busiest_of_two_claims_decides_for_a_shared_device(claim, vision, alice, fra):
    other = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    for holder, activity in ((claim, 0.0), (other, 0.5)):
        measure(hold(holder, NOON - timedelta(hours=2), device="gpu-0"), NOON - 6 * FIVE, [activity] * 6)
    assert uses(fra) == {}


@pytest.mark.parametrize(
    ("percent", "minutes", "idle"), [(10, 30, False), (20, 30, True), (20, 60, False), (16, 40, True)]
)
def test_devices_are_idle_by_the_limits_of_the_profile(claim, fra, percent, minutes, idle):
    limits(claim, percent, minutes)
    measure(hold(claim, NOON - timedelta(hours=2), device="gpu-0"), NOON - 8 * FIVE, [0.15] * 8)
    assert uses(fra) == ({"gpu-0": (IDLE, NOON - timedelta(minutes=minutes))} if idle else {})


def test_the_strictest_profile_decides_for_a_shared_device(claim, vision, alice, fra):
    patient = make_profile("patient", idle_percent=50, idle_after=timedelta(hours=1))
    other = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, profile=patient)
    for holder in (claim, other):
        measure(hold(holder, NOON - timedelta(hours=2), device="gpu-0"), NOON - 12 * FIVE, [0.05] * 11)
    assert uses(fra) == {}
    for holder in (claim, other):
        measure(holder.allocations.get(), NOON - FIVE, [0.05])
    assert uses(fra) == {"gpu-0": (IDLE, NOON - timedelta(hours=1))}


@pytest.mark.parametrize("value", [127622, 808334905, 4294967295, 101, -1, "NaN"])
@pytest.mark.parametrize("metric", [("DCGM_FI_DEV_GPU_UTIL", 1), ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.01)])
def test_implausible_sample_does_not_end_idle(claim, fra, metric, value):
    held = hold(claim, NOON - timedelta(hours=2), device="gpu-2")
    name, quiet = metric
    what = RollupDevice(claim.pk, held.driver, held.pool, held.device)
    for number in range(60):
        text = [line(name, value if number == 31 else quiet), line("DCGM_FI_DEV_FB_USED", 4294967295)]
        (measurement,) = measurements(parse_exposition(text).series).values() or [Measurement()]
        add_samples(NOON - timedelta(minutes=30) + number * EVERY, [(what, measurement)])
    assert uses(fra) == {"gpu-2": (IDLE, NOON - timedelta(minutes=30))}
    assert set(Rollup.objects.values_list("activity_max", "memory_bytes")) == {(0.01, None)}


def test_one_sample_above_the_limit_and_few_samples_are_not_idle(claim, fra):
    held = hold(claim, NOON - timedelta(hours=2), device="gpu-0")
    measure(held, NOON - 6 * FIVE, [0.05] * 6, samples=4)
    assert uses(fra) == {}
    Rollup.objects.update(samples=5)
    assert set(uses(fra)) == {"gpu-0"}
    Rollup.objects.filter(bucket=NOON - FIVE).update(activity_max=0.4)
    assert uses(fra) == {}


@pytest.fixture
def fleet(claim, fra, serve):
    """Three held devices: busy, idle, and one that nobody measures; the exporter answers nothing."""
    for name, activity in (("busy", 0.9), ("quiet", 0.0), ("silent", None)):
        measure(hold(claim, NOON - timedelta(hours=2), device=name), NOON - 6 * FIVE, [activity] * 6)
        mirrored(fra, name, "")
    Device.objects.update(product="NVIDIA H100 80GB HBM3", node_name="node-a")
    fra.metrics_url = serve(lambda path, body: (500, ""))
    fra.save(update_fields=["metrics_url"])
    store_counts(changed_only=False)
    with time_machine.travel(NOON, tick=False) as clock:
        collect(fra.pk)
        yield clock


def rows():
    stored = DeviceUtilization.objects.values_list("device__name", "use", "since")
    return {name: (use, since) for name, use, since in stored}


def test_a_collection_stores_the_uses_and_their_numbers_also_if_its_source_fails(fleet, fra):
    assert {name: use for name, (use, _since) in rows().items()} == {"quiet": IDLE, "silent": NO_TELEMETRY}
    assert FleetCount.objects.get().uses == {"idle": 1, "no-telemetry": 1}


def test_a_device_that_stays_idle_keeps_its_time_and_one_that_works_has_no_row(fleet, claim, fra):
    since = rows()["quiet"][1]
    quiet = claim.allocations.get(device="quiet")
    measure(quiet, NOON, [0.0] * 2)
    fleet.shift(2 * FIVE)
    Collection.objects.all().delete()
    collect(fra.pk)
    assert rows()["quiet"] == (IDLE, since)
    measure(quiet, NOON + 2 * FIVE, [0.8])
    fleet.shift(FIVE)
    Collection.objects.all().delete()
    collect(fra.pk)
    assert set(rows()) == {"silent"}
    assert FleetCount.objects.get().uses == {"idle": 0, "no-telemetry": 1}


def test_uses_are_stored_once_per_bucket(fleet, fra):
    DeviceUtilization.objects.all().delete()
    fleet.shift(timedelta(seconds=31))
    collect(fra.pk)
    assert not rows()
    fleet.shift(FIVE - timedelta(seconds=31))
    collect(fra.pk)
    assert set(rows()) == {"silent"}


def cells(client):
    page = client.get(reverse("inventory:fleet"))
    groups = page.context["groups"]
    figures = {figure.look.state: figure.devices for figure in page.context["totals"].figures}
    shown = {
        cell.name: cell.look.state
        for group in groups
        for row in group.rows
        for gpu in row.gpus
        for cell in gpu.cells
    }
    return shown, figures, page.content.decode()


def names_in(client, query):
    lines = client.get(f"/devices/?{query}&format=csv").getvalue().decode().splitlines()
    return [row["Device"] for row in csv.DictReader(lines)]


def test_admin_sees_idle_and_unmeasured_devices_on_the_map_and_in_the_totals(fleet, client, root):
    client.force_login(root)
    shown, figures, page = cells(client)
    assert shown == {"busy": "in-use", "quiet": "idle", "silent": "no-telemetry"}
    assert (figures["in-use"], figures["idle"], figures["no-telemetry"]) == (1, 1, 1)
    assert "1 + 1 + 1 = <b>3 held</b>" in page
    assert 'href="/devices/?state=idle"' in page


def test_other_people_see_that_devices_are_in_use_and_no_more(fleet, client, alice, eve):
    for person in (alice, eve):
        client.force_login(person)
        shown, figures, page = cells(client)
        assert set(shown.values()) == {"in-use"}
        assert figures["in-use"] == 3
        assert "idle" not in figures
        assert "?state=idle" not in page
        assert len(names_in(client, "state=in-use")) == 3
        listed = client.get("/devices/")
        assert "Idle" not in listed.content.decode()
        assert names_in(client, "state=idle") == names_in(client, "state=nonsense")
        quiet = Device.objects.get(name="quiet")
        # Its own team sees since when it is idle, as on the page of its claim.
        assert ("Idle now" in client.get(f"/devices/{quiet.pk}/").content.decode()) is (person == alice)


def test_admin_filters_the_list_by_use_and_sees_since_when(fleet, client, root):
    client.force_login(root)
    assert names_in(client, "state=idle") == ["quiet"]
    assert names_in(client, "state=no-telemetry") == ["silent"]
    assert names_in(client, "state=in-use") == ["busy"]
    assert names_in(client, "state=held") == ["busy", "quiet", "silent"]
    page = client.get(f"/devices/{Device.objects.get(name='quiet').pk}/").content.decode()
    assert "Idle" in page
    assert re.search(r"for <time[^>]*>30 min</time>", page)


def test_what_was_measured_of_an_earlier_holder_says_nothing(fleet, client, root, fra):
    later = ResourceClaim.objects.create(cluster=fra, uid="later", name="later", namespace="nlp", raw={})
    Device.objects.filter(name="quiet").update(held_by=later)
    client.force_login(root)
    assert cells(client)[0]["quiet"] == "in-use"
    assert names_in(client, "state=idle") == []
    assert names_in(client, "state=in-use") == ["busy", "quiet"]


def test_figures_add_up_while_a_released_device_is_still_counted_as_idle(fleet, client, root, fra):
    store_uses(fra.pk, device_uses(fra.pk, now=NOON))
    Device.objects.update(held_by=None)
    store_counts(changed_only=False)
    client.force_login(root)
    figures = cells(client)[1]
    assert sum(figures.values()) == 3
    assert min(figures.values()) >= 0
