"""Words of Kubernetes that no allocation explains: what stands in conditions and events of pods that wait."""

import re
from collections.abc import Iterator

import pytest

from demo.controlplane.client import Client, Json, eventually
from tests.scheduler.play import condition, prepare, report, run, strike
from tests.scheduler.stage import PLAIN, Stage, device, devices

pytestmark = pytest.mark.controlplane

PREEMPTION = r"preemption: 0/\d+ nodes are available: \d+ Preemption is not helpful for scheduling\."
CANNOT = r"0/\d+ nodes are available: {}\. " + PREEMPTION
ELSEWHERE = r"\d+ node\(s\) didn't match Pod's node affinity/selector"
FORBIDDEN = (
    r"PodResourceClaim each: create ResourceClaim : "
    r'resourceclaims\.resource\.k8s\.io "over-quota-pod-each-\w+" is forbidden: '
    r"exceeded quota: over-quota-none, requested: (\S+)=1, used: \1=0, limited: \1=0"
)


def cordoned(at: Stage) -> None:
    at.node(cordoned=True)
    at.usual(*devices("gpu-0"))
    at.claim("wish", at.exactly())
    at.pod("wish")


def anywhere(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.claim("wish", at.exactly(2))
    at.pod("wish")
    del at.pods[0].manifest["spec"]["nodeSelector"]


def missing_claim(at: Stage) -> None:
    at.pod("nowhere")


def missing_template(at: Stage) -> None:
    at.pod("nowhere")
    use = {"name": "nowhere", "resourceClaimTemplateName": "nowhere"}
    at.pods[0].manifest["spec"]["resourceClaims"] = [use]


def over_quota(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.quota("none", **{f"{at.klass}.deviceclass.resource.k8s.io/devices": "0"})
    at.template("each", at.exactly())
    at.pod("each")


def deleted_claim(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.claim("wish", at.exactly())
    at.pod("wish", name="holder", gets=["gpu-0"], earlier=True)
    at.pod("wish")


def unknown_resource(at: Stage) -> None:
    at.pod(resources={"unknown.example.com/gpu": "1"})


def gated(at: Stage) -> None:
    at.usual(*devices("gpu-0"))
    at.claim("wish", at.exactly())
    at.pod("wish")
    at.pods[0].manifest["spec"]["schedulingGates"] = [{"name": "example.com/later"}]


def evicted(at: Stage) -> None:
    at.usual(device("gpu-0", raw={"taints": [{"key": "example.com/broken", "effect": "NoExecute"}]}))
    at.claim("wish", at.exactly(tolerations=[{"operator": "Exists"}]))
    at.pod("wish", gets=["gpu-0"])


def dry_run(at: Stage) -> None:
    at.usual(*devices("gpu-0", "gpu-1"))
    at.taint_rule("rule", "None")


def never_attached(at: Stage) -> None:
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    at.usual(device("gpu-0", raw=conditions))
    at.claim("wish", at.exactly())
    at.pod("wish")


SITUATIONS = (
    *(cordoned, anywhere, missing_claim, missing_template, over_quota, deleted_claim),
    *(unknown_resource, gated, evicted, dry_run, never_attached),
)


@pytest.fixture(scope="module")
def admin(controlplane) -> Iterator[Client]:
    """The client of a cluster in which all of this is so, and in which the scheduler has seen every pod."""
    client: Client = controlplane.client()
    stages = [Stage(situation.__name__.replace("_", "-")) for situation in SITUATIONS]
    for stage, situation in zip(stages, SITUATIONS, strict=True):
        situation(stage)
    try:
        prepare(client, stages)
        eventually(lambda: used(client, "over-quota-none"), subject="a quota that is counted")
        client.delete("ResourceClaim", "deleted-claim-wish", PLAIN)
        for pod in (pod for stage in stages for pod in stage.pods if not pod.earlier):
            client.create(pod.manifest)
        last = Stage("last")
        last.usual(*devices("gpu-0"))
        last.claim("wish", last.exactly())
        last.pod("wish", gets=["gpu-0"])
        for one in last.objects:
            client.create(one)
        run(client, last.pods)
        yield client
    finally:
        strike(client)


def used(client: Client, quota: str) -> Json | None:
    return client.get("ResourceQuota", quota, PLAIN)["status"].get("used")


def words(admin: Client, pod: str) -> tuple[str, str]:
    """Return reason and message of the condition, once there is one."""
    said = eventually(lambda: condition(admin.get("Pod", pod, PLAIN)), subject=f"a condition of {pod}")
    return said["reason"], said["message"]


def events(admin: Client, pod: str, reason: str = "") -> list[Json]:
    about = f"involvedObject.name={pod}" + (f",reason={reason}" if reason else "")
    return admin.list("Event", PLAIN, fieldSelector=about)


def event(admin: Client, pod: str, reason: str) -> str:
    """Return the message of the first event of this reason, once there is one."""
    found = eventually(lambda: events(admin, pod, reason), subject=f"an event {reason} of {pod}")
    return str(found[0]["message"])


def test_a_cordoned_node_is_counted(admin):
    reason, message = words(admin, "cordoned-pod")
    assert reason == "Unschedulable"
    assert re.fullmatch(CANNOT.format(r"1 node\(s\) were unschedulable, " + ELSEWHERE), message)


def test_every_node_without_enough_devices_is_counted_and_an_event_says_the_same(admin):
    reason, message = words(admin, "anywhere-pod")
    assert reason == "Unschedulable"
    counted = r"1 node\(s\) were unschedulable, \d+ cannot allocate all claims"
    assert re.fullmatch(CANNOT.format(counted), message)
    assert event(admin, "anywhere-pod", "FailedScheduling") == message


def test_an_unknown_resource_is_insufficient(admin):
    reason, message = words(admin, "unknown-resource-pod")
    assert reason == "Unschedulable"
    parts = r"1 Insufficient unknown\.example\.com/gpu, 1 node\(s\) were unschedulable, " + ELSEWHERE
    assert re.fullmatch(CANNOT.format(parts), message)


def test_a_gate_is_named(admin):
    blocked = "Scheduling is blocked due to non-empty scheduling gates"
    assert words(admin, "gated-pod") == ("SchedulingGated", blocked)


@pytest.mark.parametrize("name", ["missing-claim", "deleted-claim"])
def test_a_claim_that_is_missing_or_being_deleted_is_passed_over_in_silence(admin, name):
    found = admin.get("Pod", f"{name}-pod", PLAIN)
    assert found["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert events(admin, f"{name}-pod") == []


def test_a_missing_template_is_an_event(admin):
    said = event(admin, "missing-template-pod", "FailedResourceClaimCreation")
    missing = 'resourceclaimtemplate.resource.k8s.io "nowhere" not found'
    assert said == f'PodResourceClaim nowhere: resource claim template "nowhere": {missing}'
    assert condition(admin.get("Pod", "missing-template-pod", PLAIN)) == {}


def test_a_quota_that_forbids_the_claim_is_an_event(admin):
    said = event(admin, "over-quota-pod", "FailedResourceClaimCreation")
    assert re.fullmatch(FORBIDDEN, said.removeprefix("(combined from similar events): "))
    assert condition(admin.get("Pod", "over-quota-pod", PLAIN)) == {}


def test_a_toleration_without_an_effect_does_not_keep_a_pod_from_eviction(admin):
    assert event(admin, "evicted-pod", "Scheduled")
    assert event(admin, "evicted-pod", "DeviceTaintManagerEviction") == "Marking for deletion"
    eventually(lambda: not admin.get("Pod", "evicted-pod", PLAIN), subject="the end of the pod")


def test_a_rule_without_effect_counts_what_it_would_do(admin):
    def counted() -> list[Json]:
        return (admin.get("DeviceTaintRule", "dry-run-rule").get("status") or {}).get("conditions") or []

    (said,) = eventually(counted, subject="a condition of the rule")
    assert (said["type"], said["status"], said["reason"]) == ("EvictionInProgress", "False", "NoEffect")
    assert said["message"] == (
        "2 published devices selected. 0 allocated devices selected. "
        "0 pods would be evicted in 0 different namespaces if the effect was NoExecute. "
        "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )


def test_a_device_that_is_not_attached_is_waited_for_and_a_failure_is_told(admin):
    pending = event(admin, "never-attached-pod", "BindingConditionsPending")
    assert pending == "waiting for binding conditions for device on node common"
    stage = Stage("never-attached")
    never_attached(stage)
    report(admin, stage.pods[0], "bindingFailureConditions")
    said = event(admin, "never-attached-pod", "FailedScheduling")
    failed = 'device binding failed: claim=never-attached-wish, reason=Seen, message="it is broken"'
    assert said == f'running PreBind plugin "DynamicResources": {failed}'


def test_a_search_that_takes_too_long_is_given_up(admin):
    """Of 24 alike devices 25 are asked for: combination after combination is tried, and no other pod."""
    stage = Stage("endless")
    stage.usual(*devices(*(f"gpu-{number:02}" for number in range(24))))
    stage.claim("wish", stage.exactly(25))
    stage.pod("wish", fails=True)
    prepare(admin, [stage])
    try:
        (pod,) = run(admin, stage.pods)
    finally:
        admin.delete("Pod", "endless-pod", PLAIN)
    said = condition(pod)
    timeout = 'running "DynamicResources" filter plugin: node common: timed out trying to allocate devices'
    assert (said["reason"], said["message"]) == ("SchedulerError", timeout)
