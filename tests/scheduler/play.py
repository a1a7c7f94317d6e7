"""Puts situations into a control plane, asks the engine, lets the scheduler act, and says what was seen."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass

from demo.controlplane.client import Client, eventually, path_of
from demo.controlplane.harness import is_ready
from dra.cluster_snapshot import ClusterSnapshot
from tests import patience
from tests.scheduler.foresight import Foretold, foretell
from tests.scheduler.stage import COMMON, PLAIN, PRIVILEGED, Json, Pod, Stage, devices

OURS = {"labelSelector": "situation"}
_curtains = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Act:
    """One pod: what was expected and foretold, and the pod and its claims as they were in the end."""

    expected: Pod
    foretold: Foretold
    pod: Json
    claims: list[Json]

    @property
    def node(self) -> str:
        return str(self.pod["spec"].get("nodeName") or "")

    @property
    def allocations(self) -> list[Json]:
        return [claim["status"]["allocation"] for claim in self.claims]


def play(client: Client, stages: Sequence[Stage]) -> dict[str, list[Act]]:
    """Return what became of the pods of each stage, those of `earlier` left out."""
    prepare(client, stages)
    snapshot = snapshot_of(client)
    cast = [(stage, pod) for stage in stages for pod in stage.pods if not pod.earlier]
    told = [foretell(snapshot, stage, pod) for stage, pod in cast]
    seen = run(client, [pod for _, pod in cast])
    acts: dict[str, list[Act]] = {stage.name: [] for stage in stages}
    for (stage, pod), foretold, now in zip(cast, told, seen, strict=True):
        acts[stage.name].append(Act(pod, foretold, now, claims_of(client, now)))
    return acts


def prepare(client: Client, stages: Sequence[Stage]) -> None:
    """Make everything but the pods that are to be looked at, and wait until the scheduler knows it."""
    make(client, stages)
    eventually(
        lambda: all(map(is_ready, client.list("Node"))), seconds=patience.SCHEDULER, subject="ready nodes"
    )
    wait_for_the_scheduler(client)
    run(client, [pod for stage in stages for pod in stage.pods if pod.earlier])


def make(client: Client, stages: Sequence[Stage]) -> None:
    """Make the objects of the stages, and what all of them share if it is not there."""
    for one in grounds():
        if not client.get(one["kind"], one["metadata"]["name"]):
            client.create(one)
    for stage in stages:
        for one in stage.objects:
            client.create(one)


def grounds() -> list[Json]:
    """Return what situations share: two namespaces and a node."""
    privileged = {"resource.kubernetes.io/admin-access": "true"}
    host = {"kubernetes.io/hostname": COMMON, "situation": ""}
    return [
        {"kind": "Namespace", "metadata": {"name": PLAIN}},
        {"kind": "Namespace", "metadata": {"name": PRIVILEGED, "labels": privileged}},
        {"kind": "Node", "metadata": {"name": COMMON, "labels": host}},
    ]


def strike(client: Client) -> None:
    """Take everything away again but the namespaces: pods first, so that devices are given back."""
    ours = OURS | {"gracePeriodSeconds": "0"}
    for kind in ("Pod", "ResourceClaim", "ResourceClaimTemplate", "ResourceQuota"):
        for namespace in (PLAIN, PRIVILEGED):
            client.raw("DELETE", path_of(kind, namespace), params=ours).raise_for_status()
    for kind in ("ResourceSlice", "DeviceClass", "DeviceTaintRule", "Node"):
        client.raw("DELETE", path_of(kind), params=ours).raise_for_status()
    eventually(
        lambda: not client.list("ResourceClaim", **OURS),
        seconds=patience.SCHEDULER,
        subject="the last claim's end",
    )


def snapshot_of(client: Client) -> ClusterSnapshot:
    return ClusterSnapshot(
        classes=client.list("DeviceClass"),
        slices=client.list("ResourceSlice"),
        claims=client.list("ResourceClaim"),
        taint_rules=client.list("DeviceTaintRule"),
        nodes=client.list("Node"),
    )


def run(client: Client, cast: Sequence[Pod]) -> list[Json]:
    """
    Create the pods and return them once the scheduler has decided on each as expected.

    Those on which it never does are returned too: what is compared later says what happened instead.
    """
    for pod in cast:
        client.create(pod.manifest)
    for pod in cast:
        if pod.binds:
            report_bound(client, pod)
    ends = time.monotonic() + patience.SCHEDULER
    while True:
        seen = {(one["metadata"]["namespace"], one["metadata"]["name"]): one for one in client.list("Pod")}
        gone: Json = {"status": {}}
        pods = [seen.get(pod.key, pod.manifest | gone) for pod in cast]
        if all(map(as_expected, cast, pods)) or time.monotonic() > ends:
            return pods
        time.sleep(0.1)


def as_expected(pod: Pod, now: Json) -> bool:
    return condition(now).get("status") == ("False" if pod.waits else "True")


def report_bound(client: Client, pod: Pod) -> None:
    """Say what the driver says when it has attached the devices: until then the pod is not bound."""
    report(client, pod, "bindingConditions")


def report(client: Client, pod: Pod, which: str) -> None:
    """Set all conditions of one kind of the devices of the pod's claim, once they are allocated."""
    (use,) = pod.manifest["spec"]["resourceClaims"]
    namespace, name = pod.key[0], use["resourceClaimName"]

    def allocation() -> Json | None:
        claim = client.get("ResourceClaim", name, namespace) or {}
        return (claim.get("status") or {}).get("allocation")

    found = eventually(allocation, seconds=patience.SCHEDULER, subject=f"an allocation of claim {name}")
    bound = [
        {key: result[key] for key in ("driver", "pool", "device")}
        | {"conditions": [is_true(kind) for kind in result[which]]}
        for result in found["devices"]["results"]
    ]
    client.patch("ResourceClaim", name, {"status": {"devices": bound}}, namespace, "status")


def is_true(kind: str) -> Json:
    instant = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": kind, "status": "True", "reason": "Seen", "message": f"it is {kind}", **instant}


def wait_for_the_scheduler(client: Client) -> None:
    """
    Return when the scheduler has seen all that was made before: of each kind it sees changes in their order.

    A pod is scheduled to the last node with a device of the last slice and class, past the last taint rule.
    """
    stage = Stage(f"curtain-{next(_curtains)}")
    stage.usual(*devices("seen-too-early", "seen"))
    stage.taint_rule("last", "NoSchedule", pool=stage.name, device="seen-too-early")
    for one in stage.objects:
        client.create(one)
    for number in itertools.count():
        claim = f"try-{number}"
        stage.claim(claim, stage.exactly())
        client.create(stage.objects[-1])
        stage.pod(claim, name=claim, gets=["seen"])
        (pod,) = run(client, stage.pods[-1:])
        (held,) = claims_of(client, pod)
        if held["status"]["allocation"]["devices"]["results"][0]["device"] == "seen":
            return
        client.delete("Pod", *reversed(stage.pods[-1].key))


def condition(pod: Json | None) -> Json:
    conditions = ((pod or {}).get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == "PodScheduled"), {})


def claims_of(client: Client, pod: Json) -> list[Json]:
    made = {
        one["name"]: one.get("resourceClaimName") for one in pod["status"].get("resourceClaimStatuses", ())
    }
    names = [
        use.get("resourceClaimName") or made.get(use["name"])
        for use in pod["spec"].get("resourceClaims") or ()
    ]
    extended = pod["status"].get("extendedResourceClaimStatus") or {}
    names += [extended.get("resourceClaimName")]
    namespace = pod["metadata"]["namespace"]
    return [found for name in names if name and (found := client.get("ResourceClaim", name, namespace))]
