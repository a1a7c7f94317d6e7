"""
Addresses that the portal may send requests to.

Admins and leads enter addresses: of clusters, Prometheus, exporters, MLflow, receivers of webhooks. None may
lead to the machine itself, where clouds hand out credentials; only what a platform admin enters may lead
inside the network. A name says nothing: what was connected is checked too, before anything is sent.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import httpx

type Address = IPv4Address | IPv6Address

# With an IPv4 address in the last 32 bits: NAT64 (RFC 6052), local NAT64 (RFC 8215), IPv4-compatible
# (RFC 4291 §2.5.5.1, deprecated), IPv4-translated (RFC 2765).
EMBEDDING = tuple(map(IPv6Network, ("64:ff9b::/96", "64:ff9b:1::/48", "::/96", "::ffff:0:0:0/96")))
# Of IANA's registries of special addresses what `is_global` of Python counts as global.
SPECIAL = tuple(map(ip_network, ("192.88.99.0/24", "fec0::/10", "5f00::/16", "3fff::/20", "100:0:0:1::/64")))
LOCAL = IPv6Network("64:ff9b:1::/48")
METADATA = ("fd00:ec2::254", "100.100.100.200", "168.63.129.16")  # of AWS, Alibaba Cloud and Azure


def literal(host: str) -> Address | None:
    """
    Return the address that a host is, also as one number or in hexadecimal, and that of every name below
    `localhost` (RFC 6761); None for another name.
    """
    host = host.partition("%")[0].rstrip(".")
    if host.lower().rpartition(".")[2] == "localhost":
        return IPv4Address("127.0.0.1")
    with suppress(ValueError):
        return ip_address(host)
    with suppress(OSError, UnicodeError):
        return IPv4Address(socket.inet_aton(host))
    return None


def reason_to_refuse(address: Address, *, is_internal: bool) -> str:
    """Return why nothing is sent to an address, "" if it may be."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo and address.teredo[1])
        if inner:
            return reason_to_refuse(inner, is_internal=is_internal)
        if int(address) > 1 and any(address in network for network in EMBEDDING):
            is_inside = is_internal or address not in LOCAL  # a translator of the site, whatever it leads to
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
            return reason_to_refuse(inner, is_internal=is_internal) or ("" if is_inside else inside(address))
    if address.is_link_local or address.is_multicast or address.is_unspecified or str(address) in METADATA:
        return f"{address} is an address of the machine itself; nothing is sent there."
    is_special = any(address in network for network in SPECIAL if network.version == address.version)
    return "" if (address.is_global and not is_special) or is_internal else inside(address)


def inside(address: Address) -> str:
    return f"{address} is an address inside a network. A platform admin may allow it."


def reason_to_refuse_host(host: str) -> str:
    """Return why nothing is sent to a host that a platform admin entered; "" for a name, and if it may."""
    address = literal(host)
    return "" if address is None else reason_to_refuse(address, is_internal=True)


def connection_check(refusal: Callable[[str], Exception]) -> Callable[[httpx.Request], None]:
    """
    Return a hook of httpx for requests. It raises `refusal(reason)` where a name leads to the machine itself:
    after connecting, before anything is sent.
    """

    def refuse(event: str, told: dict[str, Any]) -> None:
        if event != "connection.connect_tcp.complete":
            return
        stream = told["return_value"]
        if reason := reason_to_refuse_host(stream.get_extra_info("server_addr")[0]):
            stream.close()
            raise refusal(reason)

    def watch(request: httpx.Request) -> None:
        request.extensions["trace"] = refuse

    return watch
