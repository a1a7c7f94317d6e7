"""What one cluster holds at one instant, as the allocator needs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from dra.columns import Column, pack
from dra.facts import capacity_of
from dra.features import NEWEST, Features
from dra.held import Held, held_by
from dra.objects import Json, expressions
from dra.pools import CounterKey, Pool, PoolDevice
from dra.stock import PoolKey, Stock, Verdicts
from dra.taints import Taint, rules_for, tolerates


@dataclass(frozen=True)
class Picture:
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
    _kept: Stock | None = field(default=None, repr=False, compare=False)

    def after(
        self,
        *,
        classes: Sequence[Json] | None = None,
        claims: Sequence[Json] | None = None,
        taint_rules: Sequence[Json] | None = None,
        nodes: Sequence[Json] | None = None,
    ) -> Picture:
        """
        Return the picture with some lists replaced.

        The devices, and what selectors say of them, are kept.
        """
        return Picture(
            slices=self.slices,
            features=self.features,
            _kept=self.stock,
            classes=self.classes if classes is None else classes,
            claims=self.claims if claims is None else claims,
            taint_rules=self.taint_rules if taint_rules is None else taint_rules,
            nodes=self.nodes if nodes is None else nodes,
        )

    @cached_property
    def stock(self) -> Stock:
        return self._kept or Stock(self.slices)

    @property
    def pools(self) -> list[Pool]:
        return self.stock.pools

    @property
    def devices(self) -> list[PoolDevice]:
        """
        Devices of usable pools, in the order in which they are tried; a place is an index into this list.
        """
        return self.stock.devices

    @property
    def counters(self) -> Mapping[PoolKey, Mapping[CounterKey, int]]:
        return self.stock.counters

    def places_on(self, node: Json) -> list[int]:
        return self.stock.places_on(node)

    def verdicts(self, expression: str) -> Verdicts:
        return self.stock.verdicts(expression)

    @cached_property
    def held(self) -> Held:
        held = held_by(self.claims)
        held.count(self.devices)
        return held

    @cached_property
    def taints(self) -> list[tuple[Taint, ...]]:
        """Taints per device, of slices and rules, in the order of `devices`."""
        if not self.taint_rules:
            return [device.taints for device in self.devices]
        return [(*device.taints, *rules_for(device, self.taint_rules)) for device in self.devices]

    @cached_property
    def _tainted(self) -> dict[int, list[Taint]]:
        blocking = (
            (place, [taint for taint in taints if taint.blocks]) for place, taints in enumerate(self.taints)
        )
        return {place: taints for place, taints in blocking if taints}

    def untainted(self, tolerations: Sequence[Json]) -> Column:
        """Return the devices that a request with these tolerations may take."""
        column = self.stock.all
        known: dict[Taint, bool] = {}
        for place, taints in self._tainted.items():
            for taint in taints:
                if taint not in known:
                    known[taint] = tolerates(tolerations, taint)
                if not known[taint]:
                    column &= ~(1 << 8 * place)
                    break
        return column

    @cached_property
    def class_by_name(self) -> dict[str, Json]:
        return {str((one.get("metadata") or {}).get("name")): one for one in self.classes}

    @cached_property
    def available(self) -> Column:
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

    def _counters_suffice(self, device: PoolDevice) -> bool:
        """
        Whether the pool has what the device takes; one overdrawn counter blocks all devices of the pool.
        """
        whole = self.counters.get((device.driver, device.pool), {})
        used = self.held.counters.get((device.driver, device.pool), {})
        if any(amount > whole.get(counter, 0) for counter, amount in used.items()):
            return False
        return all(
            used.get(counter, 0) + amount.nano <= whole.get(counter, 0) for counter, amount in device.counters
        )

    def _used_up(self, device: PoolDevice) -> bool:
        consumed = self.held.consumed.get(device.key, {})
        return any(
            (whole := capacity_of(device.raw, name)) is not None and amount >= whole
            for name, amount in consumed.items()
        )
