"""
Controllers of pods: lifecycle, Jobs, device taint eviction, garbage collection and quota.

Pods run for the time that they request, then succeed. Jobs support parallelism and completions. NoExecute
taints delete the pods of a device that do not tolerate them. Objects are deleted with their owner or
namespace. `status.used` of ResourceQuotas is updated after deletions and new quotas.
"""

from collections.abc import Mapping
from typing import Any

from dra.pools import PoolDevice, gather_pools
from dra.taints import Taint, rule_taints, tolerates
from simulator.admission import charge
from simulator.controllers import (
    CONTROLLER,
    Context,
    InCluster,
    Reacting,
    deleting,
    owner_uid,
    record_event,
    terminal,
    with_condition,
    with_status,
)
from simulator.resources import (
    CLAIMS,
    CLASSES,
    JOBS,
    NAMESPACES,
    PODS,
    QUOTAS,
    RESOURCES,
    SLICES,
    TAINT_RULES,
    TEMPLATES,
    ApiError,
    Manifest,
    Resource,
)

RUN_SECONDS = "simulator.dragoman.dev/run-seconds"
START_TICKS = 1  # an image is pulled, devices are prepared
STOP_TICKS = 2
LONG = 7 * 24 * 3600  # ticks that a pod runs which does not say; one of a Job is at work and ends
OF_A_JOB = 180
DEEDS = ("start", "stop", "end")


class Kubelet(InCluster):
    watches = (PODS,)

    def is_time(self) -> bool:
        return self.context.anything_due(*DEEDS)

    def reconcile(self) -> None:
        alive = set()
        for pod in self.store.all(PODS):
            alive.add(pod["metadata"]["uid"])
            if pod["spec"].get("nodeName"):
                self._live(pod)
        for deed in DEEDS:
            deeds = self.context.due.get(deed, {})
            for uid in [uid for uid in deeds if uid not in alive]:
                del deeds[uid]

    def _live(self, pod: Manifest) -> None:
        uid, phase = pod["metadata"]["uid"], (pod.get("status") or {}).get("phase", "Pending")
        if deleting(pod):
            if terminal(pod) or self.context.is_due("stop", uid, after=STOP_TICKS):
                self.store.remove(PODS, pod)
        elif phase == "Pending" and self.context.is_due("start", uid, after=START_TICKS):
            self.store.put(PODS, self._started(pod))
        elif phase == "Running" and self.context.is_due("end", uid, after=run_seconds(pod)):
            self.store.put(PODS, self._ended(pod))

    def _started(self, pod: Manifest) -> Manifest:
        at = self.store.timestamp()
        pod = with_status(
            pod,
            phase="Running",
            startTime=at,
            containerStatuses=_containers(pod, {"running": {"startedAt": at}}),
        )
        for kind in ("Initialized", "Ready", "ContainersReady"):
            pod = with_condition(pod, {"type": kind, "status": "True"}, at=at)
        return pod

    def _ended(self, pod: Manifest) -> Manifest:
        at = self.store.timestamp()
        started = pod["status"].get("startTime", at)
        state = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": started, "finishedAt": at}}
        pod = with_status(pod, phase="Succeeded", containerStatuses=_containers(pod, state))
        for kind in ("Ready", "ContainersReady"):
            pod = with_condition(pod, {"type": kind, "status": "False", "reason": "PodCompleted"}, at=at)
        return pod


def run_seconds(pod: Manifest) -> int:
    """Return how many simulated seconds the pod runs."""
    annotation = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS, "")
    if annotation.isdigit():
        return int(annotation)
    owners = pod["metadata"].get("ownerReferences") or []
    return OF_A_JOB if any(owner["kind"] == "Job" for owner in owners) else LONG


def _containers(pod: Manifest, state: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": container["name"],
            "image": container.get("image", ""),
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"]["containers"]
    ]


class JobController(Reacting):
    watches = (JOBS, PODS)

    def reconcile(self) -> None:
        jobs = [job for job in self.store.all(JOBS) if not deleting(job) and not _finished(job)]
        pods: dict[str, list[Manifest]] = {job["metadata"]["uid"]: [] for job in jobs}
        for pod in self.store.all(PODS) if jobs else []:
            pods.get(owner_uid(pod), []).append(pod)
        for job in jobs:
            self._run(job, pods[job["metadata"]["uid"]])

    def _run(self, job: Manifest, pods: list[Manifest]) -> None:
        spec, at = job["spec"], self.store.timestamp()
        phases = [(pod.get("status") or {}).get("phase") for pod in pods]
        succeeded, failed = phases.count("Succeeded"), phases.count("Failed")
        active = len(phases) - succeeded - failed
        started = (job.get("status") or {}).get("startTime", at)
        ready = phases.count("Running")
        if not spec["suspend"]:
            for _ in range(min(spec["parallelism"], spec["completions"] - succeeded) - active):
                active += self._create_pod(job)
        counts: Mapping[str, Any] = {
            "active": active or None,
            "succeeded": succeeded or None,
            "failed": failed or None,
        }
        fresh = with_status(job, startTime=started, ready=ready, **counts)
        if succeeded >= spec["completions"]:
            message = "Reached expected number of succeeded pods"
            done = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": message}
            fresh = with_condition(with_status(fresh, completionTime=at), done, at=at)
        elif failed > spec["backoffLimit"]:
            message = "Job has reached the specified backoff limit"
            lost = {"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": message}
            fresh = with_condition(fresh, lost, at=at)
        if fresh.get("status") != job.get("status"):
            self.store.put(JOBS, fresh)

    def _create_pod(self, job: Manifest) -> bool:
        """Return False if the cluster refuses the pod; the next change makes the controller try again."""
        metadata, template = job["metadata"], job["spec"]["template"]
        name, uid = metadata["name"], metadata["uid"]
        given = template.get("metadata") or {}
        labels = {
            "batch.kubernetes.io/job-name": name,
            "job-name": name,
            "batch.kubernetes.io/controller-uid": uid,
        }
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
        pod = {
            "metadata": {
                "generateName": f"{name}-",
                "labels": (given.get("labels") or {}) | labels,
                "annotations": given.get("annotations") or {},
                "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
            },
            "spec": template["spec"],
        }
        try:
            self.context.registry.create(PODS, metadata["namespace"], pod, CONTROLLER)
        except ApiError:
            return False
        return True


def _finished(job: Manifest) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] in {"Complete", "Failed"} and condition["status"] == "True"
        for condition in conditions
    )


SOURCE = "device-taint-eviction-controller"


class EvictionController(Reacting):
    watches = (SLICES, TAINT_RULES, CLAIMS)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._devices: dict[tuple[str, str, str], PoolDevice] = {}
        self._seen = -1

    def reconcile(self) -> None:
        if self._seen != self.store.changed[SLICES.plural]:
            self._seen = self.store.changed[SLICES.plural]
            pools = gather_pools(self.store.all(SLICES))
            self._devices = {device.key: device for pool in pools for device in pool.devices}
        rules = self.store.all(TAINT_RULES)
        for claim in list(self.store.unordered(CLAIMS)):
            status = claim.get("status") or {}
            results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
            if any(self._must_go(result, rules) for result in results):
                for user in status.get("reservedFor") or []:
                    self._evict(claim["metadata"]["namespace"], user)

    def _must_go(self, result: dict[str, Any], rules: list[Manifest]) -> bool:
        device = self._devices.get((result["driver"], result["pool"], result["device"]))
        if device is None:
            return False
        taints: list[Taint] = [*device.taints, *rule_taints(device, rules)]
        tolerated = result.get("tolerations") or []
        return any(taint.effect == "NoExecute" and not tolerates(tolerated, taint) for taint in taints)

    def _evict(self, namespace: str, user: dict[str, Any]) -> None:
        pod = self.store.get(PODS, namespace, user["name"])
        if pod and pod["metadata"]["uid"] == user["uid"] and not deleting(pod) and not terminal(pod):
            message = "Marking for deletion"
            record_event(
                self.context, pod, "DeviceTaintManagerEviction", message, source=SOURCE, warning=False
            )
            self.context.registry.delete(PODS, namespace, user["name"], {}, CONTROLLER)


OWNED = ((PODS, JOBS), (CLAIMS, PODS))


class GarbageCollector(Reacting):
    watches = (*(resource for resource in RESOURCES if resource.namespaced), NAMESPACES)

    def reconcile(self) -> None:
        for resource, owners in OWNED:
            alive = {owner["metadata"]["uid"] for owner in self.store.unordered(owners)}
            for manifest in list(self.store.unordered(resource)):
                owner = owner_uid(manifest)
                if owner and owner not in alive and not deleting(manifest):
                    self._delete(resource, manifest)
        for namespace in list(self.store.unordered(NAMESPACES)):
            if deleting(namespace):
                self._empty(namespace)

    def _empty(self, namespace: Manifest) -> None:
        name, left = namespace["metadata"]["name"], 0
        for resource in RESOURCES:
            if not resource.namespaced:
                continue
            for manifest in self.store.all(resource, name):
                if not deleting(manifest):
                    self._delete(resource, manifest)
                left += self.store.get(resource, name, manifest["metadata"]["name"]) is not None
        if not left:
            self.store.remove(NAMESPACES, namespace)

    def _delete(self, resource: Resource, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        self.context.registry.delete(
            resource, metadata.get("namespace", ""), metadata["name"], {}, CONTROLLER
        )


class QuotaController(Reacting):
    watches = (QUOTAS, CLAIMS, TEMPLATES, CLASSES)

    def reconcile(self) -> None:
        for namespace in {quota["metadata"]["namespace"] for quota in self.store.unordered(QUOTAS)}:
            charge(self.store, namespace)
