"""
Results of one selector for all devices of a cluster.

A device mask is an integer with one byte per device: `&` combines the masks of forty thousand devices in
microseconds, and `bit_count()` counts them. Devices that a selector cannot tell apart are evaluated once.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dra.cel import CelError, Selector, Work
from dra.pools import PoolDevice

type DeviceMask = int


def pack(flags: Iterable[bool | int]) -> DeviceMask:
    """Return the mask of the flags, the first device in the lowest byte."""
    return int.from_bytes(bytes(flags), "little")


def unpack(mask: DeviceMask, length: int) -> bytes:
    """Return one byte per device, 0 or 1."""
    return mask.to_bytes(length, "little")


def mask_indices(mask: DeviceMask, length: int) -> Iterator[int]:
    """Yield the indices of the devices in the mask."""
    flags = unpack(mask, length)
    index = flags.find(1)
    while index >= 0:
        yield index
        index = flags.find(1, index + 1)


def full_mask(length: int) -> DeviceMask:
    return int.from_bytes(b"\x01" * length, "little")


class EvaluationErrors(Mapping[int, CelError]):
    """
    The evaluation error of each device on which an expression fails, by device index.

    An expression can fail on all devices, so this keeps a number per device and each message once.
    """

    def __init__(self, numbers: array[int], errors: Sequence[CelError]) -> None:
        self._numbers, self._errors = numbers, errors  # number 0: no error

    def __getitem__(self, index: int) -> CelError:
        number = self._numbers[index] if 0 <= index < len(self._numbers) else 0
        if not number:
            raise KeyError(index)
        return self._errors[number - 1]

    def __contains__(self, index: object) -> bool:
        return isinstance(index, int) and 0 <= index < len(self._numbers) and self._numbers[index] > 0

    def __iter__(self) -> Iterator[int]:
        return (index for index, number in enumerate(self._numbers) if number)

    def __len__(self) -> int:
        return len(self._numbers) - self._numbers.count(0)

    @cached_property
    def mask(self) -> DeviceMask:
        return pack(map(bool, self._numbers))


@dataclass(frozen=True, slots=True)
class SelectorResults:
    """
    `mask` and `flags` have the selected devices, `errors` the devices on which the selector fails.

    `steps` is what the evaluation took.
    """

    mask: DeviceMask
    flags: bytes
    errors: Mapping[int, CelError]
    steps: int = 0

    @property
    def failed_mask(self) -> DeviceMask:
        """The devices on which the expression fails."""
        return self.errors.mask if isinstance(self.errors, EvaluationErrors) else 0


def evaluate_devices(
    selector: Selector, devices: Sequence[PoolDevice], shapes: Sequence[Hashable]
) -> SelectorResults:
    """
    Evaluate one device per shape; the selector must read equal values from devices of equal shape.

    After too many steps in all, the devices that are left have `NotPreviewable` as their error.
    """
    work = Work()
    result_by_shape: dict[Hashable, int] = {}
    numbers: dict[str, int] = {}
    errors: list[CelError] = []
    for shape, device in dict(zip(shapes, devices, strict=True)).items():
        try:
            result_by_shape[shape] = int(selector.matches(device, work))
        except CelError as error:
            number = numbers.setdefault(f"{type(error).__name__}: {error.message}", len(errors) + 1)
            if number > len(errors):
                errors.append(error)
            result_by_shape[shape] = -number
    if not errors:
        flags = bytes(map(result_by_shape.__getitem__, shapes))
        return SelectorResults(int.from_bytes(flags, "little"), flags, {}, work.steps)
    flags = bytes(result_by_shape[shape] == 1 for shape in shapes)
    error_numbers = array("I", (max(0, -result_by_shape[shape]) for shape in shapes))
    by_index = EvaluationErrors(error_numbers, errors)
    return SelectorResults(int.from_bytes(flags, "little"), flags, by_index, work.steps)
