"""Sizes and costs as ranges that never overflow (cel-go `checker/cost.go`), and how large a device can be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

MOST = 2**64 - 1
TRAVERSAL = 0.1  # cost of each character that is gone over
PATTERN = 0.25  # and of each character of a pattern


def capped(value: int) -> int:
    return min(value, MOST)


def scaled(size: int, factor: float) -> int:
    """Return a cost for `size` units."""
    cost = float(size) * factor
    return MOST if cost >= 2.0**64 else math.ceil(cost)


class Size(NamedTuple):
    """How many characters, bytes, elements or entries a value has at least and at most."""

    least: int
    most: int

    def plus(self, other: Size) -> Size:
        return Size(capped(self.least + other.least), capped(self.most + other.most))

    def times(self, other: Size) -> Size:
        return Size(capped(self.least * other.least), capped(self.most * other.most))

    def union(self, other: Size) -> Size:
        return Size(min(self.least, other.least), max(self.most, other.most))


UNKNOWN, ONE, NOTHING_YET = Size(0, MOST), Size(1, 1), Size(MOST, 0)

type Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """
    A part of the variable `device`: how many characters or entries it has at most, and what it consists of.

    `any_name` is what every name leads to.
    """

    most: int
    fields: dict[str, Part] = field(default_factory=dict)
    keys: Part | None = None
    values: Part | None = None
    any_name: Part | None = None


# k8s.io/api `resource/v1/types.go`: longest domain, identifier, driver name, value; entries, list members
DOMAIN, IDENTIFIER, DRIVER, VALUE, ENTRIES, VALUES = 63, 32, 63, 64, 32, 48


def device_parts(*, list_type_attributes: bool) -> Part:
    attribute = Part(max(VALUE, VALUES) if list_type_attributes else VALUE)
    attributes = Part(ENTRIES, keys=Part(IDENTIFIER), values=attribute, any_name=attribute)
    capacities = Part(ENTRIES, keys=Part(IDENTIFIER), values=Part(0))
    return Part(
        0,
        {
            "driver": Part(DRIVER),
            "allowMultipleAllocations": Part(1),
            "attributes": Part(ENTRIES, keys=Part(DOMAIN), values=attributes),
            "capacity": Part(ENTRIES, keys=Part(DOMAIN), values=capacities),
        },
    )


def size_at(path: Path | None, device: Part) -> Size | None:
    """Return the size of what `path` leads to, as ("device", "attributes", "@values"); None if unknown."""
    if not path or path[0] != "device":
        return None
    part: Part | None = device
    for name in path[1:]:
        if part is None:
            return None
        if name in ("@items", "@values"):
            part = part.values
        elif name == "@keys":
            part = part.keys
        else:
            part = part.fields.get(name) or part.any_name
    return Size(0, part.most) if part else None
