"""
Functions of quantities and versions: parsing, arithmetic, `compareTo`, `isGreaterThan`.

Sources: apiserver `pkg/cel/library/{quantity,semverlib}.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel.values import INT64, Amount, Failure, amount, version, whole
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


FUNCTIONS: dict[str, Callable[..., Any]] = {
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
