"""Reminders of claims whose devices have all been idle for long."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import Exists, OuterRef, Subquery
from django.urls import reverse

from claims.models import Allocation, Claim
from claims.states import ClaimState
from core.text import counted
from core.times import duration as in_words
from core.times import utc_moment
from inventory.models import DeviceUtilization
from inventory.states import DeviceUse
from notify.models import NoticeKind
from notify.services import already_notified, notify

NOTICE_AFTER = timedelta(hours=2)

IDLE = DeviceUtilization.objects.filter(
    use=DeviceUse.IDLE,
    device__cluster=OuterRef("claim__cluster"),
    device__driver=OuterRef("driver"),
    device__pool=OuterRef("pool"),
    device__name=OuterRef("device"),
)


def idle_claims(now: datetime) -> dict[UUID, tuple[datetime, int]]:
    """
    Return the allocated claims all of whose devices have been idle for NOTICE_AFTER: since when, and how many
    devices; one query.
    """
    held = Allocation.objects.filter(ended_at=None, claim__state=ClaimState.ALLOCATED).order_by()
    long_idle = held.filter(Exists(IDLE.filter(since__lte=now - NOTICE_AFTER)))
    since: dict[UUID, list[datetime | None]] = defaultdict(list)
    some = held.filter(claim__in=long_idle.values("claim")).annotate(since=Subquery(IDLE.values("since")[:1]))
    for claim, at in some.values_list("claim", "since"):
        since[claim].append(at)
    found = {}
    for claim, times in since.items():
        known = [at for at in times if at is not None]
        if len(known) == len(times) and max(known) <= now - NOTICE_AFTER:
            found[claim] = max(known), len(known)
    return found


def remind_of_idle_claims(now: datetime) -> None:
    """Notify owners of idle claims, once per idle time."""
    idle = idle_claims(now)
    keys = {f"idle:{claim}:{since.isoformat()}": claim for claim, (since, _devices) in idle.items()}
    notified = already_notified(keys)
    claims = Claim.objects.select_related("team", "requested_by").in_bulk(keys.values()) if keys else {}
    for key, pk in keys.items():
        claim = claims.get(pk)
        if claim and (key, claim.requested_by_id) not in notified:
            _notify(claim, key, *idle[pk], now)


def _notify(claim: Claim, key: str, since: datetime, devices: int, now: datetime) -> None:
    which = "its device was" if devices == 1 else f"its {counted(devices, 'device')} were"
    until = f" until the claim ends on {utc_moment(claim.expires_at)}" if claim.expires_at else ""
    notify(
        [claim.requested_by],
        kind=NoticeKind.UNUSED,
        key=key,
        team_id=claim.team_id,
        title=f"{claim} has been idle for {in_words(now - since)}",
        body=(
            f"Since {utc_moment(since)} {which} below 10 % utilization. Nobody else can use what it holds"
            f"{until}. Release it if its work is done."
        ),
        url=reverse("claims:detail", args=[claim.pk]),
        important=True,
    )
