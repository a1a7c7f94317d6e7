"""Creates scenarios in a control plane, predicts, lets the scheduler act, and returns the outcomes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from demo.controlplane.client import Client, eventually, object_path
from demo.controlplane.harness import is_ready
from dra.cluster_snapshot import ClusterSnapshot
from tests import patience
from tests.scheduler.prediction import Prediction, predict
from tests.scheduler.scenario import COMMON, PLAIN, PRIVILEGED, Json, Pod, Scenario, devices

OURS = {"labelSelector": "situation"}
_probe_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One pod: what was expected and predicted, and the pod and its claims at the end."""

    expected: Pod
    prediction: Prediction
    pod: Json
    claims: list[Json]

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName") or "")

    @property
    def allocations(self) -> list[Json]:
        return [claim["status"]["allocation"] for claim in self.claims]


def run_scenarios(client: Client, scenarios: Sequence[Scenario]) -> dict[str, list[Outcome]]:
    """Return the outcomes of the pods of each scenario, without `earlier` pods."""
    prepare(client, scenarios)
    snapshot = current_snapshot(client)
    scheduled_pods = [(scenario, pod) for scenario in scenarios for pod in scenario.pods if not pod.earlier]
    predictions = [predict(snapshot, scenario, pod) for scenario, pod in scheduled_pods]
    final_pods = run_pods(client, [pod for _, pod in scheduled_pods])
    outcomes: dict[str, list[Outcome]] = {scenario.name: [] for scenario in scenarios}
    for (scenario, pod), prediction, final in zip(scheduled_pods, predictions, final_pods, strict=True):
        outcomes[scenario.name].append(Outcome(pod, prediction, final, pod_claims(client, final)))
    return outcomes


def prepare(client: Client, scenarios: Sequence[Scenario]) -> None:
    """Create everything but the tested pods, and wait until the scheduler has seen it."""
    create_objects(client, scenarios)
    eventually(
        lambda: all(map(is_ready, client.list("Node"))), seconds=patience.SCHEDULER, subject="ready nodes"
    )
    wait_for_the_scheduler(client)
    run_pods(client, [pod for scenario in scenarios for pod in scenario.pods if pod.earlier])


def create_objects(client: Client, scenarios: Sequence[Scenario]) -> None:
    """Create the objects of the scenarios, and the shared ones if they are missing."""
    for manifest in shared_objects():
        if not client.get(manifest["kind"], manifest["metadata"]["name"]):
            client.create(manifest)
    for scenario in scenarios:
        for manifest in scenario.objects:
            client.create(manifest)


def shared_objects() -> list[Json]:
    """Return what scenarios share: two namespaces and a node."""
    privileged = {"resource.kubernetes.io/admin-access": "true"}
    host = {"kubernetes.io/hostname": COMMON, "situation": ""}
    return [
        {"kind": "Namespace", "metadata": {"name": PLAIN}},
        {"kind": "Namespace", "metadata": {"name": PRIVILEGED, "labels": privileged}},
        {"kind": "Node", "metadata": {"name": COMMON, "labels": host}},
    ]


def delete_all(client: Client) -> None:
    """Delete everything but the namespaces: pods first, so that devices are released."""
    ours = OURS | {"gracePeriodSeconds": "0"}
    for kind in ("Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceQuota"):
        for namespace in (PLAIN, PRIVILEGED):
            client.raw("DELETE", object_path(kind, namespace), params=ours).raise_for_status()
    for kind in ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "Node"):
        client.raw("DELETE", object_path(kind), params=ours).raise_for_status()
    eventually(
        lambda: not client.list("ResourceClaim", **OURS),
        seconds=patience.SCHEDULER,
        subject="the last claim's end",
    )


def current_snapshot(client: Client) -> ClusterSnapshot:
    return ClusterSnapshot(
        classes=client.list("DeviceClass"),
        slices=client.list("ResourceSlice"),
        claims=client.list("ResourceClaim"),
        taint_rules=client.list("DeviceTaintRule"),
        nodes=client.list("Node"),
    )


def run_pods(client: Client, scheduled_pods: Sequence[Pod]) -> list[Json]:
    """
    Create the pods and return them once the scheduler has decided on each as expected.

    After a timeout they are returned as they are: the comparison then shows what happened instead.
    """
    for pod in scheduled_pods:
        client.create(pod.manifest)
    for pod in scheduled_pods:
        if pod.binds:
            report_bound(client, pod)
    deadline = time.monotonic() + patience.SCHEDULER
    while True:
        by_key = {(pod["metadata"]["namespace"], pod["metadata"]["name"]): pod for pod in client.list("Pod")}
        gone: Json = {"status": {}}
        pods = [by_key.get(pod.key, pod.manifest | gone) for pod in scheduled_pods]
        if all(map(as_expected, scheduled_pods, pods)) or time.monotonic() > deadline:
            return pods
        time.sleep(0.1)


def as_expected(pod: Pod, now: Json) -> bool:
    return condition(now).get("status") == ("False" if pod.waits else "True")


def report_bound(client: Client, pod: Pod) -> None:
    """Report the conditions of a driver that has attached the devices: until then the pod is not bound."""
    report(client, pod, "bindingConditions")


def report(client: Client, pod: Pod, which: str) -> None:
    """Set all conditions of one kind of the devices of the pod's claim, once they are allocated."""
    (use,) = pod.manifest["spec"]["resourceClaims"]
    namespace, name = pod.key[0], use["resourceClaimName"]

    def allocation() -> Json | None:
        claim = client.get("ResourceClaim", name, namespace) or {}
        return (claim.get("status") or {}).get("allocation")

    allocated = eventually(allocation, seconds=patience.SCHEDULER, subject=f"an allocation of claim {name}")
    bound = [
        {key: result[key] for key in ("driver", "pool", "device")}
        | {"conditions": [is_true(kind) for kind in result[which]]}
        for result in allocated["devices"]["results"]
    ]
    client.patch("ResourceClaim", name, {"status": {"devices": bound}}, namespace, "status")


def is_true(kind: str) -> Json:
    instant = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": "True", "reason": "Seen", "message": f"it is {kind}", **instant}


def wait_for_the_scheduler(client: Client) -> None:
    """
    Return when the scheduler has seen everything created before: it sees the changes of each kind in their
    order.

    A pod is scheduled to the last node with a device of the last slice and class, past the last taint rule.
    """
    scenario = Scenario(f"curtain-{next(_probe_numbers)}")
    scenario.class_and_slice(*devices("seen-too-early", "seen"))
    scenario.taint_rule("last", "NoSchedule", pool=scenario.name, device="seen-too-early")
    for manifest in scenario.objects:
        client.create(manifest)
    for number in itertools.count():
        claim = f"try-{number}"
        scenario.claim(claim, scenario.exactly())
        client.create(scenario.objects[-1])
        scenario.pod(claim, name=claim, gets=["seen"])
        (pod,) = run_pods(client, scenario.pods[-1:])
        (held_claim,) = pod_claims(client, pod)
        if held_claim["status"]["allocation"]["devices"]["results"][0]["device"] == "seen":
            return
        client.delete("Pod", *reversed(scenario.pods[-1].key))


def condition(pod: Json | None) -> Json:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
    return next((entry for entry in conditions if entry["type"] == "PodScheduled"), {})


def pod_claims(client: Client, pod: Json) -> list[Json]:
    generated = {
        status["name"]: status.get("resourceClaimName")
        for status in pod["status"].get("resourceClaimStatuses", ())
    }
    names = [
        use.get("resourceClaimName") or generated.get(use["name"])
        for use in pod["spec"].get("resourceClaims") or ()
    ]
    extended = pod["status"].get("extendedResourceClaimStatus") or {}
    names += [extended.get("resourceClaimName")]
    namespace = pod["metadata"]["namespace"]
    return [claim for name in names if name and (claim := client.get("ResourceClaim", name, namespace))]
