"""
Blockers: claims whose release would make room for a claim, and whether its free devices are only scattered.

For whole devices that do not depend on one another the fewest claims of a node are found by counting. Else
sets of claims are tried, small ones first, and once that takes too long the claims of a node are left out one
by one. The search is bounded: it can miss blockers, or name more claims than are needed, but those that it
returns are correct.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations

from dra.allocator import AllocationError, SearchGivenUp, allocate
from dra.cel import CelError
from dra.cluster_snapshot import ClusterSnapshot
from dra.held import allocation_results, device_key
from dra.objects import DeviceRequest, Json, constraints, device_requests
from dra.pools import PoolDevice
from dra.selector_results import DeviceMask, mask_indices, unpack

MAX_NODES = 24  # those with the smallest shortage
MAX_TRIES = 150  # sets of claims
MAX_REDUCED = 6  # nodes whose claims are left out one by one
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
    """
    Blockers, fewest claims first. `sentence` tells how free devices are scattered, or that the search was
    given up; else it is "".
    """

    scatter: Scatter = Scatter.NONE
    sentence: str = ""
    blockers: tuple[Blocker, ...] = ()


def find_blockers(snapshot: ClusterSnapshot, spec: Json, preferred: Container[str] = ()) -> Blockers:
    """
    Find the fewest claims of a node whose release lets one claim of `spec` fit.

    Of as many claims those of `preferred` ("namespace/name") come first: such as are idle, for example.
    """
    try:
        demand = _Demand(snapshot, spec)
    except (KeyError, CelError):
        return Blockers()
    if not demand.accepted or not demand.device_count:
        return Blockers()
    scatter, sentence = _scattered(demand)
    search = _Search(snapshot, demand, preferred)
    blockers = search.run()
    if search.gave_up and not blockers and not sentence:
        held = snapshot.held
        claims = {held.holders[one.key] for one in demand.devices if one.key in held.holders}
        claims.update(*(held.sharers.get(one.key, ()) for one in demand.devices))
        sentence = (
            f"{len(claims)} claims hold devices that match. Which of them would have to end was not found "
            f"within {search.tries} attempts."
        )
    return Blockers(scatter, sentence, tuple(blockers))


class _Demand:
    """
    The devices that the spec matches and needs.

    Raise `KeyError` for an unknown class and `CelError` for an invalid selector.
    """

    def __init__(self, snapshot: ClusterSnapshot, spec: Json) -> None:
        self.snapshot, self.spec = snapshot, spec
        self.requests = list(device_requests(spec))
        self.accepted: DeviceMask = 0
        for request in self.requests:
            self.accepted |= _accepted(snapshot, request)
        min_counts: dict[str, int] = {}
        for request in self.requests:
            count = 1 if request.all else request.count
            min_counts[request.request] = min(min_counts.get(request.request, count), count)
        self.device_count = sum(min_counts.values())
        self.available = self.accepted & snapshot.available

    @cached_property
    def devices(self) -> list[PoolDevice]:
        """The devices that match."""
        devices = self.snapshot.devices
        return [devices[index] for index in mask_indices(self.accepted, len(devices))]

    def matching_on(self, indices: Iterable[int]) -> list[PoolDevice]:
        """Return the devices of a node that match."""
        flags = self._accepted_flags
        return [self.snapshot.devices[index] for index in indices if flags[index]]

    @cached_property
    def _accepted_flags(self) -> bytes:
        return unpack(self.accepted, len(self.snapshot.devices))

    @cached_property
    def matching_by_node(self) -> Counter[str]:
        """Matching devices, held or free, by the name of their node."""
        return self.snapshot.device_index.count_by_node(self.accepted)

    @cached_property
    def free_by_node(self) -> Counter[str]:
        return self.snapshot.device_index.count_by_node(self.available)

    def nodes(self) -> list[str]:
        """Return nodes with enough devices, held or free, those with the smallest shortage first."""
        needed, free = self.device_count, self.free_by_node
        enough = [node for node, count in self.matching_by_node.items() if node and count >= needed]
        return sorted(enough, key=lambda node: (needed - free[node], node))

    @cached_property
    def is_counted(self) -> bool:
        """
        Whether counting devices tells what cannot fit: one request of an exact number of whole devices that
        do not depend on one another.
        """
        index, request = self.snapshot.device_index, self.requests[0]
        plain = not (request.all or request.admin or request.capacity or request.alternative)
        entangled = self.accepted & (index.shareable | index.counter_devices)
        return (
            plain
            and len(self.requests) == 1
            and not constraints(self.spec)
            and not entangled
            and not index.has_multi_node_devices
        )


def _accepted(snapshot: ClusterSnapshot, request: DeviceRequest) -> DeviceMask:
    left = snapshot.untainted(request.tolerations)
    for expression in (*snapshot.class_expressions(request.class_name), *request.expressions):
        left &= snapshot.selector_results(expression).mask
    return left


def _scattered(demand: _Demand) -> tuple[Scatter, str]:
    free, free_by_node = demand.available.bit_count(), demand.free_by_node
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
    counter_devices = demand.accepted & snapshot.device_index.counter_devices
    if not counter_devices or len(demand.requests) != 1 or demand.available:
        return Scatter.NONE, ""
    partitions = [device for device in demand.devices if device.counters]
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


class _Search:
    """One search over the nodes with the smallest shortage."""

    def __init__(self, snapshot: ClusterSnapshot, demand: _Demand, preferred: Container[str]) -> None:
        names = demand.nodes()[:MAX_NODES]
        self.demand = demand
        self.sites = [_Site(snapshot, name, demand, preferred) for name in names]
        self.tries = 0
        self.gave_up = False

    def run(self) -> list[Blocker]:
        """Return the blockers of up to `MAX_BLOCKERS` nodes, one of each; none if the claim fits already."""
        if any(site.fits(()) for site in self.sites):
            return []
        if self.demand.is_counted:
            counted = [(released, site) for site in self.sites if (released := site.counted())]
            found = sorted(counted, key=lambda entry: (len(entry[0]), entry[1].dislike(entry[0])))
            return [Blocker(released, site.name) for released, site in found[:MAX_BLOCKERS]]
        sites = [site for site in self.sites if self._try(site, site.holders)]
        for size in range(1, max((len(site.holders) for site in sites), default=0) + 1):
            blockers = [blocker for site in sites if (blocker := self._of_size(site, size))]
            if blockers:
                return sorted(blockers, key=lambda one: len(one.claims))[:MAX_BLOCKERS]
            if self.gave_up:
                break
        return sorted(map(self._reduced, sites[:MAX_REDUCED]), key=lambda one: len(one.claims))[:MAX_BLOCKERS]

    def _try(self, site: _Site, released: Sequence[str]) -> bool:
        self.tries += 1
        return site.fits(released)

    def _of_size(self, site: _Site, size: int) -> Blocker | None:
        for released in combinations(site.holders, size):
            if self.tries >= MAX_TRIES:
                self.gave_up = True
                return None
            if self._try(site, released):
                return Blocker(released, site.name)
        return None

    def _reduced(self, site: _Site) -> Blocker:
        """Leave out the claims of a node that need not end, the largest and least preferred ones first."""
        needed = list(site.holders)
        for name in reversed(site.holders):
            without = [one for one in needed if one != name]
            if self._try(site, without):
                needed = without
        return Blocker(tuple(needed), site.name)


class _Site:
    """A node, and the claims that hold its devices."""

    def __init__(
        self, snapshot: ClusterSnapshot, name: str, demand: _Demand, preferred: Container[str]
    ) -> None:
        self.name, self.snapshot, self.demand, self.preferred = name, snapshot, demand, preferred
        self.node: Json = snapshot.node_by_name.get(name) or {"metadata": {"name": name}}
        self.indices = snapshot.indices_on(self.node)
        devices = [snapshot.devices[index] for index in self.indices]
        self.pools = {(device.driver, device.pool) for device in devices}
        held, claims = snapshot.held, snapshot.claim_by_name
        names: set[str] = set()
        for device in devices:
            holder = held.holders.get(device.key)
            names.update([holder] if holder else held.sharers.get(device.key, ()))
        self.claims = {name: claims[name] for name in names if name in claims}
        matching = demand.matching_on(self.indices)
        matching_pools = {
            (device.driver, device.pool) for device in matching if device.node_name == self.name
        }
        holders = [name for name, claim in self.claims.items() if matching_pools & _pools(claim)]
        self.holders = sorted(
            holders,
            key=lambda holder: (
                holder not in preferred,
                len(allocation_results(self.claims[holder])),
                holder,
            ),
        )
        self.freed = Counter(held.holders.get(device.key, "") for device in matching)  # matching devices

    def dislike(self, released: Sequence[str]) -> int:
        """Return how many of the claims are not preferred."""
        return sum(name not in self.preferred for name in released)

    def counted(self) -> tuple[str, ...]:
        """Return the fewest claims that free enough devices, the preferred ones first; () if none do."""
        missing = self.demand.device_count - self.demand.free_by_node[self.name]
        released: list[str] = []
        for name in sorted(self.holders, key=lambda name: -self.freed[name]):
            rest = (one for one in self.holders if one not in released and self.freed[one] >= missing)
            name = next(rest, name)  # the last one holds no more than is needed
            released.append(name)
            missing -= self.freed[name]
            if missing <= 0:
                break
        return () if missing > 0 or not self.fits(released) else tuple(released)

    def fits(self, released: Sequence[str]) -> bool:
        """Return whether a claim of the spec fits on the node once these claims are released."""
        if self.demand.is_counted:
            enough = self.demand.free_by_node[self.name] + sum(self.freed[name] for name in released)
            if enough < self.demand.device_count:
                return False
        rest = [claim for name, claim in self.claims.items() if name not in released]
        preview_claim = {"metadata": {"name": "preview"}, "spec": self.demand.spec}
        try:
            return allocate(self._alone.after(claims=rest), self.node, [preview_claim]) is not None
        except (AllocationError, SearchGivenUp):
            return False

    @cached_property
    def _alone(self) -> ClusterSnapshot:
        """A snapshot of this node, so that each allocation reads few claims."""
        pools = self.snapshot.device_index.pools_for(self.pools)
        return ClusterSnapshot(
            classes=self.snapshot.classes,
            slices=[resource_slice for pool in pools for resource_slice in pool.slices],
            claims=[*self.claims.values()],
            taint_rules=self.snapshot.taint_rules,
            nodes=[self.node],
            features=self.snapshot.features,
        )


def _pools(claim: Json) -> set[tuple[str, str]]:
    """Return the pools whose devices the claim holds; admin access holds nothing."""
    return {
        device_key(result)[:2]
        for result in allocation_results(claim)
        if result.get("adminAccess") is not True
    }
