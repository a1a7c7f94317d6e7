"""The effect of a quota request; expiry of quota requests and increases."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet, Sum
from django.urls import reverse
from django.utils import timezone

from claims.models import Quota, QuotaIncrease, QuotaRequest, RequestStatus
from claims.quotas.quota_usage import QuotaUsage, device_capacity, quota_label, quota_usage
from core.prepared import Prepared
from core.times import moment, utc_moment
from notify.models import NoticeKind
from notify.services import notify, resolve_others
from teams.access import people_in
from teams.models import Role, Team, User


@dataclass(frozen=True, slots=True)
class QuotaImpact:
    """
    `before` and `after` are limits of the team now and if approved. For a device class, `granted` is what all
    teams may hold together after it, and `capacity` what the clusters publish (None: unknown).
    """

    label: str
    usage: QuotaUsage | None
    before: int
    after: int
    granted: int | None = None
    capacity: int | None = None

    @property
    def more(self) -> int:
        return self.after - self.before

    @property
    def overcommitted(self) -> int:
        """How many more devices are granted than exist."""
        if self.capacity is None or self.granted is None:
            return 0
        return max(self.granted - self.capacity, 0)


def named_quota(team: Team, *, device_class: str, profile_id: UUID | None, counts: str) -> Quota | None:
    """Return the team's quota for this class, profile or count, None without one."""
    rows = Quota.objects.select_related("team", "profile").filter(
        team=team, device_class=device_class, profile=profile_id, counts=counts
    )
    return rows.first()


def requested_quota(quota_request: QuotaRequest) -> Quota | None:
    return named_quota(
        quota_request.team,
        device_class=quota_request.device_class,
        profile_id=quota_request.profile_id,
        counts=quota_request.counts,
    )


def quota_words(quota_request: QuotaRequest) -> str:
    """Return the label of the requested quota: "gpu.nvidia.com", "train-80", "claims", "budget"."""
    if quota_request.budget_id:
        return "budget"
    row = Quota(
        team=quota_request.team,
        device_class=quota_request.device_class,
        profile=quota_request.profile,
        counts=quota_request.counts,
    )
    return quota_label(row)


def request_kind(quota_request: QuotaRequest) -> str:
    return "Budget" if quota_request.budget_id else "Quota"


def request_impact(quota_request: QuotaRequest) -> QuotaImpact:
    row = requested_quota(quota_request)
    usage = quota_usage([row])[0] if row else None
    before = usage.limit if usage else 0
    label = quota_words(quota_request)
    if not quota_request.device_class:
        return QuotaImpact(label, usage, before, quota_request.devices)
    granted = sum(total for _class, total in GRANTED.rows(quota_request.device_class, timezone.now()))
    return QuotaImpact(
        label,
        usage,
        before,
        quota_request.devices,
        granted=granted + quota_request.devices - before,
        capacity=device_capacity([quota_request.device_class]).get(quota_request.device_class),
    )


def _granted(device_class: str, now: datetime) -> QuerySet[Quota, Any]:
    """Return the sum of the limits of a class and that of their increases, each with the class."""
    limits = Quota.objects.filter(device_class=device_class).order_by().values_list("device_class")
    raises = QuotaIncrease.objects.filter(
        quota__device_class=device_class, starts_at__lte=now, ends_at__gt=now
    )
    raised = raises.order_by().values_list("quota__device_class").annotate(total=Sum("devices"))
    return limits.annotate(total=Sum("devices")).union(raised, all=True).order_by()


GRANTED = Prepared(_granted, str, datetime)


def until_words(until: datetime | None, say: Callable[[datetime], str] = moment) -> str:
    return f"until {say(until)}" if until else "for good"


ENDING = "quota-raise-ends-"
NOTIFY_BEFORE = timedelta(days=1)
NOTIFY_AFTER = timedelta(days=2)  # no notice for an increase that ended longer ago


def end_overdue(now: datetime) -> None:
    """Expire undecided requests whose time is over."""
    overdue = QuotaRequest.objects.filter(status=RequestStatus.WAITING, decide_by__lte=now)
    for quota_request in overdue.select_related("team", "requested_by"):
        with transaction.atomic():  # with its notice
            if quota_request.decide(RequestStatus.EXPIRED, by=None, note="Nobody decided in time."):
                _notify_expired(quota_request)


def _notify_expired(quota_request: QuotaRequest) -> None:
    notify(
        [quota_request.requested_by],
        kind=NoticeKind.DECISION,
        key=f"quota-request-decided-{quota_request.pk}",
        team_id=quota_request.team_id,
        title=f"{request_kind(quota_request)} request of {quota_request.team} expired",
        body="Request again if it is still needed.",
        url=reverse("claims:quota_request_decision", args=[quota_request.pk]),
    )


def notify_ends(now: datetime) -> None:
    """Notify leads and the requester once a day before an increase ends, and once after it."""
    raises = QuotaIncrease.objects.select_related("quota__team", "quota__profile", "request__requested_by")
    resolve_others(
        ENDING, [f"{ENDING}{pk}" for pk in raises.filter(ends_at__gt=now).values_list("pk", flat=True)]
    )
    for increase in raises.filter(
        ends_at__gt=now - NOTIFY_AFTER, ends_at__lte=now + NOTIFY_BEFORE, starts_at__lte=now
    ):
        over = increase.ends_at <= now
        quota = increase.quota
        notify(
            _people(increase),
            kind=NoticeKind.QUOTA,
            key=f"{'quota-raise-ended-' if over else ENDING}{increase.pk}",
            team_id=increase.quota.team_id,
            title=_title(increase, over=over),
            body=f"The limit is then {quota.devices}. What is held beyond it stays, and is shown as over.",
            url=reverse("claims:quota", args=[quota.pk]),
            important=not over,
        )


def _title(increase: QuotaIncrease, *, over: bool) -> str:
    more = f"The {increase.devices} more {quota_label(increase.quota)} of {increase.quota.team}"
    return f"{more} have ended" if over else f"{more} end on {utc_moment(increase.ends_at)}"


def _people(increase: QuotaIncrease) -> list[User]:
    user_of = [increase.request.requested_by] if increase.request else []
    return [*people_in(increase.quota.team, at_least=Role.LEAD), *user_of]
