"""Open alerts by condition and cluster for Prometheus; teams, claims and people are not named."""

from collections.abc import Iterable, Iterator

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from inventory.models import Cluster
from usage.models import Alert

# Of a team, which works in several clusters.
WITHOUT_CLUSTER = (Alert.Condition.QUOTA, Alert.Condition.BUDGET)


class AlertCollector(Collector):
    """Every condition is exported, 0 as well: an alert cannot use a series that comes and goes."""

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily(
            "dragoman_alerts",
            "Open alerts of the portal; cluster is empty for quotas and budgets.",
            labels=("condition", "cluster"),
        )
        rows = Alert.objects.open().order_by().values_list("condition", "cluster__name")
        counts = {(condition, name or ""): count for condition, name, count in rows.annotate(Count("pk"))}
        names = [*Cluster.objects.values_list("name", flat=True)]
        for condition in Alert.Condition:
            for name in ("",) if condition in WITHOUT_CLUSTER else names:
                gauge.add_metric([condition, name], counts.get((condition, name), 0))
        yield gauge
