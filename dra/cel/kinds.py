"""The types of CEL and how they fit one another (cel-go `checker/types.go`)."""

from __future__ import annotations

from typing import NamedTuple


class Type(NamedTuple):
    """`kind` decides how types fit; `name` tells opaque types, messages and type parameters apart."""

    kind: str
    name: str
    parameters: tuple[Type, ...] = ()

    def __str__(self) -> str:
        if not self.parameters:
            return self.name
        return f"{self.name}({', '.join(map(str, self.parameters))})"


def list_of(element: Type) -> Type:
    return Type("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return Type("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return Type("opaque", "optional_type", (value,))


def type_of_type(of: Type) -> Type:
    return Type("type", "type", (of,))


def parameter(name: str) -> Type:
    return Type("parameter", name)


ERROR = Type("error", "!error!")
DYN, ANY, NULL = Type("dyn", "dyn"), Type("any", "any"), Type("null", "null")
BOOL, INT, UINT, DOUBLE = (Type(name, name) for name in ("bool", "int", "uint", "double"))
STRING, BYTES = Type("string", "string"), Type("bytes", "bytes")
TIMESTAMP, DURATION = Type("timestamp", "timestamp"), Type("duration", "duration")
TYPE = Type("type", "type")
QUANTITY, SEMVER = Type("message", "kubernetes.Quantity"), Type("message", "kubernetes.Semver")
URL, FORMAT = Type("message", "kubernetes.URL"), Type("message", "kubernetes.NamedFormat")
IP, CIDR = Type("opaque", "net.IP"), Type("opaque", "net.CIDR")
DEVICE = Type("message", "kubernetes.DRADevice")
SCALARS = frozenset(("bool", "int", "uint", "double", "string", "bytes"))
NULLABLE = frozenset(("opaque", "message", "any", "duration", "timestamp"))
NESTED = frozenset(("opaque", "list", "map"))

type Bindings = dict[Type, Type]


def is_dyn(one: Type) -> bool:
    return one.kind in ("dyn", "any")


def loose(one: Type) -> bool:
    return one.kind in ("dyn", "any", "error")


def unwrapped(one: Type) -> tuple[Type, bool]:
    """Return what an optional type holds, and whether it was optional."""
    return (one.parameters[0], True) if one.name == "optional_type" else (one, False)


def substitute(bound: Bindings, one: Type, *, free_to_dyn: bool = False) -> Type:
    """Replace type parameters by what is known of them."""
    while (known := bound.get(one)) is not None:
        one = known
    if one.kind == "parameter":
        return DYN if free_to_dyn else one
    if not one.parameters:
        return one
    parts = tuple(substitute(bound, part, free_to_dyn=free_to_dyn) for part in one.parameters)
    return one._replace(parameters=parts)


def fit_all(bound: Bindings, given: list[Type], wanted: list[Type]) -> Bindings | None:
    """Return `bound` with what follows from `given` being assignable to `wanted`; None if it is not."""
    tried = dict(bound)
    if len(given) == len(wanted) and all(_fits(tried, *pair) for pair in zip(given, wanted, strict=True)):
        return tried
    return None


def more_general(one: Type, other: Type) -> Type:
    """Return the more general of two types that fit."""
    return one if _less_specific(one, other) else other


def equivalent(one: Type, other: Type) -> bool:
    """Say whether two types are the same but for the names of their parameters."""
    if one.kind == "parameter" or other.kind == "parameter":
        return one.kind == other.kind
    if one.kind != other.kind or one.name != other.name or len(one.parameters) != len(other.parameters):
        return False
    return all(map(equivalent, one.parameters, other.parameters))


def _fits(bound: Bindings, one: Type, other: Type) -> bool:
    if other.kind == "parameter":
        valid, known = _substitutes(bound, one, other)
        if valid or known:
            return valid
    if one.kind == "parameter":
        return _substitutes(bound, other, one)[0]
    if loose(one) or loose(other):
        return True
    if one.kind == "null":
        return other.kind == "null" or other.kind in NULLABLE
    if other.kind == "null":
        return one.kind in NULLABLE
    if one.kind == "type":
        return other.kind == "type"
    if one.kind != other.kind or one.name != other.name:
        return False
    if one.kind in NESTED:
        return len(one.parameters) == len(other.parameters) and all(
            _fits(bound, *pair) for pair in zip(one.parameters, other.parameters, strict=True)
        )
    return True


def _substitutes(bound: Bindings, one: Type, free: Type) -> tuple[bool, bool]:
    """Say whether `one` can stand for the parameter `free`, and whether something already does."""
    if one == free:
        return True, True
    known = bound.get(free)
    if known is not None:
        if one == known:
            return True, True
        if _fits(bound, one, known):
            general = more_general(one, known)
            if _apart(bound, free, general):
                bound[free] = general
            return True, True
        return False, True
    if _apart(bound, free, one):
        bound[free] = one
        return True, False
    return False, False


def _apart(bound: Bindings, free: Type, within: Type) -> bool:
    """Say that `free` does not occur in `within`: a type must not contain itself."""
    if free == within:
        return False
    if within.kind == "parameter":
        known = bound.get(within)
        return known is None or _apart(bound, free, known)
    return all(_apart(bound, free, part) for part in within.parameters)


def _less_specific(one: Type, other: Type) -> bool:
    if is_dyn(one) or one.kind == "parameter":
        return True
    if is_dyn(other) or other.kind == "parameter" or one.kind != other.kind:
        return False
    if one.kind == "type":
        return True
    if one.kind in NESTED:
        same = one.name == other.name and len(one.parameters) == len(other.parameters)
        return same and all(map(_less_specific, one.parameters, other.parameters))
    return one == other
