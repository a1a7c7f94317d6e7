"""The clusters of the demo as rows of the portal, from the kubeconfigs that their servers wrote."""

from pathlib import Path

from cluster.connect import connect
from cluster.credentials import Credentials, from_kubeconfig, seal, unseal
from cluster.protocol import Gateway
from inventory.models import Cluster

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


def read_credentials(folder: Path, name: str) -> Credentials:
    return from_kubeconfig((folder / f"{name}.kubeconfig").read_text())
