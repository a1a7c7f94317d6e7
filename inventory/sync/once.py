"""Mirror a whole cluster now, in this thread: for commands, for the demo's first start, and for tests."""

from cluster.protocol import Gateway
from inventory.models import Cluster
from inventory.sync.contact import inspect
from inventory.sync.lease import take
from inventory.sync.listing import list_all
from inventory.sync.resources import kinds_of


def sync_once(cluster: Cluster, gateway: Gateway) -> None:
    """
    List every resource, but those that somebody else follows. Raise what the gateway raises, and `Halted`.
    """
    inspect(cluster, gateway)
    for kind in kinds_of(cluster):
        lease = take(cluster.pk, kind.plural)
        if lease is None:
            continue
        try:
            list_all(lease, gateway, kind)
        finally:
            lease.drop()
