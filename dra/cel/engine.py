"""
The only code that touches `cel_expr_python`, the C++ implementation by CEL's authors.

`device` is four variables with dots in their names, which CEL resolves as fields of an object: so an unknown
field or a comparison of a map does not compile, as upstream. Quantities and versions travel as one-entry maps
`{kind: text}` of a type that nothing else has: the library takes plain values and protobuf messages only, and
two message overloads of one method name (`compareTo`) collide at run time, hence one type for both. Their
text is a normal form, since CEL compares maps by content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from dra.cel.errors import CompileError, NotPreviewable
from dra.quantity import Quantity, QuantityError
from dra.semver import Version, VersionError

QUANTITY, SEMVER = 1, 2
INT64 = range(-(2**63), 2**63)
# Of the libraries that Kubernetes adds and this one lacks: sets, lists, regex, URL, IP, CIDR, format, and
# comprehensions with two variables (apiserver `pkg/cel/environment/base.go`).
MISSING = frozenset(
    (
        "sets",
        "find",
        "findAll",
        "isSorted",
        "sum",
        "min",
        "max",
        "includes",
        "isURL",
        "url",
        "getScheme",
        "getHost",
        "getHostname",
        "getPort",
        "getEscapedPath",
        "getQuery",
        "ip",
        "isIP",
        "cidr",
        "isCIDR",
        "containsIP",
        "containsCIDR",
        "prefixLength",
        "masked",
        "family",
        "isUnspecified",
        "isLoopback",
        "isLinkLocalMulticast",
        "isLinkLocalUnicast",
        "isGlobalUnicast",
        "format",
        "validate",
        "transformList",
        "transformMap",
        "transformMapEntry",
        "all",
        "exists",
        "existsOne",
        "exists_one",
        "slice",
        "flatten",
        "distinct",
        "sort",
        "sortBy",
        "device",
    )
)
UNDECLARED = re.compile(r"undeclared reference to '([^']+)'")
ON_LIST = re.compile(
    r"no matching overload for '(?:indexOf|lastIndexOf|isSorted|sum|min|max)' applied to '\(?list"
)
PLACE = re.compile(r"ERROR: <input>:(\d+):(\d+): (.+)")
CODE = re.compile(r"^[A-Z_]+: | \[[A-Z_]+\]$")

type Carried = Mapping[int, str]


class Value(NamedTuple):
    """The result of an evaluation, an error included."""

    result: Any
    error: str  # "" if there is none
    missing_key: bool = False
    exhausted: bool = False  # it took too many iterations, of which the cluster may allow more


def carry(value: Any) -> Any:
    """Turn a value of `dra.facts` into what the library takes."""
    if isinstance(value, Quantity):
        return {QUANTITY: str(value.nano)}
    if isinstance(value, Version):
        return {SEMVER: str(value).partition("+")[0]}
    if isinstance(value, list):
        return [carry(item) for item in value]
    return value


def _read(carried: Carried) -> Quantity | Version:
    ((kind, text),) = carried.items()
    return Quantity(int(text)) if kind == QUANTITY else Version.parse(text)


def _quantity(carried: Carried) -> Quantity:
    value = _read(carried)
    if not isinstance(value, Quantity):
        raise TypeError("no such overload: this takes a quantity, not a version")
    return value


def _version(carried: Carried) -> Version:
    value = _read(carried)
    if not isinstance(value, Version):
        raise TypeError("no such overload: this takes a version, not a quantity")
    return value


def _compare(left: Carried, right: Carried) -> int:
    one, other = _read(left), _read(right)
    if isinstance(one, Quantity) and isinstance(other, Quantity):
        return (one > other) - (one < other)
    if isinstance(one, Version) and isinstance(other, Version):
        return (one > other) - (one < other)
    raise TypeError("no such overload: a quantity cannot be compared with a version")


def _is_quantity(text: str) -> bool:
    try:
        Quantity.parse(text)
    except QuantityError:
        return False
    return True


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002 - CEL passes it by place
    try:
        Version.parse(text, normalize)
    except VersionError:
        return False
    return True


def _as_integer(carried: Carried) -> int:
    value = _quantity(carried)
    if not value.whole or value.bytes not in INT64:
        raise ValueError(f"cannot convert value to integer: {value}")
    return value.bytes


def _add(left: Carried, right: Carried | int) -> Any:
    return carry(_quantity(left) + (Quantity.of(right) if isinstance(right, int) else _quantity(right)))


def _subtract(left: Carried, right: Carried | int) -> Any:
    return carry(_quantity(left) - (Quantity.of(right) if isinstance(right, int) else _quantity(right)))


def _function(
    name: str, result: Any, *overloads: list[Any], impl: Callable[..., Any], member: bool = False
) -> Any:
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(f"k8s_{name}_{place}", result, parameters, is_member=member, impl=impl)
            for place, parameters in enumerate(overloads)
        ],
    )


def _environment() -> Any:
    text, flag, number, amount = (
        cel.Type.STRING,
        cel.Type.BOOL,
        cel.Type.INT,
        cel.Type.Map(cel.Type.INT, cel.Type.STRING),
    )
    functions = [
        _function("quantity", amount, [text], impl=lambda s: carry(Quantity.parse(s))),
        _function("isQuantity", flag, [text], impl=_is_quantity),
        _function(
            "semver", amount, [text], [text, flag], impl=lambda s, loose=False: carry(Version.parse(s, loose))
        ),
        _function("isSemver", flag, [text], [text, flag], impl=_is_semver),
        _function("compareTo", number, [amount, amount], impl=_compare, member=True),
        _function("isGreaterThan", flag, [amount, amount], impl=lambda a, b: _compare(a, b) > 0, member=True),
        _function("isLessThan", flag, [amount, amount], impl=lambda a, b: _compare(a, b) < 0, member=True),
        _function("asInteger", number, [amount], impl=_as_integer, member=True),
        _function("isInteger", flag, [amount], impl=lambda a: _quantity(a).whole, member=True),
        _function(
            "asApproximateFloat",
            cel.Type.DOUBLE,
            [amount],
            impl=lambda a: _quantity(a).nano / 1e9,
            member=True,
        ),
        _function(
            "sign",
            number,
            [amount],
            impl=lambda a: (_quantity(a).nano > 0) - (_quantity(a).nano < 0),
            member=True,
        ),
        _function("add", amount, [amount, amount], [amount, number], impl=_add, member=True),
        _function("sub", amount, [amount, amount], [amount, number], impl=_subtract, member=True),
        _function("major", number, [amount], impl=lambda a: _version(a).major, member=True),
        _function("minor", number, [amount], impl=lambda a: _version(a).minor, member=True),
        _function("patch", number, [amount], impl=lambda a: _version(a).patch, member=True),
    ]
    attributes = cel.Type.Map(text, cel.Type.Map(text, cel.Type.DYN))
    capacity = cel.Type.Map(text, cel.Type.Map(text, amount))
    variables = {
        "device.driver": text,
        "device.allowMultipleAllocations": flag,
        "device.attributes": attributes,
        "device.attributesOrNone": attributes,
        "device.capacity": capacity,
        "device.capacityOrNone": capacity,
    }
    extensions = [ext_bindings.ExtBindings(), ext_optional.ExtOptional(), ext_strings.ExtStrings()]
    return cel.NewEnv(None, variables=variables, extensions=extensions, functions=functions)


ENVIRONMENT = _environment()


def compile_program(expression: str, rewritten: str) -> Any:
    """
    Return the program of `rewritten`; the messages of a `CompileError` speak of `expression`.

    Raise `NotPreviewable` where the expression is lost on this library but may be right upstream.
    """
    try:
        program = ENVIRONMENT.compile(expression)
        if program.return_type().name() not in ("BOOL", "DYN"):
            raise CompileError("The expression must evaluate to true or false.")
        return ENVIRONMENT.compile(rewritten)
    except RuntimeError as error:
        raise _explain(str(error)) from None


def _explain(message: str) -> CompileError | NotPreviewable:
    if "limit exceeded" in message:
        return NotPreviewable(
            "The expression is nested more deeply than this portal allows; a cluster decides."
        )
    unknown = MISSING.intersection(UNDECLARED.findall(message))
    if unknown or ON_LIST.search(message):
        what = " and ".join(sorted(unknown)) or "functions of lists"
        return NotPreviewable(f"The expression uses {what}, which only a cluster can evaluate.")
    places = [f"line {line}, column {column}: {text}" for line, column, text in PLACE.findall(message)]
    said = "; ".join(places) or CODE.sub("", message)
    return CompileError(said.replace("map(int, string)", "quantity or version"))


def evaluate(program: Any, variables: Mapping[str, Any]) -> Value:
    """Run a program."""
    try:
        outcome = program.eval(data={f"device.{name}": value for name, value in variables.items()})
        value = outcome.value()
        failed = outcome.type().name() == "ERROR"
    except RuntimeError as error:
        value, failed = error, True
    if not failed:
        return Value(value, "")
    message = CODE.sub("", str(value))
    return Value(None, message, "Key not found in map" in message, "budget exceeded" in message)
