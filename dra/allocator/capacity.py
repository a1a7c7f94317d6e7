"""
What a device still has during a search: consumable capacity (KEP 5075), shared counters (KEP 4815), and
compatibility groups of counter sets (KEP 5963).

Rounding follows upstream's `consumable_capacity.go`: ranges use 64-bit integers, of thousandths
where fractional ranges are on and all bounds are whole thousandths, of units otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from dra.allocator.node import AllocationError, NodeSite
from dra.held import HeldDevices
from dra.objects import Json
from dra.pools import CounterKey, PoolDevice
from dra.quantity import NANO, ZERO, Form, Quantity, QuantityError, quantity_form

MILLI = NANO // 1000
MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CapacityAmount:
    """A quantity and its representation upstream; a `form` of None equals no other."""

    quantity: Quantity
    form: Form | None

    @staticmethod
    def read(written: object) -> CapacityAmount:
        return _read(str(written).strip())

    def __str__(self) -> str:
        return (self.form and self.form.text) or str(self.quantity)


@lru_cache(maxsize=4096)
def _read(text: str) -> CapacityAmount:
    return CapacityAmount(Quantity.parse(text), quantity_form(text))


class _Unfit(Exception):
    """The amount cannot be computed for this capacity; the message ends a sentence."""


def share(
    device: PoolDevice, requested: Json, consumed: Mapping[str, Quantity], *, fractional: bool
) -> dict[str, CapacityAmount] | None:
    """
    Return the amounts that a request consumes of a device, or None if too little is left beside `consumed`.

    Requested amounts are rounded up by the request policy. Capacities that are not requested are consumed by
    the policy's default, or whole without a policy. Names match as written: `memory` is not
    `gpu.nvidia.com/memory`. Raise `AllocationError` for an amount that is negative, cannot be rounded or is
    not a quantity: upstream then rejects the claim instead of trying other devices.
    """
    published: Json = device.raw.get("capacity") or {}
    if not requested.keys() <= published.keys():
        return None
    amounts: dict[str, CapacityAmount] = {}
    for name, raw in published.items():
        try:
            amount = _amount(requested.get(name), raw, fractional)
        except (QuantityError, _Unfit) as error:
            raise AllocationError(f"Capacity {name} of {device}: {error}") from None
        if amount.quantity.nano < 0:
            raise AllocationError(
                f"Capacity {name} of {device} is requested with {amount}, which is negative."
            )
        amounts[name] = amount
    for name, amount in amounts.items():
        raw = published[name]
        if not _allowed(amount, raw.get("requestPolicy"), fractional):
            return None
        if not is_left(device, {name: amount}, consumed):
            return None
    return amounts


def is_left(
    device: PoolDevice, amounts: Mapping[str, CapacityAmount], consumed: Mapping[str, Quantity]
) -> bool:
    """Whether the device has the `amounts` left beside what is `consumed`."""
    published: Json = device.raw.get("capacity") or {}
    return all(
        consumed.get(name, ZERO).nano + amount.quantity.nano
        <= CapacityAmount.read(published[name].get("value", "0")).quantity.nano
        for name, amount in amounts.items()
    )


def _amount(requested_value: object, raw: Json, fractional: bool) -> CapacityAmount:  # noqa: FBT001
    policy: Json = raw.get("requestPolicy") or {}
    if requested_value is None:
        return CapacityAmount.read(
            raw.get("value", "0") if policy.get("default") is None else policy["default"]
        )
    requested = CapacityAmount.read(requested_value)
    valid = policy.get("validRange")
    if valid is not None and valid.get("min") is not None:
        return _in_range(requested, valid, fractional)
    if policy.get("validValues") is not None:
        return _among(requested, policy["validValues"])
    return requested


def _among(requested: CapacityAmount, values: Sequence[object]) -> CapacityAmount:
    for value in map(CapacityAmount.read, values):
        requested = _compared(requested, value)
        if requested.quantity <= value.quantity:
            return value
    return requested


def _compared(left: CapacityAmount, right: CapacityAmount) -> CapacityAmount:
    """Return `left` as upstream stores it after a comparison: a pointer on either side makes it a pointer."""
    return left if right.form is not None else CapacityAmount(left.quantity, None)


def _in_range(requested: CapacityAmount, valid: Json, fractional: bool) -> CapacityAmount:  # noqa: FBT001
    low = CapacityAmount.read(valid["min"])
    requested = _compared(requested, low)
    if requested.quantity < low.quantity:
        return low
    if valid.get("step") is None:
        return requested
    step, unit = _step(valid, fractional)
    form = Quantity.parse(valid["step"]).format
    minimum_units = _units(low.quantity, unit)
    if unit == MILLI and requested.quantity.nano % MILLI:
        raise _Unfit(f"{requested} is not a whole number of thousandths.")
    requested_units = _units(requested.quantity, unit)
    rounded = minimum_units + -(-(requested_units - minimum_units) // step) * step
    if requested_units > MAX_INT64 or rounded > MAX_INT64:
        raise _Unfit(f"{requested} cannot be rounded up to a step within 64 bits.")
    quantity = Quantity(rounded * unit, form)
    if quantity.whole:
        return CapacityAmount(quantity, Form(quantity.bytes, 0, "", form))
    return CapacityAmount(quantity, Form(rounded, -3, "", form))


def _allowed(amount: CapacityAmount, policy: Json | None, fractional: bool) -> bool:  # noqa: FBT001
    if policy is None:
        return True
    if policy.get("default") is not None:
        default = CapacityAmount.read(policy["default"])
        if amount.form is not None and amount.form == default.form:
            return True
    valid = policy.get("validRange")
    if valid is not None:
        return _within(amount.quantity, valid, fractional)
    values = policy.get("validValues")
    return not values or any(CapacityAmount.read(value).quantity == amount.quantity for value in values)


def _within(amount: Quantity, valid: Json, fractional: bool) -> bool:  # noqa: FBT001
    if valid.get("max") is not None and amount > Quantity.parse(valid["max"]):
        return False
    if valid.get("step") is None:
        return True
    if valid.get("min") is None:
        raise AllocationError("A capacity has a policy with a step and no minimum to count from.")
    step, unit = _step(valid, fractional)
    if unit == MILLI and (amount.nano % MILLI or amount.nano // MILLI > MAX_INT64):
        return False
    return (_units(amount, unit) - _units(Quantity.parse(valid["min"]), unit)) % step == 0


def _step(valid: Json, fractional: bool) -> tuple[int, int]:  # noqa: FBT001
    """Return the step in upstream's units, and that unit in nano-units."""
    bounds = [Quantity.parse(valid[name]) for name in ("min", "max", "step") if valid.get(name) is not None]
    is_milli = all(bound.nano % MILLI == 0 and abs(bound.nano) // MILLI <= MAX_INT64 for bound in bounds)
    unit = MILLI if fractional and is_milli and bounds[-1].nano >= MILLI else NANO
    step = _units(bounds[-1], unit)
    if step <= 0:
        raise AllocationError(
            f"A capacity has a policy with step {valid['step']}, which cannot be counted in."
        )
    return step, unit


def _units(quantity: Quantity, unit: int) -> int:
    """Return the number of units, rounded away from zero."""
    return -(-quantity.nano // unit) if quantity.nano >= 0 else quantity.nano // unit


type Undo = Callable[[], None]


@dataclass(frozen=True, slots=True)
class CompatibilityGroups:
    """
    The compatibility groups that the devices of one counter set have in common.

    Devices without groups are compatible only with each other; `any_named` distinguishes them from devices
    whose groups have nothing in common, which admit no further device.
    """

    groups: frozenset[str]
    any_named: bool

    @classmethod
    def named_by(cls, groups: frozenset[str]) -> CompatibilityGroups:
        """Return the state after the first device, with these `groups`."""
        return cls(groups, bool(groups))

    def admits(self, groups: frozenset[str]) -> bool:
        return bool(self.groups & groups) if groups else not self.any_named

    def with_(self, groups: frozenset[str]) -> CompatibilityGroups:
        if not groups or not self.any_named:
            return self
        return CompatibilityGroups(self.groups & groups, self.any_named)


class Counters:
    """The counters left in the pools of a node while a search allocates and backtracks."""

    def __init__(self, site: NodeSite, held: HeldDevices) -> None:
        self.site, self.held = site, held
        self._counters_left: dict[int, dict[CounterKey, int]] = {}
        self._together: dict[int, dict[str, CompatibilityGroups]] = {}

    def take(self, index: int) -> Undo | None:
        """Consume the device's counters and return the undo function; None if the pool has too few."""
        number, device = self.site.pool_of[index], self.site.devices[index]
        left, together = self._remaining_counters(number), self._compatibility_groups(number)
        joined = self._joined(device, together)
        if joined is None:
            return None
        before = {name: together.get(name) for name in joined}
        together.update(joined)
        for counter, need in device.counters:
            left[counter] -= need.nano

        def undo() -> None:
            for counter, need in device.counters:
                left[counter] += need.nano
            for name, groups_before in before.items():
                if groups_before is None:
                    del together[name]
                else:
                    together[name] = groups_before

        # One overdrawn counter blocks every device of the pool that consumes counters.
        if min(left.values(), default=0) < 0:
            undo()
            return None
        return undo

    def _joined(
        self, device: PoolDevice, together: dict[str, CompatibilityGroups]
    ) -> dict[str, CompatibilityGroups] | None:
        """Return the groups of the device's counter sets with it; None if it is incompatible with one."""
        joined: dict[str, CompatibilityGroups] = {}
        if not self.site.features.compatibility_groups:
            return joined
        for name, groups in _groups(device):
            current = joined.get(name) or together.get(name)
            if current is not None and not current.admits(groups):
                return None
            joined[name] = CompatibilityGroups.named_by(groups) if current is None else current.with_(groups)
        return joined

    def _remaining_counters(self, number: int) -> dict[CounterKey, int]:
        left = self._counters_left.get(number)
        if left is None:
            pool = self.site.pools[number]
            left = self._counters_left[number] = {key: amount.nano for key, amount in pool.counters.items()}
            for device in self._held_devices(number):
                for counter, amount in device.counters:
                    left[counter] -= amount.nano
        return left

    def _compatibility_groups(self, number: int) -> dict[str, CompatibilityGroups]:
        together = self._together.get(number)
        if together is None:
            together = self._together[number] = {}
            for device in self._held_devices(number):
                for name, groups in _groups(device):
                    current = together.get(name)
                    together[name] = (
                        CompatibilityGroups.named_by(groups) if current is None else current.with_(groups)
                    )
        return together

    def _held_devices(self, number: int) -> Iterator[PoolDevice]:
        """Yield devices of the pool that claims hold; the stable allocator knows whole devices only."""
        pool, held, stable = self.site.pools[number], self.held, self.site.features.stable
        for device in (*pool.devices, *pool.other_devices):
            consumes = device.raw.get("consumesCounters")  # groups count even without counters
            if consumes and (device.key in held.holders if stable else held.is_held(device.key)):
                yield device


def _groups(device: PoolDevice) -> Iterator[tuple[str, frozenset[str]]]:
    consumed: list[Json] = device.raw.get("consumesCounters") or []
    for consumption in consumed:
        yield (
            str(consumption.get("counterSet") or ""),
            frozenset(consumption.get("compatibilityGroups") or ()),
        )
