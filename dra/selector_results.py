"""
Which devices a selector accepts, for all devices of a cluster at once.

Yes or no for each of many devices, as one integer with a byte per device.

Forty thousand devices are combined with `&` in microseconds, and `bit_count()` counts them.

What one expression says of every device of a stock, worked out once per distinct shape of device.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dra.cel import CelError, Selector
from dra.pools import PoolDevice

type DeviceMask = int


def pack(flags: Iterable[bool | int]) -> DeviceMask:
    """Return the column of the flags, the first device in the lowest byte."""
    return int.from_bytes(bytes(flags), "little")


def unpack(column: DeviceMask, length: int) -> bytes:
    """Return one byte per device, 0 or 1."""
    return column.to_bytes(length, "little")


def places(column: DeviceMask, length: int) -> Iterator[int]:
    """Yield the places of the devices that are in the column."""
    flags = unpack(column, length)
    at = flags.find(1)
    while at >= 0:
        yield at
        at = flags.find(1, at + 1)


def everything(length: int) -> DeviceMask:
    return int.from_bytes(b"\x01" * length, "little")


class EvaluationErrors(Mapping[int, CelError]):
    """
    The devices on which an expression fails, by place, with what it says of each.

    An expression may fail on all of them, so this takes a number per device and each message once.
    """

    def __init__(self, numbers: array[int], errors: Sequence[CelError]) -> None:
        self._numbers, self._errors = numbers, errors  # 0: it does not fail

    def __getitem__(self, place: int) -> CelError:
        number = self._numbers[place] if 0 <= place < len(self._numbers) else 0
        if not number:
            raise KeyError(place)
        return self._errors[number - 1]

    def __contains__(self, place: object) -> bool:
        return isinstance(place, int) and 0 <= place < len(self._numbers) and self._numbers[place] > 0

    def __iter__(self) -> Iterator[int]:
        return (place for place, number in enumerate(self._numbers) if number)

    def __len__(self) -> int:
        return len(self._numbers) - self._numbers.count(0)

    @cached_property
    def column(self) -> DeviceMask:
        return pack(map(bool, self._numbers))


@dataclass(frozen=True, slots=True)
class SelectorResults:
    """`column` and `flags` say which devices are selected; `failing` are those that cannot be judged."""

    column: DeviceMask
    flags: bytes
    failing: Mapping[int, CelError]

    @property
    def errors(self) -> DeviceMask:
        """The devices on which the expression fails."""
        return self.failing.column if isinstance(self.failing, EvaluationErrors) else 0


def judge(selector: Selector, devices: Sequence[PoolDevice], shapes: Sequence[Hashable]) -> SelectorResults:
    """Evaluate for one device of each shape; devices of one shape must look alike to the expression."""
    said: dict[Hashable, int] = {}
    numbers: dict[str, int] = {}
    errors: list[CelError] = []
    for shape, device in dict(zip(shapes, devices, strict=True)).items():
        try:
            said[shape] = int(selector.matches(device))
        except CelError as error:
            number = numbers.setdefault(f"{type(error).__name__}: {error.message}", len(errors) + 1)
            if number > len(errors):
                errors.append(error)
            said[shape] = -number
    if not errors:
        flags = bytes(map(said.__getitem__, shapes))
        return SelectorResults(int.from_bytes(flags, "little"), flags, {})
    flags = bytes(said[shape] == 1 for shape in shapes)
    failing = array("I", (max(0, -said[shape]) for shape in shapes))
    return SelectorResults(int.from_bytes(flags, "little"), flags, EvaluationErrors(failing, errors))
