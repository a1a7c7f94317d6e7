"""How far the ledger and telemetry have come, for Prometheus; teams, claims and people are not named."""

from collections.abc import Iterable, Iterator
from datetime import date, datetime

from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inventory.freshness import NEVER
from inventory.models import Cluster
from usage.daily import first_day, midnight
from usage.models import StoredDays

PROMETHEUS, EXPORTERS = "prometheus", "exporters"


class LedgerCollector(Collector):
    """
    How long ago the last stored day and the last closed month ended, and how many closed days may need
    corrections; 0 without any. All are exported always: an alert cannot use a series that comes and goes.
    """

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        stored = GaugeMetricFamily(
            "dragoman_ledger_stored_age_seconds",
            "How long ago the last day (UTC) that the ledger has stored ended; 0 with nothing to store.",
        )
        closed = GaugeMetricFamily(
            "dragoman_ledger_closed_age_seconds",
            "How long ago the last closed month (UTC) ended; 0 without one.",
        )
        changed = GaugeMetricFamily(
            "dragoman_ledger_changed",
            "Closed days from the first that changed on: they may get corrections, and are not compared yet.",
        )
        now = timezone.now()
        days = StoredDays.objects.first()
        stored.add_metric([], _age(days.until if days else first_day(), now))
        closed.add_metric([], _age(days.closed_until if days else None, now))
        check_from, until = (days.check_from, days.closed_until) if days else (None, None)
        changed.add_metric([], (until - check_from).days if check_from and until else 0)
        yield from (stored, closed, changed)


def _age(day: date | None, now: datetime) -> float:
    """Return the seconds since the start of a day, 0 without one or before it."""
    return 0.0 if day is None or day == date.max else max((now - midnight(day)).total_seconds(), 0.0)


class CollectionCollector(Collector):
    """The age of the last successful collection of each cluster that has a source; infinite without any."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        age = GaugeMetricFamily(
            "dragoman_telemetry_collection_age_seconds",
            "Seconds since telemetry was last read from the source of the cluster.",
            labels=("cluster", "source"),
        )
        now = timezone.now()
        measured = Cluster.objects.filter(enabled=True).exclude(metrics_url="", prometheus_url="")
        columns = ("name", "prometheus_url", "collection__succeeded_at")
        for name, prometheus_url, succeeded_at in measured.order_by("name").values_list(*columns):
            source = PROMETHEUS if prometheus_url else EXPORTERS
            age.add_metric([name, source], (now - succeeded_at).total_seconds() if succeeded_at else NEVER)
        yield age
