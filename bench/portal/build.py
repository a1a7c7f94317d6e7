"""Create the whole portal that is measured, once per database."""

from __future__ import annotations

from collections.abc import Callable

from django.utils import timezone

from bench.portal.cluster import ListedCluster, gateway_to, listed_cluster
from bench.portal.history import write_claims
from bench.portal.population import populate
from bench.portal.rows import analyze
from bench.portal.size import Size
from claims.approvals import pending
from claims.catalogue import availability, waits
from claims.models import ReconciledCluster
from claims.observation import ownership
from inventory.counts import store_counts
from inventory.models import Cluster
from inventory.sync.list_watch import sync_once
from teams.models import Team
from usage import daily

NAME = "bench-1"

type Mirror = Callable[[Cluster, ListedCluster], object]


def mirror_here(cluster: Cluster, listing: ListedCluster) -> None:
    """Mirror the cluster in this process."""
    sync_once(cluster, gateway_to(listing))


def build(size: Size, report: Callable[[str], None], mirror: Mirror = mirror_here) -> None:
    """Fill the database, unless a portal was built in it before; `mirror` lists the cluster."""
    if Team.objects.exists():
        report("The portal was built before")
        store_counts()
        return
    listing = listed_cluster(size)
    cluster = Cluster.objects.create(
        name=NAME, title="Bench", credentials=b"", discovery={"taint_rules": "v1"}
    )
    report("A first listing of the cluster")
    mirror(cluster, listing)
    report(f"{size.claims:,} claims of {size.teams} teams")
    populate(size, cluster)
    write_claims(size, cluster, listing)
    # The claims are written as they are in the mirror, so nothing is left to reconcile.
    cluster.refresh_from_db(fields=["revision"])
    ReconciledCluster.objects.create(cluster=cluster, revision=cluster.revision)
    pending.refresh()
    ownership.refresh()
    store_counts()
    availability.recompute()
    waits.refresh()
    daily.store_days(now=timezone.now())
    analyze()
