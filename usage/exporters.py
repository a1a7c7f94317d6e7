"""
The exporters of a cluster without Prometheus: where they are, and reading all of them.

dcgm-exporter runs once per node, so one address rarely is enough. `Cluster.metrics_url` has addresses with
spaces between them, and three ways to name many exporters by one:

- `{node}` and `{address}` stand for the name and the InternalIP of each node that publishes devices;
- a name that has several addresses, such as that of a headless Service, is read at each of them (http only: a
  certificate is for the name).

An exporter that does not respond costs the telemetry of its node, and the others count.
"""

from __future__ import annotations

import socket
from typing import NamedTuple
from urllib.parse import urlsplit, urlunsplit

from inventory.models import Cluster, Node, ResourceSlice
from inventory.models.cluster import NODE_PLACEHOLDERS


class Exporter(NamedTuple):
    """One exporter: its address, and the name that its server expects as Host if the address is an IP."""

    url: str
    host: str = ""

    @property
    def title(self) -> str:
        """Return the address without its query, which may hold a secret."""
        return urlunsplit(urlsplit(self.url)._replace(query="", fragment=""))


def exporters_of(cluster: Cluster) -> list[Exporter]:
    """Return the exporters of the addresses of `cluster`, each once; two queries if nodes stand in them."""
    found: dict[str, Exporter] = {}
    nodes: list[tuple[str, str]] | None = None
    for address in cluster.metrics_url.split():
        if not any(placeholder in address for placeholder in NODE_PLACEHOLDERS):
            found |= {one.url: one for one in resolved(address)}
            continue
        nodes = nodes_with_devices(cluster) if nodes is None else nodes
        for name, internal in nodes:
            if "{address}" in address and not internal:
                continue
            url = address.replace("{node}", name).replace("{address}", internal)
            found[url] = Exporter(url)
    return list(found.values())


def nodes_with_devices(cluster: Cluster) -> list[tuple[str, str]]:
    """Return name and InternalIP of the nodes that publish devices; an IPv6 address in brackets."""
    publishing = ResourceSlice.objects.filter(cluster=cluster, gone_at=None).exclude(node_name="")
    names = set(publishing.order_by().values_list("node_name", flat=True).distinct())
    nodes = Node.objects.filter(cluster=cluster, gone_at=None).order_by("name")
    return [
        (name, internal_address(addresses or []))
        for name, addresses in nodes.values_list("name", "raw__status__addresses")
        if name in names
    ]


def internal_address(addresses: list[dict[str, str]]) -> str:
    found = (one.get("address", "") for one in addresses if one.get("type") == "InternalIP")
    address = next(found, "")
    return f"[{address}]" if ":" in address else address


def resolved(address: str) -> list[Exporter]:
    """Return one exporter per IP address of the host, or the address as it is if it has one or is https."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme != "http":
        return [Exporter(address)]
    try:
        found = socket.getaddrinfo(host, parts.port or 80, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return [Exporter(address)]  # reading it says why
    families = {family for family, *_ in found}
    chosen = socket.AF_INET if socket.AF_INET in families else socket.AF_INET6
    hosts = sorted({str(place[0]) for family, _, _, _, place in found if family == chosen})
    if len(hosts) < 2:
        return [Exporter(address)]
    return [
        Exporter(urlunsplit(parts._replace(netloc=f"{bracketed(ip)}:{parts.port or 80}")), parts.netloc)
        for ip in hosts
    ]


def bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip
