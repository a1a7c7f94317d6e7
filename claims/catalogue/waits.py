"""
How long people waited for a profile of late: until somebody decided, and from then until the first device.
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
ENOUGH = 5  # below it a median says more about one claim than about the profile
HALF, MOST = 0.5, 0.9


@dataclass(frozen=True, slots=True)
class Typical:
    """
    The median and the 90th percentile of `count` waits; both None while `count` is below ENOUGH.
    """

    count: int = 0
    median: timedelta | None = None
    most: timedelta | None = None

    @property
    def is_known(self) -> bool:
        return self.median is not None


@dataclass(frozen=True, slots=True)
class Waits:
    """
    `decision` is from the request to what a person decided; requests that a rule approved do not count.
    `device` is from the approval to the first device, the time until somebody started a pod included; only
    claims that got one count.
    """

    decision: Typical
    device: Typical


NO_WAITS = Waits(Typical(), Typical())
# Of this process: the time on the monotonic clock at which it was worked out, and what came of it.
_kept: dict[timedelta, tuple[float, dict[UUID, Waits]]] = {}


class Percentiles(Aggregate):
    """PostgreSQL's percentile_cont, of durations: a list with one duration per fraction, None for no row."""

    function = "PERCENTILE_CONT"
    template = "%(function)s(%(fractions)s) WITHIN GROUP (ORDER BY %(expressions)s)"

    def __init__(self, expression: Any, fractions: tuple[float, ...], **extra: Any) -> None:
        texts = ", ".join(str(float(one)) for one in fractions)
        super().__init__(
            expression, fractions=f"ARRAY[{texts}]", output_field=ArrayField(DurationField()), **extra
        )


def waits() -> dict[UUID, Waits]:
    """
    Return the waits of every profile on which something was decided in the past 30 days, in one query.

    All teams count together: it tells nobody who asked. What a month came to is worked out anew no more often
    than settings.WAITS_KEPT_FOR says.
    """
    kept = _kept.get(WINDOW)
    if kept is None or time.monotonic() - kept[0] >= settings.WAITS_KEPT_FOR.total_seconds():
        kept = _kept[WINDOW] = (time.monotonic(), _worked_out())
    return kept[1]


def _worked_out() -> dict[UUID, Waits]:
    first = (
        Allocation.objects.filter(claim=OuterRef("pk"))
        .order_by()
        .values("claim")
        .annotate(at=Min("started_at"))
        .values("at")
    )
    decided = ~Q(decided_by=None)
    # The clocks of cluster and portal may differ by a little; nobody waited less than no time.
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
            decision=Percentiles("undecided", (HALF, MOST), filter=decided),
            starts=Count("pk", filter=~Q(got=None)),
            device=Percentiles("waited", (HALF, MOST), filter=~Q(got=None)),
        )
    )
    return {
        row["profile_version__profile"]: Waits(
            decision=_typical(row["decisions"], row["decision"]),
            device=_typical(row["starts"], row["device"]),
        )
        for row in rows
    }


def _typical(count: int, found: list[timedelta] | None) -> Typical:
    if count < ENOUGH or found is None:
        return Typical(count)
    return Typical(count, *found)
