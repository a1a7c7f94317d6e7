"""From sealed credentials to a connection, one per cluster and process, shared by its threads."""

import hashlib
import os
import threading
from collections import OrderedDict

from cluster.credentials import unseal
from cluster.kube import KubeGateway
from cluster.protocol import Gateway

MOST_CONNECTIONS = 64  # clusters that a process keeps open; the one unused longest is closed first

_open: OrderedDict[bytes, KubeGateway] = OrderedDict()
_lock = threading.Lock()


def connect(sealed: bytes | memoryview) -> Gateway:
    """
    Return the gateway for `Cluster.credentials`. Speaks to nobody yet.

    The same bytes give the same gateway, with its open connections; new credentials are new bytes. Raise
    `core.errors.Invalid` when they cannot be read.
    """
    known_by = hashlib.sha256(sealed).digest()
    with _lock:
        if known_by in _open:
            _open.move_to_end(known_by)
            return _open[known_by]
        gateway = _open[known_by] = KubeGateway(unseal(sealed))
        if len(_open) > MOST_CONNECTIONS:
            _open.popitem(last=False)[1].close()
        return gateway


def forget() -> None:
    """Start anew without closing: a forked child must not speak over its parent's sockets."""
    global _lock
    _lock = threading.Lock()
    _open.clear()


os.register_at_fork(after_in_child=forget)
