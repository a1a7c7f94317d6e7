"""
The functions of CEL's extensions and of the Kubernetes libraries, by overload ID: strings, regular
expressions, lists and sets, quantities and versions, IP addresses and CIDR prefixes.

Sources: cel-go `ext/{strings,lists,sets}.go`, strings in version 2; apiserver
`pkg/cel/library/{regex,lists,quantity,semverlib,ip,cidr}.go`; Go's net/netip.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from itertools import pairwise
from typing import Any

from dra.attributes import Version, VersionError
from dra.cel import values
from dra.cel.name_formats import FORMAT_FUNCTIONS
from dra.cel.standard_functions import CONVERSIONS, OPTIONAL_FUNCTIONS, checked
from dra.cel.syntax import NotPreviewable
from dra.cel.values import (
    INT64,
    Address,
    Amount,
    Failure,
    Prefix,
    Uint,
    amount,
    compare,
    is_equal,
    type_of,
    version,
    whole,
)
from dra.quantity import QuantityError

SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
ESCAPED = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"} | {
    "\\": "\\\\",
    '"': '\\"',
}
MAX_LENGTH = 10_000_000  # characters of a text that replace() may build
UPPER = str.maketrans({code: code - 32 for code in range(ord("a"), ord("z") + 1)})
LOWER = str.maketrans({code: code + 32 for code in range(ord("A"), ord("Z") + 1)})


def _out(place: int) -> Failure:
    return Failure(f"index out of range: {place}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out(index)
    return text[index : index + 1]


def _text_index_of(text: str, part: str, start: int = 0) -> int:
    if start < 0:
        raise _out(start)
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def _text_last_index_of(text: str, part: str) -> int:
    if not part:
        return len(text)
    if len(text.encode()) < len(part.encode()):
        return -1
    return _text_last_index_from(text, part, len(text) - 1)


def _text_last_index_from(text: str, part: str, start: int) -> int:
    if start < 0:
        raise _out(start)
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    """
    Replace `count` occurrences, all if it is negative.

    Raise `NotPreviewable` rather than fill the memory: the cost of a call does not reckon with its result.
    """
    times = text.count(old) if count < 0 else min(count, text.count(old))
    if len(text) + times * (len(new) - len(old)) > MAX_LENGTH:
        raise NotPreviewable("The expression builds more than this portal can hold; a cluster decides.")
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[str]:
    """Split into at most `count` parts; any number if it is negative."""
    if count == 0:
        return []
    if separator:
        return text.split(separator, count - 1 if count > 0 else -1)
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise Failure(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out(end)
    return text[start:end]


def _join(parts: list[Any], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise Failure(
                f"join: invalid input: {part if type(part) in (int, float) else type_of(part).name}"
            )
    return separator.join(parts)


def _quote(text: str) -> str:
    return f'"{"".join(ESCAPED.get(char, char) for char in text)}"'


STRING_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_char_at_int": _char_at,
    "string_index_of_string": _text_index_of,
    "string_index_of_string_int": _text_index_of,
    "string_last_index_of_string": _text_last_index_of,
    "string_last_index_of_string_int": _text_last_index_from,
    "string_lower_ascii": lambda text: text.translate(LOWER),
    "string_upper_ascii": lambda text: text.translate(UPPER),
    "string_replace_string_string": _replace,
    "string_replace_string_string_int": _replace,
    "string_split_string": _split,
    "string_split_string_int": _split,
    "string_substring_int": _substring,
    "string_substring_int_int": _substring,
    "string_trim": lambda text: text.strip(SPACE),
    "strings_quote": _quote,
    "list_join": _join,
    "list_join_string": _join,
    "string_find_string": values.find,
    "string_find_all_string": values.find_all,
    "string_find_all_string_int": values.find_all,
}


MAX_RANGE = 1_000_000  # of lists.range()
KINDS = ("bool", "int", "uint", "double", "string", "bytes")


def _slice(elements: list[Any], start: int, end: int) -> list[Any]:
    if start < 0 or end < 0:
        raise Failure(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise Failure(f"cannot slice({start}, {end}), start index must be less than or equal to end index")
    if len(elements) < end:
        raise Failure(f"cannot slice({start}, {end}), list is length {len(elements)}")
    return elements[start:end]


def _range(count: int) -> list[int]:
    if count < 0:
        raise Failure(f"lists.range: size must be non-negative, got {count}")
    if count > MAX_RANGE:
        raise Failure(f"lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})")
    return list(range(count))


def _distinct(elements: list[Any]) -> list[Any]:
    distinct: list[Any] = []
    for element in elements:
        if not any(is_equal(element, earlier) for earlier in distinct):
            distinct.append(element)
    return distinct


def _index_of(elements: list[Any], element: Any) -> int:
    return next((index for index, item in enumerate(elements) if is_equal(item, element)), -1)


def _last_index_of(elements: list[Any], element: Any) -> int:
    return next((index for index in reversed(range(len(elements))) if is_equal(elements[index], element)), -1)


def _contains(elements: list[Any], part: list[Any]) -> bool:
    return all(any(is_equal(element, candidate) for candidate in elements) for element in part)


def _intersects(left_items: list[Any], right_items: list[Any]) -> bool:
    return any(is_equal(left, right) for left in left_items for right in right_items)


def _sorted(elements: list[Any]) -> bool:
    return all(compare(element, other) <= 0 for element, other in pairwise(elements))


def _extreme(function: str, sign: int) -> Callable[[list[Any]], Any]:
    def run(elements: list[Any]) -> Any:
        if not elements:
            raise Failure(f"{function} called on empty list")
        best = elements[0]
        for element in elements[1:]:
            if compare(element, best) == sign:
                best = element
        return best

    return run


def _sum(zero: Any) -> Callable[[list[Any]], Any]:
    def run(elements: list[Any]) -> Any:
        total = zero
        for element in elements:
            total = total + element if type(zero) is float else checked(int(total) + int(element), type(zero))
        return total

    return run


def _includes(value: Any, element: Any) -> bool:
    among = value if type(value) is list else [value]
    return any(is_equal(item, element) for item in among)


LIST_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "list_slice": _slice,
    "lists_range": _range,
    "list_reverse": lambda items: items[::-1],
    "list_distinct": _distinct,
    "list_a_index_of_int": _index_of,
    "list_a_last_index_of_int": _last_index_of,
    "list_sets_contains_list": _contains,
    "list_sets_equivalent_list": lambda left, right: _contains(left, right) and _contains(right, left),
    "list_sets_intersects_list": _intersects,
    "list_includes_dyn_dyn": _includes,
    "list_int_sum_int": _sum(0),
    "list_uint_sum_uint": _sum(Uint(0)),
    "list_double_sum_double": _sum(0.0),
    **{f"list_{kind}_is_sorted_bool": _sorted for kind in KINDS},
    **{f"list_{kind}_max_{kind}": _extreme("max", 1) for kind in KINDS},
    **{f"list_{kind}_min_{kind}": _extreme("min", -1) for kind in KINDS},
}


def _quantity(text: str) -> Amount:
    try:
        return amount(text)
    except QuantityError as error:
        raise Failure(str(error)) from error


def _is_quantity(text: str) -> bool:
    try:
        amount(text)
    except QuantityError:
        return False
    return True


def _integer(of: Amount) -> int:
    if of.integer is None:
        raise Failure("cannot convert value to integer")
    return of.integer


def _semver(text: str, normalize: bool = False) -> Version:  # noqa: FBT001, FBT002 - CEL passes it by place
    try:
        return version(text, normalize)
    except VersionError as error:
        raise Failure(str(error)) from error


def _is_semver(text: str, normalize: bool = False) -> bool:  # noqa: FBT001, FBT002 - CEL passes it by place
    try:
        version(text, normalize)
    except VersionError:
        return False
    return True


def _part(number: int) -> int:
    """Return a part of a version, unsigned upstream, as the signed number that CEL makes of it."""
    return number - 2**64 if number not in INT64 else number


def _order(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


QUANTITY_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_to_quantity": _quantity,
    "is_quantity_string": _is_quantity,
    "quantity_sign": lambda of: (of.nano > 0) - (of.nano < 0),
    "quantity_is_greater_than": lambda left, right: left.nano > right.nano,
    "quantity_is_less_than": lambda left, right: left.nano < right.nano,
    "quantity_compare_to": lambda left, right: _order(left.nano, right.nano),
    "quantity_get_float": lambda of: of.approximate,
    "quantity_get_int": _integer,
    "quantity_is_integer": lambda of: of.integer is not None,
    "quantity_add": Amount.plus,
    "quantity_add_int": lambda quantity, number: quantity.plus(whole(number)),
    "quantity_sub": Amount.minus,
    "quantity_sub_int": lambda quantity, number: quantity.minus(whole(number)),
    "string_to_semver": _semver,
    "string_bool_to_semver": _semver,
    "is_semver_string": _is_semver,
    "is_semver_string_bool": _is_semver,
    "semver_is_greater_than": lambda left, right: left > right,
    "semver_is_less_than": lambda left, right: left < right,
    "semver_compare_to": _order,
    "semver_major": lambda of: _part(of.major),
    "semver_minor": lambda of: _part(of.minor),
    "semver_patch": lambda of: _part(of.patch),
}


LENGTH = re.compile(r"0|[1-9][0-9]{0,2}", re.ASCII)


def _parsed(text: str) -> IPv4Address | IPv6Address:
    try:
        ip: IPv4Address | IPv6Address = IPv6Address(text) if ":" in text else IPv4Address(text)
    except AddressValueError as error:
        problem = f'IP Address "{text}" parse error during conversion from string'
        raise Failure(f'{problem}: ParseAddr("{text}"): unable to parse IP') from error
    if isinstance(ip, IPv6Address):
        if ip.scope_id is not None:
            raise Failure(f'IP address "{text}" with zone value is not allowed')
        if ip.ipv4_mapped is not None:
            raise Failure(f'IPv4-mapped IPv6 address "{text}" is not allowed')
    return ip


def _ip(text: str) -> Address:
    return Address(_parsed(text))


def _cidr(text: str) -> Prefix:
    before, slash, length = text.rpartition("/")
    problem = Failure(
        f'network address parse error during conversion from string: netip.ParsePrefix("{text}")'
    )
    if not slash or not LENGTH.fullmatch(length):
        raise problem
    try:
        ip = _parsed(before)
    except Failure as error:
        raise problem from error
    if int(length) > ip.max_prefixlen:
        raise problem
    return Prefix(ip, int(length))


def _valid(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            parse(text)
        except Failure:
            return False
        return True

    return run


def _shared(ip: IPv4Address | IPv6Address, bits: int) -> int:
    """Return the first `bits` of an address."""
    return int(ip) >> (ip.max_prefixlen - bits)


def _holds(of: Prefix, ip: IPv4Address | IPv6Address, bits: int | None = None) -> bool:
    """Say whether the first `bits` of `ip`, all of them if None, lie in the network."""
    if of.ip.version != ip.version or (bits is not None and bits < of.bits):
        return False
    return _shared(of.ip, of.bits) == _shared(ip, of.bits)


def _masked(of: Prefix) -> Prefix:
    host = of.ip.max_prefixlen - of.bits
    return Prefix(type(of.ip)(_shared(of.ip, of.bits) << host), of.bits)


def _link_local_multicast(of: Address) -> bool:
    number = int(of.ip)
    if of.ip.version == 4:
        return number >> 8 == int(IPv4Address("224.0.0.0")) >> 8
    return number >> 120 == 0xFF and (number >> 112) & 0x0F == 2


def _link_local(of: Address) -> bool:
    number = int(of.ip)
    return number >> 16 == 0xA9FE if of.ip.version == 4 else number >> 118 == 0xFE80 >> 6


def _loopback(of: Address) -> bool:
    return int(of.ip) >> 24 == 127 if of.ip.version == 4 else int(of.ip) == 1


def _global(of: Address) -> bool:
    number = int(of.ip)
    if of.ip.version == 4 and number in (0, 2**32 - 1):
        return False
    multicast = number >> 28 == 0xE if of.ip.version == 4 else number >> 120 == 0xFF
    return number != 0 and not _loopback(of) and not multicast and not _link_local(of)


NETWORK_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "string_to_ip": _ip,
    "cidr_ip": lambda of: Address(of.ip),
    "ip_is_canonical": lambda text: str(_parsed(text)) == text,
    "is_ip": _valid(_parsed),
    "ip_family": lambda of: of.ip.version,
    "ip_is_unspecified": lambda of: int(of.ip) == 0,
    "ip_is_loopback": _loopback,
    "ip_is_link_local_multicast": _link_local_multicast,
    "ip_is_link_local_unicast": _link_local,
    "ip_is_global_unicast": _global,
    "string_to_cidr": _cidr,
    "is_cidr": _valid(_cidr),
    "cidr_contains_ip_string": lambda of, text: _holds(of, _parsed(text)),
    "cidr_contains_ip_ip": lambda of, other: _holds(of, other.ip),
    "cidr_contains_cidr_string": lambda of, text: _holds(of, (other := _cidr(text)).ip, other.bits),
    "cidr_contains_cidr": lambda of, other: _holds(of, other.ip, other.bits),
    "cidr_prefix_length": lambda of: of.bits,
    "cidr_masked": _masked,
}


OVERLOADS: dict[str, Callable[..., Any]] = (
    CONVERSIONS
    | STRING_FUNCTIONS
    | LIST_FUNCTIONS
    | QUANTITY_FUNCTIONS
    | NETWORK_FUNCTIONS
    | FORMAT_FUNCTIONS
    | OPTIONAL_FUNCTIONS
)
