"""How old the mirror is: per cluster for pages, and as metrics for Prometheus."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inventory.models import Cluster, Device, Freshness

OF_DEVICES = ("resourceslices", "resourceclaims")
OF_NODES = ("nodes",)
NEVER = float("inf")


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


class MirrorCollector(Collector):
    """Age of every mirrored resource, failures in a row, halted clusters, and devices by state."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing: a collector that is registered must not ask the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _freshness()
        halted = _gauge(
            "dragoman_cluster_halted", "1 while a person must look before the sync goes on.", "cluster"
        )
        for name, because in Cluster.objects.filter(enabled=True).values_list("name", "halted_because"):
            halted.add_metric([name], float(bool(because)))
        yield halted
        devices = _gauge("dragoman_devices", "Devices in the mirror by state.", "cluster", "state")
        for cluster, state, count in Device.objects.present().count_by("cluster__name", "state"):
            devices.add_metric([cluster, state], count)
        yield devices


def _freshness() -> Iterator[Metric]:
    where = ("cluster", "resource")
    seen = _gauge("dragoman_sync_age_seconds", "Since the cluster last said anything about it.", *where)
    listed = _gauge("dragoman_sync_listing_age_seconds", "Since the last full listing.", *where)
    failures = _gauge("dragoman_sync_failures", "Failures in a row.", *where)
    rows = Freshness.objects.filter(cluster__enabled=True).values_list(
        "cluster__name", "resource", "seen_at", "listed_at", "failures"
    )
    for name, resource, seen_at, listed_at, count in rows:
        seen.add_metric([name, resource], _age(seen_at))
        listed.add_metric([name, resource], _age(listed_at))
        failures.add_metric([name, resource], count)
    yield from (seen, listed, failures)


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, labels=labels)


def _age(moment: datetime | None) -> float:
    return (timezone.now() - moment).total_seconds() if moment else NEVER
