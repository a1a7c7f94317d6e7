"""The life of pods on their nodes: Pending, Running, and Succeeded after the time that the pod asks for."""

from typing import Any

from simulator.controllers.context import Context, deleting, terminal, with_condition, with_status
from simulator.resources import PODS, Manifest

RUN_SECONDS = "simulator.dragoman.dev/run-seconds"
START_TICKS = 1  # an image is pulled, devices are prepared
STOP_TICKS = 2
LONG = 7 * 24 * 3600  # ticks that a pod runs which does not say; one of a Job is at work and ends
OF_A_JOB = 180
DEEDS = ("start", "stop", "end")


class Kubelet:
    watches = (PODS,)

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store

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
    asked = (pod["metadata"].get("annotations") or {}).get(RUN_SECONDS, "")
    if asked.isdigit():
        return int(asked)
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
