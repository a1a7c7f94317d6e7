"""Make the whole portal that is measured, once per database."""

from __future__ import annotations

from collections.abc import Callable

from bench.portal.fleet import Shelf, gateway_of, shelf_of
from bench.portal.history import live_through
from bench.portal.people import settle_in
from bench.portal.rows import settle
from bench.portal.size import Size
from claims.approvals import pending
from inventory.models import Cluster
from inventory.sync.list_watch import sync_once
from teams.models import Team

NAME = "bench-1"


def build(size: Size, say: Callable[[str], None]) -> None:
    """Leave everything as it is where the database has it already."""
    if Team.objects.exists():
        say("The portal was built before")
        return
    shelf = shelf_of(size)
    cluster = mirrored(shelf, say)
    say(f"{size.claims:,} claims of {size.teams} teams")
    settle_in(size, cluster)
    live_through(size, cluster, shelf)
    pending.refresh()
    settle()


def mirrored(shelf: Shelf, say: Callable[[str], None]) -> Cluster:
    """Return the cluster of the shelf, listed once."""
    cluster = Cluster.objects.create(
        name=NAME, title="Bench", credentials=b"", discovery={"taint_rules": "v1"}
    )
    say("A first listing of the cluster")
    sync_once(cluster, gateway_of(shelf))
    return cluster
