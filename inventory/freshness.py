"""How old the mirror is: per cluster for pages, and as metrics for Prometheus."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import FilteredRelation, Q, QuerySet
from django.http import HttpRequest
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from core.prepared import Prepared, partial_object
from inventory.counts import device_groups, fleet_counts
from inventory.models import Cluster, Freshness
from inventory.states import DeviceState, DeviceUse

OF_DEVICES = ("resourceslices", "resourceclaims")
OF_NODES = ("nodes",)
NEVER = float("inf")
# Resources whose age is shown for a cluster.
COLUMNS = (
    *("id", "name", "title", "simulated", "halt_reason", "credentials_expire_at"),
    *("prometheus_url", "metrics_url"),
)
SIGHTING = (*COLUMNS, "row__pk", "row__seen_at", "row__error")
AS_JSON = "SELECT json_agg(sightings)::text FROM ({}) sightings"
INSTANTS = (SIGHTING.index("credentials_expire_at"), SIGHTING.index("row__seen_at"))


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
        return is_stale(self.seen_at) or bool(self.cluster.halt_reason)

    @property
    def why(self) -> str:
        return self.cluster.halt_reason or self.error


def is_stale(seen_at: datetime | None) -> bool:
    return seen_at is None or timezone.now() - seen_at > settings.STALE_AFTER


def ages(resources: Iterable[str], *, cluster: Cluster | None = None) -> list[Age]:
    """Return an age per synchronized cluster, by name, or that of `cluster`; one query."""
    wanted = tuple(sorted(set(resources)))
    if cluster is not None:
        return [_oldest_age(cluster, _sightings_of_one(wanted).rows(cluster.pk), len(wanted))]
    return _ages(_sightings(wanted).rows(), len(wanted))


def ages_statement() -> tuple[str, tuple[Any, ...]]:
    """Return the SQL of the ages of devices as a JSON array, for a query that reads other things too."""
    text, values = _sightings_of(tuple(sorted(OF_DEVICES))).query.sql_with_params()
    return AS_JSON.format(text), values


def keep_ages(request: HttpRequest, read: str | None) -> None:
    """Keep what a query with `ages_statement` has read, for `ages_for`."""
    rows = [list(row.values()) for row in json.loads(read or "[]")]
    for row in rows:
        row[0] = UUID(row[0])
        for column in INSTANTS:
            row[column] = row[column] and datetime.fromisoformat(row[column])
    request.ages = _ages(rows, len(OF_DEVICES))  # type: ignore[attr-defined]


def _ages(rows: Iterable[Sequence[Any]], wanted: int) -> list[Age]:
    """Return an age per cluster from the rows of `_sightings`."""
    by_cluster: dict[Any, tuple[Cluster, list[tuple[datetime | None, str]]]] = {}
    for pk, *values, row, seen_at, error in rows:
        if pk not in by_cluster:
            columns = dict(zip(COLUMNS, (pk, *values), strict=True))
            by_cluster[pk] = (partial_object(Cluster, columns), [])
        if row is not None:
            by_cluster[pk][1].append((seen_at, error))
    return [_oldest_age(cluster, sightings, wanted) for cluster, sightings in by_cluster.values()]


def ages_for(request: HttpRequest) -> list[Age]:
    """Return the ages of devices in all synchronised clusters, read once in a request."""
    read: list[Age] | None = getattr(request, "ages", None)
    if read is None:
        read = request.ages = ages(OF_DEVICES)  # type: ignore[attr-defined]
    return read


@cache
def _sightings_of_one(resources: tuple[str, ...]) -> Prepared:
    """Return the query for the rows of these resources in one cluster."""
    rows = Freshness.objects.filter(resource__in=resources).order_by("pk").values_list("seen_at", "error")
    return Prepared(lambda cluster: rows.filter(cluster=cluster), UUID)


@cache
def _sightings(resources: tuple[str, ...]) -> Prepared:
    """Return the query for the synchronized clusters by name, each with its rows of these resources."""
    return Prepared(lambda: _sightings_of(resources))


def _sightings_of(resources: tuple[str, ...]) -> QuerySet[Cluster, Any]:
    of_wanted = FilteredRelation("freshness", condition=Q(freshness__resource__in=resources))
    clusters = Cluster.objects.filter(enabled=True).annotate(row=of_wanted).order_by("name", "row__pk")
    return clusters.values_list(*SIGHTING)


def _oldest_age(cluster: Cluster, sightings: Sequence[tuple[Any, ...]], wanted: int) -> Age:
    """Return the age of the oldest of `wanted` resources; a resource without a row was never listed."""
    seen = [seen_at for seen_at, _error in sightings if seen_at]
    oldest = min(seen) if len(seen) == wanted else None
    return Age(cluster, oldest, next((error for _seen_at, error in sightings if error), ""))


class MirrorCollector(Collector):
    """Age of every mirrored resource, failures in a row, halted clusters, and devices by state and use."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _freshness()
        halted = _gauge(
            "dragoman_cluster_halted", "1 while a person must look before the sync goes on.", "cluster"
        )
        for name, because in Cluster.objects.filter(enabled=True).values_list("name", "halt_reason"):
            halted.add_metric([name], float(bool(because)))
        yield halted
        devices = _gauge("dragoman_devices", "Devices in the mirror by state.", "cluster", "state")
        names, by_state = dict(Cluster.objects.values_list("pk", "name")), Counter[tuple[str, str]]()
        counts = fleet_counts()
        for cluster, group in device_groups(counts.values()):
            by_state[names[cluster], group.state] += group.devices
        for name in sorted(names.values()):
            for state in DeviceState.values:  # 0 too: an alert cannot use a series that comes and goes
                devices.add_metric([name, state], by_state[name, state])
        uses = _gauge(
            "dragoman_held_devices", "Held devices that are idle or not measured.", "cluster", "use"
        )
        for row in counts.values():
            for use in DeviceUse.values:
                uses.add_metric([names[row.cluster_id], use], row.uses.get(use, 0))
        yield from (devices, uses)


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
