"""Claims by state, and requests that wait for a decision, for Prometheus; read when it scrapes."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Count, Min, Q, QuerySet
from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from claims.models import Claim, Extension, QuotaRequest, RequestStatus
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


# Prometheus adds up and compares numbers, so each is how many are older, not how many are between two ages.
OLDER_THAN = {
    "0": timedelta(0),
    "1h": timedelta(hours=1),
    "4h": timedelta(hours=4),
    "1d": timedelta(days=1),
    "3d": timedelta(days=3),
}


class UndecidedCollector(Collector):
    """
    Requests that wait for a decision, by what they ask for, and how many of them are older than some ages;
    all are exported always.
    """

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        undecided = GaugeMetricFamily(
            "dragoman_undecided_requests",
            "Requests that have waited for a decision for longer than an age; 0 has all that wait.",
            labels=("kind", "older_than"),
        )
        waiting = {"status": RequestStatus.WAITING}
        kinds: dict[str, tuple[QuerySet[Any], str]] = {
            "claim": (Claim.objects.filter(state=ClaimState.REQUESTED), "state_since"),
            "extension": (Extension.objects.filter(**waiting), "requested_at"),
            "quota": (QuotaRequest.objects.of_quota().filter(**waiting), "requested_at"),
            "budget": (QuotaRequest.objects.exclude(budget=None).filter(**waiting), "requested_at"),
        }
        now = timezone.now()
        for kind, (rows, since) in kinds.items():
            counts = rows.order_by().aggregate(
                **{
                    f"older_{age}": Count("pk", filter=Q(**{f"{since}__lte": now - span}))
                    for age, span in OLDER_THAN.items()
                }
            )
            for age in OLDER_THAN:
                undecided.add_metric([kind, age], counts[f"older_{age}"])
        yield undecided
