"""How much of a device's capacity a request takes (KEP 5075, consumable capacity)."""

from __future__ import annotations

from collections.abc import Mapping

from dra.allocator.result import AllocationError
from dra.facts import Malformed, capacity
from dra.objects import Json
from dra.pools import PoolDevice
from dra.quantity import ZERO, Quantity, QuantityError


def share(device: PoolDevice, asked: Json, consumed: Mapping[str, Quantity]) -> dict[str, Quantity] | None:
    """
    Return what a request takes of a device beside what is `consumed`, or None if it does not fit.

    Asked amounts are rounded up to the policy of the capacity; what is not asked for is the policy's default,
    and without a policy the whole. Names are compared as written: `memory` is not `gpu.nvidia.com/memory`.
    Raise `AllocationError` for an amount that is negative or no quantity: no other device could satisfy it
    either.
    """
    published: Json = device.raw.get("capacity") or {}
    if not asked.keys() <= published.keys():
        return None
    taken: dict[str, Quantity | None] = {}
    for name, raw in published.items():
        try:
            amount = _rounded(asked.get(name), raw)
        except (Malformed, QuantityError) as error:
            raise AllocationError(f"Capacity {name} of {device}: {error}") from None
        if amount is not None and amount.nano < 0:
            raise AllocationError(
                f"Capacity {name} of {device} would be taken by {amount}, which is negative."
            )
        taken[name] = amount
    fitting = {name: amount for name, amount in taken.items() if amount is not None}
    if len(fitting) < len(taken):
        return None
    for name, amount in fitting.items():
        if consumed.get(name, ZERO) + amount > capacity(published[name]):
            return None
    return fitting


def _rounded(asked: object, raw: Json) -> Quantity | None:
    """Return the amount to take, or None if the policy has no such amount."""
    whole, policy = capacity(raw), raw.get("requestPolicy") or {}
    default = policy.get("default")
    if asked is None:
        return whole if default is None else Quantity.parse(default)
    wanted = Quantity.parse(str(asked))
    valid, values = policy.get("validRange"), policy.get("validValues")
    if valid:
        amount = _in_range(wanted, valid)
    elif values:
        amount = next((value for value in map(Quantity.parse, values) if value >= wanted), None)
    else:
        return wanted
    # Upstream lets the default pass whatever the policy says, and compares it as text: "5" is not "5000m".
    return wanted if amount is None and str(asked) == str(default) else amount


def _in_range(wanted: Quantity, valid: Json) -> Quantity | None:
    amount = wanted
    if valid.get("min") is not None:
        low = Quantity.parse(valid["min"])
        amount = max(low, wanted)
        step = Quantity.parse(valid["step"]) if valid.get("step") is not None else ZERO
        if step.nano > 0:
            amount = Quantity(low.nano - (low.nano - amount.nano) // step.nano * step.nano, step.format)
    if valid.get("max") is not None and amount > Quantity.parse(valid["max"]):
        return None
    return amount
