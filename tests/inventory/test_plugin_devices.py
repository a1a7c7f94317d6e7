"""GPUs outside DRA: mirrored from nodes, counted with what pods request of them, explained on pages."""

import pytest

from cluster.protocol import NODE, POD
from inventory.counts import find_differences, fleet_counts, store_counts
from inventory.models import Cluster, Node, ObjectEvent
from inventory.plugin_devices import PluginDevices, of_node, summed
from inventory.sync.columns import columns, plugin_devices, trim
from tests.factories import make_user

GPU, SHARED, MIG = "nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.10gb"


def status(capacity, allocatable=None, *, beat="2026-11-23T10:00:00Z", ready="True"):
    ready = {"type": "Ready", "status": ready, "lastHeartbeatTime": beat, "message": "posting"}
    return {
        "capacity": {"cpu": "64", "pods": "110"} | capacity,
        "allocatable": {"cpu": "63", "pods": "110"} | (capacity if allocatable is None else allocatable),
        "conditions": [ready],
        "images": [{"names": ["cuda"]}],
    }


def node(name, capacity, allocatable=None, **fields):
    return {
        "metadata": {"name": name, "labels": {"pool": "a10"}},
        "status": status(capacity, allocatable, **fields),
    }


def pod(name, on, resources, *, phase="Running", claimed=()):
    containers = [{"name": "main", "resources": {"limits": {k: str(v) for k, v in resources.items()}}}]
    mappings = [{"resourceName": r, "containerName": "main", "requestName": "r"} for r in claimed]
    made = {"extendedResourceClaimStatus": {"resourceClaimName": "c", "requestMappings": mappings}}
    return {
        "metadata": {"name": name, "namespace": "vision"},
        "spec": {"nodeName": on, "containers": containers},
        "status": {"phase": phase, **(made if claimed else {})},
    }


def test_capacity_and_allocatable_of_gpus_are_read_and_nothing_else():
    capacity = {GPU: "8", SHARED: "0", MIG: "7", "amd.com/gpu": "4", "example.org/dongle": "1"}
    assert plugin_devices(status(capacity, {GPU: "6", MIG: "7"})) == {
        "amd.com/gpu": [4, 0],
        GPU: [8, 6],
        MIG: [7, 7],
    }
    assert plugin_devices({}) == {}
    assert plugin_devices(status({GPU: "many"})) == {}


def test_times_of_heartbeats_and_images_are_not_stored():
    stored = trim(Node, node("a10-1", {GPU: "4"}))
    assert "images" not in stored["status"]
    assert stored["status"]["conditions"] == [{"type": "Ready", "status": "True", "message": "posting"}]


@pytest.fixture
def a10(mirrored, fake, run_session):
    """Two nodes whose GPUs a device plugin advertises, one of them unhealthy."""
    fake.put(NODE, node("a10-1", {GPU: "4"}))
    fake.put(NODE, node("a10-2", {GPU: "4"}, {GPU: "3"}))
    run_session("nodes")
    return mirrored


def revision(cluster):
    return Cluster.objects.values_list("revision", flat=True).get(pk=cluster.pk)


def test_repeated_status_of_a_node_writes_nothing(a10, fake, run_session):
    before, rows = revision(a10), Node.objects.filter(cluster=a10).order_by("name").values()
    stored = list(rows)
    fake.put(NODE, node("a10-1", {GPU: "4"}, beat="2026-11-23T10:05:00Z"))
    run_session("nodes")
    run_session("nodes")
    assert revision(a10) == before
    assert list(rows.all()) == stored


@pytest.mark.parametrize(
    ("changed", "column", "value"),
    [
        (node("a10-1", {GPU: "4"}, {GPU: "2"}), "plugin_devices", {GPU: [4, 2]}),
        (node("a10-1", {}), "plugin_devices", {}),
        (node("a10-1", {GPU: "4"}, ready="False"), "ready", False),
        (node("a10-1", {GPU: "4"}) | {"spec": {"unschedulable": True}}, "unschedulable", True),
    ],
)
def test_changed_status_of_a_node_is_written(a10, fake, run_session, changed, column, value):
    before = revision(a10)
    fake.put(NODE, changed)
    run_session("nodes")
    assert revision(a10) == before + 1
    assert getattr(Node.objects.get(name="a10-1"), column) == value


def test_column_that_an_earlier_version_did_not_have_is_filled_by_the_next_heartbeat(a10, fake, run_session):
    Node.objects.update(plugin_devices={}, node_pool="old")
    fake.put(NODE, node("a10-1", {GPU: "4"}, beat="2026-11-23T10:05:00Z"))
    run_session("nodes")
    assert Node.objects.filter(name="a10-1").values_list("plugin_devices", "node_pool").get() == (
        {GPU: [4, 4]},
        "",
    )


def test_node_that_comes_back_with_the_same_status_is_there_again(a10, fake, run_session):
    Node.objects.filter(name="a10-1").update(gone_at="2026-11-23T10:00:00Z")
    fake.put(NODE, node("a10-1", {GPU: "4"}, beat="2026-11-23T10:05:00Z"))
    run_session("nodes")
    assert Node.objects.get(name="a10-1").gone_at is None


@pytest.fixture
def used(a10, fake, run_session):
    """Running pods with 2 + 1 GPUs of the plugin; one that ended, one with a claim, one elsewhere."""
    for made in (
        pod("train", "a10-1", {GPU: 2}),
        pod("notebook", "a10-2", {GPU: 1}),
        pod("done", "a10-1", {GPU: 4}, phase="Succeeded"),
        pod("by-driver", "a10-1", {GPU: 1}, claimed=[GPU]),
        pod("elsewhere", "node-a", {GPU: 1}),
        pod("waits", "", {GPU: 3}, phase="Pending"),
        pod("mig", "a10-1", {MIG: 1}),
    ):
        fake.put(POD, made)
    run_session("pods")
    store_counts()
    return a10


def test_sums_have_what_running_pods_requested_of_the_plugins(used):
    (counts,) = fleet_counts(used).values()
    assert counts.plugin_devices == [[GPU, 2, 8, 7, 3]]
    (row,) = summed(counts.plugin_devices)
    assert row == PluginDevices(GPU, 2, 8, 7, 3)
    assert row.unhealthy == 1
    assert find_differences() == 0
    assert of_node(Node.objects.get(name="a10-1")) == [PluginDevices(GPU, 1, 4, 4, 2)]
    assert of_node(Node.objects.get(name="node-a")) == []


def test_sums_of_clusters_add_up_by_resource():
    rows = summed([[GPU, 2, 8, 7, 3], [MIG, 1, 7, 7, 0], [GPU, 1, 4, 4, 4]])
    assert rows == [PluginDevices(GPU, 3, 12, 11, 7), PluginDevices(MIG, 1, 7, 7, 0)]


@pytest.mark.parametrize(
    ("address", "shown"),
    [("/fleet/", "8"), ("/clusters/fra-1/", "8"), ("/clusters/fra-1/nodes/a10-2/", "4")],
)
def test_pages_say_how_many_there_are_and_why_the_portal_cannot_hand_them_out(client, used, address, shown):
    client.force_login(make_user())
    page = client.get(address).text
    assert "GPUs outside DRA" in page
    assert f'data-l="GPUs">{shown}</td>' in page
    assert "the portal can neither choose nor bill them" in page
    assert "install the DRA driver" in page


def test_pages_of_a_cluster_without_device_plugins_do_not_mention_them(client, mirrored):
    client.force_login(make_user())
    store_counts()
    for address in ("/fleet/", "/clusters/fra-1/", "/clusters/fra-1/nodes/node-a/"):
        assert "GPUs outside DRA</h2>" not in client.get(address).text


def test_list_and_api_of_nodes_show_them(client, used):
    client.force_login(make_user())
    page = client.get("/nodes/?state=plugin&col=plugin")
    assert ("a10-1" in page.text, "node-a" in page.text) == (True, False)
    lines = b"".join(client.get("/nodes/?format=csv&state=plugin&col=plugin").streaming_content).decode()
    assert [line.split(",")[-1] for line in lines.splitlines()] == ["GPUs outside DRA", "4", "4"]
    row = client.get("/api/v1/nodes/?name=a10-2").json()["results"][0]
    assert row["plugin_devices"] == {GPU: [4, 3]}


def test_history_is_not_written_for_heartbeats(a10, fake, run_session):
    before = ObjectEvent.objects.count()
    fake.put(NODE, node("a10-2", {GPU: "4"}, {GPU: "3"}, beat="2026-11-23T10:05:00Z"))
    run_session("nodes")
    assert ObjectEvent.objects.count() == before


def test_columns_of_a_node_have_its_plugins():
    manifest = node("a10-1", {GPU: "4"}) | {"metadata": {"name": "a10-1", "uid": "u"}}
    assert columns(Node, manifest)["plugin_devices"] == {GPU: [4, 4]}
