"""
Yes or no for each of many devices, as one integer with a byte per device.

Forty thousand devices are combined with `&` in microseconds, and `bit_count()` counts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

type Column = int


def pack(flags: Iterable[bool | int]) -> Column:
    """Return the column of the flags, the first device in the lowest byte."""
    return int.from_bytes(bytes(flags), "little")


def unpack(column: Column, length: int) -> bytes:
    """Return one byte per device, 0 or 1."""
    return column.to_bytes(length, "little")


def places(column: Column, length: int) -> Iterator[int]:
    """Yield the places of the devices that are in the column."""
    flags = unpack(column, length)
    at = flags.find(1)
    while at >= 0:
        yield at
        at = flags.find(1, at + 1)


def everything(length: int) -> Column:
    return int.from_bytes(b"\x01" * length, "little")
