"""From a Cluster row to a connection. The only place that hands on its credentials."""

from collections.abc import Iterator
from contextlib import contextmanager

from cluster.connect import connect
from cluster.protocol import Gateway
from inventory.models import Cluster


@contextmanager
def gateway_for(cluster: Cluster) -> Iterator[Gateway]:
    """
    Yield the connection to a cluster, which the threads of this process share and which stays open.

    Raise `core.errors.Invalid` with a sentence if the credentials cannot be read.
    """
    yield connect(cluster.credentials)
