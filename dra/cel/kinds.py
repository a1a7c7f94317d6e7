"""The types of CEL and their assignability (cel-go `checker/types.go`)."""

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


def more_general(left: Type, right: Type) -> Type:
    """Return the more general of two types that fit."""
    return left if _less_specific(left, right) else right


def equivalent(left: Type, right: Type) -> bool:
    """Say whether two types are the same but for the names of their parameters."""
    if left.kind == "parameter" or right.kind == "parameter":
        return left.kind == right.kind
    if left.kind != right.kind or left.name != right.name or len(left.parameters) != len(right.parameters):
        return False
    return all(map(equivalent, left.parameters, right.parameters))


def _fits(bound: Bindings, left: Type, right: Type) -> bool:
    if right.kind == "parameter":
        valid, known = _substitutes(bound, left, right)
        if valid or known:
            return valid
    if left.kind == "parameter":
        return _substitutes(bound, right, left)[0]
    if loose(left) or loose(right):
        return True
    if left.kind == "null":
        return right.kind == "null" or right.kind in NULLABLE
    if right.kind == "null":
        return left.kind in NULLABLE
    if left.kind == "type":
        return right.kind == "type"
    if left.kind != right.kind or left.name != right.name:
        return False
    if left.kind in NESTED:
        return len(left.parameters) == len(right.parameters) and all(
            _fits(bound, *pair) for pair in zip(left.parameters, right.parameters, strict=True)
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


def _less_specific(left: Type, right: Type) -> bool:
    if is_dyn(left) or left.kind == "parameter":
        return True
    if is_dyn(right) or right.kind == "parameter" or left.kind != right.kind:
        return False
    if left.kind == "type":
        return True
    if left.kind in NESTED:
        same = left.name == right.name and len(left.parameters) == len(right.parameters)
        return same and all(map(_less_specific, left.parameters, right.parameters))
    return left == right
