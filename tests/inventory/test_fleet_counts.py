"""Counts of devices by cluster, product and state: stored ones equal those that are counted now."""

from datetime import timedelta
from random import Random
from typing import Any

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from cluster.protocol import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from inventory import counts
from inventory.counts import fleet_counts, store_counts
from inventory.models import Cluster, Device, FleetCount, Freshness, NodeCount
from inventory.tasks import count_fleet
from inventory.views import nodes_for_list
from teams.models import User
from tests.inventory.conftest import gpu, node, resource_claim, slice_of
from tests.inventory.test_fleet_map import mig
from tests.recomputed import failed_check, recompute

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def states(cluster):
    rows = counts.device_groups([fleet_counts(cluster)[cluster.pk]])
    return sorted((group.state, group.devices) for _cluster, group in rows)


def queries(run):
    with CaptureQueriesContext(connection) as captured:
        run()
    return len(captured)


def hold_one(fake, run_session):
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    run_session("resourceclaims")


def test_stored_counts_are_read_with_one_query(mirrored):
    count_fleet()
    stored = fleet_counts()
    assert queries(fleet_counts) == 1
    assert stored[mirrored.pk].values() == counts.count_devices([mirrored.pk])[mirrored.pk].values()
    assert (stored[mirrored.pk].gpus, stored[mirrored.pk].nodes, states(mirrored)) == (2, 2, [("free", 3)])


def test_counts_older_than_a_minute_are_not_shown_after_a_change(mirrored, fake, run_session):
    count_fleet()
    hold_one(fake, run_session)
    assert states(mirrored) == [("free", 3)]
    with time_machine.travel(timezone.now() + HOUR, tick=False):
        assert states(mirrored) == [("free", 2), ("in-use", 1)]


def test_page_says_how_old_figures_are_that_the_map_is_ahead_of(mirrored, fake, run_session, client):
    client.force_login(User.objects.create_user("alice"))
    count_fleet()
    assert client.get(reverse("inventory:fleet")).context["counted_at"] is None
    hold_one(fake, run_session)
    Freshness.objects.update(seen_at=timezone.now())
    page = client.get(reverse("inventory:fleet"))
    assert page.context["counted_at"] == FleetCount.objects.get().counted_at
    assert "totals updated" in page.text
    assert {group.seen_at for group in page.context["groups"]} == {page.context["counted_at"]}


def test_counts_without_a_change_stay_current(mirrored):
    count_fleet()
    with time_machine.travel(timezone.now() + HOUR, tick=False):
        assert queries(fleet_counts) == 1


def test_only_changed_clusters_are_counted_again(mirrored, fake, run_session):
    count_fleet()
    Cluster.objects.create(name="osl-1", uid="o", credentials=b"")
    FleetCount.objects.update(counted_at=timezone.now() - HOUR)
    count_fleet()
    assert FleetCount.objects.get(cluster=mirrored).counted_at < timezone.now() - HOUR / 2
    assert FleetCount.objects.count() == 2
    hold_one(fake, run_session)
    count_fleet()
    assert states(mirrored) == [("free", 2), ("in-use", 1)]


def test_pages_show_stored_counts(mirrored, client):
    count_fleet()
    FleetCount.objects.update(groups=[["NVIDIA H100 80GB HBM3", True, "free", 7]], gpus=5, nodes=4)
    client.force_login(User.objects.create_user("alice"))
    fleet = client.get(reverse("inventory:fleet")).context
    assert (fleet["totals"].devices, fleet["totals"].gpus, fleet["totals"].nodes) == (7, 5, 4)
    assert [group.count for group in fleet["groups"]] == [7]
    assert client.get(reverse("inventory:cluster", args=["fra-1"])).context["totals"].devices == 7
    [(row, _age)] = client.get(reverse("inventory:clusters")).context["rows"]
    assert (row.device_count, row.held_count) == (7, 0)
    [listed] = client.get("/api/v1/clusters/").json()["results"]
    detail = client.get("/api/v1/clusters/fra-1/").json()
    assert (listed["devices"], detail["devices"], detail["devices_held"]) == (7, 7, 0)


@pytest.mark.parametrize("seed", range(3))
def test_counts_after_random_changes_equal_those_of_all_devices(mirrored, fake, run_session, seed):
    chance = Random(seed)
    for _step in range(12):
        name = chance.choice(["node-a", "node-b", "node-c"])
        match chance.choice(["slice", "slice", "claim", "node", "gone"]):
            case "slice":
                devices = [gpu(index) for index in range(chance.randrange(4))]
                devices += [mig(f"GPU-{name}", 8, chance.choice(["7g.80gb", "3g.40gb"]))] * (
                    chance.random() < 0.5
                )
                fake.put(RESOURCE_SLICE, slice_of(name, devices, generation=_step + 2))
            case "claim":
                fake.put(RESOURCE_CLAIM, resource_claim(f"claim-{name}", "gpu-0", pool=name))
            case "node":
                fake.put(NODE, node(name, ready=chance.random() < 0.5))
            case "gone":
                fake.put(RESOURCE_SLICE, slice_of(name, [], generation=_step + 2))
        for plural in ("resourceslices", "nodes", "resourceclaims"):
            run_session(plural)
        count_fleet()
        stored = FleetCount.objects.get(cluster=mirrored)
        present = Device.objects.present().with_state()
        expected: dict[tuple[str, str], int] = {}
        for device in present:
            key = (device.product, device.state)
            expected[key] = expected.get(key, 0) + 1
        found: dict[tuple[str, str], int] = {}
        for product, _is_whole, state, devices in stored.groups:
            found[product, state] = found.get((product, state), 0) + devices
        assert found == expected
        assert stored.nodes == len({device.node_name for device in present})
        assert stored.gpus == len({device.parent_uuid or device.uuid for device in present})
        nodes: Any = nodes_for_list()
        counted = nodes.values_list("pk", "device_count", "held_count", "free_count")
        assert set(NodeCount.objects.values_list("pk", "devices", "held", "free")) == set(counted)
        assert counts.find_differences() == 0


def test_recompute_repairs_missing_and_wrong_counts(mirrored):
    assert failed_check("fleet") == "fleet: 1 cluster, 3 rows to repair.\n"
    assert not FleetCount.objects.exists()
    assert recompute("fleet") == "fleet: 1 cluster, 3 rows repaired.\n"
    NodeCount.objects.update(free=9)
    assert failed_check("fleet") == "fleet: 1 cluster, 2 rows to repair.\n"
    assert recompute("fleet") == "fleet: 1 cluster, 2 rows repaired.\n"
    FleetCount.objects.update(gpus=9)
    assert store_counts() == 0  # its revision has not changed
    assert recompute("fleet") == "fleet: 1 cluster, 1 row repaired.\n"
    assert recompute("fleet", "--check") == "fleet: 1 cluster, 0 rows to repair.\n"
