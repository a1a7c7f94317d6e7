"""How many GPUs a cluster had, from when to when."""

from collections import defaultdict
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pytest
import time_machine
from django.db import IntegrityError

from cluster.protocol import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from dra.devices import describe
from inventory import fleet_history
from inventory.models import BasisKey, Device, FleetSpan
from inventory.models.mirror import Ownership
from inventory.tasks import count_fleet
from tests.factories import make_cluster
from tests.inventory.conftest import DRIVER, gpu, node, resource_claim, slice_of
from tests.inventory.test_fleet_map import mig
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db
H100 = "NVIDIA H100 80GB HBM3"
START = datetime(2026, 11, 20, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
MILLION = 10**6
Use = FleetSpan.Use


def own_gpu(node_name: str, index: int) -> dict[str, Any]:
    device = gpu(index)
    device["attributes"]["uuid"] = {"string": f"GPU-{node_name}-{index}"}
    return device


@pytest.fixture
def two_nodes(fake):
    for name in ("node-a", "node-b"):
        fake.put(RESOURCE_SLICE, slice_of(name, [own_gpu(name, index) for index in range(2)], generation=2))
    return fake


def spans():
    rows = FleetSpan.objects.order_by("started_at", "use")
    return [(row.use, row.parts / MILLION, row.started_at, row.ended_at) for row in rows]


def count_at(instant):
    with time_machine.travel(instant, tick=False):
        count_fleet()


def test_span_ends_where_the_number_of_gpus_changes(mirrored, two_nodes, run_session):
    run_session("resourceslices")
    count_at(START)
    two_nodes.put(RESOURCE_SLICE, slice_of("node-b", [own_gpu("node-b", 0)], generation=3))
    run_session("resourceslices")
    count_at(START + 2 * HOUR)
    assert spans() == [
        (Use.AVAILABLE, 4, START, START + 2 * HOUR),
        (Use.AVAILABLE, 3, START + 2 * HOUR, None),
    ]


def parts_by_use(cluster, model="H100"):
    sums: dict[FleetSpan.Use, int] = defaultdict(int)
    for (basis, use), value in fleet_history.count_parts(cluster.pk).items():
        if model in basis.product:
            sums[use] += value
    return dict(sums)


def test_same_count_again_begins_no_span(mirrored, two_nodes, run_session):
    run_session("resourceslices")
    count_at(START)
    parts = fleet_history.count_parts(mirrored.pk)
    assert fleet_history.record(mirrored.pk, parts, now=START + HOUR) == 0
    assert spans() == [(Use.AVAILABLE, 4, START, None)]


def test_last_gpu_that_goes_ends_the_span(mirrored, two_nodes, run_session):
    run_session("resourceslices")
    count_at(START)
    for name in ("node-a", "node-b"):
        two_nodes.put(RESOURCE_SLICE, slice_of(name, [], generation=4))
    run_session("resourceslices")
    count_at(START + HOUR)
    assert spans() == [(Use.AVAILABLE, 4, START, START + HOUR)]


def test_gpus_of_a_node_that_is_not_ready_are_out_of_service_unless_held(mirrored, two_nodes, run_session):
    two_nodes.put(NODE, node("node-b", ready=False))
    two_nodes.put(RESOURCE_CLAIM, resource_claim("foreign", "gpu-0", pool="node-b"))
    for plural in ("resourceslices", "nodes", "resourceclaims"):
        run_session(plural)
    assert parts_by_use(mirrored) == {
        Use.AVAILABLE: 2 * MILLION,
        Use.OUT_OF_SERVICE: MILLION,
        Use.UNMANAGED: MILLION,
    }


def test_partition_of_an_unmanaged_claim_counts_as_its_fraction(mirrored, fake, run_session):
    fake.put(RESOURCE_SLICE, slice_of("node-a", [mig("GPU-x", i, "1g.10gb") for i in range(7)], generation=2))
    fake.put(RESOURCE_CLAIM, resource_claim("foreign", "gpu-x-mig-0", "gpu-x-mig-1"))
    for plural in ("resourceslices", "resourceclaims"):
        run_session(plural)
    held = Device.objects.present().exclude(held_by=None)
    assert held.count() == 2
    assert parts_by_use(mirrored, "A100") == {Use.UNMANAGED: 2 * 142857, Use.AVAILABLE: MILLION - 2 * 142857}


def test_count_that_arrives_late_ends_no_span_before_its_begin(mirrored, two_nodes):
    kind = (BasisKey(mirrored.pk, DRIVER, H100, "", ""), Use.AVAILABLE)
    fleet_history.record(mirrored.pk, {kind: MILLION}, now=START)
    fleet_history.record(mirrored.pk, {kind: 2 * MILLION}, now=START - HOUR)
    assert spans() == [(Use.AVAILABLE, 1, START, START), (Use.AVAILABLE, 2, START, None)]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_second_of_two_counts_ends_the_span_of_the_first(monkeypatch, locked):
    fra = make_cluster("fra-1")
    kind = (BasisKey(fra.pk, DRIVER, H100, "", ""), Use.AVAILABLE)
    race = Race(monkeypatch)
    race.hold_after(fleet_history, "_open_spans")
    if not locked:
        without_lock(monkeypatch, "inventory.fleet_history.record")
    first = partial(fleet_history.record, fra.pk, {kind: MILLION}, now=START)
    second = partial(fleet_history.record, fra.pk, {kind: 2 * MILLION}, now=START + HOUR)
    if locked:
        race.run(first, second)
        expected = [(Use.AVAILABLE, 1, START, START + HOUR), (Use.AVAILABLE, 2, START + HOUR, None)]
        assert spans() == expected
    else:
        with pytest.raises(IntegrityError):  # two open spans of one kind
            race.run(first, second)
    assert race.waited is locked


@pytest.mark.parametrize("seed", range(3))
def test_open_spans_add_up_to_all_gpus_after_random_changes(mirrored, fake, run_session, seed):
    chance = Random(seed)
    for step in range(10):
        name = chance.choice(["node-a", "node-b", "node-c"])
        match chance.choice(["slice", "slice", "claim", "node", "release"]):
            case "slice":
                devices = [own_gpu(name, index) for index in range(chance.randrange(4))]
                devices += [mig(f"GPU-{name}", i, "1g.10gb") for i in range(chance.choice([0, 7]))]
                fake.put(RESOURCE_SLICE, slice_of(name, devices, generation=step + 2))
            case "claim":
                device = chance.choice(["gpu-0", f"gpu-{name}-mig-1"])
                fake.put(RESOURCE_CLAIM, resource_claim(f"claim-{name}", device, pool=name))
            case "release":
                fake.put(RESOURCE_CLAIM, resource_claim(f"claim-{name}", pool=name))
            case "node":
                fake.put(NODE, node(name, ready=chance.random() < 0.5))
        for plural in ("resourceslices", "nodes", "resourceclaims"):
            run_session(plural)
        count_at(START + step * HOUR)
        found: dict[tuple[str, str], int] = defaultdict(int)
        for span in FleetSpan.objects.filter(ended_at=None):
            found[span.product, span.use] += span.parts
        assert found == plain_parts()
    for product, use in FleetSpan.objects.values_list("product", "use").distinct():
        rows = list(FleetSpan.objects.filter(product=product, use=use).order_by("started_at", "ended_at"))
        assert all(row.ended_at <= later.started_at for row, later in pairwise(rows))


def plain_parts():
    """Count GPU by GPU what `count_parts` counts by query."""
    gpus = defaultdict(list)
    for device in Device.objects.present().with_state().select_related("held_by"):
        gpus[device.product, device.parent_uuid or device.uuid].append(device)
    parts: dict[tuple[str, str], int] = defaultdict(int)
    for (product, _gpu), devices in gpus.items():
        unmanaged = 0
        for device in devices:
            if device.held_by and device.held_by.ownership < Ownership.MANAGED:
                raw = {"attributes": device.attributes, "capacity": device.capacity}
                unmanaged += int(Fraction(describe(device.driver, raw).fraction) * MILLION)
        held = any(device.held_by for device in devices)
        if not held and any(device.state in fleet_history.OUT_OF_SERVICE for device in devices):
            parts[product, Use.OUT_OF_SERVICE] += MILLION
        else:
            parts[product, Use.UNMANAGED] += unmanaged
            parts[product, Use.AVAILABLE] += MILLION - unmanaged
    return {key: value for key, value in parts.items() if value}
