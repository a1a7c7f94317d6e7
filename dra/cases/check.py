"""Whether JSON has the shape that is expected, and if not, where and what is wrong, as a sentence."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from dra.quantity import QuantityError, form_of

# Takes a value and its path, and raises `Problem`. Null is as good as absent, but not in place of an object.
type Shape = Callable[[Any, str], None]

INT64 = range(-(2**63), 2**63)
SHOWN = 60  # characters of a wrong value


class Problem(ValueError):
    """The JSON is not what is expected; the message is a sentence."""


def text(value: Any, path: str) -> None:
    if value is not None and not isinstance(value, str):
        raise _wrong(value, path, "a text")


def flag(value: Any, path: str) -> None:
    if value is not None and not isinstance(value, bool):
        raise _wrong(value, path, "true or false")


def whole(value: Any, path: str) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(value, path, "a whole number")
    if value not in INT64:
        raise _wrong(value, path, "a whole number of 64 bits")


def quantity(value: Any, path: str) -> None:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise _wrong(value, path, "a quantity such as 80Gi or 500m")
    try:
        form_of(str(value).strip())
    except QuantityError:
        raise _wrong(value, path, "a quantity such as 80Gi or 500m") from None


def anything(value: Any, path: str) -> None:
    """Accept what the engine only passes on."""


def list_of(shape: Shape) -> Shape:
    def check(value: Any, path: str) -> None:
        if value is not None and not isinstance(value, list):
            raise _wrong(value, path, "a list")
        for place, one in enumerate(value or ()):
            shape(one, f"{path}[{place}]")

    return check


def map_of(shape: Shape, *, key: Shape = anything) -> Shape:
    def check(value: Any, path: str) -> None:
        if value is not None and not isinstance(value, dict):
            raise _wrong(value, path, "an object")
        for name, one in (value or {}).items():
            key(name, f"The key {name} of {path}")
            shape(one, f"{path}.{name}" if path else name)

    return check


def structure(**fields: Shape) -> Shape:
    """Return the shape of an object with these fields, each of which may be absent; others are ignored."""

    def check(value: Any, path: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(value, path, "an object")
        for name, one in value.items():
            if (shape := fields.get(name)) is not None:
                shape(one, f"{path}.{name}" if path else name)

    return check


def optional(shape: Shape) -> Shape:
    """Return the shape of an object that may be null."""

    def check(value: Any, path: str) -> None:
        if value is not None:
            shape(value, path)

    return check


def extended(base: Mapping[str, Shape], **fields: Shape) -> Shape:
    return structure(**base, **fields)


def _wrong(value: Any, path: str, expected: str) -> Problem:
    shown = json.dumps(value, ensure_ascii=False)
    if len(shown) > SHOWN:
        shown = shown[:SHOWN] + "…"
    return Problem(f"{path or 'The line'} is {shown}: {expected} is expected.")
