"""
How long requests for a profile waited in the past 30 days: for the decision, and then for the first device.

`refresh` computes the waits of each day from claims, and their percentiles from the days. Both are rows;
`claims.tasks.refresh_waits` runs it every ten minutes, and pages read the percentiles.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db import transaction
from django.db.models import F, Min, OuterRef, Q, Subquery, Value
from django.db.models.functions import Greatest, TruncDate
from django.utils import timezone

from claims.models import Allocation, Claim, DailyWaits, Profile, ProfileWaits
from core.models import RowDifferences
from core.prepared import Prepared

DAYS = 30  # with today; days are those of UTC
MIN_COUNT = 5  # a median of fewer waits depends on single claims
MEDIAN, P90 = 0.5, 0.9


# Reading.


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
    computed_at: datetime | None = None


NO_WAITS = Waits(Typical(), Typical())


PERCENTILES = ("decisions", "decision_median", "decision_p90", "devices", "device_median", "device_p90")


def waits_of(profile: Profile) -> Waits:
    """
    Return the waits of the past 30 days for a profile that was read with its `waits`.

    All teams count together, so the waits do not reveal who requested.
    """
    try:
        row = profile.waits
    except ProfileWaits.DoesNotExist:
        return NO_WAITS
    decision = Typical(row.decisions, row.decision_median, row.decision_p90)
    return Waits(decision, Typical(row.devices, row.device_median, row.device_p90), row.computed_at)


DECISION_MEDIANS = Prepared(
    lambda profile: (
        ProfileWaits.objects.filter(profile=profile, decision_median__isnull=False)
        .order_by()
        .values_list("decision_median")
    ),
    UUID,
)


def usual_decision(profile: UUID) -> timedelta | None:
    """Return the median time to the decision of a person on requests for a profile; None if it is unknown."""
    return next((median for (median,) in DECISION_MEDIANS.rows(profile)), None)


# Writing.

type DayKey = tuple[UUID, UUID, date]  # profile, cluster, day
type DayWaits = tuple[list[timedelta], list[timedelta]]  # for decisions, for devices; shortest first


@transaction.atomic
def refresh() -> RowDifferences:
    """Compute all rows from claims; write those that differ, and return what differed."""
    now = timezone.now()
    first = _first_day(now)
    expected, stored = _days_of_claims(first), _stored_days(first)
    differing = {key: waits for key, waits in expected.items() if _values(stored.get(key)) != waits}
    DailyWaits.objects.bulk_create(
        [
            DailyWaits(profile_id=profile, cluster_id=cluster, day=day, decisions=decisions, devices=devices)
            for (profile, cluster, day), (decisions, devices) in sorted(differing.items())
        ],
        update_conflicts=True,
        unique_fields=["profile", "cluster", "day"],
        update_fields=["decisions", "devices"],
    )
    obsolete = [row.pk for key, row in stored.items() if key not in expected]
    DailyWaits.objects.filter(Q(day__lt=first) | Q(pk__in=obsolete)).delete()
    percentiles = _percentiles(expected)
    differences = _differences(expected, stored, percentiles)
    ProfileWaits.objects.bulk_create(
        [ProfileWaits(profile_id=pk, computed_at=now, **row) for pk, row in sorted(percentiles.items())],
        update_conflicts=True,
        unique_fields=["profile"],
        update_fields=[*PERCENTILES, "computed_at"],
    )
    ProfileWaits.objects.exclude(pk__in=percentiles).delete()
    return differences


def find_differences() -> RowDifferences:
    """Compare all rows with what they should be now, and change nothing."""
    first = _first_day(timezone.now())
    expected = _days_of_claims(first)
    return _differences(expected, _stored_days(first), _percentiles(expected))


def _first_day(now: datetime) -> date:
    return now.astimezone(UTC).date() - timedelta(days=DAYS - 1)


def _days_of_claims(first: date) -> dict[DayKey, DayWaits]:
    """Return the waits of the claims that were decided on `first` or later."""
    got = (
        Allocation.objects.filter(claim=OuterRef("pk"))
        .order_by()
        .values("claim")
        .annotate(at=Min("started_at"))
        .values("at")
    )
    begin = datetime.combine(first, time(), UTC)
    # The clocks of cluster and portal may differ, so a wait could be negative.
    rows = (
        Claim.objects.filter(decided_at__gte=begin, origin=Claim.Origin.PORTAL)
        .annotate(
            day=TruncDate("decided_at", tzinfo=UTC),
            undecided=F("decided_at") - F("created_at"),
            got=Subquery(got),
            waited=Greatest(Subquery(got) - F("decided_at"), Value(timedelta(0))),
        )
        .order_by()
        .values_list("profile_version__profile", "cluster", "day")
        .annotate(
            decisions=ArrayAgg("undecided", filter=~Q(decided_by=None), order_by="undecided", default=[]),
            devices=ArrayAgg("waited", filter=~Q(got=None), order_by="waited", default=[]),
        )
    )
    return {
        (profile, cluster, day): (decisions, devices) for profile, cluster, day, decisions, devices in rows
    }


def _stored_days(first: date) -> dict[DayKey, DailyWaits]:
    rows = DailyWaits.objects.filter(day__gte=first)
    return {(row.profile_id, row.cluster_id, row.day): row for row in rows}


def _values(row: DailyWaits | None) -> DayWaits | None:
    return None if row is None else (row.decisions, row.devices)


def _percentiles(days: dict[DayKey, DayWaits]) -> dict[UUID, dict[str, Any]]:
    """Return the columns of `ProfileWaits` by profile."""
    by_profile: dict[UUID, DayWaits] = defaultdict(lambda: ([], []))
    for (profile, _cluster, _day), (decisions, devices) in days.items():
        by_profile[profile][0].extend(decisions)
        by_profile[profile][1].extend(devices)
    return {
        profile: dict(zip(PERCENTILES, (*_typical(decisions), *_typical(devices)), strict=True))
        for profile, (decisions, devices) in by_profile.items()
    }


def _typical(waits: Iterable[timedelta]) -> tuple[int, timedelta | None, timedelta | None]:
    """Return the number of waits, their median and their 90th percentile."""
    ordered = sorted(waits)
    if len(ordered) < MIN_COUNT:
        return len(ordered), None, None
    return len(ordered), _percentile(ordered, MEDIAN), _percentile(ordered, P90)


def _percentile(ordered: list[timedelta], fraction: float) -> timedelta:
    """Return the percentile between two neighbors as percentile_cont of SQL does."""
    place = fraction * (len(ordered) - 1)
    below = ordered[int(place)]
    above = ordered[min(int(place) + 1, len(ordered) - 1)]
    return below + (above - below) * (place - int(place))


def _differences(
    days: dict[DayKey, DayWaits], stored: dict[DayKey, DailyWaits], percentiles: dict[UUID, dict[str, Any]]
) -> RowDifferences:
    profiles = {row.pop("profile"): row for row in ProfileWaits.objects.values("profile", *PERCENTILES)}
    altered = sum(_values(stored[key]) != waits for key, waits in days.items() if key in stored)
    altered += sum(profiles[pk] != row for pk, row in percentiles.items() if pk in profiles)
    missing = len(days.keys() - stored.keys()) + len(percentiles.keys() - profiles.keys())
    obsolete = len(stored.keys() - days.keys()) + len(profiles.keys() - percentiles.keys())
    return RowDifferences(missing, altered, obsolete)
