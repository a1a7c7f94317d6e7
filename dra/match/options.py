"""What one request, or one alternative of it, could take now."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress

from dra.allocator import AllocationError
from dra.allocator.capacity import share
from dra.columns import Column, pack, unpack
from dra.match.funnel import Funnel
from dra.picture import Picture
from dra.pools import PoolDevice
from dra.quantity import ZERO, Quantity

COUNTED = 255  # shares of a device, at most


@dataclass(frozen=True, slots=True)
class Option:
    """
    `usable` devices can be taken as they stand, if no other request takes them before.

    `shares` says per device how often, one after another, and is None where each can be taken once. Not
    `certain` if that takes a search, as where a device publishes what stops it.
    """

    funnel: Funnel
    usable: Column
    shares: bytes | None = None
    certain: bool = True

    @property
    def plain(self) -> bool:
        """Whether it asks for a number of devices and nothing stands in the way of counting them."""
        ask = self.funnel.ask
        return not (ask.all or ask.admin or self.funnel.failing or not self.certain)


def option_of(picture: Picture, funnel: Funnel, most: int) -> Option:
    """Return what the request could take; shares are counted up to `most`."""
    ask, stock = funnel.ask, picture.stock
    if ask.admin or not (ask.capacity or stock.shareable & funnel.free):
        return Option(funnel, funnel.free)
    if not picture.features.consumable_capacity:
        return Option(funnel, funnel.free, certain=False)
    length, remains = len(picture.devices), picture.remains
    free = unpack(funnel.free, length)
    alike = dict(compress(zip(remains, range(length), strict=True), free))
    counts: dict[int, int] = dict.fromkeys(set(remains), 0)
    certain = True
    for number, place in alike.items():
        try:
            counts[number] = _times(picture, picture.devices[place], funnel, min(most, COUNTED))
        except AllocationError:
            counts[number], certain = 1, False
    every = int.from_bytes(bytes(map(counts.__getitem__, remains)), "little")
    shares = unpack(every & funnel.free * COUNTED, length)
    return Option(funnel, pack(map(bool, shares)), shares, certain)


def _times(picture: Picture, device: PoolDevice, funnel: Funnel, most: int) -> int:
    """Return how often the request could take of the device what it asks of its capacity."""
    consumed: dict[str, Quantity] = dict(picture.held.consumed.get(device.key, {}))
    fractional = picture.features.fractional_capacity_range
    for times in range(most):
        taken = share(device, funnel.ask.capacity, consumed, fractional=fractional)
        if taken is None:
            return times
        if not device.shareable:
            return 1
        for name, amount in taken.items():
            consumed[name] = consumed.get(name, ZERO) + amount.quantity
    return most
