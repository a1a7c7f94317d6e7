"""
How long requests for a profile waited in the past 30 days: for the decision, and then for the first device.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db.models import Aggregate, Count, DurationField, F, Min, OuterRef, Q, Subquery, Value
from django.db.models.functions import Greatest
from django.utils import timezone

from claims.models import Allocation, Claim

WINDOW = timedelta(days=30)
MIN_COUNT = 5  # a median of fewer waits depends on single claims
MEDIAN, P90 = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Typical:
    """
    The median and the 90th percentile of `count` waits; both None while `count` is below MIN_COUNT.
    """

    count: int = 0
    median: timedelta | None = None
    p90: timedelta | None = None

    @property
    def is_known(self) -> bool:
        return self.median is not None


@dataclass(frozen=True, slots=True)
class Waits:
    """
    `decision` is from the request to the decision of a person; requests that a rule approved do not count.
    `device` is from the approval to the first device, including the time until somebody started a pod; only
    claims that got a device count.
    """

    decision: Typical
    device: Typical


NO_WAITS = Waits(Typical(), Typical())
# Cache of this process: the time on the monotonic clock of the computation, and its result.
_cache: dict[timedelta, tuple[float, dict[UUID, Waits]]] = {}


class Percentiles(Aggregate):
    """PostgreSQL's percentile_cont of durations: one duration per fraction, None without rows."""

    function = "PERCENTILE_CONT"
    template = "%(function)s(%(fractions)s) WITHIN GROUP (ORDER BY %(expressions)s)"

    def __init__(self, expression: Any, fractions: tuple[float, ...], **extra: Any) -> None:
        texts = ", ".join(str(float(fraction)) for fraction in fractions)
        super().__init__(
            expression, fractions=f"ARRAY[{texts}]", output_field=ArrayField(DurationField()), **extra
        )


def waits() -> dict[UUID, Waits]:
    """
    Return the waits of every profile with a decision in the past 30 days, in one query.

    All teams count together, so the waits do not reveal who requested. The result is cached for
    settings.WAITS_KEPT_FOR.
    """
    cached = _cache.get(WINDOW)
    if cached is None or time.monotonic() - cached[0] >= settings.WAITS_KEPT_FOR.total_seconds():
        cached = _cache[WINDOW] = (time.monotonic(), _compute_waits())
    return cached[1]


def _compute_waits() -> dict[UUID, Waits]:
    first = (
        Allocation.objects.filter(claim=OuterRef("pk"))
        .order_by()
        .values("claim")
        .annotate(at=Min("started_at"))
        .values("at")
    )
    decided = ~Q(decided_by=None)
    # The clocks of cluster and portal may differ, so a wait could be negative.
    rows = (
        Claim.objects.filter(decided_at__gte=timezone.now() - WINDOW, origin=Claim.Origin.PORTAL)
        .annotate(
            undecided=F("decided_at") - F("created_at"),
            waited=Greatest(Subquery(first) - F("decided_at"), Value(timedelta(0))),
            got=Subquery(first),
        )
        .order_by()
        .values("profile_version__profile")
        .annotate(
            decisions=Count("pk", filter=decided),
            decision=Percentiles("undecided", (MEDIAN, P90), filter=decided),
            starts=Count("pk", filter=~Q(got=None)),
            device=Percentiles("waited", (MEDIAN, P90), filter=~Q(got=None)),
        )
    )
    return {
        row["profile_version__profile"]: Waits(
            decision=_typical(row["decisions"], row["decision"]),
            device=_typical(row["starts"], row["device"]),
        )
        for row in rows
    }


def _typical(count: int, percentiles: list[timedelta] | None) -> Typical:
    if count < MIN_COUNT or percentiles is None:
        return Typical(count)
    return Typical(count, *percentiles)
