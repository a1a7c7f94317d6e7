"""
What one cluster holds at one instant, as the allocator needs it, and the same read from a dump of kubectl.

What one cluster holds at one instant, as the allocator needs it.

A picture of a cluster from a dump of its objects, such as `kubectl get … -o json` writes.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from dra.device_index import DeviceIndex, PoolKey
from dra.facts import capacity_of
from dra.features import NEWEST, Features
from dra.held import HeldDevices, held_devices, holdings
from dra.objects import Json, expressions
from dra.pools import CounterKey, Pool, PoolDevice
from dra.selector_results import DeviceMask, SelectorResults, pack, unpack
from dra.taints import Taint, rules_for, tolerates

MOST_TOUCHED = 1000  # devices; with more, summing up anew is as fast

# What is worked out of a picture, and the list that it follows from beside the devices.
SOURCES = {
    "held": "claims",
    "available": "claims",
    "remains": "claims",
    "_left": "claims",
    "_pool_states": "claims",
    "taints": "taint_rules",
    "_tainted": "taint_rules",
    "sites": "nodes",
    "class_by_name": "classes",
}


@dataclass(frozen=True)
class ClusterSnapshot:
    """
    Objects of the API, as listed. Everything else follows from them and is worked out when first asked for.

    A picture never changes: make the next one with `after`, which keeps what the change does not touch.
    """

    classes: Sequence[Json] = ()
    slices: Sequence[Json] = ()
    claims: Sequence[Json] = ()
    taint_rules: Sequence[Json] = ()
    nodes: Sequence[Json] = ()
    features: Features = NEWEST
    _kept: DeviceIndex | None = field(default=None, repr=False, compare=False)

    def after(
        self,
        *,
        classes: Sequence[Json] | None = None,
        claims: Sequence[Json] | None = None,
        moved: Sequence[tuple[Json | None, Json | None]] | None = None,
        taint_rules: Sequence[Json] | None = None,
        nodes: Sequence[Json] | None = None,
    ) -> ClusterSnapshot:
        """
        Return the picture with some lists replaced.

        `moved` tells what changed in `claims`, as (before, after) of each claim, None where there is none:
        then what they hold is carried on instead of summed up anew.

        The devices, what selectors say of them, and all that follows from the other lists are kept.
        """
        made = ClusterSnapshot(
            slices=self.slices,
            features=self.features,
            _kept=self.device_index,
            classes=self.classes if classes is None else classes,
            claims=self.claims if claims is None else claims,
            taint_rules=self.taint_rules if taint_rules is None else taint_rules,
            nodes=self.nodes if nodes is None else nodes,
        )
        same = (name for name, source in SOURCES.items() if getattr(made, source) is getattr(self, source))
        vars(made).update({name: vars(self)[name] for name in same if name in vars(self)})
        if moved is not None and "held" in vars(self):
            self._carry_on(made, moved)
        return made

    def _carry_on(self, made: ClusterSnapshot, moved: Sequence[tuple[Json | None, Json | None]]) -> None:
        gone = [one for before, _ in moved if before is not None for one in holdings(before)]
        come = [one for _, after in moved if after is not None for one in holdings(after)]
        touched = {key for key, _, _ in (*gone, *come)}
        if len(touched) > MOST_TOUCHED or touched & self.held.doubly:
            return
        held = self.held.copy(touched)
        index = self.device_index.index
        devices = [self.devices[index[key]] for key in touched if key in index]
        held.count(devices, -1)
        for key, holder, share in gone:
            held.give_back(key, holder, share=share)
        for key, holder, share in come:
            held.take(key, holder, share=share)
        held.count(devices)
        vars(made)["held"] = held
        places = [index[key] for key in touched if key in index]
        pools = {self.device_index.pool_numbers[place] for place in places}
        keys = {self.device_index.pool_keys[number] for number in pools}
        vars(made)["_left"] = {pool: left for pool, left in self._left.items() if pool not in keys}
        vars(made)["_pool_states"] = {
            number: state for number, state in self._pool_states.items() if number not in pools
        }
        if "remains" in vars(self):
            remains = vars(made)["remains"] = array("q", self.remains)
            for place in places:
                remains[place] = made._remaining(place)
        if "available" in vars(self):
            flags = bytearray(unpack(self.available, len(self.devices)))
            beside = chain.from_iterable(map(self.device_index.places_in, keys))
            for place in {*places, *beside}:
                flags[place] = made.can_take(made.devices[place])
            vars(made)["available"] = pack(flags)

    @cached_property
    def device_index(self) -> DeviceIndex:
        return self._kept or DeviceIndex(self.slices)

    @property
    def pools(self) -> list[Pool]:
        return self.device_index.pools

    @property
    def devices(self) -> list[PoolDevice]:
        """
        Devices of usable pools, in the order in which they are tried; a place is an index into this list.
        """
        return self.device_index.devices

    @property
    def counters(self) -> Mapping[PoolKey, Mapping[CounterKey, int]]:
        return self.device_index.counters

    def places_on(self, node: Json) -> list[int]:
        return self.device_index.places_on(node)

    def selector_results(self, expression: str) -> SelectorResults:
        return self.device_index.selector_results(expression, self.features)

    @cached_property
    def held(self) -> HeldDevices:
        held = held_devices(self.claims)
        held.count(self.devices)
        return held

    @cached_property
    def taints(self) -> list[tuple[Taint, ...]]:
        """Taints per device, of slices and rules, in the order of `devices`."""
        taints = [device.taints for device in self.devices]
        pools = {
            ((rule.get("spec") or {}).get("deviceSelector") or {}).get("pool") for rule in self.taint_rules
        }
        for place, device in enumerate(self.devices) if pools else ():
            if None in pools or device.pool in pools:
                taints[place] = (*taints[place], *rules_for(device, self.taint_rules))
        return taints

    @cached_property
    def _tainted(self) -> list[tuple[tuple[Taint, ...], list[int]]]:
        """Blocking taints, each combination once, with the places of the devices that have it."""
        found: dict[Hashable, tuple[tuple[Taint, ...], list[int]]] = {}
        for place, taints in enumerate(self.taints):
            if taints and (blocking := tuple(taint for taint in taints if taint.blocks)):
                alike = tuple((taint.key, taint.value, taint.effect) for taint in blocking)
                found.setdefault(alike, (blocking, []))[1].append(place)
        return list(found.values())

    def untainted(self, tolerations: Sequence[Json]) -> DeviceMask:
        """Return the devices that a request with these tolerations may take."""
        flags = bytearray(b"\x01") * len(self.devices)
        for taints, places in self._tainted:
            if not all(tolerates(tolerations, taint) for taint in taints):
                for place in places:
                    flags[place] = 0
        return int.from_bytes(flags, "little")

    @cached_property
    def sites(self) -> list[tuple[Json, list[range]]]:
        """
        Nodes that take pods, which a cordoned one does not, with the places of the devices that they reach.

        In a picture without nodes they are bare ones, of the names that devices are local to.
        """
        names = () if self.nodes else sorted({one.node_name for one in self.devices} - {""})
        nodes = self.nodes or [{"metadata": {"name": name}} for name in names]
        open_ = (node for node in nodes if not (node.get("spec") or {}).get("unschedulable"))
        return [(node, self.device_index.runs_on(node)) for node in open_]

    @cached_property
    def remains(self) -> Sequence[int]:
        """
        A number per device that is equal where capacities are, and what shares have taken of them.
        """
        remains = array("q", self.device_index.capacities)
        for key in self.held.consumed:
            if (place := self.device_index.index.get(key)) is not None:
                remains[place] = self._remaining(place)
        return remains

    def _remaining(self, place: int) -> int:
        whole, key = self.device_index.capacities[place], self.devices[place].key
        consumed = self.held.consumed[key].items() if key in self.held.consumed else ()
        gone = tuple(sorted((name, amount.nano) for name, amount in consumed if amount))
        return -1 - self.device_index.number_of((whole, gone)) if gone else whole

    @cached_property
    def class_by_name(self) -> dict[str, Json]:
        return {str((one.get("metadata") or {}).get("name")): one for one in self.classes}

    @cached_property
    def available(self) -> DeviceMask:
        """Which devices can be taken now, taints aside."""
        return pack(map(self.can_take, self.devices))

    @property
    def free(self) -> list[PoolDevice]:
        """Devices that nobody holds and whose counters suffice. A tainted one is free too: see `taints`."""
        return list(filter(self.can_take, self.devices))

    def can_take(self, device: PoolDevice) -> bool:
        """Whether the device, or some share of it, is left."""
        key, held = device.key, self.held
        if key in held.holders:
            return False
        if key in held.sharers:
            return device.shareable and not self._used_up(device)
        return not device.counters or self._counters_suffice(device)

    def holder_of(self, device: PoolDevice) -> str:
        """
        Return "namespace/name" of the claim that has the device, or of the first that shares it; "" if free.
        """
        holder = self.held.holders.get(device.key)
        return holder or next(iter(self.held.sharers.get(device.key, ())), "")

    def class_expressions(self, name: str) -> list[str]:
        """Return the selectors of a DeviceClass. Raise `KeyError` if there is none of that name."""
        return expressions(self.class_by_name[name].get("spec") or {})

    @cached_property
    def _left(self) -> dict[PoolKey, dict[CounterKey, int] | None]:
        return {}

    @cached_property
    def _pool_states(self) -> dict[int, int]:
        return {}

    def pool_state(self, number: int) -> int:
        """
        Return a number that is equal for pools with as much left of the same counters; `number` is that of
        `device_index.pool_numbers`.
        """
        known = self._pool_states.get(number)
        if known is None:
            left = self.left_in(self.device_index.pool_keys[number])
            state = None if left is None else tuple(sorted(left.items()))
            known = self._pool_states[number] = self.device_index.number_of(state)
        return known

    def left_in(self, pool: PoolKey) -> Mapping[CounterKey, int] | None:
        """
        Return what a pool has left of its counters, in nano-units.

        None if one of them is overdrawn, which blocks all devices of the pool that take any.
        """
        used = self.held.counters.get(pool)
        if not used:
            return self.counters.get(pool, {})
        if pool not in self._left:
            left = dict(self.counters.get(pool, {}))
            for counter, amount in used.items():
                left[counter] = left.get(counter, 0) - amount
            self._left[pool] = left if all(amount >= 0 for amount in left.values()) else None
        return self._left[pool]

    def _counters_suffice(self, device: PoolDevice) -> bool:
        left = self.left_in((device.driver, device.pool))
        return left is not None and all(
            amount.nano <= left.get(counter, 0) for counter, amount in device.counters
        )

    def _used_up(self, device: PoolDevice) -> bool:
        consumed = self.held.consumed.get(device.key, {})
        return any(
            (whole := capacity_of(device.raw, name)) is not None and amount >= whole
            for name, amount in consumed.items()
        )


# Kind of an object → the list of the picture that it goes into.
PARTS = {
    "DeviceClass": "classes",
    "ResourceSlice": "slices",
    "ResourceClaim": "claims",
    "DeviceTaintRule": "taint_rules",
    "Node": "nodes",
}


class EmptyDumpError(ValueError):
    """The dump holds nothing that a picture is made of; the message is a sentence."""


def flatten_lists(documents: Iterable[object]) -> Iterator[Json]:
    """Yield objects of the API, those inside of lists one by one."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        if isinstance(document.get("items"), list):
            # A typed list (ResourceSliceList) leaves the kind of its items out.
            kind = str(document.get("kind") or "").removesuffix("List")
            yield from flatten_lists(
                {"kind": kind} | one for one in document["items"] if isinstance(one, dict)
            )
        else:
            yield document


def snapshot_from_dump(documents: Iterable[object]) -> ClusterSnapshot:
    """Return the snapshot of a dump; other kinds are ignored. Raise `EmptyDumpError` without a slice."""
    lists: dict[str, list[Json]] = {part: [] for part in PARTS.values()}
    for one in flatten_lists(documents):
        if part := PARTS.get(str(one.get("kind"))):
            lists[part].append(one)
    if not lists["slices"]:
        raise EmptyDumpError("The snapshot holds no ResourceSlice, so it says nothing about devices.")
    return ClusterSnapshot(
        classes=lists["classes"],
        slices=lists["slices"],
        claims=lists["claims"],
        taint_rules=lists["taint_rules"],
        nodes=lists["nodes"],
    )
