"""
What a load balancer and Prometheus ask. All of it is public and names clusters, but no person and no claim.

A cluster that cannot be reached does not make the portal unready: its pages still serve, with the age of what
they show. Only when no cluster at all is followed any more are the workers dead, and then the portal says so.
"""

from collections.abc import Callable

from celery import current_app
from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from kombu.exceptions import OperationalError
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, generate_latest

from claims.metrics import ClaimCollector
from inventory.freshness import OF_DEVICES, Age, MirrorCollector, ages

BROKER_PATIENCE = 2  # seconds

REGISTRY.register(MirrorCollector())
REGISTRY.register(ClaimCollector())


@login_not_required
@never_cache
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """Whether the portal can do its work: 200, or 503 with a sentence for each thing that is wrong."""
    checks: dict[str, Callable[[], str]] = {"database": database, "broker": broker, "sync": sync}
    problems: dict[str, str] = {}
    for name, check in checks.items():
        if name == "sync" and problems["database"]:
            problems[name] = "Cannot be told without the database."
        else:
            problems[name] = check()
    ready = not any(problems.values())
    clusters = [] if problems["database"] else [told(age) for age in ages(OF_DEVICES)]
    answer = {"ready": ready, "problems": {k: v for k, v in problems.items() if v}, "clusters": clusters}
    return JsonResponse(answer, status=200 if ready else 503)


@login_not_required
@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


def database() -> str:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "The database does not answer."
    return ""


def broker() -> str:
    try:
        with current_app.connection_for_write(connect_timeout=BROKER_PATIENCE) as link:
            link.ensure_connection(max_retries=1, interval_start=0, interval_step=0, timeout=BROKER_PATIENCE)
    except (OperationalError, OSError):
        return "The message broker does not answer."
    return ""


def sync() -> str:
    """Return a sentence if no cluster is followed any more."""
    known = ages(OF_DEVICES)
    if not known or not all(age.is_stale for age in known):
        return ""
    count = len(known)
    return (
        "The mirror of the only cluster is stale."
        if count == 1
        else f"The mirrors of all {count} clusters are stale."
    )


def told(age: Age) -> dict[str, object]:
    seen = age.seen_at.isoformat() if age.seen_at else None
    return {"name": age.cluster.name, "seen_at": seen, "stale": age.is_stale}
