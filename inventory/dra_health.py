"""
DRA health of a cluster: figures of scheduler, ResourceClaim controller and kubelets, by their own metrics.

`usage.dra_health` reads them from the cluster's Prometheus into `DraHealth`; pages read that row. Names of
metrics are those of Kubernetes 1.34 to 1.37: 1.37 renamed the metrics of the ResourceClaim controller.
https://kubernetes.io/docs/reference/instrumentation/metrics/

A counter that never counted has no series. So a count is 0 if its component is scraped (`Component.scraped`),
and unknown ("no telemetry") if it is not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from django.utils import timezone

from core.times import duration
from inventory.models import DraHealth

WINDOW = timedelta(minutes=15)  # over which operations and errors are counted
EVERY = timedelta(minutes=1)
STALE_AFTER = timedelta(minutes=5)


class Unit(Enum):
    COUNT = "count"
    SECONDS = "seconds"


@dataclass(frozen=True, slots=True)
class Component:
    """A program that has metrics. `scraped` has one series for each of its instances that is scraped."""

    key: str
    label: str
    scraped: str
    target: str  # what Prometheus scrapes for its series


SCHEDULER = Component(
    "scheduler",
    "Scheduler",
    'scheduler_pending_pods{queue="active"}',
    "kube-scheduler (port 10259)",
)
CONTROLLER = Component(
    "controller",
    "ResourceClaim controller",
    'workqueue_depth{name="resource_claim"}',
    "kube-controller-manager (port 10257)",
)
KUBELET = Component(
    "kubelet",
    "Kubelets",
    "kubelet_node_name",
    "the kubelets (port 10250, path /metrics)",
)
COMPONENTS = (SCHEDULER, CONTROLLER, KUBELET)


@dataclass(frozen=True, slots=True)
class Figure:
    """One number. `expression` is PromQL with one result or none; `is_fault` marks what should be 0."""

    key: str
    component: Component
    label: str
    expression: str
    unit: Unit = Unit.COUNT
    is_fault: bool = False


PLUGIN = 'plugin="DynamicResources"'
CLAIMS = "dynamic_resource_allocation_resource_claims", "resourceclaim_controller_resource_claims"
# Of the controller to 1.36, of the scheduler (for extended resources) to 1.36, and of both since 1.37.
CREATES = (
    '__name__=~"resourceclaim_controller_creates_total|scheduler_resourceclaim_creates_total|'
    'dynamic_resource_allocation_resourceclaim_creates_total"'
)


RANGE = f"{WINDOW // timedelta(minutes=1)}m"


def counted_in_window(component: Component, series: str) -> str:
    """Return how often these counters have counted; 0 without a series, if the component is scraped."""
    return f"round(sum(increase({series}[{RANGE}]))) or 0 * count({component.scraped})"


def claims_with(*, allocated: str) -> str:
    """Return how many ResourceClaims there are; the controller has no series for none."""
    sums = " or ".join(f'sum({name}{{allocated="{allocated}"}})' for name in CLAIMS)
    return f"{sums} or 0 * count({CONTROLLER.scraped})"


def slowest(histogram: str, labels: str) -> str:
    """Return the 95th percentile of a histogram in the window, in seconds; none without an operation."""
    quantile = f"histogram_quantile(0.95, sum by (le) (rate({histogram}_bucket{{{labels}}}[{RANGE}])))"
    return f"{quantile} >= 0"  # without an operation it is NaN


FIGURES: Sequence[Figure] = (
    Figure(
        "attempts",
        SCHEDULER,
        "Allocation attempts",
        # Once for each attempt to schedule a pod with claims: for other pods the plugin skips itself.
        counted_in_window(
            SCHEDULER, f'scheduler_plugin_evaluation_total{{{PLUGIN},extension_point="PreFilter"}}'
        ),
    ),
    Figure(
        "attempt_errors",
        SCHEDULER,
        "Errors of the plugin, of one attempt in ten that the scheduler samples",
        counted_in_window(
            SCHEDULER, f'scheduler_plugin_execution_duration_seconds_count{{{PLUGIN},status="Error"}}'
        ),
        is_fault=True,
    ),
    Figure(
        "attempt_latency",
        SCHEDULER,
        "Latency of the plugin, 95th percentile",
        slowest(
            "scheduler_plugin_execution_duration_seconds",
            f'{PLUGIN},extension_point=~"PreFilter|Filter|Reserve|PreBind"',
        ),
        Unit.SECONDS,
    ),
    Figure(
        "unschedulable",
        SCHEDULER,
        "Pods that no device fits now",
        f"sum(scheduler_unschedulable_pods{{{PLUGIN}}}) or 0 * count({SCHEDULER.scraped})",
    ),
    Figure(
        "allocated",
        CONTROLLER,
        "ResourceClaims with devices",
        claims_with(allocated="true"),
    ),
    Figure(
        "unallocated",
        CONTROLLER,
        "ResourceClaims without devices",
        claims_with(allocated="false"),
    ),
    Figure(
        "creates",
        CONTROLLER,
        "ResourceClaims created from templates and for extended resources",
        counted_in_window(CONTROLLER, f'{{{CREATES},status="success"}}'),
    ),
    Figure(
        "create_errors",
        CONTROLLER,
        "ResourceClaims that could not be created",
        counted_in_window(CONTROLLER, f'{{{CREATES},status="failure"}}'),
        is_fault=True,
    ),
    Figure(
        "retries",
        CONTROLLER,
        "Retries of the controller",
        counted_in_window(CONTROLLER, 'workqueue_retries_total{name="resource_claim"}'),
    ),
    Figure(
        "prepares",
        KUBELET,
        "Prepare and unprepare operations",
        counted_in_window(KUBELET, "dra_operations_duration_seconds_count"),
    ),
    Figure(
        "prepare_errors",
        KUBELET,
        "Operations that failed",
        counted_in_window(KUBELET, 'dra_operations_duration_seconds_count{is_error="true"}'),
        is_fault=True,
    ),
    Figure(
        "prepare_latency",
        KUBELET,
        "Latency of prepare, 95th percentile",
        slowest("dra_operations_duration_seconds", 'operation_name="PrepareResources"'),
        Unit.SECONDS,
    ),
    Figure(
        "driver_errors",
        KUBELET,
        "Calls of DRA drivers that failed",
        counted_in_window(KUBELET, 'dra_grpc_operations_duration_seconds_count{grpc_status_code!="OK"}'),
        is_fault=True,
    ),
    Figure(
        "in_use",
        KUBELET,
        "ResourceClaims in use on nodes",
        'sum(dra_resource_claims_in_use{driver_name="<any>"})',
    ),
)


def scraped_key(component: Component) -> str:
    """Return the key under which `DraHealth.figures` has how many instances of it are scraped."""
    return f"scraped_{component.key}"


# A text in quotes, a metric with or without labels, or a selector of several metrics.
SELECTOR = re.compile(
    r'"[^"]*"|\b(?:scheduler|workqueue|resourceclaim|dynamic_resource|dra|kubelet)_\w+\{?|\{(?=__name__)'
)


def of_series(expression: str, matchers: str) -> str:
    """Return PromQL that reads only series with these label matchers, such as `cluster="fra-1"`."""

    def narrowed(found: re.Match[str]) -> str:
        text = found[0]
        if text.startswith('"'):
            return text
        return f"{text}{matchers}," if text.endswith("{") else f"{text}{{{matchers}}}"

    return SELECTOR.sub(narrowed, expression) if matchers else expression


def expressions(matchers: str = "") -> dict[str, str]:
    """Return all PromQL that a reading needs, by key; a Prometheus of several clusters needs `matchers`."""
    scraped = {scraped_key(one): f"count({one.scraped})" for one in COMPONENTS}
    wanted = {figure.key: figure.expression for figure in FIGURES} | scraped
    return {key: of_series(expression, matchers) for key, expression in wanted.items()}


@dataclass(frozen=True, slots=True)
class Line:
    """A figure as a page shows it: `text` is "" for no telemetry."""

    label: str
    text: str
    is_bad: bool = False


@dataclass(frozen=True, slots=True)
class HealthSection:
    """A component with its lines; without a scraped instance there are none."""

    component: Component
    instances: int
    lines: list[Line]


@dataclass(frozen=True, slots=True)
class Health:
    """The row of a cluster for its page; `read_at` is None before the first reading."""

    row: DraHealth
    sections: list[HealthSection]

    @property
    def scraped(self) -> list[HealthSection]:
        return [one for one in self.sections if one.instances]

    @property
    def missing(self) -> str:
        """Return what has no telemetry and what to do, "" if all of it is scraped."""
        targets = [one.component.target for one in self.sections if not one.instances]
        if not targets:
            return ""
        *first, last = targets
        named = f"{', '.join(first)} and {last}" if first else last
        return f"No telemetry from {named}: let Prometheus scrape {'them' if first else 'it'}."

    @property
    def is_stale(self) -> bool:
        return self.row.read_at is None or timezone.now() - self.row.read_at > STALE_AFTER


def of_cluster(row: DraHealth | None) -> Health | None:
    """Return what the page of a cluster shows; None before anything was tried to read."""
    if row is None:
        return None
    shown = [section(one, row.figures) for one in COMPONENTS] if row.read_at else []
    return Health(row, shown)


def section(component: Component, figures: Mapping[str, float | None]) -> HealthSection:
    instances = int(figures.get(scraped_key(component)) or 0)
    lines = [line(one, figures.get(one.key)) for one in FIGURES if one.component is component]
    return HealthSection(component, instances, lines if instances else [])


def line(figure: Figure, value: float | None) -> Line:
    if value is None:
        return Line(figure.label, "no operation" if figure.unit is Unit.SECONDS else "")
    return Line(figure.label, in_words(value, figure.unit), figure.is_fault and value > 0)


def in_words(value: float, unit: Unit) -> str:
    """Return "1,204", "12 ms", "1.3 s" or "4 min"."""
    if unit is Unit.COUNT:
        return f"{value:,.0f}"
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.2g} s" if value < 60 else duration(timedelta(seconds=value))
