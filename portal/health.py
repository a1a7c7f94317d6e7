"""
Health checks and metrics for a load balancer and Prometheus. They are public and name clusters, but no person
and no claim.

They are answered before the middleware of pages: a load balancer asks by address, not by a name of
`ALLOWED_HOSTS`, over plain HTTP, and without a session.

An unreachable cluster does not make the portal unready: pages still show its data, with its age. Only if no
cluster is synced at all are the sync workers down, and the portal is not ready.
"""

from collections.abc import Callable

import psycopg
from celery import current_app
from django.db import connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from claims.budgets.metrics import BudgetCollector
from claims.metrics import ClaimCollector, UndecidedCollector
from inventory.freshness import OF_DEVICES, Age, MirrorCollector, ages
from portal.queues import QueueCollector
from teams.audit.metrics import AuditCollector
from usage.alerts.metrics import AlertCollector
from usage.metrics import CollectionCollector, LedgerCollector

BROKER_TIMEOUT = DATABASE_TIMEOUT = 2  # seconds

REGISTRY.register(MirrorCollector())
REGISTRY.register(ClaimCollector())
REGISTRY.register(UndecidedCollector())
REGISTRY.register(BudgetCollector())
REGISTRY.register(AlertCollector())
REGISTRY.register(AuditCollector())
REGISTRY.register(LedgerCollector())
REGISTRY.register(CollectionCollector())
REGISTRY.register(QueueCollector())


@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200 if the process responds."""
    return HttpResponse("ok\n", content_type="text/plain")


@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 if the portal can work, else 503 with a sentence per problem."""
    checks: dict[str, Callable[[], str]] = {"database": database, "broker": broker, "sync": sync}
    problems: dict[str, str] = {}
    for name, check in checks.items():
        if name == "sync" and problems["database"]:
            problems[name] = "Unknown without the database."
        else:
            problems[name] = check()
    ready = not any(problems.values())
    clusters = [] if problems["database"] else [cluster_status(age) for age in ages(OF_DEVICES)]
    body = {"ready": ready, "problems": {k: v for k, v in problems.items() if v}, "clusters": clusters}
    return JsonResponse(body, status=200 if ready else 503)


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


def database() -> str:
    """
    Return a sentence if the database lets nobody in. It is asked over a connection of its own: on an open
    one a stopped server would be waited for without end, since its kernel goes on acknowledging.
    """
    options = connection.get_connection_params() | {"connect_timeout": DATABASE_TIMEOUT}
    try:
        psycopg.connect(**options).close()
    except psycopg.Error:
        return "The database does not respond."
    return ""


def broker() -> str:
    try:
        timeouts = {"socket_timeout": BROKER_TIMEOUT, "socket_connect_timeout": BROKER_TIMEOUT}
        with current_app.connection_for_write(transport_options=timeouts) as link:
            link.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=BROKER_TIMEOUT)
    except (OperationalError, OSError):
        return "The message broker does not respond."
    return ""


def sync() -> str:
    """Return a sentence if the mirror of every cluster is stale."""
    mirror_ages = ages(OF_DEVICES)
    if not mirror_ages or not all(age.is_stale for age in mirror_ages):
        return ""
    count = len(mirror_ages)
    return (
        "The mirror of the only cluster is stale."
        if count == 1
        else f"The mirrors of all {count} clusters are stale."
    )


def cluster_status(age: Age) -> dict[str, object]:
    seen_at = age.seen_at.isoformat() if age.seen_at else None
    return {"name": age.cluster.name, "seen_at": seen_at, "stale": age.is_stale}


PROBES = {"/healthz": healthz, "/readyz": readyz, "/metrics": metrics}


def probes(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Answer probes; pass every other request on."""

    def respond(request: HttpRequest) -> HttpResponse:
        probe = PROBES.get(request.path_info)
        if probe is None:
            return get_response(request)
        response = probe(request)
        response["X-Content-Type-Options"] = "nosniff"  # the middleware that says so comes later
        return response

    return respond
