"""The mirror of a real Kubernetes, through the portal's least-privilege identity alone."""

import pytest

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from demo.controlplane.client import eventually
from inventory.models import Cluster, Device, Freshness, Node, Pod, ResourceClaim
from inventory.plugin_devices import PluginDevices, of_node
from inventory.states import DeviceState
from inventory.sync.list_watch import run_session, sync_once
from tests.controlplane.test_controlplane import claim_spec, use

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db]
SECONDS = 2


@pytest.fixture
def real(controlplane):
    credentials = seal(from_kubeconfig(controlplane.kubeconfig("portal")))
    return Cluster.objects.create(name="real", credentials=credentials)


@pytest.fixture
def admin(controlplane):
    return controlplane.client()


@pytest.fixture
def mirrored(real):
    sync_once(real, connect(real.credentials))
    real.refresh_from_db()
    return real


def reserved(admin, name, namespace):
    found = admin.get("ResourceClaim", name, namespace) or {}
    return found.get("status", {}).get("reservedFor")


def follow(cluster, *resources):
    for resource in resources:
        assert run_session(cluster.pk, resource, seconds=SECONDS) is not None
        assert Freshness.objects.get(cluster=cluster, resource=resource).error == ""


def test_mirror_equals_the_cluster(mirrored, admin):
    slices = admin.list("ResourceSlice")
    published = {
        (item["spec"]["driver"], item["spec"]["pool"]["name"], device["name"])
        for item in slices
        for device in item["spec"].get("devices") or ()
    }
    rows = Device.objects.present().filter(cluster=mirrored)
    assert set(rows.values_list("driver", "pool", "name")) == published
    assert {node["metadata"]["name"] for node in admin.list("Node")} == set(
        Node.objects.filter(cluster=mirrored, gone_at=None).values_list("name", flat=True)
    )
    assert mirrored.version.startswith("v1.3")
    assert mirrored.discovery["taint_rules"] == "v1"
    assert mirrored.missing == []
    assert rows.filter(classes__contains=["gpu.nvidia.com"]).exists()


def test_mirror_follows_an_allocation_until_its_release(mirrored, admin):
    namespace = "vision"
    use(admin, namespace, "mirror-me", claim_spec("gpu.nvidia.com"))
    try:
        eventually(
            lambda: (
                (admin.get("ResourceClaim", "mirror-me", namespace) or {})
                .get("status", {})
                .get("reservedFor")
            ),
            subject="an allocation",
        )
        follow(mirrored, "resourceclaims", "pods")
        claim = ResourceClaim.objects.get(name="mirror-me", gone_at=None)
        held = Device.objects.with_state().get(held_by=claim)
        assert (claim.state, claim.origin) == ("allocated,reserved", "foreign")
        assert held.state == DeviceState.IN_USE
        pod = Pod.objects.get(name="mirror-me")
        assert (pod.claims, pod.node_name) == (["mirror-me"], held.node_name)
    finally:
        admin.delete("Pod", "mirror-me", namespace)
        admin.delete("ResourceClaim", "mirror-me", namespace)
    eventually(lambda: not admin.get("ResourceClaim", "mirror-me", namespace), subject="the end of the claim")
    follow(mirrored, "resourceclaims", "pods")
    assert ResourceClaim.objects.get(name="mirror-me").gone_at
    assert not Device.objects.filter(held_by__name="mirror-me").exists()


def test_a_taint_rule_of_the_cluster_taints_the_device(mirrored, admin):
    device = Device.objects.present().filter(driver="gpu.nvidia.com").order_by("pk").first()
    selector = {"driver": device.driver, "pool": device.pool, "device": device.name}
    taint = {"key": "gpu.dragoman.dev/maintenance", "value": "true", "effect": "NoSchedule"}
    admin.create(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "drain"},
            "spec": {"deviceSelector": selector, "taint": taint},
        }
    )
    try:
        follow(mirrored, "devicetaintrules")
        assert Device.objects.with_state().get(pk=device.pk).state == DeviceState.TAINTED
    finally:
        admin.delete("DeviceTaintRule", "drain")
    follow(mirrored, "devicetaintrules")
    assert Device.objects.get(pk=device.pk).taints == []


def test_compacted_version_is_listed_again(mirrored, admin, controlplane):
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "forgotten"}}
    Freshness.objects.filter(resource="namespaces").update(resource_version="1")
    admin.create(namespace)
    controlplane.compact()
    try:
        for _ in range(2):  # the first turn may only learn that its version is gone
            assert run_session(mirrored.pk, "namespaces", seconds=SECONDS) is not None
        fresh = Freshness.objects.get(cluster=mirrored, resource="namespaces")
        assert (fresh.error, fresh.resource_version != "1") == ("", True)
    finally:
        admin.delete("Namespace", "forgotten")


def test_a_cluster_that_is_down_is_stale_and_recovers_without_help(mirrored, controlplane):
    before = Device.objects.present().count()
    controlplane.pause("kube-apiserver")
    try:
        pause = run_session(mirrored.pk, "resourceslices", seconds=SECONDS)
        assert pause.total_seconds() > 1
        assert Freshness.objects.get(cluster=mirrored, resource="resourceslices").error
        assert Device.objects.present().count() == before
    finally:
        controlplane.restart("kube-apiserver")

    def followed():
        run_session(mirrored.pk, "resourceslices", seconds=SECONDS)
        return not Freshness.objects.get(cluster=mirrored, resource="resourceslices").error

    eventually(followed, subject="a turn that succeeds")
    assert Device.objects.present().count() == before


def test_credentials_without_a_right_to_nodes_leave_everything_else(real, controlplane):
    real.credentials = seal(from_kubeconfig(controlplane.kubeconfig("eve")))
    real.save(update_fields=["credentials"])
    assert run_session(real.pk, "nodes", seconds=SECONDS) is not None
    fresh = Freshness.objects.get(cluster=real, resource="nodes")
    assert "namespaces" in fresh.error
    assert fresh.listed_at is None


@pytest.fixture
def plugin_node(admin):
    """A node as a device plugin leaves it: its kubelet reports the GPUs in the status."""
    name = "plugin-1"
    admin.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    yield name
    admin.delete("Node", name)


def test_gpus_of_a_device_plugin_are_mirrored_with_what_pods_took_and_heartbeats_write_nothing(
    mirrored, admin, plugin_node
):
    status = {
        "capacity": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "4"},
        "allocatable": {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "3"},
    }
    admin.patch("Node", plugin_node, {"metadata": {"labels": {"plugin": "yes"}}})
    admin.patch("Node", plugin_node, {"status": status}, subresource="status")
    container = {"name": "main", "image": "cuda:13", "resources": {"limits": {"nvidia.com/gpu": "2"}}}
    spec = {
        "nodeSelector": {"plugin": "yes"},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "by-number", "namespace": "vision"}}
    admin.create(pod | {"spec": spec})
    try:
        eventually(
            lambda: (admin.get("Pod", "by-number", "vision") or {}).get("spec", {}).get("nodeName"),
            subject="a node for the pod",
        )
        follow(mirrored, "nodes", "pods")
        row = Node.objects.get(cluster=mirrored, name=plugin_node, gone_at=None)
        assert of_node(row) == [PluginDevices("nvidia.com/gpu", 1, 4, 3, 2)]
        mirrored.refresh_from_db()
        before = mirrored.revision
        beat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-23T10:00:00Z"}
        admin.patch("Node", plugin_node, {"status": {"conditions": [beat]}}, subresource="status")
        follow(mirrored, "nodes")
        mirrored.refresh_from_db()
        ready = mirrored.revision
        later = beat | {"lastHeartbeatTime": "2026-11-23T10:05:00Z"}
        admin.patch("Node", plugin_node, {"status": {"conditions": [later]}}, subresource="status")
        follow(mirrored, "nodes")
        mirrored.refresh_from_db()
        assert (mirrored.revision, ready > before) == (ready, True)
    finally:
        admin.delete("Pod", "by-number", "vision")
