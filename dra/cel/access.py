"""
Attribute access: fields and indices of the variable `device`, of maps, lists and optional values.

Sources: dynamic-resource-allocation `cel/compile.go`, cel-go `interpreter/attributes.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from dra.attributes import Malformed, Ref, Selectable, VersionError, attribute, lookup, qualified
from dra.cel.syntax import Call, Expression, Ident, Literal, NotPreviewable, Select
from dra.cel.values import (
    NONE,
    Amount,
    Domains,
    Failure,
    Map,
    Names,
    Optional,
    Uint,
    amount,
    some,
    type_of,
    version,
)
from dra.objects import Json
from dra.quantity import QuantityError

MISSING: Any = object()


def _capacity(entry: Json) -> Amount:
    try:
        return amount(str(entry.get("value", "")))
    except QuantityError as error:
        raise Malformed(str(error)) from error


def _attribute(entry: Json) -> Any:
    text = entry.get("version")
    if text is None:
        return attribute(entry)
    try:
        return version(text)
    except VersionError as error:
        raise Malformed(str(error)) from error


READ: dict[str, Callable[[Json], Any]] = {"attributes": _attribute, "capacity": _capacity}

MAX_DEVICE_STEPS = 100_000  # of one expression on one device, at most about 0.1 s
MAX_STEPS = 3_000_000  # of one expression on all devices of a cluster, and of all selectors of a claim


class Work:
    """
    Counts the steps of one expression on several devices (decision 13).

    The API server limits an estimate in its own units: an accepted expression could run for minutes here.
    """

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


def _too_many(limit: int, on: str) -> NotPreviewable:
    return NotPreviewable(
        f"The expression takes more than {limit:,} steps on {on}, the portal's limit. Nest fewer loops or "
        "shorten their lists; a cluster may still accept it."
    )


class View:
    """
    Reads a device piece by piece, as an expression asks, and counts its steps.

    Raise `Malformed` for what is no value, `NotPreviewable` beyond the limits of steps.
    """

    __slots__ = ("_domains", "device", "steps", "work")

    def __init__(self, device: Selectable, work: Work) -> None:
        self.device, self.work, self.steps = device, work, 0
        self._domains: dict[str, Domains] = {}

    def spend(self, steps: int) -> None:
        """Count steps. Raise `NotPreviewable` beyond the limit of this device or of all devices."""
        self.steps += steps
        self.work.steps += steps
        if self.work.steps > MAX_STEPS:
            raise _too_many(MAX_STEPS, "all devices")
        if self.steps > MAX_DEVICE_STEPS:
            raise _too_many(MAX_DEVICE_STEPS, "one device")

    @property
    def driver(self) -> str:
        return self.device.driver

    @property
    def shareable(self) -> bool:
        return self.device.raw.get("allowMultipleAllocations") is True

    def read(self, ref: Ref) -> Any:
        """Return one attribute or capacity, or `MISSING`."""
        part, domain, name = ref
        entry = lookup(self.device.raw.get(part) or {}, self.device.driver, domain, name)
        return MISSING if entry is None else READ[part](entry)

    def domains(self, part: str) -> Domains:
        """Return all attributes or all capacities."""
        cached = self._domains.get(part)
        if cached is None:
            by_domain: dict[str, dict[str, Any]] = {}
            for full, entry in (self.device.raw.get(part) or {}).items():
                domain, name = qualified(self.device.driver, full)
                by_domain.setdefault(domain, {})[name] = READ[part](entry)
            cached = Domains({domain: Names(named) for domain, named in by_domain.items()})
            self._domains[part] = cached
        return cached

    def field(self, name: str) -> Any:
        """Return a field of the variable."""
        return self.domains(name)

    def whole(self) -> Map:
        """Return the variable itself."""
        return Names(
            {
                "driver": self.driver,
                "allowMultipleAllocations": self.shareable,
                "attributes": self.domains("attributes"),
                "capacity": self.domains("capacity"),
            }
        )


type Run = Callable[[list[Any]], Any]


class CompiledPart(NamedTuple):
    """What evaluates a part of an expression; `constant` if it needs no device for it."""

    run: Run
    constant: bool = False


def fixed(value: Any) -> CompiledPart:
    return CompiledPart(lambda _frame: value, constant=True)


def reference(node: Expression) -> tuple[Ref, bool] | None:
    """Return what `device.attributes["domain"].name` reads, and whether as an optional; else None."""
    match node:
        case Select(operand=operand, name=name):
            optional = False
        case Call(function="_[_]" | "_[?_]" | "_?._" as function, args=[operand, Literal(value=str(name))]):
            optional = function != "_[_]"
        case _:
            return None
    domain = _domain(operand)
    return ((domain[0], domain[1], name), optional) if domain else None


def table(node: Expression) -> str:
    """Return "attributes" or "capacity" of `device.attributes` and `device.capacity`; "" of anything else."""
    match node:
        case Select(
            operand=Ident(name="device" | ".device"), name="attributes" | "capacity" as part, test=False
        ):
            return part
    return ""


def _domain(node: Expression) -> tuple[str, str] | None:
    match node:
        case Select(operand=operand, name=name, test=False):
            pass
        case Call(function="_[_]", args=[operand, Literal(value=str(name))]):
            pass
        case _:
            return None
    part = table(operand)
    return (part, name) if part else None


def path(node: Expression) -> Run | None:
    """Return what reads one thing of the device at once; None if the node is something else."""
    match node:
        case Select(operand=Ident(name="device" | ".device"), name=name, test=False):
            return _field(name)
    read_reference = reference(node)
    if read_reference is None:
        return None
    ref, optional = read_reference
    if isinstance(node, Select) and node.test:
        return lambda frame: frame[0].read(ref) is not MISSING
    if optional:
        return lambda frame: NONE if (value := frame[0].read(ref)) is MISSING else some(value)

    def run(frame: list[Any]) -> Any:
        value = frame[0].read(ref)
        if value is MISSING:
            raise Failure(f"no such key: {ref[2]}")
        return value

    return run


def _field(name: str) -> Run:
    if name == "driver":
        return lambda frame: frame[0].driver
    if name == "allowMultipleAllocations":
        return lambda frame: frame[0].shareable
    return lambda frame: frame[0].field(name)


def select(operand: Run, name: str) -> Run:
    return index(operand, lambda _frame: name, optional=False)


def present(operand: Run, name: str) -> Run:
    """Return has()."""

    def run(frame: list[Any]) -> bool:
        value = operand(frame)
        if type(value) is Optional:
            return value.present and _find(value.value, name)[1]
        return _find(value, name)[1]

    return run


def index(operand: Run, key: Run, *, optional: bool) -> Run:
    """Return `operand[key]`; an optional operand, or `[?key]`, gives an optional value."""

    def run(frame: list[Any]) -> Any:
        value = operand(frame)
        if type(value) is Optional:
            if not value.present:
                return NONE
            return _maybe(value.value, key(frame))
        if optional:
            return _maybe(value, key(frame))
        name = key(frame)
        item, there = _find(value, name)
        if there:
            return item
        key_text = str(name).lower() if type(name) is bool else name
        raise Failure(
            f"index out of bounds: {key_text}" if type(value) is list else f"no such key: {key_text}"
        )

    return run


def _maybe(value: Any, key: Any) -> Optional:
    item, there = _find(value, key)
    return some(item) if there else NONE


def _find(value: Any, key: Any) -> tuple[Any, bool]:
    """Return an entry and whether it is there; what is neither map nor list has none."""
    if isinstance(value, Map):
        return value.find(key)
    if type(value) is not list:
        return None, False
    index = _whole(key)
    return (value[index], True) if 0 <= index < len(value) else (None, False)


def _whole(key: Any) -> int:
    if type(key) is int or type(key) is Uint:
        return int(key)
    if type(key) is float:
        if key.is_integer():
            return int(key)
        raise Failure(f"unsupported index value {key} in list")
    raise Failure(f"unsupported index type '{type_of(key).name}' in list")
