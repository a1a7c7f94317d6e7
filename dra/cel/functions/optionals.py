"""Values that may be missing (cel-go `cel/library.go`). For or() and orValue() see `dra.cel.logic`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dra.cel.functions.operators import non_zero
from dra.cel.values import NONE, Failure, Optional, some


def _value(of: Optional) -> Any:
    if not of.present:
        raise Failure("optional.none() dereference")
    return of.value


def _unwrap(found: list[Optional]) -> list[Any]:
    return [one.value for one in found if one.present]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "optional_of": some,
    "optional_ofNonZeroValue": non_zero,
    "optional_none": lambda: NONE,
    "optional_value": _value,
    "optional_hasValue": lambda of: of.present,
    "list_first": lambda found: some(found[0]) if found else NONE,
    "list_last": lambda found: some(found[-1]) if found else NONE,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
}
