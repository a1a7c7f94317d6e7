"""Whether the audit log is whole, for Prometheus: what its last verification found, and how old that is."""

from collections.abc import Iterable, Iterator

from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from teams.models import AuditState


class AuditCollector(Collector):
    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        state = AuditState.objects.first() or AuditState()
        yield GaugeMetricFamily(
            "dragoman_audit_log_changed",
            "1 if the last verification of the audit log found an entry that does not fit its hash chain.",
            value=1 if state.problem else 0,
        )
        if state.verified_at is not None:
            yield GaugeMetricFamily(
                "dragoman_audit_log_verification_age_seconds",
                "Age of the last verification of the audit log.",
                value=max((timezone.now() - state.verified_at).total_seconds(), 0),
            )
