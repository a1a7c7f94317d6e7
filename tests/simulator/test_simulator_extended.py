"""Pods that ask for devices by number, and nodes that only some pods may use."""

from tests.simulator.conftest import (
    CLAIMS,
    PODS,
    created,
    eventually,
    make_claim,
    make_pod,
    on_product,
)

CARRIED, OF_A_PLUGIN = "nvidia.com/gpu", "nvidia.com/gpu.shared"
SPOT = {"key": "example.org/spot", "operator": "Exists"}
ON_SPOT = {"karpenter.sh/capacity-type": "spot"}


def by_number(name, resource, count, *, run_seconds=None):
    limits = {"limits": {resource: str(count)}}
    container = {"name": "main", "image": "work:1", "resources": limits}
    annotations = {} if run_seconds is None else {"simulator.dragoman.dev/run-seconds": str(run_seconds)}
    return {"metadata": {"name": name, "annotations": annotations}, "spec": {"containers": [container]}}


def scheduled(client, name):
    """Return the pod as soon as the scheduler has seen it."""
    eventually(lambda: client.get(f"{PODS}/{name}").json()["status"].get("conditions"))
    return client.get(f"{PODS}/{name}").json()


def test_a_pod_that_asks_by_number_gets_a_claim_of_the_class_that_carries_the_name(engineer):
    created(engineer.post(PODS, json=by_number("probe", CARRIED, 2)))
    pod = scheduled(engineer, "probe")
    made = pod["status"]["extendedResourceClaimStatus"]
    assert made["resourceClaimName"].startswith("probe-extended-resources-")
    assert made["requestMappings"] == [
        {"containerName": "main", "resourceName": CARRIED, "requestName": "container-0-request-0"}
    ]
    claim = engineer.get(f"{CLAIMS}/{made['resourceClaimName']}").json()
    assert claim["metadata"]["annotations"] == {"resource.kubernetes.io/extended-resource-claim": "true"}
    assert claim["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    results = claim["status"]["allocation"]["devices"]["results"]
    assert [(one["request"], one["pool"]) for one in results] == [
        ("container-0-request-0", pod["spec"]["nodeName"])
    ] * 2
    assert claim["status"]["reservedFor"][0]["name"] == "probe"


def test_its_claim_goes_when_the_pod_has_ended(fleet, engineer):
    created(engineer.post(PODS, json=by_number("short", CARRIED, 1, run_seconds=5)))
    scheduled(engineer, "short")
    assert len(engineer.get(CLAIMS).json()["items"]) == 1
    fleet.step(20)
    assert engineer.get(f"{PODS}/short").json()["status"]["phase"] == "Succeeded"
    assert engineer.get(CLAIMS).json()["items"] == []


def test_what_no_class_carries_is_left_to_device_plugins(engineer):
    created(engineer.post(PODS, json=by_number("dashboard", OF_A_PLUGIN, 1)))
    pod = scheduled(engineer, "dashboard")
    assert pod["spec"]["nodeName"]
    assert "extendedResourceClaimStatus" not in pod["status"]
    assert engineer.get(CLAIMS).json()["items"] == []


def test_more_than_any_node_has_keeps_the_pod_waiting_without_a_claim(engineer):
    created(engineer.post(PODS, json=by_number("greedy", CARRIED, 9)))
    (condition,) = scheduled(engineer, "greedy")["status"]["conditions"]
    assert condition["reason"] == "Unschedulable"
    assert "cannot allocate all claims" in condition["message"]
    assert engineer.get(CLAIMS).json()["items"] == []


def test_only_pods_that_tolerate_it_land_on_a_spot_node(engineer):
    l4 = on_product("NVIDIA L4")
    for name, tolerations in (("plain", []), ("cheap", [SPOT])):
        created(engineer.post(CLAIMS, json=make_claim(name, selectors=l4)))
        pod = make_pod(name, claim=name)
        pod["spec"] |= {"nodeSelector": ON_SPOT, "tolerations": tolerations}
        created(engineer.post(PODS, json=pod))
    refused, placed = scheduled(engineer, "plain"), scheduled(engineer, "cheap")
    (condition,) = refused["status"]["conditions"]
    assert "4 node(s) had untolerated taint(s)" in condition["message"]
    assert placed["spec"]["nodeName"].startswith("fra1-l4-0")


def plugin_pod(name, count):
    pod = by_number(name, CARRIED, count)
    pod["spec"] |= {"nodeSelector": {"pool": "plugin"}}
    return pod


def test_device_plugin_serves_what_its_node_advertises_without_a_claim(fleet, engineer):
    status = {"capacity": {CARRIED: "4"}, "allocatable": {CARRIED: "3"}}
    labels = {"kubernetes.io/hostname": "plugin-1", "pool": "plugin"}
    node = {"metadata": {"name": "plugin-1", "labels": labels}, "status": status}
    created(engineer.post("/api/v1/nodes", json=node))
    created(engineer.post(PODS, json=plugin_pod("first", 2)))
    pod = scheduled(engineer, "first")
    assert pod["spec"]["nodeName"] == "plugin-1"
    assert "extendedResourceClaimStatus" not in pod["status"]
    assert engineer.get(CLAIMS).json()["items"] == []
    created(engineer.post(PODS, json=plugin_pod("second", 2)))
    (condition,) = scheduled(engineer, "second")["status"]["conditions"]
    assert f"1 Insufficient {CARRIED}" in condition["message"]
    engineer.delete(f"{PODS}/first")
    fleet.step(5)
    eventually(lambda: engineer.get(f"{PODS}/second").json()["spec"].get("nodeName"))
