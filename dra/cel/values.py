"""
Values at run time: which Python type represents which CEL type, equality and order (cel-go `common/types`).

bool, int, float, str, bytes, None and list represent themselves; uint is `Uint`, a quantity `Amount`, a
version `dra.attributes.Version`. Errors raise `Failure` with upstream's message. Regular expressions use RE2,
like upstream, so that matching takes linear time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import Any, NamedTuple

import re2

from dra.attributes import Version
from dra.cel import types
from dra.cel.types import Type
from dra.quantity import NANO, Quantity, QuantityError, quantity_form

LARGEST = 2**63
DIGITS = frozenset("0123456789")


class Amount(NamedTuple):
    """
    An amount in nano-units.

    `kept` is (value, power of ten) where upstream keeps a 64-bit number, None for a decimal. 1000m is no
    integer there, and neither is 100Ti, which has too many digits. `computed` marks sums and differences:
    upstream holds them by pointer, and nothing equals a pointer on the right of `==`.
    """

    nano: int
    kept: tuple[int, int] | None
    computed: bool = False

    @property
    def integer(self) -> int | None:
        """Return the whole number that asInteger() gives; None if it fails."""
        if self.kept is None or self.kept[1] < 0:
            return None
        value = self.kept[0] * 10 ** self.kept[1]
        return value if -LARGEST <= value < LARGEST else None

    @property
    def approximate(self) -> float:
        if self.kept is None:
            return self.nano / NANO
        return float(self.kept[0]) * 10.0 ** self.kept[1]

    def plus(self, other: Amount) -> Amount:
        return _computed(self.nano + other.nano, _sum(self.kept, other.kept))

    def minus(self, other: Amount) -> Amount:
        negated = other.kept and (
            other.kept[0] if other.kept[0] == -LARGEST else -other.kept[0],
            other.kept[1],
        )
        return _computed(self.nano - other.nano, _sum(self.kept, negated))


def _computed(nano: int, kept: tuple[int, int] | None) -> Amount:
    """Return a result; what upstream keeps counts, which is off where the least number was negated."""
    return Amount(kept[0] * 10 ** (kept[1] + 9) if kept else nano, kept, computed=True)


@lru_cache(maxsize=4096)
def amount(text: str) -> Amount:
    """
    Read a quantity. Raise `dra.quantity.QuantityError` if it is none.

    Upstream takes a bare sign, point or suffix for zero of it: "k" is 0k.
    """
    sign, rest = (text[0], text[1:]) if text[:1] in ("+", "-") else ("", text)
    bare = bool(text) and rest[:1] not in DIGITS
    try:
        form = quantity_form(f"{sign}0{rest}" if bare else text)
    except QuantityError:
        Quantity.parse(text)  # raises, too, and speaks of the text as it was written
        raise
    return Amount(Quantity.parse(f"{sign}0{rest}" if bare else text).nano, form and (form.value, form.scale))


@lru_cache(maxsize=4096)
def version(text: str, normalize: bool = False) -> Version:  # noqa: FBT001, FBT002 - CEL passes it by place
    """Read a version. Raise `dra.attributes.VersionError` if it is none."""
    return Version.parse(text, normalize)


def whole(number: int) -> Amount:
    return Amount(number * NANO, (number, 0))


def _sum(left: tuple[int, int] | None, right: tuple[int, int] | None) -> tuple[int, int] | None:
    """Add two kept numbers at the finer power of ten; None where upstream would go over to a decimal."""
    if left is None or right is None:
        return None
    if not left[0] or not right[0]:
        return left if not right[0] else right
    power = min(left[1], right[1])
    parts = [value * 10 ** (its - power) for value, its in (left, right)]
    if all(-LARGEST <= part < LARGEST for part in (*parts, sum(parts))):
        return sum(parts), power
    return None


KEPT = 512
REASONS = {  # RE2's words and Go's
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
}
OPTIONS = re2.Options()
OPTIONS.log_errors = False


@lru_cache(maxsize=KEPT)
def compiled(pattern: str) -> Any:
    """Return a pattern. Raise `re2.error` if it is none."""
    return re2.compile(pattern, OPTIONS)


def use(pattern: str) -> Any:
    """Return a pattern. Raise `Failure` if it is none."""
    try:
        return compiled(pattern)
    except re2.error as error:
        reason, _, part = error.args[0].decode().rpartition(": ")
        raise Failure(f"error parsing regexp: {REASONS.get(reason, reason)}: `{part}`") from error


def find(text: str, pattern: str) -> str:
    match = use(pattern).search(text)
    return match[0] if match else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the matches, at most `limit` of them; all if it is negative."""
    matches: list[str] = []
    last = -1  # Go skips an empty match that touches the match before it
    for match in use(pattern).finditer(text):
        if limit >= 0 and len(matches) >= limit:
            break
        if match.start() == match.end() == last:
            continue
        matches.append(match[0])
        last = match.end()
    return matches


INT64, UINT64 = range(-(2**63), 2**63), range(2**64)


class Failure(Exception):
    """An evaluation went wrong; the message is upstream's. `&&` and `||` may do without the value."""


class Panic(Exception):
    """Upstream's evaluator broke down: unlike a `Failure` this ends the evaluation whatever is around it."""


class Uint(int):
    """An unsigned number of 64 bits."""

    __slots__ = ()


class Optional(NamedTuple):
    """`present` tells a value that is null from no value."""

    present: bool
    value: Any = None


NONE = Optional(present=False)


def some(value: Any) -> Optional:
    return Optional(present=True, value=value)


class Address(NamedTuple):
    ip: IPv4Address | IPv6Address

    def __str__(self) -> str:
        return str(self.ip)


class Prefix(NamedTuple):
    """An address with the length of its network prefix; the bits after it are kept."""

    ip: IPv4Address | IPv6Address
    bits: int

    def __str__(self) -> str:
        return f"{self.ip}/{self.bits}"


class NamedFormat(NamedTuple):
    """A named format of texts, by its name in `format.<name>()`."""

    name: str


class TypeValue(NamedTuple):
    """What type() gives; types are told apart by name alone."""

    name: str


class Map:
    """A map; bool keys are kept apart from the numbers that Python takes them for."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Mapping[Any, Any] | None = None) -> None:
        self._entries: dict[Any, Any] = {_key(name): value for name, value in (entries or {}).items()}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (name[0] if type(name) is tuple else name for name in self._entries)

    def __contains__(self, name: Any) -> bool:
        if self._entries and type(self) is Map:
            hashable(name)
        return type(name) in KEYS and _key(name) in self._entries

    def find(self, name: Any) -> tuple[Any, bool]:
        """Return the value of a key and whether there is one."""
        if name in self:
            return self._entries[_key(name)], True
        return None, False

    def put(self, name: Any, value: Any) -> None:
        hashable(name)
        if type(name) not in KEYS:
            raise Failure(f"unsupported key type: {type_of(name).name}")
        self._entries[_key(name)] = value

    def drop(self, name: Any) -> None:
        self._entries.pop(_key(name), None)


class Names(Map):
    """A map of names that came with the device: plain, since its keys are texts."""

    __slots__ = ()

    def __init__(self, entries: dict[str, Any]) -> None:
        self._entries = entries


class Domains(Names):
    """Domains to names to values: a domain that the device lacks reads as an empty map."""

    __slots__ = ()

    def find(self, name: Any) -> tuple[Any, bool]:
        entries = self._entries.get(name) if type(name) is str else None
        return (EMPTY if entries is None else entries), True


EMPTY = Names({})
NUMBERS = frozenset((int, Uint, float))
KEYS = frozenset((int, Uint, float, str, bool))


def hashable(name: Any) -> None:
    """Raise `Panic` for what upstream's maps cannot look up."""
    if type(name) in UNHASHABLE:
        raise Panic(f"internal error: runtime error: hash of unhashable type {UNHASHABLE[type(name)]}")


def _key(name: Any) -> Any:
    return (name,) if type(name) is bool else name


UNHASHABLE: dict[type, str] = {bytes: "types.Bytes", Version: "cel.Semver"}
NAMES: dict[type, Type] = {
    bool: types.BOOL,
    int: types.INT,
    Uint: types.UINT,
    float: types.DOUBLE,
    str: types.STRING,
    bytes: types.BYTES,
    type(None): Type("null", "null_type"),
    list: types.list_of(types.DYN),
    Map: types.map_of(types.DYN, types.DYN),
    Names: types.map_of(types.DYN, types.DYN),
    Domains: types.map_of(types.DYN, types.DYN),
    Optional: types.optional_of(types.DYN),
    Amount: types.QUANTITY,
    Version: types.SEMVER,
    Address: types.IP,
    Prefix: types.CIDR,
    NamedFormat: types.FORMAT,
    TypeValue: types.TYPE,
}


def type_of(value: Any) -> Type:
    """Return the type of a value, as far as a value alone tells it."""
    return NAMES[type(value)]


def matches(expected: Type, value: Any) -> bool:
    """Say whether a value can be passed for a parameter; of lists and maps the first entry tells."""
    if expected.kind in ("dyn", "any", "parameter"):
        return True
    if expected.name != type_of(value).name:
        return False
    if expected.kind == "list":
        return not value or matches(expected.parameters[0], value[0])
    if expected.kind == "map":
        first = next(iter(value), None)
        return len(value) == 0 or (
            matches(expected.parameters[0], first) and matches(expected.parameters[1], value.find(first)[0])
        )
    return True


def no_overload(function: str = "", *values: Any) -> Failure:
    given = ", ".join(type_of(value).name for value in values)
    return Failure(f"no such overload: {function}({given})" if function else "no such overload")


def equal(left: Any, right: Any) -> bool:
    """Say whether two values are equal. Raise `Failure` if a quantity or the like meets something else."""
    kind, with_kind = type(left), type(right)
    if kind is str or kind is bool or kind is bytes:
        return kind is with_kind and bool(left == right)
    if kind in NUMBERS:
        return with_kind in NUMBERS and not _unordered(left, right) and _sign(left, right) == 0
    if left is None or right is None:
        return left is right
    if kind is list:
        return (
            with_kind is list
            and len(left) == len(right)
            and not any(unequal_for_sure(*pair) for pair in zip(left, right, strict=True))
        )
    if isinstance(left, Map):
        return (
            isinstance(right, Map)
            and len(left) == len(right)
            and all(_same(left, right, name) for name in left)
        )
    if kind is Optional:
        if with_kind is not Optional or left.present is not right.present:
            return False
        return not left.present or equal(left.value, right.value)
    if kind is TypeValue:
        return with_kind is TypeValue and left == right
    if kind is not with_kind or (kind is Amount and right.computed):
        raise no_overload()
    return bool(left.nano == right.nano if kind is Amount else left == right)


def is_equal(left: Any, right: Any) -> bool:
    """Say whether two values are equal for sure: where they cannot be compared they are not."""
    try:
        return equal(left, right)
    except Failure:
        return False


def unequal_for_sure(left: Any, right: Any) -> bool:
    """Say whether two values differ; inside lists and maps upstream takes failure for equality."""
    try:
        return not equal(left, right)
    except Failure:
        return False


def _same(left: Map, right: Map, name: Any) -> bool:
    value, has_name = right.find(name)
    return has_name and not unequal_for_sure(left.find(name)[0], value)


def compare(left: Any, right: Any) -> int:
    """Return -1, 0 or 1. Raise `Failure` where there is no order between the two."""
    kind, with_kind = type(left), type(right)
    if kind in NUMBERS and with_kind in NUMBERS:
        if _unordered(left, right):
            raise Failure("NaN values cannot be ordered")
        return _sign(left, right)
    if kind is with_kind and kind in (str, bytes, bool):
        return int(left > right) - int(left < right)
    raise no_overload()


def _unordered(left: Any, right: Any) -> bool:
    return any(type(value) is float and math.isnan(value) for value in (left, right))


def _sign(left: Any, right: Any) -> int:
    if type(left) is float or type(right) is float:  # upstream compares as doubles, however large the number
        left, right = float(left), float(right)
    return int(left > right) - int(left < right)
