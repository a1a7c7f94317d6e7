"""
Whether a claim fails only because what is free is scattered, and whose end would make room for it.

The search is bounded: what it finds is true, and that it finds nothing proves nothing.
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

NODES = 24  # looked at, those first that lack least
TRIES = 150  # allocations
SHOWN = 3
NUMBERED = re.compile(r"-?\d+$")  # memory-slice-3 and memory-slice-4 are pieces of the same


class Scatter(StrEnum):
    """How the free devices lie."""

    NONE = ""
    NODES = "nodes"  # enough are free, on different nodes
    PARTS = "parts"  # enough is left of the GPUs of a node, in pieces


@dataclass(frozen=True, slots=True)
class Blocker:
    """If these claims ("namespace/name") ended, one claim of the spec would fit on the node."""

    claims: tuple[str, ...]
    node: str


@dataclass(frozen=True, slots=True)
class Blockers:
    """Blockers, fewest claims first. `sentence` tells how free devices are scattered, "" if they are not."""

    scatter: Scatter = Scatter.NONE
    sentence: str = ""
    blockers: tuple[Blocker, ...] = ()


def find_blockers(snapshot: ClusterSnapshot, spec: Json) -> Blockers:
    """Look for single claims whose end would let one claim of `spec` fit, then for pairs on one node."""
    try:
        demand = _Wanted(snapshot, spec)
    except (KeyError, CelError):
        return Blockers()
    if not demand.accepted or not demand.least:
        return Blockers()
    scatter, sentence = _scatter(demand)
    return Blockers(scatter, sentence, tuple(_endings(snapshot, spec, demand)))


class _Wanted:
    """
    What the spec accepts, with the nodes that reach enough of it.

    Raise `KeyError` for an unknown class and `CelError` for a selector that cannot be used.
    """

    def __init__(self, snapshot: ClusterSnapshot, spec: Json) -> None:
        self.snapshot = snapshot
        self.asks = list(device_requests(spec))
        self.accepted: DeviceMask = 0
        for request in self.asks:
            self.accepted |= _accepted(snapshot, request)
        min_counts: dict[str, int] = {}
        for request in self.asks:
            count = 1 if request.all else request.count
            min_counts[request.request] = min(min_counts.get(request.request, count), count)
        self.least = sum(min_counts.values())
        devices = snapshot.devices
        self.devices = [devices[index] for index in mask_indices(self.accepted, len(devices))]
        self.takeable = [device for device in self.devices if snapshot.can_take(device)]

    def nodes(self) -> list[str]:
        """Return nodes that have enough such devices, held ones among them; those first that lack least."""
        matching = Counter(device.node_name for device in self.devices)
        free = Counter(device.node_name for device in self.takeable)
        enough = [node for node, count in matching.items() if node and count >= self.least]
        return sorted(enough, key=lambda node: (self.least - free[node], node))


def _accepted(snapshot: ClusterSnapshot, request: DeviceRequest) -> DeviceMask:
    left = snapshot.untainted(request.tolerations)
    for expression in (*snapshot.class_expressions(request.class_name), *request.expressions):
        left &= snapshot.selector_results(expression).mask
    return left


def _scatter(demand: _Wanted) -> tuple[Scatter, str]:
    free = len(demand.takeable)
    free_by_node = Counter(device.node_name for device in demand.takeable)
    if (
        free >= demand.least
        and max(free_by_node.values(), default=0) < demand.least
        and "" not in free_by_node
    ):
        return Scatter.NODES, (
            f"{free} devices that match are free, on {len(free_by_node)} nodes; the claim needs {demand.least} on one, "
            f"and no node has more than {max(free_by_node.values())}."
        )
    return _parts(demand)


def _parts(demand: _Wanted) -> tuple[Scatter, str]:
    """Compare what is left of the GPUs of each node in all with what the smallest way to fit takes."""
    snapshot = demand.snapshot
    partitions = [device for device in demand.devices if device.counters]
    if not partitions or len(demand.asks) != 1 or demand.takeable:
        return Scatter.NONE, ""
    needed = min((_pieces(device) for device in partitions), key=lambda pieces: sorted(pieces.items()))
    for name in needed:
        needed[name] *= demand.least
    for node in demand.nodes():
        left: Counter[str] = Counter()
        for pool in {(device.driver, device.pool) for device in partitions if device.node_name == node}:
            for (_, counter), amount in (snapshot.counters_left(pool) or {}).items():
                left[NUMBERED.sub("", counter)] += amount
        if all(left[name] >= amount for name, amount in needed.items()):
            return Scatter.PARTS, (
                f"What is left of the GPUs of {node} is as much as the claim needs, but not in one piece."
            )
    return Scatter.NONE, ""


def _pieces(device: PoolDevice) -> Counter[str]:
    pieces: Counter[str] = Counter()
    for (_, counter), amount in device.counters:
        pieces[NUMBERED.sub("", counter)] += amount.nano
    return pieces


def _endings(snapshot: ClusterSnapshot, spec: Json, demand: _Wanted) -> Iterator[Blocker]:
    """Yield endings of one claim, or if there are none of two, within `TRIES` allocations."""
    names = demand.nodes()[:NODES]
    neighborhoods = {name: _Near(snapshot, name) for name in names}
    holders = {holder for node in neighborhoods.values() for holder in node.holders}
    claims = {name: claim for claim in snapshot.claims if (name := _name(claim)) in holders}
    sites = [_Site(snapshot, node, claims, demand) for node in neighborhoods.values()]
    if any(site.fits(spec, ()) for site in sites):
        return  # nobody needs to end
    tries = shown = 0
    for size in (1, 2):
        for site in sites:
            for released in combinations(site.holders, size):
                if tries == TRIES:
                    return
                tries += 1
                if site.fits(spec, released):
                    yield Blocker(released, site.name)
                    shown += 1
                    break  # the next one on another node says more
            if shown == SHOWN:
                return
        if shown:
            return


class _Near:
    """The pools that a node reaches, and who holds something of them."""

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


class _Site:
    """One node by itself, so that a trial reads some claims and not all of the cluster's."""

    def __init__(
        self, snapshot: ClusterSnapshot, reach: _Near, claims: Mapping[str, Json], demand: _Wanted
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
    """Return the pools of which the claim holds something; admin access holds nothing."""
    return {
        device_key(result)[:2]
        for result in allocation_results(claim)
        if result.get("adminAccess") is not True
    }
