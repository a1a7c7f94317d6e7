"""Exact rows of pages and of the API, with two clusters that share names, and things that are gone."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from cluster.protocol import DEVICE_CLASS, NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from inventory.counts import fleet_counts
from inventory.fleet import PoolFacts, fleet_map, pool_facts, totals
from inventory.holders import holders_for
from inventory.models import Cluster, Device, DeviceClass, Freshness, Node, ObjectEvent, ResourceClaim
from inventory.states import DeviceState, Holder
from inventory.sync.list_watch import sync_once
from inventory.views import COLUMNS, nodes_for_list
from teams.models import User
from tests.fakes import FakeGateway
from tests.inventory.conftest import DRIVER, device_class, gpu, node, resource_claim, slice_of

pytestmark = pytest.mark.django_db
H200 = {"product": "NVIDIA H200", "memory": "141Gi"}


@pytest.fixture
def ber(db):
    """node-a again, with one H200 that is held; node-c, that is cordoned, with a broken GPU and one."""
    fake = FakeGateway(name="ber-1")
    lost = [{"key": "gpu.nvidia.com/gpu-lost", "effect": "NoSchedule"}]
    fake.put(NODE, node("node-a"))
    fake.put(NODE, node("node-c", unschedulable=True))
    fake.put(NODE, node("node-d", ready=False, unschedulable=True))
    fake.put(RESOURCE_SLICE, slice_of("node-a", [gpu(0, **H200)]))
    fake.put(RESOURCE_SLICE, slice_of("node-c", [gpu(0, taints=lost), gpu(1)]))
    fake.put(DEVICE_CLASS, device_class())
    fake.put(DEVICE_CLASS, device_class("mig", kind="mig"))
    fake.put(RESOURCE_CLAIM, resource_claim("theirs", "gpu-0"))
    cluster = Cluster.objects.create(name="ber-1", uid=fake.uid, credentials=b"")
    sync_once(cluster, fake)
    return cluster


@pytest.fixture
def both(ber, mirrored, fake, run_session):
    """And in fra-1: gpu-0 of node-a is held, a device, a node and a class are gone."""
    fake.put(RESOURCE_CLAIM, resource_claim("mine", "gpu-0"))
    fake.put(RESOURCE_SLICE, slice_of("node-b", [gpu(1)], generation=2))
    fake.put(NODE, node("node-z"))
    run_session("resourceclaims")
    run_session("resourceslices")
    run_session("nodes")
    fake.remove(NODE, "node-z")
    run_session("nodes")
    gone = DeviceClass.objects.get(cluster=ber, name="mig")
    DeviceClass.objects.filter(pk=gone.pk).update(gone_at=timezone.now())
    return ber, mirrored


@pytest.fixture
def as_alice(client):
    client.force_login(User.objects.create_user("alice"))
    return client


def test_figures_of_nodes_count_their_own_devices_that_are_there(both):
    found = nodes_for_list().order_by("cluster__name", "name")
    columns = ("cluster__name", "name", "device_count", "held_count", "free_count", "condition")
    assert list(found.values_list(*columns)) == [
        ("ber-1", "node-a", 1, 1, 0, "ready"),
        ("ber-1", "node-c", 2, 0, 0, "cordoned"),
        ("ber-1", "node-d", 0, 0, 0, "not-ready"),
        ("fra-1", "node-a", 2, 1, 1, "ready"),
        ("fra-1", "node-b", 1, 0, 1, "ready"),
    ]


@pytest.mark.parametrize(
    ("facts", "free"),
    [
        ({}, 1),
        ({"pool_complete": False}, 0),
        ({"condition": "tainted"}, 0),
        ({"condition": "unhealthy"}, 0),
        ({"gone_at": "2026-01-01T00:00Z"}, 0),
    ],
)
def test_a_device_of_a_node_is_free_when_nothing_is_wrong_with_it(mirrored, facts, free):
    Device.objects.filter(pool="node-b").update(**facts)
    assert nodes_for_list().get(name="node-b").free_count == free


def names(devices):
    return sorted(f"{one.cluster} {one.pool} {one.name}" for one in devices)


DEVICES = {
    "cluster=ber-1": ["ber-1 node-a gpu-0", "ber-1 node-c gpu-0", "ber-1 node-c gpu-1"],
    "product=NVIDIA+H200": ["ber-1 node-a gpu-0"],
    "state=cordoned": ["ber-1 node-c gpu-1"],
    "state=unhealthy": ["ber-1 node-c gpu-0"],
    "state=in-use": ["ber-1 node-a gpu-0", "fra-1 node-a gpu-0"],
    "state=in-use&cluster=fra-1": ["fra-1 node-a gpu-0"],
    "memory=141": ["ber-1 node-a gpu-0"],
    "q=node-b": ["fra-1 node-b gpu-1"],
    "q=ber-1": [],
}


def test_the_list_of_devices_shows_those_that_match(both, as_alice):
    def found(query):
        page = as_alice.get(f"{reverse('inventory:devices')}?{query}")
        return names(page.context["listing"].page.object_list)

    assert {query: found(query) for query in DEVICES} == DEVICES


@pytest.mark.parametrize(
    ("memory_gib", "query", "count"),
    [(15.2, "16", 1), (15.19, "16", 0), (76, "80", 1), (75.99, "80", 0)],
)
def test_memory_filter_rounds_to_nominal_sizes(mirrored, as_alice, memory_gib, query, count):
    Device.objects.update(memory_bytes=None)
    Device.objects.filter(pool="node-b").update(memory_bytes=int(memory_gib * 2**30))
    page = as_alice.get(f"{reverse('inventory:devices')}?memory={query}")
    assert page.context["listing"].total == count


NODES = {
    "state=ready": ["ber-1 node-a", "fra-1 node-a", "fra-1 node-b"],
    "state=cordoned": ["ber-1 node-c"],
    "state=not-ready": ["ber-1 node-d"],
    "cluster=fra-1": ["fra-1 node-a", "fra-1 node-b"],
    "q=ber-1": ["ber-1 node-a", "ber-1 node-c", "ber-1 node-d"],
    "q=node-b": ["fra-1 node-b"],
}


def test_the_list_of_nodes_shows_those_that_match(both, as_alice):
    def found(query):
        page = as_alice.get(f"{reverse('inventory:nodes')}?{query}")
        return sorted(f"{row.cluster} {row.name}" for row in page.context["listing"].loaded)

    assert {query: found(query) for query in NODES} == NODES


@pytest.mark.parametrize(
    ("name", "shown"),
    [("node-c", ["Cordoned", "ber-1", "2", "0", "0"]), ("node-a", ["Ready", "ber-1", "1", "1", "0"])],
)
def test_a_row_of_the_list_of_nodes_has_the_cell_of_each_column(both, as_alice, name, shown):
    columns = [column.name for column in COLUMNS]
    page = as_alice.get(reverse("inventory:nodes"), {"q": f"{name} ber", "col": columns}).text
    (row,) = re.findall("<tr>(<td>.*?)</tr>", page, re.DOTALL)
    cells = [re.sub("<[^>]+>", "", cell) for cell in row.split("</td>") if cell]
    assert cells[:6] == [name, *shown]
    assert len(cells) == len(COLUMNS)
    assert f'href="{reverse("inventory:node", args=["ber-1", name])}"' in row
    assert f'href="{reverse("inventory:devices")}?cluster=ber-1&amp;q={name}"' in row


def test_filters_offer_existing_values_in_order(both, as_alice):
    filters = as_alice.get(reverse("inventory:devices")).context["listing"].filterset.form.fields

    def offered(name):
        return [str(value) for value, _ in filters[name].choices if value != ""]

    assert offered("product") == ["NVIDIA H100 80GB HBM3", "NVIDIA H200"]
    assert offered("device_class") == [DRIVER]
    assert offered("memory") == ["16", "24", "40", "48", "80", "141"]
    assert offered("cluster") == ["ber-1", "fra-1"]


API = "/api/v1"


DEVICES_OF_THE_API = {
    "devices/?cluster=ber-1&name=gpu-0": ["ber-1 node-a gpu-0", "ber-1 node-c gpu-0"],
    "devices/?pool=node-c": ["ber-1 node-c gpu-0", "ber-1 node-c gpu-1"],
    "devices/?node=node-b": ["fra-1 node-b gpu-1"],
    "devices/?product=h200": ["ber-1 node-a gpu-0"],
    "devices/?driver=other": [],
    "devices/?memory_gib=141": ["ber-1 node-a gpu-0"],
    "devices/?memory_gib=141.1": [],
    "devices/?state=unhealthy&state=cordoned": ["ber-1 node-c gpu-0", "ber-1 node-c gpu-1"],
    "devices/?device_class=mig": [],
}


def test_the_api_of_devices_answers_those_that_match(both, as_alice):
    def found(query):
        rows = as_alice.get(f"{API}/{query}").json()["results"]
        return sorted(f"{row['cluster']} {row['pool']} {row['name']}" for row in rows)

    assert {query: found(query) for query in DEVICES_OF_THE_API} == DEVICES_OF_THE_API


REST_OF_THE_API = {
    "nodes/": ["ber-1 node-a", "fra-1 node-a", "fra-1 node-b", "ber-1 node-c", "ber-1 node-d"],
    "nodes/?cluster=fra-1": ["fra-1 node-a", "fra-1 node-b"],
    "nodes/?name=node-a&cluster=ber-1": ["ber-1 node-a"],
    "nodes/?ready=false": ["ber-1 node-d"],
    "nodes/?unschedulable=true": ["ber-1 node-c", "ber-1 node-d"],
    "nodes/?unschedulable=true&ready=true": ["ber-1 node-c"],
    "device-classes/": ["ber-1 gpu.nvidia.com", "fra-1 gpu.nvidia.com"],
    "device-classes/?cluster=ber-1": ["ber-1 gpu.nvidia.com"],
    "device-classes/?name=mig": [],
}


def test_the_api_of_nodes_and_classes_answers_what_is_there_by_name(both, as_alice):
    for query, found in REST_OF_THE_API.items():
        rows = as_alice.get(f"{API}/{query}").json()["results"]
        assert [row["name"] for row in rows] == [one.split()[1] for one in found], query
        assert sorted(f"{row['cluster']} {row['name']}" for row in rows) == sorted(found), query


def test_the_api_of_clusters_counts_each_ones_own_devices(both, as_alice):
    Cluster.objects.filter(name="ber-1").update(
        title="Berlin", enabled=False, read_only=True, halt_reason="stopped", missing=["list pods"]
    )
    rows = as_alice.get(f"{API}/clusters/").json()["results"]
    by_name = {row.pop("name"): row for row in rows}
    freshness = by_name["ber-1"].pop("freshness")
    assert by_name["ber-1"] == {
        "id": str(both[0].pk),
        "title": "Berlin",
        "version": "v1.37.1",
        "simulated": False,
        "read_only": True,
        "end_policy": "run",
        "grams_per_kwh": None,
        "enabled": False,
        "halt_reason": "stopped",
        "missing": ["list pods"],
        "devices": 3,
        "devices_held": 1,
    }
    assert [row["resource"] for row in freshness] == sorted(
        Freshness.objects.filter(cluster=both[0]).values_list("resource", flat=True)
    )
    assert set(freshness[0]) == {"resource", "listed_at", "seen_at", "failed_at", "error"}
    assert (by_name["fra-1"]["devices"], by_name["fra-1"]["devices_held"]) == (3, 1)
    for query, found in (
        ("enabled=true", ["fra-1"]),
        ("enabled=false", ["ber-1"]),
        ("name=ber-1", ["ber-1"]),
        ("name=x", []),
    ):
        rows = as_alice.get(f"{API}/clusters/?{query}").json()["results"]
        assert [row["name"] for row in rows] == found


def test_the_api_tells_all_of_a_device(both, as_alice):
    ber, _ = both
    device = Device.objects.get(cluster=ber, pool="node-c", name="gpu-0")
    row = as_alice.get(f"{API}/devices/{device.pk}/").json()
    taints = row.pop("taints")
    assert [(one["key"], one["value"], one["effect"], one["source"]) for one in taints] == [
        ("gpu.nvidia.com/gpu-lost", "", "NoSchedule", "slice")
    ]
    for name in ("appeared_at", "changed_at"):
        assert row.pop(name) == getattr(device, name).isoformat().replace("+00:00", "Z")
    assert row == {
        "id": str(device.pk),
        "cluster": "ber-1",
        "node_name": "node-c",
        "driver": DRIVER,
        "pool": "node-c",
        "name": "gpu-0",
        "product": "NVIDIA H100 80GB HBM3",
        "kind": "gpu",
        "partition": "",
        "uuid": "GPU-0",
        "parent_uuid": "",
        "memory_bytes": 81559 * 2**20,
        "state": "unhealthy",
        "pool_complete": True,
        "shareable": False,
        "classes": [DRIVER],
        "holder": None,
        "attributes": device.attributes,
        "capacity": device.capacity,
    }
    Device.objects.filter(pk=device.pk).update(gone_at=timezone.now())
    assert as_alice.get(f"{API}/devices/{device.pk}/").status_code == 404


def test_the_api_tells_all_of_a_node_and_of_a_class(both, as_alice):
    ber, _ = both
    Node.objects.filter(cluster=ber, name="node-c").update(labels={"zone": "b"})
    row = Node.objects.get(cluster=ber, name="node-c")
    found = as_alice.get(f"{API}/nodes/{row.uid}/").json()
    assert found.pop("created_at")
    assert found == {
        "id": row.uid,
        "cluster": "ber-1",
        "name": "node-c",
        "ready": True,
        "unschedulable": True,
        "labels": {"zone": "b"},
        "devices": 2,
        "devices_held": 0,
        "devices_free": 0,
        "plugin_devices": {},
    }
    DeviceClass.objects.filter(cluster=ber).update(extended_resource="nvidia.com/gpu")
    there = DeviceClass.objects.get(cluster=ber, gone_at=None)
    gone = DeviceClass.objects.get(cluster=ber, name="mig")
    found = as_alice.get(f"{API}/device-classes/{there.uid}/").json()
    assert found.pop("created_at")
    assert found == {
        "id": there.uid,
        "cluster": "ber-1",
        "name": DRIVER,
        "selectors": [device_class()["spec"]["selectors"][0]["cel"]["expression"]],
        "extended_resource": "nvidia.com/gpu",
    }
    assert as_alice.get(f"{API}/device-classes/{gone.uid}/").status_code == 404


def test_totals_and_the_map_count_each_device_gpu_node_and_cluster_once(both):
    sums = totals(fleet_counts().values())
    assert (sums.devices, sums.nodes, sums.clusters) == (6, 4, 2)
    assert {figure.look.state: (figure.devices, figure.share) for figure in sums.figures} == {
        "in-use": (2, 2 / 6),
        "free": (2, 2 / 6),
        "tainted": (0, 0),
        "unhealthy": (1, 1 / 6),
        "cordoned": (1, 1 / 6),
    }
    assert (sums.held, sums.not_held, sums.sum_of_not_held) == (2, 4, "2 + 1 + 1")
    groups = fleet_map(fleet_counts(), person=AnonymousUser())
    told = [
        (
            group.title,
            group.clusters,
            [row.name for row in group.rows],
            group.count,
            group.free,
            group.states[DeviceState.UNHEALTHY],
        )
        for group in groups
    ]
    assert told == [
        ("H100 80GB HBM3", ["ber-1", "fra-1"], ["node-c", "node-a", "node-b"], 5, 2, 1),
        ("H200", ["ber-1"], ["node-a"], 1, 0, 0),
    ]
    names = (
        Device.objects.filter(product="NVIDIA H100 80GB HBM3").order_by("pool").values_list("name", "pool")
    )
    [(name, pool), *_others] = names
    matching = fleet_map(fleet_counts(), Device.objects.filter(name=name, pool=pool), person=AnonymousUser())
    cells = [cell for group in matching for row in group.rows for gpu in row.gpus for cell in gpu.cells]
    hits = Device.objects.filter(name=name, pool=pool, product="NVIDIA H100 80GB HBM3")
    assert {cell.pk for cell in cells if cell.hit} >= {device.pk for device in hits}
    assert any(not cell.hit for cell in cells)


def test_the_map_shows_the_models_that_a_filter_matches(both):
    [group] = fleet_map(fleet_counts(), Device.objects.filter(product="NVIDIA H200"), person=AnonymousUser())
    [cell] = [cell for row in group.rows for gpu in row.gpus for cell in gpu.cells]
    assert (group.title, group.count, cell.hit) == ("H200", 1, True)


def test_totals_of_nothing_are_zero(db):
    sums = totals(fleet_counts().values())
    assert (sums.devices, sums.gpus, sums.held, sums.sum_of_not_held) == (0, 0, 0, "")
    assert [(figure.devices, figure.share) for figure in sums.figures] == [(0, 0)] * 4


def test_gpus_are_counted_by_parent_then_by_uuid_then_one_by_one(mirrored):
    first, second, third = Device.objects.order_by("pool", "name")
    Device.objects.update(uuid="", parent_uuid="")
    assert totals(fleet_counts().values()).gpus == 3
    Device.objects.filter(pk__in=[first.pk, second.pk]).update(uuid="GPU-1")
    assert totals(fleet_counts().values()).gpus == 2
    Device.objects.filter(pk=second.pk).update(uuid="MIG-1", parent_uuid="GPU-1")
    Device.objects.filter(pk=third.pk).update(uuid="MIG-2", parent_uuid="GPU-2")
    assert totals(fleet_counts().values()).gpus == 2


def test_the_fleet_page_shows_the_models_that_match_and_counts_the_hits(both, as_alice):
    def page(query=""):
        context = as_alice.get(f"{reverse('inventory:fleet')}{query}").context
        return [group.title for group in context["groups"]], context["hits"], context["totals"].devices

    every = ["H100 80GB HBM3", "H200"]
    assert page() == (every, None, 6)
    assert page("?memory=141") == (["H200"], 1, 6)
    assert page("?state=in-use") == (every, 2, 6)
    assert page("?cluster=fra-1") == (every[:1], 3, 6)
    assert page("?device_class=gpu.nvidia.com&product=NVIDIA+H200") == (["H200"], 1, 6)
    assert page("?cluster=fra-1&memory=141") == ([], 0, 6)
    assert page("?cluster=nowhere") == (every, None, 6)


@pytest.mark.parametrize("max_cells", [1, 2, 3, 6])
def test_headings_of_the_fleet_count_devices_that_have_no_cell(both, as_alice, monkeypatch, max_cells):
    monkeypatch.setattr("inventory.fleet.MAX_CELLS", max_cells)
    response = as_alice.get(reverse("inventory:fleet"))
    groups = response.context["groups"]
    unhealthy = DeviceState.UNHEALTHY
    assert [(group.title, group.count, group.free, group.states[unhealthy]) for group in groups] == [
        ("H100 80GB HBM3", 5, 2, 1),
        ("H200", 1, 0, 0),
    ]
    assert [group.clusters for group in groups] == [["ber-1", "fra-1"], ["ber-1"]]
    assert sum(len(gpu.cells) for group in groups for row in group.rows for gpu in row.gpus) == max_cells
    assert response.context["hidden"] == sum(group.hidden for group in groups) == 6 - max_cells
    page = " ".join(response.text.split())
    assert ("not fit on the map" in page) is (max_cells < 6)
    assert (">1 more in the table</a>" in page) is (max_cells < 6)


def test_the_page_of_a_node_shows_its_own_devices_and_history(both, as_alice):
    context = as_alice.get(reverse("inventory:node", args=["fra-1", "node-a"])).context
    assert [one.name for one in context["devices"]] == ["gpu-0", "gpu-1"]
    assert {one.cluster.name for one in context["devices"]} == {"fra-1"}
    assert [age.cluster.name for age in context["ages"]] == ["fra-1"]
    assert as_alice.get(reverse("inventory:node", args=["fra-1", "node-z"])).status_code == 404
    assert as_alice.get(reverse("inventory:node", args=["fra-1", "node-c"])).status_code == 404


def test_a_page_of_a_node_is_as_old_as_nodes_slices_and_claims(both, as_alice):
    address = reverse("inventory:node", args=["fra-1", "node-a"])
    for resource in ("nodes", "resourceslices", "resourceclaims"):
        Freshness.objects.update(seen_at=timezone.now())
        assert not as_alice.get(address).context["ages"][0].is_stale
        Freshness.objects.filter(resource=resource).update(seen_at=timezone.now() - timedelta(days=1))
        assert as_alice.get(address).context["ages"][0].is_stale


def test_the_page_of_a_device_names_the_other_parts_of_its_gpu_in_its_cluster(both, as_alice):
    ber, _ = both
    Device.objects.filter(product="NVIDIA H100 80GB HBM3").update(parent_uuid="GPU-x")
    mine = Device.objects.get(cluster=ber, pool="node-c", name="gpu-0")

    def siblings():
        page = as_alice.get(reverse("inventory:device", args=[mine.pk]))
        return names(other for other, _width in page.context["partitions"])

    assert siblings() == ["ber-1 node-c gpu-0", "ber-1 node-c gpu-1"]
    Device.objects.filter(cluster=ber, name="gpu-1").update(gone_at=timezone.now())
    assert "ber-1 node-c gpu-1" not in siblings()
    Device.objects.update(parent_uuid="", gone_at=None)
    assert siblings() == []


def test_the_page_of_a_cluster_has_its_own_figures_freshness_and_history(both, as_alice):
    ber, fra = both
    Freshness.objects.filter(cluster=ber).update(seen_at="2026-01-01T00:00Z")
    Freshness.objects.filter(cluster=fra, resource="pods").delete()
    context = as_alice.get(reverse("inventory:cluster", args=["fra-1"])).context
    assert context["totals"].devices == 3
    assert {change.line.at for change in context["history"]} <= set(
        ObjectEvent.objects.filter(cluster=fra).values_list("at", flat=True)
    )
    assert context["history"]
    stale = {row["name"]: (row["stale"], row["optional"]) for row in context["resources"]}
    assert stale == {
        "namespaces": (False, False),
        "nodes": (False, True),
        "deviceclasses": (False, False),
        "resourceslices": (False, False),
        "resourceclaimtemplates": (False, False),
        "resourceclaims": (False, False),
        "pods": (True, False),
        "devicetaintrules": (False, True),
    }


def test_clusters_as_csv_have_the_figures_of_the_page(both, as_alice):
    address = reverse("inventory:clusters")
    rows = as_alice.get(address).context["rows"]
    assert [(one.name, one.device_count, one.held_count, age.cluster.name) for one, age in rows] == [
        ("ber-1", 3, 1, "ber-1"),
        ("fra-1", 3, 1, "fra-1"),
    ]
    lines = as_alice.get(f"{address}?format=csv").getvalue().decode("utf-8-sig").split("\r\n")
    assert lines[:3] == [
        "Cluster,Version,Devices,Held,Simulated",
        "ber-1,v1.37.1,3,1,False",
        "fra-1,v1.37.1,3,1,False",
    ]


def test_facts_of_a_pool_are_those_of_its_own_slices(both):
    ber, fra = both
    device = Device.objects.get(cluster=fra, pool="node-b", gone_at=None)
    assert pool_facts(device) == PoolFacts("node-b", 2, 1, 1, "")
    assert pool_facts(Device.objects.get(cluster=ber, pool="node-a")) == PoolFacts("node-a", 1, 1, 1, "")
    assert pool_facts(Device(cluster=ber, driver="other", pool="node-a")) is None
    assert pool_facts(Device(cluster=ber, driver=DRIVER, pool="node-b")) is None
    device.slice.__class__.objects.filter(cluster=fra).update(gone_at=timezone.now())
    assert pool_facts(device) is None


def test_holders_of_all_claims_are_read_at_once_and_others_are_hidden(both, monkeypatch):
    mine, theirs = ResourceClaim.objects.get(name="mine"), ResourceClaim.objects.get(name="theirs")
    alice, root = User.objects.create_user("alice"), User.objects.create_superuser("root")
    calls = []

    def visible_holders(person, claims):
        calls.append((person, sorted(claim.name for claim in claims)))
        return {mine.pk: Holder("mine of bev", "/claims/1/")}

    monkeypatch.setattr("claims.access.visible_holders", visible_holders)
    known, hidden = Holder("mine of bev", "/claims/1/"), Holder("another team", masked=True)
    assert holders_for(alice, [mine, theirs]) == {mine.pk: known, theirs.pk: hidden}
    assert calls == [(alice, ["mine", "theirs"])]
    assert holders_for(root, [theirs, mine]) == {mine.pk: known, theirs.pk: Holder("default/theirs")}
    assert holders_for(alice, []) == {}
    assert len(calls) == 2


def test_devices_of_a_state_are_those_that_the_list_shows_in_it(both):
    devices = Device.objects.with_state()
    assert {device.state for device in devices} >= {"in-use", "free", "unhealthy", "cordoned"}
    free = Device.objects.filter(held_by=None, condition="good").first()
    Device.objects.filter(pk=free.pk).update(blocked=True)
    Device.objects.filter(condition="unhealthy").update(condition="tainted")
    choices: list[list[str]] = [[state] for state in DeviceState]
    for states in (*choices, ["free", "cordoned"], ["in-use", "tainted"], []):
        expected = {device.pk for device in Device.objects.with_state() if device.state in states}
        assert {device.pk for device in Device.objects.in_state(*states)} == expected, states


@pytest.mark.parametrize(
    ("words", "count"),
    [("NODE-B", 1), ("h200 ber", 0), ("h200 node-a", 1), ("node-a gpu-0", 2), ("a gpu-0 h2", 1), ("%", 0)],
)
def test_a_device_is_found_by_words_of_several_columns_in_any_case(both, as_alice, words, count):
    page = as_alice.get("/devices/", {"q": words}).context["listing"].page
    assert len(page.object_list) == count


def test_a_search_of_devices_joins_no_other_table(both, as_alice):
    """PostgreSQL then reads the texts of slices, and those of devices, without the rows of other tables."""
    with CaptureQueriesContext(connection) as queries:
        as_alice.get(reverse("inventory:devices"), {"q": "gpu"})
    searches = [query["sql"] for query in queries if "LIKE" in query["sql"]]
    assert len(searches) == 2
    assert not any("JOIN" in search for search in searches)


@pytest.mark.parametrize("sort", ["state", "-state"])
def test_devices_are_sorted_by_the_state_that_they_show(both, as_alice, sort):
    page = as_alice.get(reverse("inventory:devices"), {"sort": sort})
    states = [row.state for row in page.context["listing"].loaded]
    assert len(set(states)) > 1
    assert states == sorted(states, reverse=sort.startswith("-"))
