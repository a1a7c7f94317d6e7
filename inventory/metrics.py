"""What Prometheus is told of the mirror: read when it asks, so that every process says the same."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inventory.models import Cluster, Device, Freshness

NEVER = float("inf")


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
