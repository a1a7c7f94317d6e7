"""The clusters of the demo as rows of the portal, from the kubeconfigs that their servers wrote."""

from functools import cache
from pathlib import Path
from typing import Any

import httpx

from cluster.connect import connect
from cluster.credentials import Credentials, from_kubeconfig, seal, unseal
from cluster.protocol import Gateway, Manifest
from inventory.models import Cluster

MERGE = {"Content-Type": "application/merge-patch+json"}
TITLES = {"fra-1": "Frankfurt", "lab-2": "Laboratory"}


def load_cluster(name: str, folder: Path, metrics: str = "") -> Cluster:
    """Create the cluster, or bring its credentials up to date: its port may have changed."""
    credentials = read_credentials(folder, name)
    found = Cluster.objects.filter(name=name).first()
    if found is None:
        return Cluster.objects.create(
            name=name, title=TITLES.get(name, ""), credentials=seal(credentials), metrics_url=metrics
        )
    if unseal(found.credentials) != credentials or found.metrics_url != metrics:
        found.credentials, found.metrics_url = seal(credentials), metrics
        found.save(update_fields=["credentials", "metrics_url"])
    return found


def people_gateway(folder: Path, name: str) -> Gateway:
    """The way in of the people who start pods: the portal's own account may not."""
    return connect(seal(read_credentials(folder, f"{name}.people")))


def people_patch(folder: Path, name: str, address: str, body: dict[str, Any]) -> None:
    """Merge `body` into the object at this path, as kubectl patch does."""
    _people_api(folder, name).patch(address, json=body, headers=MERGE).raise_for_status()


def people_get(folder: Path, name: str, address: str) -> Manifest:
    """Return the object at this path."""
    found: Manifest = _people_api(folder, name).get(address).raise_for_status().json()
    return found


@cache
def _people_api(folder: Path, name: str) -> httpx.Client:
    who = read_credentials(folder, f"{name}.people")
    headers = {"Authorization": f"Bearer {who.token}"}
    # A connection that is kept may be closed by the server at the moment in which it is used again.
    none_kept = httpx.Limits(max_keepalive_connections=0)
    return httpx.Client(base_url=who.server, headers=headers, timeout=60, limits=none_kept)


def read_credentials(folder: Path, name: str) -> Credentials:
    return from_kubeconfig((folder / f"{name}.kubeconfig").read_text())
