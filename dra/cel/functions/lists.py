"""
Functions of lists and sets.

Sources: cel-go `ext/{lists,sets}.go`; apiserver `pkg/cel/library/lists.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from dra.cel.functions.operators import checked
from dra.cel.values import Failure, Uint, compare, is_equal

MAX_RANGE = 1_000_000  # of lists.range()
KINDS = ("bool", "int", "uint", "double", "string", "bytes")


def _slice(elements: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise Failure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise Failure(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(elements) < end:
        raise Failure(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return elements[start:end]


def _range(count: int) -> list[int]:
    if count < 0:
        raise Failure(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_RANGE:
        raise Failure(f"lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(count))


def _distinct(elements: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for element in elements:
        if not any(is_equal(element, earlier) for earlier in distinct):
            distinct.append(element)
    return distinct


def _index_of(elements: list[Any], element: Any) -> int:
    return next((index for index, item in enumerate(elements) if is_equal(item, element)), -1)


def _last_index_of(elements: list[Any], element: Any) -> int:
    return next((index for index in reversed(range(len(elements))) if is_equal(elements[index], element)), -1)


def _contains(elements: list[Any], part: list[Any]) -> bool:
    return all(any(is_equal(element, candidate) for candidate in elements) for element in part)


def _intersects(one: list[Any], other: list[Any]) -> bool:
    return any(is_equal(left, right) for left in one for right in other)


def _sorted(elements: list[Any]) -> bool:
    return all(compare(element, other) <= 0 for element, other in pairwise(elements))


def _extreme(function: str, sign: int) -> Callable[[list[Any]], Any]:
    def run(found: list[Any]) -> Any:
        if not found:
            raise Failure(f"{function} called on empty list")
        best = found[0]
        for one in found[1:]:
            if compare(one, best) == sign:
                best = one
        return best

    return run


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def run(elements: list[Any]) -> Any:
        total = zero
        for element in elements:
            total = total + element if type(zero) is float else checked(int(total) + int(element), type(zero))
        return total

    return run


def _includes(found: Any, element: Any) -> bool:
    among = found if type(found) is list else [found]
    return any(is_equal(one, element) for one in among)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": lambda found: found[::-1],
    "list_distinct": _distinct,
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_sets_contains_list": _contains,
    "list_sets_equivalent_list": lambda one, other: _contains(one, other) and _contains(other, one),
    "list_sets_intersects_list": _intersects,
    "list_includes_dyn_dyn": _includes,
    "list_int_sum_int": _sum(0),
    "list_uint_sum_uint": _sum(Uint(0)),
    "list_double_sum_double": _sum(0.0),
    **{f"list_{kind}_is_sorted_bool": _sorted for kind in KINDS},
    **{f"list_{kind}_max_{kind}": _extreme("max", 1) for kind in KINDS},
    **{f"list_{kind}_min_{kind}": _extreme("min", -1) for kind in KINDS},
}
