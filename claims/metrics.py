"""Claims by state for Prometheus, read when it scrapes."""

from collections.abc import Iterable, Iterator

from django.db.models import Count
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from claims.models import Claim
from claims.states import ClaimState
from inventory.models import Cluster


class ClaimCollector(Collector):
    """
    Claims by cluster and state. Every state of every cluster is exported, 0 as well: an alert cannot use a
    series that comes and goes. Teams and people are not named.
    """

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        claims = GaugeMetricFamily("dragoman_claims", "Claims by state.", labels=("cluster", "state"))
        rows = Claim.objects.order_by().values_list("cluster__name", "state").annotate(count=Count("pk"))
        counts = {(cluster, state): count for cluster, state, count in rows}
        for cluster in Cluster.objects.values_list("name", flat=True):
            for state in ClaimState.values:
                claims.add_metric([cluster, state], counts.get((cluster, state), 0))
        yield claims
