"""
Cost estimates of calls, and the sizes of their results.

Sizes and costs are ranges that never overflow (cel-go `checker/cost.go`). Sources: apiserver
`pkg/cel/library/cost.go`, by function name; cel-go `ext/{lists,sets}.go` and `checker/cost.go`, by overload.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from dra.cel.syntax import Expression, Literal
from dra.cel.types import Type

MAX_UINT64 = 2**64 - 1
TRAVERSAL = 0.1  # cost of each character that is gone over
PATTERN = 0.25  # and of each character of a pattern


def capped(value: int) -> int:
    return min(value, MAX_UINT64)


def scaled(size: int, factor: float) -> int:
    """Return a cost for `size` units."""
    cost = float(size) * factor
    return MAX_UINT64 if cost >= 2.0**64 else math.ceil(cost)


class Size(NamedTuple):
    """How many characters, bytes, elements or entries a value has at least and at most."""

    least: int
    most: int

    def plus(self, size: Size) -> Size:
        return Size(capped(self.least + size.least), capped(self.most + size.most))

    def times(self, size: Size) -> Size:
        return Size(capped(self.least * size.least), capped(self.most * size.most))

    def union(self, size: Size) -> Size:
        return Size(min(self.least, size.least), max(self.most, size.most))


UNKNOWN, ONE, NOTHING_YET = Size(0, MAX_UINT64), Size(1, 1), Size(MAX_UINT64, 0)

type AccessPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VariablePart:
    """
    A part of the variable `device`: how many characters or entries it has at most, and what it consists of.

    `any_name` is what every name leads to.
    """

    most: int
    fields: dict[str, VariablePart] = field(default_factory=dict)
    keys: VariablePart | None = None
    values: VariablePart | None = None
    any_name: VariablePart | None = None


# k8s.io/api `resource/v1/types.go`: longest domain, identifier, driver name, value; entries, list members
DOMAIN, IDENTIFIER, DRIVER, VALUE, ENTRIES, VALUES = 63, 32, 63, 64, 32, 48


def device_parts(*, list_type_attributes: bool) -> VariablePart:
    attribute = VariablePart(max(VALUE, VALUES) if list_type_attributes else VALUE)
    attributes = VariablePart(ENTRIES, keys=VariablePart(IDENTIFIER), values=attribute, any_name=attribute)
    capacities = VariablePart(ENTRIES, keys=VariablePart(IDENTIFIER), values=VariablePart(0))
    return VariablePart(
        0,
        {
            "driver": VariablePart(DRIVER),
            "allowMultipleAllocations": VariablePart(1),
            "attributes": VariablePart(ENTRIES, keys=VariablePart(DOMAIN), values=attributes),
            "capacity": VariablePart(ENTRIES, keys=VariablePart(DOMAIN), values=capacities),
        },
    )


def size_at(path: AccessPath | None, device: VariablePart) -> Size | None:
    """Return the size of what `path` leads to, as ("device", "attributes", "@values"); None if unknown."""
    if not path or path[0] != "device":
        return None
    part: VariablePart | None = device
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


ADDRESS = Size(4, 16)  # bytes
FORMAT_PATTERN, FORMAT_SIZE = 128, 64  # apiserver `pkg/cel/limits.go`


class Estimate(NamedTuple):
    """The size is None where nothing is known of it."""

    cost: int
    size: Size | None = None


class Argument(NamedTuple):
    path: AccessPath
    type: Type
    node: Expression
    size: Size | None


class CostCall(NamedTuple):
    """A call whose cost is asked for. `parts` are target and arguments."""

    overload: str
    parts: list[Argument]
    device: VariablePart

    def size(self, index: int) -> Size:
        part = self.parts[index]
        return part.size or size_at(part.path, self.device) or UNKNOWN

    def element(self) -> tuple[Type, Size] | None:
        """Return type and size of an element of the first part; None if that is no list for sure."""
        part = self.parts[0]
        if not part.type.parameters:
            return None
        path = (*part.path, "@items") if part.path else ()
        return part.type.parameters[0], size_at(path, self.device) or UNKNOWN


def call_cost(
    function: str, overload: str, target: Argument | None, arguments: list[Argument], device: VariablePart
) -> Estimate:
    """Estimate a call."""
    call = CostCall(overload, [target, *arguments] if target else arguments, device)
    by_overload = BY_OVERLOAD.get(overload)
    if by_overload:
        return by_overload(call)
    by_function = BY_FUNCTION.get(function)
    estimate = by_function(call) if by_function else None
    return estimate or _standard(call)


def _fixed(_asked: CostCall) -> Estimate:
    return Estimate(1)


def _traversal(call: CostCall) -> Estimate:
    return Estimate(scaled(call.size(0).most, TRAVERSAL))


def _twice(call: CostCall) -> Estimate:
    return Estimate(scaled(call.size(0).most, 2 * TRAVERSAL))


def _same_size(call: CostCall) -> Estimate:
    size = call.size(0)
    return Estimate(scaled(size.most, TRAVERSAL), size)


def _over_list(call: CostCall) -> Estimate:
    """Estimate what goes over a list, or over a text where the function has a namesake for texts."""
    size, element = call.size(0), call.element()
    if element is None and call.overload != "list_includes_dyn_dyn":
        return Estimate(scaled(size.most, TRAVERSAL))
    element_cost = 1
    if element and element[0].kind in ("string", "bytes"):
        element_cost = capped(1 + scaled(element[1].most, TRAVERSAL))
    return Estimate(capped(size.most * element_cost))


def _replace(call: CostCall) -> Estimate:
    size, old, new = (call.size(index) for index in range(3))
    maximum, kept_most = _times(size.most, old.least), 0
    if not old.least:
        maximum, kept_most = capped(size.most + 1), size.most
    elif new.most <= old.least:
        maximum, kept_most = 0, size.most
    minimum, kept_least = _times(size.least, old.most), 0
    if not old.most:
        minimum, kept_least = capped(size.least + 1), size.least
    elif old.most <= new.least:
        minimum, kept_least = 0, size.least
    result = Size(minimum, maximum).times(new).plus(Size(kept_least, kept_most))
    return Estimate(scaled(size.most, 2 * TRAVERSAL), result)


def _times(size: int, part: int) -> int:
    return math.ceil(float(size) / float(part)) if part else 0


def _split(call: CostCall) -> Estimate:
    size = call.size(0)
    maximum = size.most
    limit = call.parts[2].node if len(call.parts) > 2 else None
    if isinstance(limit, Literal) and type(limit.value) is int:
        maximum = limit.value % 2**64
    return Estimate(scaled(size.most, 2 * TRAVERSAL), Size(0, maximum))


def _join(call: CostCall) -> Estimate:
    count, element, size = call.size(0), call.element(), Size(0, 0)
    if element:
        size = count.times(element[1])
    if len(call.parts) > 1:
        gaps = Size(max(count.least - 1, 0), max(count.most - 1, 0))
        size = size.plus(call.size(1).times(gaps))
    return Estimate(scaled(size.most, TRAVERSAL), size)


def _find(call: CostCall) -> Estimate:
    size = call.size(0)
    text = scaled(size.plus(ONE).most, TRAVERSAL)
    return Estimate(capped(text * scaled(call.size(1).most, PATTERN)), Size(0, size.most))


def _ip(call: CostCall) -> Estimate:
    return Estimate(1) if call.overload == "cidr_ip" else _traversal(call)


def _holds(call: CostCall) -> Estimate:
    cost = scaled(2 * ADDRESS.most, TRAVERSAL)
    if call.overload.startswith("cidr_contains_cidr"):
        cost += scaled(ADDRESS.most, TRAVERSAL) + 1
    if call.overload.endswith("_string"):
        cost = capped(cost + scaled(call.size(1).most, TRAVERSAL))
    return Estimate(cost)


def _validate(call: CostCall) -> Estimate:
    """Estimate by the text's length; upstream takes every format for a pattern of 128 characters."""
    return Estimate(scaled(scaled(call.size(1).most, TRAVERSAL), FORMAT_PATTERN * PATTERN))


def _equality(call: CostCall) -> Estimate | None:
    left, right = (part.type for part in call.parts)
    if left.name == right.name == "kubernetes.NamedFormat":
        return Estimate(scaled(FORMAT_SIZE, TRAVERSAL))
    return Estimate(1) if left.name == right.name and left.name in SMALL else None


def _number(call: CostCall, index: int, default: int) -> int:
    node = call.parts[index].node
    return max(node.value, 0) if isinstance(node, Literal) and type(node.value) is int else default


def _new_list(factor: float, size: Size) -> Estimate:
    return Estimate(capped(scaled(size.most, factor) + 11), size)


def _slice(call: CostCall) -> Estimate:
    length = (_number(call, 2, call.size(0).most) - _number(call, 1, 0)) % 2**64
    return _new_list(1, Size(length, length))


def _flatten(call: CostCall) -> Estimate:
    return _new_list(float(_number(call, 1, MAX_UINT64)) if len(call.parts) > 1 else 1.0, call.size(0))


def _range(call: CostCall) -> Estimate:
    count = _number(call, 0, MAX_UINT64)
    return _new_list(1, Size(count, count))


def _square(factor: float, index: int = 0) -> Callable[[CostCall], Estimate]:
    def run(call: CostCall) -> Estimate:
        size = call.size(index)
        return _new_list(factor, size.times(size))

    return run


def _sets(factor: float) -> Callable[[CostCall], Estimate]:
    return lambda call: Estimate(capped(scaled(call.size(0).times(call.size(1)).most, factor) + 1))


def _standard(call: CostCall) -> Estimate:
    """Estimate what CEL itself knows, by overload; sizes of arguments that it was not told are unknown."""
    sizes = [part.size or UNKNOWN for part in call.parts]
    match call.overload:
        case "string_to_bytes":
            return Estimate(scaled(sizes[0].most, TRAVERSAL), Size(sizes[0].least, sizes[0].most * 4 % 2**64))
        case "bytes_to_string":
            return Estimate(scaled(sizes[0].most, TRAVERSAL), Size(sizes[0].least // 4, sizes[0].most))
        case "strings_quote":
            maximum = (sizes[0].most * 2 + 2) % 2**64
            return Estimate(scaled(sizes[0].most, TRAVERSAL), Size(sizes[0].least + 2, maximum))
        case "starts_with_string" | "ends_with_string":
            return Estimate(scaled(sizes[1].most, TRAVERSAL))
        case "in_list":
            return Estimate(sizes[1].most)
        case "matches" | "matches_string":
            text = scaled(sizes[0].plus(ONE).most, TRAVERSAL)
            return Estimate(capped(text * scaled(sizes[1].most, PATTERN)))
        case "contains_string":
            return Estimate(capped(scaled(sizes[0].most, TRAVERSAL) * scaled(sizes[1].most, TRAVERSAL)))
        case "add_list":
            return Estimate(1, sizes[0].plus(sizes[1]))
        case "add_string" | "add_bytes":
            size = sizes[0].plus(sizes[1])
            return Estimate(scaled(size.most, TRAVERSAL), size)
    if call.overload in COMPARED:
        return Estimate(scaled(min(sizes[0].most, sizes[1].most), TRAVERSAL))
    return Estimate(1)


COMPARED = frozenset(
    ["equals", "not_equals"]
    + [
        f"{name}_{kind}"
        for name in ("less", "greater", "less_equals", "greater_equals")
        for kind in ("string", "bytes")
    ]
)
SMALL = frozenset(("net.IP", "net.CIDR", "kubernetes.Quantity", "kubernetes.Semver"))
ACCESSORS = (
    *("masked", "prefixLength", "family", "isUnspecified", "isLoopback", "isLinkLocalMulticast"),
    *("isLinkLocalUnicast", "isGlobalUnicast", "sign", "asInteger", "isInteger", "asApproximateFloat"),
    *("isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major", "minor", "patch"),
)
BY_FUNCTION: dict[str, Callable[[CostCall], Estimate | None]] = {
    **dict.fromkeys(ACCESSORS, _fixed),
    **dict.fromkeys(("isSorted", "sum", "max", "min", "indexOf", "lastIndexOf", "includes"), _over_list),
    **dict.fromkeys(("lowerAscii", "upperAscii", "substring", "trim"), _same_size),
    **dict.fromkeys(("cidr", "isIP", "isCIDR", "quantity", "isQuantity", "semver", "isSemver"), _traversal),
    "ip": _ip,
    "ip.isCanonical": _twice,
    "replace": _replace,
    "split": _split,
    "join": _join,
    "find": _find,
    "findAll": _find,
    "containsIP": _holds,
    "validate": _validate,
    "containsCIDR": _holds,
    "_==_": _equality,
}
BY_OVERLOAD: dict[str, Callable[[CostCall], Estimate]] = {
    "list_slice": _slice,
    "list_flatten": _flatten,
    "list_flatten_int": _flatten,
    "lists_range": _range,
    "list_reverse": lambda call: _new_list(1, call.size(0)),
    "list_distinct": _square(2),
    "list_sets_contains_list": _sets(1),
    "list_sets_intersects_list": _sets(1),
    "list_sets_equivalent_list": _sets(2),
    **{
        f"list_{kind}_{call}": _square(2 + TRAVERSAL * (kind in ("string", "bytes")), place)
        for kind in ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
        for call, place in (("sort", 0), ("sortByAssociatedKeys", 1))
    },
}
