"""Budgets by state for Prometheus, from the stored use; teams are not named."""

from collections import Counter
from collections.abc import Iterable, Iterator

from django.utils import timezone
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from claims.budgets.use import ENOUGH, RUNS_OUT, USED_UP, runs_out_soon, state_of, utc_day
from claims.models import Budget, BudgetUse

EXPORTED = (ENOUGH, RUNS_OUT, USED_UP)


class BudgetCollector(Collector):
    """
    Current budgets by state, how many run out within seven days, and the age of the oldest figure. All
    are exported without a budget too: an alert cannot use a series that comes and goes.
    """

    def describe(self) -> Iterable[Metric]:
        """Return nothing: registering a collector must not query the database."""
        return ()

    def collect(self) -> Iterator[Metric]:
        by_state = GaugeMetricFamily("dragoman_budgets", "Current budgets by state.", labels=("state",))
        soon = GaugeMetricFamily(
            "dragoman_budget_run_out_soon",
            "Current budgets that are used up within seven days and before their period ends.",
        )
        age = GaugeMetricFamily(
            "dragoman_budget_use_age_seconds", "Age of the oldest figure of a current budget; 0 without one."
        )
        now = timezone.now()
        current = Budget.objects.current(utc_day(now)).order_by()
        uses = list(BudgetUse.objects.filter(budget__in=current).select_related("budget"))
        counts = Counter(state_of(use.budget, use, now=now) for use in uses)
        for state in EXPORTED:
            by_state.add_metric([state.key], counts[state])
        soon.add_metric([], sum(runs_out_soon(use, now=now) for use in uses))
        age.add_metric([], max(((now - use.as_of).total_seconds() for use in uses), default=0.0))
        yield from (by_state, soon, age)
