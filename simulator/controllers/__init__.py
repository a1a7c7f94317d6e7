"""
The controllers of a simulated cluster, one file each as in Kubernetes, and what they share: the objects, the
clock, and writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from simulator.registry import Registry, WriteOptions
from simulator.resources import EVENTS, NAMESPACES, PODS, Manifest, Resource
from simulator.store import Store

TERMINAL = ("Succeeded", "Failed")
CONTROLLER = WriteOptions(manager="kube-controller-manager")
EVENTS_KEPT = 400


@dataclass(slots=True)
class Context:
    """`due` remembers, under a deed and a uid, the tick at which it is to happen; it is kept on disk."""

    store: Store
    registry: Registry
    tick: int = 0
    due: dict[str, dict[str, int]] = field(default_factory=dict)

    def is_due(self, deed: str, uid: str, *, after: int) -> bool:
        """Start the delay when first asked, and return True once `after` ticks have passed since."""
        deeds = self.due.setdefault(deed, {})
        if self.tick < deeds.setdefault(uid, self.tick + after):
            return False
        del deeds[uid]
        return True

    def anything_due(self, *deeds: str) -> bool:
        return any(at <= self.tick for deed in deeds for at in self.due.get(deed, {}).values())


class Controller(Protocol):
    @property
    def watches(self) -> Sequence[Resource]:
        """The kinds whose changes make it look again."""

    def is_time(self) -> bool:
        """Whether the time that has passed, and nothing else, gives it something to do."""

    def reconcile(self) -> None:
        """Do what is to be done now. Called again until nobody changes anything."""


class InCluster:
    """What every controller has of its cluster."""

    def __init__(self, context: Context) -> None:
        self.context, self.store = context, context.store


class Reacting(InCluster):
    """A controller that time alone never moves."""

    def is_time(self) -> bool:
        return False


def with_status(manifest: Manifest, **status: Any) -> Manifest:
    """Return the object with these fields of its status set; None takes a field away."""
    merged = (manifest.get("status") or {}) | status
    return manifest | {"status": {key: value for key, value in merged.items() if value is not None}}


def with_condition(manifest: Manifest, condition: dict[str, Any], *, at: str) -> Manifest:
    """Return the object with a condition set; its time moves only when the status of the condition does."""
    conditions = list((manifest.get("status") or {}).get("conditions") or [])
    old = next((existing for existing in conditions if existing["type"] == condition["type"]), None)
    same = old is not None and old["status"] == condition["status"]
    stamped = {"lastProbeTime": None, "lastTransitionTime": old["lastTransitionTime"] if old and same else at}
    other_conditions = [existing for existing in conditions if existing is not old]
    return with_status(manifest, conditions=[*other_conditions, condition | stamped])


def terminal(pod: Manifest) -> bool:
    return (pod.get("status") or {}).get("phase") in TERMINAL


def deleting(manifest: Manifest) -> bool:
    return bool(manifest["metadata"].get("deletionTimestamp"))


def owner_uid(manifest: Manifest) -> str:
    """Return the uid of the controller that owns the object, or ""."""
    owners = manifest["metadata"].get("ownerReferences") or []
    return str(next((owner["uid"] for owner in owners if owner.get("controller")), ""))


def record_event(
    context: Context, pod: Manifest, reason: str, message: str, *, source: str, warning: bool = True
) -> None:
    """Write an Event about a pod; the same reason and message again only raise its count."""
    store, metadata = context.store, pod["metadata"]
    namespace = store.get(NAMESPACES, "", metadata["namespace"])
    if namespace is None or deleting(namespace):
        return
    at = store.timestamp()
    for event in store.all(EVENTS, metadata["namespace"]):
        about = event["involvedObject"]["uid"] == metadata["uid"]
        if about and (event["reason"], event["message"]) == (reason, message):
            store.put(EVENTS, event | {"count": event["count"] + 1, "lastTimestamp": at})
            return
    involved = {"kind": PODS.kind, "apiVersion": "v1"} | {
        k: metadata[k] for k in ("namespace", "name", "uid")
    }
    event = {
        "metadata": {"generateName": f"{metadata['name']}.", "namespace": metadata["namespace"]},
        "involvedObject": involved,
        "reason": reason,
        "message": message,
        "source": {"component": source},
        "reportingComponent": source,
        "reportingInstance": "",
        "type": "Warning" if warning else "Normal",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    context.registry.create(EVENTS, metadata["namespace"], event, CONTROLLER)
    _drop_old_events(store)


def _drop_old_events(store: Store) -> None:
    events = sorted(store.unordered(EVENTS), key=lambda event: int(event["metadata"]["resourceVersion"]))
    for event in events[:-EVENTS_KEPT]:
        store.remove(EVENTS, event)
