"""
The standard functions of CEL: operators and type conversions (cel-go `common/types/*.go`, Go's strconv), and
optional values (cel-go `cel/library.go`). What Kubernetes adds to CEL is in `kubernetes_functions`.

`OPERATORS` are for values of any type, by function name; the others for the types of one overload, by its ID.
`dra.cel.program` has or() and orValue().
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from dra.cel import values
from dra.cel.values import (
    INT64,
    NONE,
    UINT64,
    Failure,
    Map,
    Optional,
    TypeValue,
    Uint,
    compare,
    is_equal,
    no_overload,
    some,
    type_of,
)

CONCATENATED = frozenset((str, bytes, list))


def checked(value: int, kind: type) -> int:
    """Return a result that fits its 64 bits. Raise `Failure` if it does not."""
    if kind is Uint:
        if value not in UINT64:
            raise Failure("unsigned integer overflow")
        return Uint(value)
    if value not in INT64:
        raise Failure("integer overflow")
    return value


def _add(left: Any, right: Any) -> Any:
    kind = type(left)
    if kind is not type(right):
        raise no_overload()
    if kind in CONCATENATED or kind is float:
        return left + right
    return _whole(left, right, lambda a, b: a + b)


def _subtract(left: Any, right: Any) -> Any:
    if type(left) is type(right) is float:
        return left - right
    return _whole(left, right, lambda a, b: a - b)


def _multiply(left: Any, right: Any) -> Any:
    if type(left) is type(right) is float:
        return left * right
    return _whole(left, right, lambda a, b: a * b)


def _divide(left: Any, right: Any) -> Any:
    if type(left) is type(right) is float:
        return _divided(left, right)
    return _whole(left, right, _quotient)


def _divided(left: float, right: float) -> float:
    if right:
        return left / right
    if not left or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


def _quotient(left: int, right: int) -> int:
    """Divide as machines do: towards zero."""
    if not right:
        raise Failure("division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) is (right < 0) else -1)


def _modulo(left: Any, right: Any) -> Any:
    return _whole(left, right, _remainder)


def _remainder(left: int, right: int) -> int:
    if not right:
        raise Failure("modulus by zero")
    if left == INT64[0] and right == -1:
        raise Failure("integer overflow")
    return abs(left) % abs(right) * (-1 if left < 0 else 1)


def _whole(left: Any, right: Any, work: Callable[[int, int], int]) -> int:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise no_overload()
    return checked(work(int(left), int(right)), kind)


def _negate(value: Any) -> Any:
    if type(value) is float:
        return -value
    if type(value) is not int:
        raise no_overload()
    return checked(-value, int)


def _not(value: Any) -> bool:
    if type(value) is not bool:
        raise no_overload()
    return not value


def _in(element: Any, among: Any) -> bool:
    if type(among) is list:
        return any(is_equal(element, item) for item in among)
    if isinstance(among, Map):
        return element in among
    raise no_overload()


def size(value: Any) -> int:
    """Count the code points, bytes, elements or entries."""
    if type(value) in CONCATENATED or isinstance(value, Map):
        return len(value)
    raise no_overload("size", value)


def _matches(text: Any, pattern: Any) -> bool:
    if type(text) is not str or type(pattern) is not str:
        raise no_overload()
    return values.use(pattern).search(text) is not None


def _flatten(nested: Any, depth: Any = 1) -> list[Any]:
    if type(nested) is not list or type(depth) is not int:
        raise no_overload("flatten", nested)
    if depth < 0:
        raise Failure("level must be non-negative")
    flat: list[Any] = []
    for item in nested:
        if type(item) is list and depth:
            flat += _flatten(item, depth - 1)
        else:
            flat.append(item)
    return flat


def _text_test(test: Callable[[str, str], bool]) -> Callable[[Any, Any], bool]:
    def run(text: Any, part: Any) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_overload()
        return test(text, part)

    return run


def _sorted(items: Any) -> list[Any]:
    return sorted_by(items, items)


def sorted_by(items: Any, keys: Any) -> list[Any]:
    """Return a list in the order of its keys."""
    if type(items) is not list or type(keys) is not list:
        raise no_overload()
    if not keys:
        return list(items)
    kind = type(keys[0])
    if kind not in (bool, int, Uint, float, str, bytes):
        raise Failure("list elements must be comparable")
    if any(type(key) is not kind for key in keys):
        raise Failure("list elements must have the same type")
    return [items[index] for index in sorted(range(len(items)), key=keys.__getitem__)]


def _type(value: Any) -> TypeValue:
    return TypeValue(type_of(value).name)


def _dyn(value: Any) -> Any:
    return value


def insert(into: Map, *given: Any) -> Map:
    """Return a map with an entry, or the entries of another map, added."""
    return insert_in_place(Map({name: into.find(name)[0] for name in into}), *given)


def insert_in_place(into: Map, *given: Any) -> Map:
    entries = [given] if len(given) == 2 else [(name, given[0].find(name)[0]) for name in given[0]]
    for name, value in entries:
        if name in into:
            raise Failure(f"insert failed: key {name} already exists")
        into.put(name, value)
    return into


def extend_in_place(into: list[Any], more: Any) -> list[Any]:
    into += more
    return into


def non_zero(value: Any) -> Optional:
    """Return an optional that is empty for null, false, 0, "" and empty lists and maps."""
    zero = value is None or (type(value) in (bool, int, Uint, float, str, bytes, list) and not value)
    return NONE if zero or (isinstance(value, Map) and not len(value)) else some(value)


OPERATORS: dict[str, Callable[..., Any]] = {
    "!_": _not,
    "-_": _negate,
    "_+_": _add,
    "_-_": _subtract,
    "_*_": _multiply,
    "_/_": _divide,
    "_%_": _modulo,
    "_<_": lambda left, right: compare(left, right) < 0,
    "_<=_": lambda left, right: compare(left, right) <= 0,
    "_>_": lambda left, right: compare(left, right) > 0,
    "_>=_": lambda left, right: compare(left, right) >= 0,
    "@in": _in,
    "size": size,
    "type": _type,
    "dyn": _dyn,
    "matches": _matches,
    "contains": _text_test(lambda text, part: part in text),
    "startsWith": _text_test(str.startswith),
    "endsWith": _text_test(str.endswith),
    "flatten": _flatten,
    "sort": _sorted,
    "@sortByAssociatedKeys": sorted_by,
    "cel.@mapInsert": insert,
}


def _value(of: Optional) -> Any:
    if not of.present:
        raise Failure("optional.none() dereference")
    return of.value


def _unwrap(optionals: list[Optional]) -> list[Any]:
    return [optional.value for optional in optionals if optional.present]


OPTIONAL_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "optional_of": some,
    "optional_ofNonZeroValue": non_zero,
    "optional_none": lambda: NONE,
    "optional_value": _value,
    "optional_hasValue": lambda of: of.present,
    "list_first": lambda items: some(items[0]) if items else NONE,
    "list_last": lambda items: some(items[-1]) if items else NONE,
    "optional_unwrap": _unwrap,
    "optional_unwrapOpt": _unwrap,
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


CONVERSIONS: dict[str, Callable[..., Any]] = {
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
