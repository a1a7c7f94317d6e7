"""
The scheduler: binds pods to nodes and allocates devices to their claims.

Devices come from `dra.allocator`. Messages are those of kube-scheduler 1.37.
"""

import re
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from dra.allocator import AllocationError, AllocationResult, NodeFailed, allocate
from dra.cluster_snapshot import ClusterSnapshot
from dra.nodes import selects
from dra.taints import Taint, untolerated
from simulator.controllers import (
    Context,
    Reacting,
    deleting,
    record_event,
    terminal,
    with_condition,
    with_status,
)
from simulator.controllers import claims as extended
from simulator.controllers.claims import FINALIZER
from simulator.registry import WriteOptions
from simulator.resources import CLAIMS, CLASSES, NODES, PODS, SLICES, TAINT_RULES, ApiError, Manifest

SOURCE = "default-scheduler"
BY_SCHEDULER = WriteOptions(manager="kube-scheduler")
MAX_CONSUMERS = 256  # of one claim
MAX_DEVICES = 32
FAILS = re.compile(
    r"Selector (?P<number>\d+) of (class (?P<name>\S+)|request \S+) fails on (?P<device>\S+): (?P<why>.*)"
)
# What the API server's CEL adds to a missing key.
HINT = (
    ". consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for "
    "optional fields"
)


@dataclass(frozen=True, slots=True)
class Refusal(Exception):
    """Why a pod stays where it is; `reason` is that of its condition."""

    reason: str
    message: str


class Scheduler(Reacting):
    watches = (PODS, CLAIMS, SLICES, CLASSES, NODES, TAINT_RULES)

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._snapshot = ClusterSnapshot()
        self._drawn: tuple[int, ...] = ()
        self._failed: dict[str, Hashable] = {}  # uid → what the cluster was like when the pod did not fit

    def reconcile(self) -> None:
        waiting = [pod for pod in self.store.unordered(PODS) if _waits(pod)]
        waiting.sort(key=_age)
        for pod in waiting:
            self._try(pod)
        alive = {pod["metadata"]["uid"] for pod in waiting}
        self._failed = {uid: node_snapshot for uid, node_snapshot in self._failed.items() if uid in alive}

    def _try(self, pod: Manifest) -> None:
        claims = self._pod_claims(pod)
        if claims is None:
            return
        uid, snapshot = pod["metadata"]["uid"], self._look()
        extended_requests = extended.pod_extended_requests(pod, snapshot.classes)
        objects = (
            self._drawn[:-1],
            frozenset(snapshot.held.holders),
            *(claim["metadata"]["uid"] for claim in claims),
            tuple(self._plugin_use(pod, snapshot)),
        )
        if self._failed.get(uid) == objects:
            return
        allocations = [extended.claim_for(pod, extended_requests)] if extended_requests else []
        try:
            node, results = self._place(pod, claims, allocations, snapshot)
            if _advertised(pod, node):
                allocations = []
            allocations = [self._written(claim) for claim in allocations]
        except Refusal as refusal:
            self._failed[uid] = objects
            self._refuse(pod, refusal)
            return
        for claim in allocations:
            claims.append(claim)
            pod = extended.recorded(pod, claim, extended_requests)
        self._bind(pod, claims, node, results)

    def _written(self, claim: Manifest) -> Manifest:
        """Write the claim of a pod that asks for devices by number."""
        try:
            namespace = claim["metadata"]["namespace"]
            return self.context.registry.create(CLAIMS, namespace, claim, BY_SCHEDULER).object
        except ApiError as refusal:
            raise Refusal("SchedulerError", _plugin(f"create claim: {refusal.message}")) from refusal

    def _pod_claims(self, pod: Manifest) -> list[Manifest] | None:
        """Return the claims of a pod; None while one is missing or going away: the pod is not queued."""
        generated = {
            entry["name"]: entry.get("resourceClaimName")
            for entry in (pod.get("status") or {}).get("resourceClaimStatuses") or []
        }
        claims = []
        for entry in pod["spec"].get("resourceClaims") or []:
            name = entry.get("resourceClaimName") or generated.get(entry["name"])
            claim = self.store.get(CLAIMS, pod["metadata"]["namespace"], name) if name else None
            if claim is None or deleting(claim):
                return None
            claims.append(claim)
        return claims

    def _look(self) -> ClusterSnapshot:
        kinds = (SLICES, CLASSES, NODES, TAINT_RULES, CLAIMS)
        now = tuple(self.store.changed[kind.plural] for kind in kinds)
        if now[:-1] != self._drawn[:-1]:
            slices, classes, nodes, rules = (self.store.all(kind) for kind in kinds[:-1])
            self._snapshot = ClusterSnapshot(classes, slices, self.store.all(CLAIMS), rules, nodes)
        elif now != self._drawn:
            # What the selectors say of the devices stays true while slices and classes do.
            self._snapshot = replace(self._snapshot, claims=self.store.all(CLAIMS))
        self._drawn = now
        return self._snapshot

    def _plugin_use(self, pod: Manifest, snapshot: ClusterSnapshot) -> Iterator[tuple[str, Counter[str]]]:
        """Yield what pods have of the device plugins that could serve this pod."""
        for node in snapshot.nodes:
            if _advertised(pod, node):
                name = node["metadata"]["name"]
                yield name, self._requested(name)

    def _requested(self, node: str) -> Counter[str]:
        """Return how much of each extended resource the pods of a node take."""
        return sum(
            (
                _by_number(pod)
                for pod in self.store.unordered(PODS)
                if pod["spec"].get("nodeName") == node and not terminal(pod)
            ),
            Counter(),
        )

    def _place(
        self, pod: Manifest, claims: list[Manifest], made: list[Manifest], snapshot: ClusterSnapshot
    ) -> tuple[Manifest, list[AllocationResult]]:
        """
        Return the first node that fits, and the results of the claims that are not allocated yet.

        `made` are claims for what the pod requests by number: none on a node whose device plugin has it.
        """
        unallocated = [claim for claim in claims if not (claim.get("status") or {}).get("allocation")]
        self._check([*unallocated, *made], snapshot)
        reasons: Counter[str] = Counter()
        nodes = self._in_order(pod, snapshot)
        for node in nodes:
            if why := _unfit(pod, node, claims):
                reasons[why] += 1
                continue
            open_claims = [*unallocated, *made]
            if advertised := _advertised(pod, node):
                taken = self._requested(node["metadata"]["name"]) + _by_number(pod)
                if lacking := [name for name, count in advertised.items() if taken[name] > count]:
                    reasons[f"Insufficient {lacking[0]}"] += 1
                    continue
                open_claims = unallocated
            try:
                results = allocate(snapshot, node, open_claims) if open_claims else []
            except NodeFailed:
                reasons["invalid resource pools were encountered"] += 1
                continue
            except AllocationError as error:
                raise Refusal("SchedulerError", _error_text(error, open_claims[0])) from error
            if results is not None:
                return dict(node), results
            reasons["cannot allocate all claims"] += 1
        raise Refusal("Unschedulable", _summary(len(nodes), reasons))

    def _in_order(self, pod: Manifest, snapshot: ClusterSnapshot) -> list[Mapping[str, Any]]:
        """Nodes in use come first, so that whole nodes stay free; among equals, chance decides."""
        used = {pod["spec"].get("nodeName") for pod in self.store.unordered(PODS) if not terminal(pod)}
        chance = Random(pod["metadata"]["uid"])  # noqa: S311 – the same for the same pod, no secrets
        order = chance.sample(snapshot.nodes, len(snapshot.nodes))
        return sorted(order, key=lambda node: node["metadata"]["name"] not in used)

    def _check(self, claims: list[Manifest], snapshot: ClusterSnapshot) -> None:
        """What is wrong whatever the node is: a class that is missing, too many devices."""
        for claim in claims:
            total = 0
            for request in (claim["spec"].get("devices") or {}).get("requests") or []:
                for device_request in request.get("firstAvailable") or [request["exactly"]]:
                    if device_request["deviceClassName"] not in snapshot.class_by_name:
                        missing = f"device class {device_request['deviceClassName']} does not exist"
                        why = f"request {request['name']}: {missing}"
                        raise Refusal("Unschedulable", _available(len(snapshot.nodes), why))
                count = (request.get("exactly") or {}).get("count") or 0
                if total + count > MAX_DEVICES:
                    why = f"adding {count} devices exceeds the claim limit of {MAX_DEVICES}"
                    where = f"{_claim(claim)}, request {request['name']}"
                    already = f"with {total} already accounted for"
                    raise Refusal("SchedulerError", _plugin(f"{where}: {why}, {already}"))
                total += count

    def _refuse(self, pod: Manifest, refusal: Refusal) -> None:
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": refusal.reason,
            "message": refusal.message,
        }
        conditions = (pod.get("status") or {}).get("conditions") or []
        if any(condition.items() <= existing.items() for existing in conditions):
            return
        self.store.put(PODS, with_condition(pod, condition, at=self.store.timestamp()))
        record_event(self.context, pod, "FailedScheduling", refusal.message, source=SOURCE)

    def _bind(
        self, pod: Manifest, claims: list[Manifest], node: Manifest, results: list[AllocationResult]
    ) -> None:
        metadata, at, given = pod["metadata"], self.store.timestamp(), iter(results)
        user = {"resource": "pods", "name": metadata["name"], "uid": metadata["uid"]}
        for claim in claims:
            status = claim.get("status") or {}
            allocation = status.get("allocation") or next(given).as_dict() | {"allocationTimestamp": at}
            reserved = status.get("reservedFor") or []
            users = reserved if user in reserved else [*reserved, user]
            finalizers = claim["metadata"].get("finalizers") or []
            if FINALIZER not in finalizers:
                claim = claim | {"metadata": claim["metadata"] | {"finalizers": [*finalizers, FINALIZER]}}
            self.store.put(CLAIMS, with_status(claim, allocation=allocation, reservedFor=users))
        name = node["metadata"]["name"]
        pod = pod | {"spec": pod["spec"] | {"nodeName": name}}
        self.store.put(PODS, with_condition(pod, {"type": "PodScheduled", "status": "True"}, at=at))
        message = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {name}"
        record_event(self.context, pod, "Scheduled", message, source=SOURCE, warning=False)


def _by_number(pod: Manifest) -> Counter[str]:
    """Return what the containers of a pod request in whole numbers, with a domain in the name."""
    numbers: Counter[str] = Counter()
    for container in pod["spec"].get("containers") or []:
        resources = container.get("resources") or {}
        wanted = (resources.get("limits") or {}) | (resources.get("requests") or {})
        for name, count in wanted.items():
            if "/" in name and str(count).isdigit():
                numbers[name] += int(count)
    return numbers


def _advertised(pod: Manifest, node: Mapping[str, Any]) -> dict[str, int]:
    """Return what a device plugin of the node has of the extended resources that the pod requests."""
    has = (node.get("status") or {}).get("allocatable") or {}
    return {name: int(has[name]) for name in _by_number(pod) if name in has}


def _age(pod: Manifest) -> tuple[str, int]:
    return pod["metadata"]["creationTimestamp"], int(pod["metadata"]["resourceVersion"])


def _claim(claim: Manifest) -> str:
    metadata = claim["metadata"]
    return f"claim {metadata['namespace']}/{metadata.get('name') or metadata['generateName']}"


def _waits(pod: Manifest) -> bool:
    return not pod["spec"].get("nodeName") and not terminal(pod) and not deleting(pod)


def _unfit(pod: Manifest, node: Mapping[str, Any], claims: list[Manifest]) -> str:
    """Return why the node is out of the question, in the words of the scheduler; "" if it is not."""
    if (node.get("spec") or {}).get("unschedulable"):
        return "node(s) were unschedulable"
    taints = (Taint.read(taint) for taint in (node.get("spec") or {}).get("taints") or ())
    if untolerated(pod["spec"].get("tolerations") or (), taints):
        return "node(s) had untolerated taint(s)"
    labels = node["metadata"].get("labels") or {}
    wanted = pod["spec"].get("nodeSelector") or {}
    if not wanted.items() <= labels.items():
        return "node(s) didn't match Pod's node affinity/selector"
    for claim in claims:
        status = claim.get("status") or {}
        allocation = status.get("allocation") or {}
        if allocation.get("nodeSelector") and not selects(allocation["nodeSelector"], node):
            return "resourceclaim not available on the node"
        if len(status.get("reservedFor") or []) >= MAX_CONSUMERS:
            return "resourceclaim in use"
    return ""


def _summary(nodes: int, reasons: Counter[str]) -> str:
    if not nodes:
        return "no nodes available to schedule pods"
    return _available(nodes, ", ".join(sorted(f"{count} {why}" for why, count in reasons.items())))


def _available(nodes: int, why: str) -> str:
    helpless = f"preemption: 0/{nodes} nodes are available: {nodes} Preemption is not helpful for scheduling."
    return f"0/{nodes} nodes are available: {why}. {helpless}"


def _plugin(why: str) -> str:
    return f'running "DynamicResources" filter plugin: {why}'


def _error_text(error: AllocationError, claim: Manifest) -> str:
    """Say in the scheduler's words what the allocator says in the portal's."""
    match = FAILS.match(error.message)
    if match is None:
        return _plugin(f"{_claim(claim)}: {error.message}")
    whose = f"class {match['name']}" if match["name"] else _claim(claim)
    where = f"selector #{int(match['number']) - 1} on device {match['device']}"
    hint = HINT if match["why"].startswith("no such key") else ""
    return _plugin(f"{whose}: {where}: CEL runtime error: {match['why']}{hint}")
