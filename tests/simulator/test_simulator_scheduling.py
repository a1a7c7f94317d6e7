"""Pods get nodes and devices, keep them while they live, and give them back."""

import json

import pytest

from tests.simulator.conftest import (
    APPLY,
    CLAIMS,
    DRA,
    MERGE,
    PODS,
    created,
    eventually,
    make_claim,
    make_pod,
    on_product,
)

NOWHERE = 'device.attributes["gpu.nvidia.com"].nope == "a"'
FINALIZER = "resource.kubernetes.io/delete-protection"


def results(claim):
    return [
        (result["pool"], result["device"])
        for result in claim["status"].get("allocation", {}).get("devices", {}).get("results", [])
    ]


def start(client, name, *, run_seconds=None, **spec_fields):
    """Create a claim and a pod that uses it, and return both as soon as the scheduler has seen the pod."""
    created(client.post(CLAIMS, json=make_claim(name, **spec_fields)))
    created(client.post(PODS, json=make_pod(name, claim=name, run_seconds=run_seconds)))
    return seen(client, name)


def seen(client, name):
    eventually(lambda: client.get(f"{PODS}/{name}").json()["status"].get("conditions"))
    return client.get(f"{CLAIMS}/{name}").json(), client.get(f"{PODS}/{name}").json()


def scheduled(pod):
    return next(one for one in pod["status"]["conditions"] if one["type"] == "PodScheduled")


def test_a_claim_waits_for_its_first_pod(engineer):
    created(engineer.post(CLAIMS, json=make_claim("a")))
    claim = engineer.get(f"{CLAIMS}/a").json()
    assert claim["status"] == {}
    assert "finalizers" not in claim["metadata"]


def test_a_scheduled_pod_reserves_what_its_claim_got(engineer):
    claim, pod = start(engineer, "a", count=2, selectors=on_product("NVIDIA H100"))
    node = pod["spec"]["nodeName"]
    assert scheduled(pod)["status"] == "True"
    assert results(claim) == [(node, "gpu-0"), (node, "gpu-1")]
    assert claim["metadata"]["finalizers"] == [FINALIZER]
    assert claim["status"]["reservedFor"] == [
        {"resource": "pods", "name": "a", "uid": pod["metadata"]["uid"]}
    ]
    assert claim["status"]["allocation"]["allocationTimestamp"] == "2026-11-21T08:00:00Z"
    (term,) = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert term == {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}


def test_a_pod_runs_and_ends_and_the_claim_holds_nothing_then(fleet, engineer):
    start(engineer, "a", run_seconds=30)
    fleet.step(2)
    assert engineer.get(f"{PODS}/a").json()["status"]["phase"] == "Running"
    fleet.step(27)
    assert results(engineer.get(f"{CLAIMS}/a").json())
    fleet.step(5)
    assert engineer.get(f"{PODS}/a").json()["status"]["phase"] == "Succeeded"
    claim = engineer.get(f"{CLAIMS}/a").json()
    assert claim["status"] == {}
    assert "finalizers" not in claim["metadata"]


def test_two_pods_share_one_claim_and_the_last_takes_the_device_along(fleet, engineer):
    claim, first = start(engineer, "a", run_seconds=10)
    created(engineer.post(PODS, json=make_pod("b", claim="a", run_seconds=50)))
    second = eventually(lambda: engineer.get(f"{PODS}/b").json() if scheduled_to(engineer, "b") else None)
    assert second["spec"]["nodeName"] == first["spec"]["nodeName"]
    fleet.step(20)
    shared = engineer.get(f"{CLAIMS}/a").json()
    assert [user["name"] for user in shared["status"]["reservedFor"]] == ["b"]
    assert results(shared) == results(claim)
    fleet.step(60)
    assert engineer.get(f"{CLAIMS}/a").json()["status"] == {}


def scheduled_to(client, name):
    return client.get(f"{PODS}/{name}").json()["spec"].get("nodeName")


def test_a_claim_in_use_is_deleted_when_its_pod_is_gone(fleet, engineer):
    start(engineer, "a")
    deleted = engineer.delete(f"{CLAIMS}/a").json()
    assert deleted["metadata"]["deletionTimestamp"]
    fleet.step(5)
    assert results(engineer.get(f"{CLAIMS}/a").json())
    engineer.delete(f"{PODS}/a")
    fleet.step(5)
    assert engineer.get(f"{PODS}/a").status_code == 404
    assert engineer.get(f"{CLAIMS}/a").status_code == 404


def test_a_deleted_claim_takes_no_new_pods(engineer):
    start(engineer, "a")
    engineer.delete(f"{CLAIMS}/a")
    created(engineer.post(PODS, json=make_pod("b", claim="a")))
    start(engineer, "later")  # by then the scheduler has passed over b
    assert scheduled_to(engineer, "b") is None


def test_unschedulable_pod_has_a_message(engineer):
    _claim, pod = start(engineer, "a", count=9)
    assert scheduled(pod)["reason"] == "Unschedulable"
    assert scheduled(pod)["message"] == (
        "0/30 nodes are available: 1 node(s) were unschedulable, 25 cannot allocate all claims, "
        "4 node(s) had untolerated taint(s). "
        "preemption: 0/30 nodes are available: 30 Preemption is not helpful for scheduling."
    )
    events = engineer.get("/api/v1/namespaces/vision/events").json()["items"]
    assert [event["reason"] for event in events] == ["FailedScheduling"]


@pytest.mark.parametrize(
    ("spec_fields", "reason", "message"),
    [
        ({"deviceClassName": "nope"}, "Unschedulable", "request gpu: device class nope does not exist"),
        (
            {"count": 33},
            "SchedulerError",
            'running "DynamicResources" filter plugin: claim vision/a, request gpu: adding 33 devices '
            "exceeds the claim limit of 32, with 0 already accounted for",
        ),
        (
            {"selectors": [{"cel": {"expression": NOWHERE}}]},
            "SchedulerError",
            ": CEL runtime error: no such key: nope. consider using CEL optional chaining",
        ),
    ],
)
def test_impossible_claim_has_a_reason(engineer, spec_fields, reason, message):
    _claim, pod = start(engineer, "a", **spec_fields)
    assert scheduled(pod)["reason"] == reason
    assert message in scheduled(pod)["message"]


def test_a_pod_that_names_a_missing_claim_is_not_queued(engineer):
    created(engineer.post(PODS, json=make_pod("a", claim="missing")))
    start(engineer, "b")
    assert engineer.get(f"{PODS}/a").json()["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_a_waiting_pod_gets_the_device_that_is_given_back(fleet, engineer):
    """Seven nodes of eight H100 are in service."""
    for number in range(7):
        start(engineer, f"whole-{number}", count=8, selectors=on_product("NVIDIA H100"), run_seconds=20)
    _claim, pod = start(engineer, "next", count=8, selectors=on_product("NVIDIA H100"))
    assert scheduled(pod)["status"] == "False"
    fleet.step(25)
    claim, pod = seen(engineer, "next")
    assert scheduled(pod)["status"] == "True"
    assert len(results(claim)) == 8


def test_devices_that_are_tainted_or_in_maintenance_are_not_given(engineer):
    taken = []
    for number, count in enumerate([4] * 7 + [3]):
        claim, pod = start(engineer, f"a{number}", count=count, selectors=on_product("NVIDIA A100"))
        assert scheduled(pod)["status"] == "True"
        taken += results(claim)
    assert len(set(taken)) == 31
    assert ("fra1-a100-02", "gpu-2") not in taken
    _claim, pod = start(engineer, "one-more", selectors=on_product("NVIDIA A100"))
    assert scheduled(pod)["status"] == "False"
    tolerant = {"tolerations": [{"operator": "Exists"}], "selectors": on_product("NVIDIA A100")}
    claim, _pod = start(engineer, "tolerant", **tolerant)
    assert results(claim) == [("fra1-a100-02", "gpu-2")]


def test_a_rule_with_no_execute_evicts_and_keeps_the_next_pod_away(fleet, engineer):
    claim, _pod = start(engineer, "a", selectors=on_product("NVIDIA L40S"))
    fleet.step(3)
    ((pool, device),) = results(claim)
    selector = {"driver": "gpu.nvidia.com", "pool": pool, "device": device}
    taint = {"key": "gpu.dragoman.dev/drain", "effect": "NoExecute"}
    rule = {"metadata": {"name": "drain"}, "spec": {"deviceSelector": selector, "taint": taint}}
    created(engineer.post(f"{DRA}/devicetaintrules", json=rule))
    fleet.step(5)
    assert engineer.get(f"{PODS}/a").status_code == 404
    assert engineer.get(f"{CLAIMS}/a").json()["status"] == {}
    events = engineer.get("/api/v1/namespaces/vision/events").json()["items"]
    (evicted,) = [event for event in events if event["reason"] == "DeviceTaintManagerEviction"]
    assert (evicted["message"], evicted["involvedObject"]["name"]) == ("Marking for deletion", "a")
    again, _pod = start(engineer, "b", selectors=on_product("NVIDIA L40S"))
    assert results(again) != [(pool, device)]


def test_a_device_may_be_given_by_hand_as_a_driver_would(engineer):
    """The status is a subresource: writing the object itself leaves it alone."""
    created(engineer.post(CLAIMS, json=make_claim("a")))
    device = {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "p", "device": "d"}
    status = {"allocation": {"devices": {"results": [device]}}}
    ignored = engineer.patch(f"{CLAIMS}/a", json={"status": status}, headers=MERGE)
    assert ignored.json()["status"] == {}


def test_an_applied_label_does_not_disturb_what_the_scheduler_wrote(engineer):
    body = make_claim("a")
    query = {"fieldManager": "dragoman"}
    created(engineer.patch(f"{CLAIMS}/a", content=json.dumps(body), headers=APPLY, params=query))
    created(engineer.post(PODS, json=make_pod("a", claim="a")))
    before, _pod = seen(engineer, "a")
    body["metadata"]["labels"] = {"team": "vision"}
    after = engineer.patch(f"{CLAIMS}/a", content=json.dumps(body), headers=APPLY, params=query).json()
    assert after["status"] == before["status"] != {}
    assert after["metadata"]["finalizers"] == [FINALIZER]
    assert after["metadata"]["labels"] == {"team": "vision"}
