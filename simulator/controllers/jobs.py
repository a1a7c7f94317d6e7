"""The Job controller, as far as batch work with GPUs needs it: parallelism, completions, an end."""

from collections.abc import Mapping
from typing import Any

from simulator.controllers.context import (
    CONTROLLER,
    Context,
    Reacting,
    deleting,
    owner_uid,
    with_condition,
    with_status,
)
from simulator.errors import ApiError
from simulator.resources import JOBS, PODS, Manifest


class JobController(Reacting):
    watches = (JOBS, PODS)

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store

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
    return any(one["type"] in {"Complete", "Failed"} and one["status"] == "True" for one in conditions)
