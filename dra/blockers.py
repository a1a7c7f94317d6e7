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
from dra.selector_results import DeviceMask, places

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
        wanted = _Wanted(snapshot, spec)
    except (KeyError, CelError):
        return Blockers()
    if not wanted.accepted or not wanted.least:
        return Blockers()
    scatter, sentence = _scatter(wanted)
    return Blockers(scatter, sentence, tuple(_endings(snapshot, spec, wanted)))


class _Wanted:
    """
    What the spec accepts, with the nodes that reach enough of it.

    Raise `KeyError` for an unknown class and `CelError` for a selector that cannot be used.
    """

    def __init__(self, snapshot: ClusterSnapshot, spec: Json) -> None:
        self.snapshot = snapshot
        self.asks = list(device_requests(spec))
        self.accepted: DeviceMask = 0
        for ask in self.asks:
            self.accepted |= _accepted(snapshot, ask)
        least: dict[str, int] = {}
        for ask in self.asks:
            count = 1 if ask.all else ask.count
            least[ask.request] = min(least.get(ask.request, count), count)
        self.least = sum(least.values())
        devices = snapshot.devices
        self.devices = [devices[place] for place in places(self.accepted, len(devices))]
        self.takeable = [device for device in self.devices if snapshot.can_take(device)]

    def nodes(self) -> list[str]:
        """Return nodes that have enough such devices, held ones among them; those first that lack least."""
        there = Counter(device.node_name for device in self.devices)
        free = Counter(device.node_name for device in self.takeable)
        enough = [node for node, count in there.items() if node and count >= self.least]
        return sorted(enough, key=lambda node: (self.least - free[node], node))


def _accepted(snapshot: ClusterSnapshot, ask: DeviceRequest) -> DeviceMask:
    left = snapshot.untainted(ask.tolerations)
    for expression in (*snapshot.class_expressions(ask.class_name), *ask.expressions):
        left &= snapshot.selector_results(expression).column
    return left


def _scatter(wanted: _Wanted) -> tuple[Scatter, str]:
    free = len(wanted.takeable)
    on = Counter(device.node_name for device in wanted.takeable)
    if free >= wanted.least and max(on.values(), default=0) < wanted.least and "" not in on:
        return Scatter.NODES, (
            f"{free} devices that match are free, on {len(on)} nodes; the claim needs {wanted.least} on one, "
            f"and no node has more than {max(on.values())}."
        )
    return _parts(wanted)


def _parts(wanted: _Wanted) -> tuple[Scatter, str]:
    """Compare what is left of the GPUs of each node in all with what the smallest way to fit takes."""
    snapshot = wanted.snapshot
    cut = [device for device in wanted.devices if device.counters]
    if not cut or len(wanted.asks) != 1 or wanted.takeable:
        return Scatter.NONE, ""
    need = min((_pieces(device) for device in cut), key=lambda pieces: sorted(pieces.items()))
    for name in need:
        need[name] *= wanted.least
    for node in wanted.nodes():
        left: Counter[str] = Counter()
        for pool in {(device.driver, device.pool) for device in cut if device.node_name == node}:
            for (_, counter), amount in (snapshot.left_in(pool) or {}).items():
                left[NUMBERED.sub("", counter)] += amount
        if all(left[name] >= amount for name, amount in need.items()):
            return Scatter.PARTS, (
                f"What is left of the GPUs of {node} is as much as the claim needs, but not in one piece."
            )
    return Scatter.NONE, ""


def _pieces(device: PoolDevice) -> Counter[str]:
    pieces: Counter[str] = Counter()
    for (_, counter), amount in device.counters:
        pieces[NUMBERED.sub("", counter)] += amount.nano
    return pieces


def _endings(snapshot: ClusterSnapshot, spec: Json, wanted: _Wanted) -> Iterator[Blocker]:
    """Yield endings of one claim, or if there are none of two, within `TRIES` allocations."""
    names = wanted.nodes()[:NODES]
    near = {name: _Near(snapshot, name) for name in names}
    holders = {holder for one in near.values() for holder in one.holders}
    claims = {name: claim for claim in snapshot.claims if (name := _name(claim)) in holders}
    sites = [_Site(snapshot, one, claims, wanted) for one in near.values()]
    if any(site.fits(spec, ()) for site in sites):
        return  # nobody needs to end
    tries = found = 0
    for number in (1, 2):
        for site in sites:
            for gone in combinations(site.holders, number):
                if tries == TRIES:
                    return
                tries += 1
                if site.fits(spec, gone):
                    yield Blocker(gone, site.name)
                    found += 1
                    break  # the next one on another node says more
            if found == SHOWN:
                return
        if found:
            return


class _Near:
    """The pools that a node reaches, and who holds something of them."""

    def __init__(self, snapshot: ClusterSnapshot, name: str) -> None:
        self.name = name
        nodes = (node for node in snapshot.nodes if name_of(node) == name)
        self.node: Json = next(nodes, {"metadata": {"name": name}})
        devices = [snapshot.devices[place] for place in snapshot.places_on(self.node)]
        self.pools = {(device.driver, device.pool) for device in devices}
        held = snapshot.held
        self.holders: set[str] = set()
        for device in devices:
            one = held.holders.get(device.key)
            self.holders.update([one] if one else held.sharers.get(device.key, ()))


class _Site:
    """One node by itself, so that a trial reads some claims and not all of the cluster's."""

    def __init__(
        self, snapshot: ClusterSnapshot, near: _Near, claims: Mapping[str, Json], wanted: _Wanted
    ) -> None:
        self.name, self.node = near.name, near.node
        self.claims = {name: claims[name] for name in near.holders if name in claims}
        pools = (pool for pool in snapshot.pools if (pool.driver, pool.name) in near.pools)
        self.snapshot = ClusterSnapshot(
            classes=snapshot.classes,
            slices=[one for pool in pools for one in pool.slices],
            claims=[*self.claims.values()],
            taint_rules=snapshot.taint_rules,
            nodes=[self.node],
            features=snapshot.features,
        )
        concerned = {(one.driver, one.pool) for one in wanted.devices if one.node_name == self.name}
        holders = [name for name, claim in self.claims.items() if concerned & _pools(claim)]
        self.holders = sorted(holders, key=lambda one: (len(allocation_results(self.claims[one])), one))

    def fits(self, spec: Json, gone: Sequence[str]) -> bool:
        rest = [claim for name, claim in self.claims.items() if name not in gone]
        wish = {"metadata": {"name": "preview"}, "spec": spec}
        try:
            return allocate(self.snapshot.after(claims=rest), self.node, [wish]) is not None
        except (AllocationError, SearchGivenUp):
            return False


def _name(claim: Json) -> str:
    metadata = claim.get("metadata") or {}
    return f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"


def _pools(claim: Json) -> set[tuple[str, str]]:
    """Return the pools of which the claim holds something; admin access holds nothing."""
    return {device_key(one)[:2] for one in allocation_results(claim) if one.get("adminAccess") is not True}
