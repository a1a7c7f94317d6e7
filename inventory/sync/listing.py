"""
A full listing: everything the cluster has of one resource, in chunks, and then what it no longer has.

Each chunk is a transaction of its own, so that a large cluster holds no lock for long. Only the last one
notes the resource version to watch from: a holder that dies on the way has written rows that are true, and
its successor lists again.
"""

import logging
from collections.abc import Iterator

from django.db import connection
from django.db.models.functions import Now

from cluster.errors import Expired
from cluster.kinds import Kind
from cluster.protocol import Gateway, Page
from inventory.models import DeviceTaintRule, Mirrored, Pod
from inventory.sync.contact import check_identity
from inventory.sync.derive import JOINED, derive, join_all
from inventory.sync.lease import Lease
from inventory.sync.resources import MODELS
from inventory.sync.store import close, upsert
from inventory.sync.stream import go_on
from inventory.sync.trim import uses_claims
from inventory.sync.write import Write, writing

logger = logging.getLogger(__name__)

TRIES = 3  # of a listing whose continue token ran out half-way


def list_all(lease: Lease, gateway: Gateway, kind: Kind) -> str:
    """Mirror the whole resource and return the version to watch from."""
    for attempt in range(1, TRIES + 1):
        try:
            return _list_once(lease, gateway, kind)
        except Expired:
            if attempt == TRIES:
                raise
            logger.info(
                "%s of %s changed too fast to be listed; listing again", kind.plural, lease.cluster_id
            )
    raise AssertionError("unreachable")


def _list_once(lease: Lease, gateway: Gateway, kind: Kind) -> str:
    model = MODELS[kind.plural]
    first = not lease.rows().filter(listed_at__isnull=False).exists()
    seen: set[str] = set()
    version = ""
    for page in _pages(gateway, kind):
        version = page.resource_version or version
        items = [item for item in page.items if model is not Pod or uses_claims(item)]
        seen.update(item["metadata"]["uid"] for item in items)
        with writing(lease) as write:
            rows = upsert(write, model, items, listed=True, first=first)
            if model not in JOINED:
                derive(write, rows)
    check_identity(lease.cluster_id, gateway)  # before anything is closed: is it still the same cluster?
    with writing(lease) as write:
        gone = _close_unseen(write, model, seen)
        if model not in JOINED:
            derive(write, gone)
    if model in JOINED and not (model is DeviceTaintRule and _never_any(lease, model)):
        join_all(lease, first=first)
    note_listed(lease, version)
    return version


def _pages(gateway: Gateway, kind: Kind) -> Iterator[Page]:
    """Yield the pages; while the cluster is asked for the next one, no database connection is held."""
    pages = gateway.list(kind)
    while True:
        release_connection()
        go_on()
        page = next(pages, None)
        if page is None:
            return
        yield page


def _never_any(lease: Lease, model: type[Mirrored]) -> bool:
    """Return whether not even a row of something gone is there, so that nothing can follow from it."""
    return not model._default_manager.filter(cluster=lease.cluster_id).exists()


def _close_unseen(write: Write, model: type[Mirrored], seen: set[str]) -> list[Mirrored]:
    present = model._default_manager.filter(cluster=write.cluster_id, gone_at=None)
    return close(write, model, {uid: "" for uid in present.values_list("uid", flat=True) if uid not in seen})


def note_listed(lease: Lease, version: str) -> None:
    lease.rows().update(
        resource_version=version, listed_at=Now(), seen_at=Now(), error="", failed_at=None, failures=0
    )


def release_connection() -> None:
    """Give the connection back to the pool; in a transaction (a test's) it stays."""
    if not connection.in_atomic_block:
        connection.close()
