"""Claims by state for Prometheus, read when it scrapes."""

from collections.abc import Iterable, Iterator

from django.db.models import Count, Min
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from claims.models import Claim
from claims.states import FINAL, ClaimState
from inventory.models import Cluster


class ClaimCollector(Collector):
    """
    Claims by cluster and state, and how long the longest has been in it. Every state of every cluster is
    exported, 0 as well: an alert cannot use a series that comes and goes. Teams and people are not named.
    """

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        claims = GaugeMetricFamily("dragoman_claims", "Claims by state.", labels=("cluster", "state"))
        longest = GaugeMetricFamily(
            "dragoman_claim_longest_seconds",
            "How long the claim that entered a state first has been in it; 0 without one.",
            labels=("cluster", "state"),
        )
        by_state = Claim.objects.order_by().values_list("cluster__name", "state")
        rows = by_state.annotate(count=Count("pk"), since=Min("state_since"))
        counts = {(cluster, state): (count, since) for cluster, state, count, since in rows}
        now = timezone.now()
        for cluster in Cluster.objects.values_list("name", flat=True):
            for state in ClaimState.values:
                count, since = counts.get((cluster, state), (0, now))
                claims.add_metric([cluster, state], count)
                if state not in FINAL:
                    longest.add_metric([cluster, state], (now - since).total_seconds())
        yield from (claims, longest)
