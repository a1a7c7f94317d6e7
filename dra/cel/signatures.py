"""The functions that a selector may call, by their signatures."""

from __future__ import annotations

import re
from typing import NamedTuple

from dra.cel import kinds
from dra.cel.declarations import EXTENSIONS, STANDARD
from dra.cel.kinds import Type

COMPARED = ("bool", "int", "uint", "double", "string", "bytes", "timestamp", "duration")
SORTED = ("int", "uint", "double", "bool", "duration", "timestamp", "string", "bytes")
CROSSED = (
    ("int", "double"),
    ("int", "uint"),
    ("uint", "double"),
    ("uint", "int"),
    ("double", "int"),
    ("double", "uint"),
)
RELATIONS = {"_<_": "less", "_<=_": "less_equals", "_>_": "greater", "_>=_": "greater_equals"}
LONG = {"int": "int64", "uint": "uint64"}

LIST_TYPE_ATTRIBUTES = "includes .list_includes_dyn_dyn(dyn, dyn) bool"

NAMED = {
    one.name: one
    for one in (
        *(kinds.DYN, kinds.BOOL, kinds.INT, kinds.UINT, kinds.DOUBLE, kinds.STRING, kinds.BYTES),
        *(kinds.TIMESTAMP, kinds.DURATION, kinds.QUANTITY, kinds.SEMVER, kinds.IP, kinds.CIDR),
    )
}
WORD = re.compile(r"[\w.]+|[(),]")


class Overload(NamedTuple):
    """One signature of a function. A method takes what stands before the dot as its first parameter."""

    function: str
    name: str
    method: bool
    parameters: tuple[Type, ...]
    result: Type
    free: tuple[str, ...]  # its type parameters


def _overload(line: str) -> Overload:
    function, _, signature = line.partition(" ")
    name, _, rest = signature.partition("(")
    words = WORD.findall(f"({rest}")
    parameters, at = _types(words, 0)
    result, _ = _type(words, at)
    free = dict.fromkeys(word for word in words if len(word) == 1 and word.isupper())
    return Overload(function, name.lstrip("."), name.startswith("."), tuple(parameters), result, tuple(free))


def _types(words: list[str], at: int) -> tuple[list[Type], int]:
    """Read `(type, type)`; return the types and where to go on."""
    found: list[Type] = []
    at += 1
    while words[at] != ")":
        one, at = _type(words, at)
        found.append(one)
        at += words[at] == ","
    return found, at + 1


def _type(words: list[str], at: int) -> tuple[Type, int]:
    word, at = words[at], at + 1
    inner: list[Type] = []
    if at < len(words) and words[at] == "(":
        inner, at = _types(words, at)
    if len(word) == 1:
        return kinds.parameter(word), at
    if not inner:
        return NAMED[word], at
    kind = "opaque" if word == "optional_type" else word
    return Type(kind, word, tuple(inner)), at


def _relations() -> list[str]:
    lines = []
    for function, name in RELATIONS.items():
        lines += [f"{function} {name}_{LONG.get(one, one)}({one}, {one}) bool" for one in COMPARED]
        lines += [
            f"{function} {name}_{LONG.get(one, one)}_{LONG.get(other, other)}({one}, {other}) bool"
            for one, other in CROSSED
        ]
    return lines


def _of_lists() -> list[str]:
    lines = [f"sum .list_{one}_sum_{one}(list({one})) {one}" for one in ("int", "uint", "double", "duration")]
    for one in SORTED:
        lines += [
            f"isSorted .list_{one}_is_sorted_bool(list({one})) bool",
            f"max .list_{one}_max_{one}(list({one})) {one}",
            f"min .list_{one}_min_{one}(list({one})) {one}",
            f"sort .list_{one}_sort(list({one})) list({one})",
            f"@sortByAssociatedKeys .list_{one}_sortByAssociatedKeys(list(T), list({one})) list(T)",
        ]
    return lines


def _functions(*tables: str) -> dict[str, list[Overload]]:
    lines = [line for table in tables for line in table.strip().splitlines()] + _relations() + _of_lists()
    found: dict[str, list[Overload]] = {}
    for line in lines:
        overload = _overload(line)
        found.setdefault(overload.function, []).append(overload)
    return found


FUNCTIONS = _functions(STANDARD, EXTENSIONS)
WITH_LISTS = _functions(STANDARD, EXTENSIONS, LIST_TYPE_ATTRIBUTES)
OVERLOADS = {one.name: one for overloads in WITH_LISTS.values() for one in overloads}
# Times, string formats, URLs and named formats exist upstream; nothing of a device is made of them. Functions
# that need an `authorizer` exist too, but no selector has one.
NOT_HERE = frozenset(
    (
        *("timestamp", "duration", "getFullYear", "getMonth", "getDayOfYear", "getDayOfMonth", "getDate"),
        *("getDayOfWeek", "getHours", "getMinutes", "getSeconds", "getMilliseconds", "format", "validate"),
        *("url", "isURL", "getScheme", "getHost", "getHostname", "getPort", "getEscapedPath", "getQuery"),
        *(
            "path",
            "group",
            "serviceAccount",
            "resource",
            "subresource",
            "namespace",
            "name",
            "check",
            "allowed",
        ),
        *("reason", "errored", "error", "fieldSelector", "labelSelector"),
    )
)
