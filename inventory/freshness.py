"""How old what a page shows is, per cluster: the oldest of the resources that it depends on."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone

from inventory.models import Cluster, Freshness

OF_DEVICES = ("resourceslices", "resourceclaims")
OF_NODES = ("nodes",)


@dataclass(frozen=True, slots=True)
class Age:
    """
    `seen_at` is None while a resource has never been listed; `error` is the sentence of the last failure.
    """

    cluster: Cluster
    seen_at: datetime | None
    error: str

    @property
    def is_stale(self) -> bool:
        return is_stale(self.seen_at) or bool(self.cluster.halted_because)

    @property
    def why(self) -> str:
        return self.cluster.halted_because or self.error


def is_stale(seen_at: datetime | None) -> bool:
    return seen_at is None or timezone.now() - seen_at > settings.STALE_AFTER


def ages(resources: Iterable[str], *, cluster: Cluster | None = None) -> list[Age]:
    """Return an age per cluster that is synchronised, by name; two queries."""
    clusters = [cluster] if cluster else Cluster.objects.filter(enabled=True).defer("credentials")
    wanted = set(resources)
    rows = Freshness.objects.filter(resource__in=wanted, cluster__in=clusters)
    by_cluster: dict[object, list[Freshness]] = {}
    for row in rows:
        by_cluster.setdefault(row.cluster_id, []).append(row)
    found = []
    for one in clusters:
        mine = by_cluster.get(one.pk, [])
        seen = [row.seen_at for row in mine]
        oldest = None if len(mine) < len(wanted) or None in seen else min(at for at in seen if at)
        found.append(Age(one, oldest, next((row.error for row in mine if row.error), "")))
    return found
