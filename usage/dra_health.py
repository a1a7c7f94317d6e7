"""
Reads the DRA health of clusters from their Prometheus into `DraHealth`, so that no page asks Prometheus.

One instant query per figure of `inventory.dra_health`. A cluster without a Prometheus has no row.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

import httpx
from django.db.models import Q
from django.utils import timezone

from inventory.dra_health import EVERY, expressions
from inventory.models import Cluster, DraHealth, Pod
from usage.sources import TelemetrySource, TelemetryUnavailable, ask, opened, query

MIN_DISTANCE = EVERY / 2  # between two readings of one cluster
# Pods that wait for a node, and so for devices: those that refer to a claim and have none.
WAITING = Q(gone_at=None, phase__in=("", "Pending"), node_name="") & (~Q(claims=[]) | ~Q(templates=[]))


def sources() -> list[UUID]:
    """Return the clusters that have a Prometheus."""
    return list(Cluster.objects.filter(enabled=True).exclude(prometheus_url="").values_list("pk", flat=True))


def read(cluster_id: UUID) -> None:
    """
    Read and store the figures of one cluster, unless another run has begun to within half a minute.

    A failure is stored for pages to show, and the next run tries again. It leaves the last figures.
    """
    cluster = Cluster.objects.filter(pk=cluster_id, enabled=True).exclude(prometheus_url="").first()
    now = timezone.now()
    if cluster is None or not take_turn(cluster, now):
        return
    row = DraHealth.objects.filter(cluster=cluster)
    waiting = Pod.objects.filter(WAITING, cluster=cluster).order_by("created_at")
    row.update(
        waiting_pods=waiting.count(), waiting_since=waiting.values_list("created_at", flat=True).first()
    )
    try:
        source = opened(cluster)
        figures = read_figures(source, expressions(source.matchers))
    except TelemetryUnavailable as failure:
        row.update(error=failure.message)
    else:
        row.update(read_at=now, figures=figures, error="")


def take_turn(cluster: Cluster, now: datetime) -> bool:
    """Return whether this run may read, by compare-and-set on the time of the last one."""
    DraHealth.objects.get_or_create(cluster=cluster)
    free = DraHealth.objects.filter(
        Q(started_at=None) | Q(started_at__lt=now - MIN_DISTANCE), cluster=cluster
    )
    return bool(free.update(started_at=now))


def read_figures(source: TelemetrySource, wanted: Mapping[str, str]) -> dict[str, float | None]:
    """
    Return the value of each PromQL expression, None without a result.

    Raises `TelemetryUnavailable` with a sentence.
    """

    def request(client: httpx.Client) -> dict[str, float | None]:
        figures: dict[str, float | None] = {}
        for key, expression in wanted.items():
            rows = query(client, source, "query", query=expression)["data"]["result"]
            value = float(rows[0]["value"][1]) if rows else math.nan
            figures[key] = value if math.isfinite(value) else None
        return figures

    return ask(source, request)
