"""
Functions of IP addresses and CIDR prefixes.

Sources: apiserver `pkg/cel/library/{ip,cidr}.go`; Go's net/netip.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Any

from dra.cel.values import Address, Failure, Prefix

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


FUNCTIONS: dict[str, Callable[..., Any]] = {
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
