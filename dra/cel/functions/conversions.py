"""
Type conversions, and functions of lists, quantities and versions.

Sources: cel-go `common/types/*.go` (ConvertToType; Go's strconv) and `ext/{lists,sets}.go`; apiserver
`pkg/cel/library/{quantity,semverlib,lists}.go`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import pairwise
from typing import Any

from dra.cel.functions.operators import checked
from dra.cel.values import INT64, UINT64, Amount, Failure, Uint, amount, compare, is_equal, version, whole
from dra.quantity import QuantityError
from dra.semver import Version, VersionError


def _quantity(text: str) -> Amount:
    try:
        return amount(text)
    except QuantityError as error:
        raise Failure(str(error)) from error


def _is_quantity(text: str) -> bool:
    try:
        amount(text)
    except QuantityError:
        return False
    return True


def _integer(of: Amount) -> int:
    if of.integer is None:
        raise Failure("cannot convert value to integer")
    return of.integer


def _semver(text: str, normalize: bool = False) -> Version:  # noqa: FBT001, FBT002 - CEL passes it by place
    try:
        return version(text, normalize)
    except VersionError as error:
        raise Failure(str(error)) from error


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002 - CEL passes it by place
    try:
        version(text, normalize)
    except VersionError:
        return False
    return True


def _part(number: int) -> int:
    """Return a part of a version, unsigned upstream, as the signed number that CEL makes of it."""
    return number - 2**64 if number not in INT64 else number


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


AMOUNT_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": _is_quantity,
    "quantity_sign": lambda of: (of.nano > 0) - (of.nano < 0),
    "quantity_is_greater_than": lambda one, other: one.nano > other.nano,
    "quantity_is_less_than": lambda one, other: one.nano < other.nano,
    "quantity_compare_to": lambda one, other: _order(one.nano, other.nano),
    "quantity_get_float": lambda of: of.approximate,
    "quantity_get_int": _integer,
    "quantity_is_integer": lambda of: of.integer is not None,
    "quantity_add": Amount.plus,
    "quantity_add_int": lambda one, number: one.plus(whole(number)),
    "quantity_sub": Amount.minus,
    "quantity_sub_int": lambda one, number: one.minus(whole(number)),
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
    "semver_is_greater_than": lambda one, other: one > other,
    "semver_is_less_than": lambda one, other: one < other,
    "semver_compare_to": _order,
    "semver_major": lambda of: _part(of.major),
    "semver_minor": lambda of: _part(of.minor),
    "semver_patch": lambda of: _part(of.patch),
}


TRUE = frozenset(("1", "t", "T", "TRUE", "true", "True"))
FALSE = frozenset(("0", "f", "F", "FALSE", "false", "False"))
WHOLE = re.compile(r"[+-]?[0-9]{1,200}", re.ASCII)
DOUBLE = re.compile(
    r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?)|[nN][aA][nN]",
    re.ASCII,
)
HEXADECIMAL = re.compile(r"[+-]?0[xX](?=[0-9a-fA-F.])[0-9a-fA-F]*\.?[0-9a-fA-F]*[pP][+-]?[0-9]+", re.ASCII)


def _cannot(to: str, of: str = "string") -> Failure:
    return Failure(f"type conversion error from '{of}' to '{to}'")


def _text_to_bool(text: str) -> bool:
    if text not in TRUE | FALSE:
        raise _cannot("bool")
    return text in TRUE


def _text_to_int(text: str) -> int:
    if not WHOLE.fullmatch(text) or int(text) not in INT64:
        raise _cannot("int")
    return int(text)


def _text_to_uint(text: str) -> Uint:
    if not WHOLE.fullmatch(text) or text[0] in "+-" or int(text) not in UINT64:
        raise _cannot("uint")
    return Uint(text)


def _text_to_double(text: str) -> float:
    try:
        if HEXADECIMAL.fullmatch(text):
            return float.fromhex(text)
    except OverflowError as error:
        raise _cannot("double") from error
    if not DOUBLE.fullmatch(text):
        raise _cannot("double")
    value = float(text)
    if math.isinf(value) and text[-1] not in "fFyY":
        raise _cannot("double")
    return value


def _double_to_int(value: float) -> int:
    if math.isnan(value) or not -(2.0**63) < value < 2.0**63:
        raise Failure("integer overflow")
    return int(value)


def _double_to_uint(value: float) -> Uint:
    if math.isnan(value) or not 0 <= value < 2.0**64:
        raise Failure("unsigned integer overflow")
    return Uint(value)


def _int_to_uint(value: int) -> Uint:
    if value < 0:
        raise Failure("unsigned integer overflow")
    return Uint(value)


def _uint_to_int(value: Uint) -> int:
    number = int(value)  # a range looks a subclass of int up one by one
    if number not in INT64:
        raise Failure("integer overflow")
    return number


def _bytes_to_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise Failure("invalid UTF-8 in bytes, cannot convert to string") from error


def double_to_text(value: float) -> str:
    """Write a number as Go's `%g` does: the fewest digits, an exponent below -4 and from 21 on."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    written = "".join(map(str, digits))
    before = len(written) + int(exponent)
    front = "-" if sign or math.copysign(1, value) < 0 else ""
    if written == "0":
        return f"{front}0"
    if not -4 < before <= 21:
        tail = f".{written[1:]}" if len(written) > 1 else ""
        return f"{front}{written[0]}{tail}e{'-' if before < 1 else '+'}{abs(before - 1):02d}"
    if before <= 0:
        return f"{front}0.{'0' * -before}{written}"
    integer, fraction = written[:before].ljust(before, "0"), written[before:]
    return f"{front}{integer}" + (f".{fraction}" if fraction else "")


def _same(value: Any) -> Any:
    return value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("bool_to_bool", "bytes_to_bytes", "double_to_double", "string_to_string"), _same),
    **dict.fromkeys(("int64_to_int64", "uint64_to_uint64"), _same),
    "string_to_bool": _text_to_bool,
    "string_to_bytes": str.encode,
    "int64_to_double": float,
    "uint64_to_double": float,
    "string_to_double": _text_to_double,
    "double_to_int64": _double_to_int,
    "string_to_int64": _text_to_int,
    "uint64_to_int64": _uint_to_int,
    "double_to_uint64": _double_to_uint,
    "int64_to_uint64": _int_to_uint,
    "string_to_uint64": _text_to_uint,
    "bool_to_string": lambda value: "true" if value else "false",
    "bytes_to_string": _bytes_to_text,
    "double_to_string": double_to_text,
    "int64_to_string": str,
    "uint64_to_string": lambda value: str(int(value)),
    "ip_to_string": str,
    "cidr_to_string": str,
}


MOST = 1_000_000  # of lists.range()
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
    if count > MOST:
        raise Failure(f"lists.range: size {count} exceeds maximum allowed ({MOST})")
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


LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
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
