"""Messages of Kubernetes that no allocation explains: conditions and events of waiting pods."""

import re
from collections.abc import Iterator

import pytest

from demo.controlplane.client import Client, Json, eventually
from tests.scheduler.runner import condition, delete_all, prepare, report, run_pods
from tests.scheduler.scenario import PLAIN, Scenario, device, devices

pytestmark = pytest.mark.controlplane

PREEMPTION = r"preemption: 0/\d+ nodes are available: \d+ Preemption is not helpful for scheduling\."
CANNOT = r"0/\d+ nodes are available: {}\. " + PREEMPTION
ELSEWHERE = r"\d+ node\(s\) didn't match Pod's node affinity/selector"
FORBIDDEN = (
    r"PodResourceClaim each: create ResourceClaim : "
    r'resourceclaims\.resource\.k8s\.io "over-quota-pod-each-\w+" is forbidden: '
    r"exceeded quota: over-quota-none, requested: (\S+)=1, used: \1=0, limited: \1=0"
)


def cordoned(scenario: Scenario) -> None:
    scenario.node(cordoned=True)
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


def anywhere(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.claim("claim", scenario.exactly(2))
    scenario.pod("claim")
    del scenario.pods[0].manifest["spec"]["nodeSelector"]


def missing_claim(scenario: Scenario) -> None:
    scenario.pod("nowhere")


def missing_template(scenario: Scenario) -> None:
    scenario.pod("nowhere")
    use = {"name": "nowhere", "resourceClaimTemplateName": "nowhere"}
    scenario.pods[0].manifest["spec"]["resourceClaims"] = [use]


def over_quota(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.quota("none", **{f"{scenario.class_name}.deviceclass.resource.k8s.io/devices": "0"})
    scenario.template("each", scenario.exactly())
    scenario.pod("each")


def deleted_claim(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim", name="holder", gets=["gpu-0"], earlier=True)
    scenario.pod("claim")


def unknown_resource(scenario: Scenario) -> None:
    scenario.pod(resources={"unknown.example.com/gpu": "1"})


def gated(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0"))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")
    scenario.pods[0].manifest["spec"]["schedulingGates"] = [{"name": "example.com/later"}]


def evicted(scenario: Scenario) -> None:
    scenario.class_and_slice(
        device("gpu-0", raw={"taints": [{"key": "example.com/broken", "effect": "NoExecute"}]})
    )
    scenario.claim("claim", scenario.exactly(tolerations=[{"operator": "Exists"}]))
    scenario.pod("claim", gets=["gpu-0"])


def dry_run(scenario: Scenario) -> None:
    scenario.class_and_slice(*devices("gpu-0", "gpu-1"))
    scenario.taint_rule("rule", "None")


def never_attached(scenario: Scenario) -> None:
    conditions = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}
    scenario.class_and_slice(device("gpu-0", raw=conditions))
    scenario.claim("claim", scenario.exactly())
    scenario.pod("claim")


SITUATIONS = (
    *(cordoned, anywhere, missing_claim, missing_template, over_quota, deleted_claim),
    *(unknown_resource, gated, evicted, dry_run, never_attached),
)


@pytest.fixture(scope="module")
def admin(controlplane) -> Iterator[Client]:
    """The client of a cluster with all scenarios, whose scheduler has seen every pod."""
    client: Client = controlplane.client()
    scenarios = [Scenario(situation.__name__.replace("_", "-")) for situation in SITUATIONS]
    for scenario, situation in zip(scenarios, SITUATIONS, strict=True):
        situation(scenario)
    try:
        prepare(client, scenarios)
        eventually(lambda: used(client, "over-quota-none"), subject="a quota that is counted")
        client.delete("ResourceClaim", "deleted-claim-claim", PLAIN)
        for pod in (pod for scenario in scenarios for pod in scenario.pods if not pod.earlier):
            client.create(pod.manifest)
        last = Scenario("last")
        last.class_and_slice(*devices("gpu-0"))
        last.claim("claim", last.exactly())
        last.pod("claim", gets=["gpu-0"])
        for manifest in last.objects:
            client.create(manifest)
        run_pods(client, last.pods)
        yield client
    finally:
        delete_all(client)


def used(client: Client, quota: str) -> Json | None:
    return client.get("ResourceQuota", quota, PLAIN)["status"].get("used")


def scheduled_condition(admin: Client, pod: str) -> tuple[str, str]:
    """Return reason and message of the condition, once there is one."""
    pod_condition = eventually(
        lambda: condition(admin.get("Pod", pod, PLAIN)), subject=f"a condition of {pod}"
    )
    return pod_condition["reason"], pod_condition["message"]


def events(admin: Client, pod: str, reason: str = "") -> list[Json]:
    about = f"involvedObject.name={pod}" + (f",reason={reason}" if reason else "")
    return admin.list("Event", PLAIN, fieldSelector=about)


def event(admin: Client, pod: str, reason: str) -> str:
    """Return the message of the first event of this reason, once there is one."""
    matching = eventually(lambda: events(admin, pod, reason), subject=f"an event {reason} of {pod}")
    return str(matching[0]["message"])


def test_a_cordoned_node_is_counted(admin):
    reason, message = scheduled_condition(admin, "cordoned-pod")
    assert reason == "Unschedulable"
    assert re.fullmatch(CANNOT.format(r"1 node\(s\) were unschedulable, " + ELSEWHERE), message)


def test_every_node_without_enough_devices_is_counted_and_an_event_says_the_same(admin):
    reason, message = scheduled_condition(admin, "anywhere-pod")
    assert reason == "Unschedulable"
    counted = r"1 node\(s\) were unschedulable, \d+ cannot allocate all claims"
    assert re.fullmatch(CANNOT.format(counted), message)
    assert event(admin, "anywhere-pod", "FailedScheduling") == message


def test_an_unknown_resource_is_insufficient(admin):
    reason, message = scheduled_condition(admin, "unknown-resource-pod")
    assert reason == "Unschedulable"
    parts = r"1 Insufficient unknown\.example\.com/gpu, 1 node\(s\) were unschedulable, " + ELSEWHERE
    assert re.fullmatch(CANNOT.format(parts), message)


def test_a_gate_is_named(admin):
    blocked = "Scheduling is blocked due to non-empty scheduling gates"
    assert scheduled_condition(admin, "gated-pod") == ("SchedulingGated", blocked)


@pytest.mark.parametrize("name", ["missing-claim", "deleted-claim"])
def test_missing_or_deleted_claim_has_neither_condition_nor_event(admin, name):
    pod = admin.get("Pod", f"{name}-pod", PLAIN)
    assert pod["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    assert events(admin, f"{name}-pod") == []


def test_a_missing_template_is_an_event(admin):
    message = event(admin, "missing-template-pod", "FailedResourceClaimCreation")
    missing = 'resourceclaimtemplate.resource.k8s.io "nowhere" not found'
    assert message == f'PodResourceClaim nowhere: resource claim template "nowhere": {missing}'
    assert condition(admin.get("Pod", "missing-template-pod", PLAIN)) == {}


def test_a_quota_that_forbids_the_claim_is_an_event(admin):
    message = event(admin, "over-quota-pod", "FailedResourceClaimCreation")
    assert re.fullmatch(FORBIDDEN, message.removeprefix("(combined from similar events): "))
    assert condition(admin.get("Pod", "over-quota-pod", PLAIN)) == {}


def test_a_toleration_without_an_effect_does_not_keep_a_pod_from_eviction(admin):
    assert event(admin, "evicted-pod", "Scheduled")
    assert event(admin, "evicted-pod", "DeviceTaintManagerEviction") == "Marking for deletion"
    eventually(lambda: not admin.get("Pod", "evicted-pod", PLAIN), subject="the end of the pod")


def test_a_rule_without_effect_counts_what_it_would_do(admin):
    def counted() -> list[Json]:
        """Return the conditions; the controller counts once, perhaps before it has seen the slice."""
        rule = admin.get("DeviceTaintRule", "dry-run-rule") or {}
        found: list[Json] = (rule.get("status") or {}).get("conditions") or []
        if found and found[0]["message"].startswith("0 published "):
            admin.delete("DeviceTaintRule", "dry-run-rule")
            admin.create({**rule, "metadata": {"name": "dry-run-rule", "labels": rule["metadata"]["labels"]}})
            return []
        return found

    (rule_condition,) = eventually(counted, subject="a condition of the rule")
    assert (rule_condition["type"], rule_condition["status"], rule_condition["reason"]) == (
        "EvictionInProgress",
        "False",
        "NoEffect",
    )
    assert rule_condition["message"] == (
        "2 published devices selected. 0 allocated devices selected. "
        "0 pods would be evicted in 0 different namespaces if the effect was NoExecute. "
        "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."
    )


def test_unattached_device_is_waited_for_and_its_failure_is_an_event(admin):
    pending = event(admin, "never-attached-pod", "BindingConditionsPending")
    assert pending == "waiting for binding conditions for device on node common"
    scenario = Scenario("never-attached")
    never_attached(scenario)
    report(admin, scenario.pods[0], "bindingFailureConditions")
    message = event(admin, "never-attached-pod", "FailedScheduling")
    failed = 'device binding failed: claim=never-attached-claim, reason=Seen, message="it is broken"'
    assert message == f'running PreBind plugin "DynamicResources": {failed}'


def test_long_search_times_out(admin):
    """Of 24 alike devices 25 are asked for: combination after combination is tried, and no other pod."""
    scenario = Scenario("endless")
    scenario.class_and_slice(*devices(*(f"gpu-{number:02}" for number in range(24))))
    scenario.claim("claim", scenario.exactly(25))
    scenario.pod("claim", fails=True)
    prepare(admin, [scenario])
    try:
        (pod,) = run_pods(admin, scenario.pods)
    finally:
        admin.delete("Pod", "endless-pod", PLAIN)
    pod_condition = condition(pod)
    timeout = 'running "DynamicResources" filter plugin: node common: timed out trying to allocate devices'
    assert (pod_condition["reason"], pod_condition["message"]) == ("SchedulerError", timeout)
