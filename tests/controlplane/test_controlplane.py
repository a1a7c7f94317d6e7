"""What the harness promises: real scheduling on machines that do not exist."""

import httpx
import pytest

from demo.controlplane.client import Client, Json, eventually

pytestmark = pytest.mark.controlplane

PRODUCT = 'device.attributes["gpu.nvidia.com"].?productName.orValue("").startsWith("{}")'
PROFILE = 'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "{}"'


def claim_spec(device_class: str, expression: str = "", *, count: int = 1, match: str = "") -> Json:
    wish: Json = {"deviceClassName": device_class, "count": count}
    if expression:
        wish["selectors"] = [{"cel": {"expression": expression}}]
    spec: Json = {"requests": [{"name": "gpu", "exactly": wish}]}
    if match:
        spec["constraints"] = [{"requests": ["gpu"], "matchAttribute": match}]
    return {"devices": spec}


def claim(namespace: str, name: str, spec: Json) -> Json:
    return {"kind": "ResourceClaim", "metadata": {"name": name, "namespace": namespace}, "spec": spec}


def pod_spec(**source: str) -> Json:
    return {
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "gpu", **source}],
        "containers": [{"name": "main", "image": "example", "resources": {"claims": [{"name": "gpu"}]}}],
    }


def pod(namespace: str, name: str, spec: Json, **annotations: str) -> Json:
    metadata = {"name": name, "namespace": namespace, "annotations": annotations}
    return {"kind": "Pod", "metadata": metadata, "spec": spec}


def use(admin: Client, namespace: str, name: str, spec: Json, **annotations: str) -> None:
    """Make a claim and a pod that uses it, both of one name."""
    admin.create({"apiVersion": "resource.k8s.io/v1", **claim(namespace, name, spec)})
    admin.create(pod(namespace, name, pod_spec(resourceClaimName=name), **annotations))


def devices_of(admin: Client, namespace: str, name: str) -> list[tuple[str, str]]:
    found = admin.get("ResourceClaim", name, namespace) or {}
    results = found.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
    return [(result["pool"], result["device"]) for result in results]


def phase(admin: Client, namespace: str, name: str) -> str:
    found = admin.get("Pod", name, namespace)
    return str(found["status"].get("phase")) if found else "gone"


def test_every_node_is_ready_and_every_pool_is_published(admin):
    nodes = {node["metadata"]["name"] for node in admin.list("Node")}
    pools = {item["spec"]["pool"]["name"] for item in admin.list("ResourceSlice")}
    assert pools < nodes
    assert nodes - pools == {"cpu-a"}


def test_a_pod_runs_with_two_gpus_on_one_pcie_root_and_gives_them_back(admin, namespace):
    spec = claim_spec("gpu.nvidia.com", count=2, match="resource.kubernetes.io/pcieRoot")
    use(admin, namespace, "pair", spec, **{"test.dragoman.dev/runs-for": "1s"})
    held = eventually(lambda: devices_of(admin, namespace, "pair"), subject="an allocation")
    numbers = sorted(int(device.removeprefix("gpu-")) for _pool, device in held)
    assert numbers[0] // 2 == numbers[1] // 2
    eventually(lambda: phase(admin, namespace, "pair") == "Succeeded", subject="the end of the pod")
    eventually(lambda: not devices_of(admin, namespace, "pair"), subject="the release of the devices")


def test_a_pod_without_an_end_runs_until_it_is_deleted(admin, namespace):
    use(admin, namespace, "server", claim_spec("gpu.amd.com"))
    eventually(lambda: phase(admin, namespace, "server") == "Running", subject="a running pod")
    admin.delete("Pod", "server", namespace)
    eventually(lambda: not devices_of(admin, namespace, "server"), subject="the release of the device")


@pytest.mark.parametrize(
    ("device_class", "expression", "pool"),
    [
        ("gpu.nvidia.com", PRODUCT.format("NVIDIA A100-SXM4-80GB"), "a100-a"),
        ("mig.nvidia.com", PROFILE.format("3g.40gb"), "mig-static"),
        ("mig.nvidia.com", PROFILE.format("3g.20gb"), "mig-dynamic"),
        ("gpu.amd.com", "", "mi300x-a"),
        ("gpu.example.com", "", "example-a"),
    ],
)
def test_devices_of_every_kind_can_be_had(admin, namespace, device_class, expression, pool):
    use(admin, namespace, "one", claim_spec(device_class, expression))
    ((found, _device),) = eventually(lambda: devices_of(admin, namespace, "one"), subject="an allocation")
    assert found == pool


def test_partitions_share_the_counters_of_their_gpu(admin, namespace):
    whole = PRODUCT.format("NVIDIA A100-SXM4-40GB")
    use(admin, namespace, "whole", claim_spec("gpu.nvidia.com", whole))
    assert eventually(lambda: devices_of(admin, namespace, "whole")) == [("mig-dynamic", "gpu-0")]
    use(admin, namespace, "part", claim_spec("mig.nvidia.com", PROFILE.format("1g.5gb")))
    waiting = eventually(lambda: reason_to_wait(admin, namespace, "part"), subject="a reason to wait")
    assert "cannot allocate all claims" in waiting
    admin.delete("Pod", "whole", namespace)
    eventually(lambda: devices_of(admin, namespace, "part"), subject="a partition of the freed GPU")


def reason_to_wait(admin: Client, namespace: str, name: str) -> str:
    found = admin.get("Pod", name, namespace) or {}
    conditions = found.get("status", {}).get("conditions", ())
    return "".join(item.get("message", "") for item in conditions if item["type"] == "PodScheduled")


def test_a_job_makes_claims_from_its_template_and_completes(admin, namespace):
    template = {
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "each", "namespace": namespace},
        "spec": {"metadata": {"labels": {"from": "template"}}, "spec": claim_spec("gpu.example.com")},
    }
    pods = {
        "metadata": {"annotations": {"test.dragoman.dev/runs-for": "1s"}},
        "spec": pod_spec(resourceClaimTemplateName="each"),
    }
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "namespace": namespace},
        "spec": {"parallelism": 2, "completions": 2, "template": pods},
    }
    admin.create({"apiVersion": "resource.k8s.io/v1", **template})
    admin.create(job)
    labeled = {"labelSelector": "from=template"}
    eventually(lambda: len(admin.list("ResourceClaim", namespace, **labeled)) == 2, subject="two claims")
    eventually(lambda: (admin.get("Job", "train", namespace) or {})["status"].get("succeeded") == 2)


def test_a_taint_rule_evicts_the_pod(admin, namespace):
    use(admin, namespace, "victim", claim_spec("gpu.amd.com"))
    ((pool, device),) = eventually(lambda: devices_of(admin, namespace, "victim"))
    rule = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceTaintRule",
        "metadata": {"name": "drain"},
        "spec": {
            "deviceSelector": {"driver": "gpu.amd.com", "pool": pool, "device": device},
            "taint": {"key": "gpu.dragoman.dev/maintenance", "effect": "NoExecute"},
        },
    }
    admin.create(rule)
    try:
        eventually(lambda: phase(admin, namespace, "victim") == "gone", subject="the eviction")
    finally:
        admin.delete("DeviceTaintRule", "drain")


def test_alice_edits_in_her_namespaces_only(controlplane):
    alice, spec = controlplane.client("alice"), claim_spec("gpu.nvidia.com")
    made = alice.create({"apiVersion": "resource.k8s.io/v1", **claim("vision", "her-own", spec)})
    assert made["metadata"]["uid"]
    alice.delete("ResourceClaim", "her-own", "vision")
    with pytest.raises(httpx.HTTPStatusError, match="403"):
        alice.list("ResourceSlice")


@pytest.mark.parametrize(
    "name", ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"]
)
def test_any_program_can_be_restarted(controlplane, admin, namespace, name):
    before = controlplane.programs[name].pid
    controlplane.restart(name)
    assert controlplane.programs[name].pid != before
    use(admin, namespace, "after", claim_spec("gpu.example.com"))
    eventually(
        lambda: phase(admin, namespace, "after") == "Running", subject="a running pod after the restart"
    )
