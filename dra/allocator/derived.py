"""Attributes that a request derives from those of a device, by an expression of its own (KEP 6080)."""

from __future__ import annotations

from typing import Any

from dra.allocator.errors import AllocationError
from dra.cel import CelError, Selector
from dra.cel.stored import compile_stored
from dra.facts import Json, Malformed, entries
from dra.objects import Ask, Manifest
from dra.pools import PoolDevice
from dra.semver import Version

KINDS: dict[type, str] = {bool: "bool", int: "int", str: "string", Version: "version"}


def expression_of(ask: Ask, attribute: str) -> str | None:
    """Return how the request derives the attribute; None if it does not. Of two the last one counts."""
    found = [one for one in ask.derived if one.get("name") == attribute]
    return str(found[-1].get("expression") or " ") if found else None


def compile_derived(expression: str) -> Selector:
    """Raise `CompileError` if the expression is wrong whatever the device."""
    return compile_stored(f"dyn({expression}\n)")


def derive(attribute: str, expression: str, device: PoolDevice) -> Json:
    """
    Return the derived attribute of a device, as a slice would have it.

    Raise `AllocationError` if the expression fails, or gives what no attribute can be.
    """
    try:
        entries(
            device, "attributes"
        )  # upstream reads them all, so that a malformed one fails every expression
        return _written(compile_derived(expression).value(device))
    except (CelError, Malformed, TypeError) as error:
        raise AllocationError(f"The derived attribute {attribute} fails on {device}: {error}") from None


def _written(value: Any) -> Manifest:
    if not isinstance(value, list):
        kind, text = _scalar(value)
        return {kind: text}
    if not value:
        return {"strings": []}
    scalars = [_scalar(one) for one in value]
    kinds = {kind for kind, _ in scalars}
    if len(kinds) > 1:
        raise TypeError(f"a list of {' and '.join(sorted(kinds))} is no attribute")
    return {f"{kinds.pop()}s": [one for _, one in scalars]}


def _scalar(value: Any) -> tuple[str, Any]:
    kind = KINDS.get(type(value))
    if kind is None:
        raise TypeError(f"{value} is no text, whole number, boolean or version")
    return kind, str(value) if kind == "version" else value
