"""
Blockers: claims whose release would make room for a claim, and whether its free devices are only scattered.

The search is bounded: it can miss blockers, but those that it returns are correct.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.held import allocation_results, device_key
from dra.nodes import name_of
from dra.objects import DeviceRequest, Json, device_requests
from dra.pools import PoolDevice
from dra.selector_results import DeviceMask, mask_indices

MAX_NODES = 24  # those with the smallest shortage
MAX_TRIES = 150  # allocations
MAX_BLOCKERS = 3
NUMBERED = re.compile(r"-?\d+$")  # memory-slice-3 and memory-slice-4 are equivalent


class Scatter(StrEnum):
    """How free devices are scattered."""

    NONE = ""
    NODES = "nodes"  # enough are free, but on different nodes
    PARTS = "parts"  # enough is left on one node, but split over GPUs


@dataclass(frozen=True, slots=True)
class Blocker:
    """Claims ("namespace/name") whose release lets one claim of the spec fit on the node."""

    claims: tuple[str, ...]
    node: str


@dataclass(frozen=True, slots=True)
class Blockers:
    """Blockers, fewest claims first. `sentence` tells how free devices are scattered, "" if they are not."""

    scatter: Scatter = Scatter.NONE
    sentence: str = ""
    blockers: tuple[Blocker, ...] = ()


def find_blockers(snapshot: ClusterSnapshot, spec: Json) -> Blockers:
    """Find single claims whose release lets one claim of `spec` fit, else pairs on one node."""
    try:
        demand = _Demand(snapshot, spec)
    except (KeyError, CelError):
        return Blockers()
    if not demand.accepted or not demand.device_count:
        return Blockers()
    scatter, sentence = _scattered(demand)
    return Blockers(scatter, sentence, tuple(_find_blockers(snapshot, spec, demand)))


class _Demand:
    """
    The devices that the spec matches and needs.

    Raise `KeyError` for an unknown class and `CelError` for an invalid selector.
    """

    def __init__(self, snapshot: ClusterSnapshot, spec: Json) -> None:
        self.snapshot = snapshot
        self.requests = list(device_requests(spec))
        self.accepted: DeviceMask = 0
        for request in self.requests:
            self.accepted |= _accepted(snapshot, request)
        min_counts: dict[str, int] = {}
        for request in self.requests:
            count = 1 if request.all else request.count
            min_counts[request.request] = min(min_counts.get(request.request, count), count)
        self.device_count = sum(min_counts.values())
        devices = snapshot.devices
        self.devices = [devices[index] for index in mask_indices(self.accepted, len(devices))]
        self.available = [device for device in self.devices if snapshot.can_take(device)]

    def nodes(self) -> list[str]:
        """Return nodes with enough devices, held or free, those with the smallest shortage first."""
        matching = Counter(device.node_name for device in self.devices)
        free = Counter(device.node_name for device in self.available)
        enough = [node for node, count in matching.items() if node and count >= self.device_count]
        return sorted(enough, key=lambda node: (self.device_count - free[node], node))


def _accepted(snapshot: ClusterSnapshot, request: DeviceRequest) -> DeviceMask:
    left = snapshot.untainted(request.tolerations)
    for expression in (*snapshot.class_expressions(request.class_name), *request.expressions):
        left &= snapshot.selector_results(expression).mask
    return left


def _scattered(demand: _Demand) -> tuple[Scatter, str]:
    free = len(demand.available)
    free_by_node = Counter(device.node_name for device in demand.available)
    if (
        free >= demand.device_count
        and max(free_by_node.values(), default=0) < demand.device_count
        and "" not in free_by_node
    ):
        return Scatter.NODES, (
            f"{free} matching devices are free on {len(free_by_node)} nodes. The claim needs "
            f"{demand.device_count} on one node; no node has more than {max(free_by_node.values())} free."
        )
    return _parts(demand)


def _parts(demand: _Demand) -> tuple[Scatter, str]:
    """Compare the counters left on all GPUs of a node with those of the smallest matching partition."""
    snapshot = demand.snapshot
    partitions = [device for device in demand.devices if device.counters]
    if not partitions or len(demand.requests) != 1 or demand.available:
        return Scatter.NONE, ""
    needed = min((_pieces(device) for device in partitions), key=lambda pieces: sorted(pieces.items()))
    for name in needed:
        needed[name] *= demand.device_count
    for node in demand.nodes():
        left: Counter[str] = Counter()
        for pool in {(device.driver, device.pool) for device in partitions if device.node_name == node}:
            for (_, counter), amount in (snapshot.counters_left(pool) or {}).items():
                left[NUMBERED.sub("", counter)] += amount
        if all(left[name] >= amount for name, amount in needed.items()):
            return Scatter.PARTS, (
                f"Node {node} has enough GPU capacity left for the claim, but it is split over partitions."
            )
    return Scatter.NONE, ""


def _pieces(device: PoolDevice) -> Counter[str]:
    pieces: Counter[str] = Counter()
    for (_, counter), amount in device.counters:
        pieces[NUMBERED.sub("", counter)] += amount.nano
    return pieces


def _find_blockers(snapshot: ClusterSnapshot, spec: Json, demand: _Demand) -> Iterator[Blocker]:
    """Yield single claims, or if there are none pairs, within `MAX_TRIES` allocations."""
    names = demand.nodes()[:MAX_NODES]
    reaches = {name: _NodeReach(snapshot, name) for name in names}
    holders = {holder for node in reaches.values() for holder in node.holders}
    claims = {name: claim for claim in snapshot.claims if (name := _name(claim)) in holders}
    sites = [_NodeSnapshot(snapshot, node, claims, demand) for node in reaches.values()]
    if any(site.fits(spec, ()) for site in sites):
        return  # the claim fits already
    tries = shown = 0
    for size in (1, 2):
        for site in sites:
            for released in combinations(site.holders, size):
                if tries == MAX_TRIES:
                    return
                tries += 1
                if site.fits(spec, released):
                    yield Blocker(released, site.name)
                    shown += 1
                    break  # one per node
            if shown == MAX_BLOCKERS:
                return
        if shown:
            return


class _NodeReach:
    """The pools that a node reaches, and the claims that hold their devices."""

    def __init__(self, snapshot: ClusterSnapshot, name: str) -> None:
        self.name = name
        nodes = (node for node in snapshot.nodes if name_of(node) == name)
        self.node: Json = next(nodes, {"metadata": {"name": name}})
        devices = [snapshot.devices[index] for index in snapshot.indices_on(self.node)]
        self.pools = {(device.driver, device.pool) for device in devices}
        held = snapshot.held
        self.holders: set[str] = set()
        for device in devices:
            holder = held.holders.get(device.key)
            self.holders.update([holder] if holder else held.sharers.get(device.key, ()))


class _NodeSnapshot:
    """A snapshot of one node, so that each allocation reads few claims."""

    def __init__(
        self, snapshot: ClusterSnapshot, reach: _NodeReach, claims: Mapping[str, Json], demand: _Demand
    ) -> None:
        self.name, self.node = reach.name, reach.node
        self.claims = {name: claims[name] for name in reach.holders if name in claims}
        pools = (pool for pool in snapshot.pools if (pool.driver, pool.name) in reach.pools)
        self.snapshot = ClusterSnapshot(
            classes=snapshot.classes,
            slices=[resource_slice for pool in pools for resource_slice in pool.slices],
            claims=[*self.claims.values()],
            taint_rules=snapshot.taint_rules,
            nodes=[self.node],
            features=snapshot.features,
        )
        matching_pools = {
            (device.driver, device.pool) for device in demand.devices if device.node_name == self.name
        }
        holders = [name for name, claim in self.claims.items() if matching_pools & _pools(claim)]
        self.holders = sorted(
            holders, key=lambda holder: (len(allocation_results(self.claims[holder])), holder)
        )

    def fits(self, spec: Json, released: Sequence[str]) -> bool:
        rest = [claim for name, claim in self.claims.items() if name not in released]
        preview_claim = {"metadata": {"name": "preview"}, "spec": spec}
        try:
            return allocate(self.snapshot.after(claims=rest), self.node, [preview_claim]) is not None
        except (AllocationError, SearchGivenUp):
            return False


def _name(claim: Json) -> str:
    metadata = claim.get("metadata") or {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _pools(claim: Json) -> set[tuple[str, str]]:
    """Return the pools whose devices the claim holds; admin access holds nothing."""
    return {
        device_key(result)[:2]
        for result in allocation_results(claim)
        if result.get("adminAccess") is not True
    }
