"""
Opens and resolves alerts, and tells the people whom they concern, once.

A run may come twice or at the same time as another: the database keeps one open alert per key, and an alert
is notified of by whoever sets `notified_at`. A run that dies in between is finished by the next one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from itertools import batched
from typing import TypedDict
from uuid import UUID

from django.db import transaction

from notify.models import Notice, NoticeKind
from notify.services import already_notified, notify
from notify.services import resolve as resolve_notices
from notify.webhooks.kinds import EventKind
from notify.webhooks.outbox import emit
from teams.access import people_in
from teams.models import Role, User
from usage.alerts.conditions import Finding, findings
from usage.models import Alert

Condition = Alert.Condition

KEEP = timedelta(days=30)  # after its end
AT_ONCE = 500  # alerts that are written by one statement
# `usage.idle.escalation` tells owners and leads of idle claims, with snooze and release.
TOLD_ELSEWHERE = (Condition.CLAIM_IDLE,)
RELATED = ("claim__requested_by", "team", "cluster")


def follow(now: datetime) -> None:
    """Open what holds and is not open, resolve what is open and does not hold, and notify of new alerts."""
    found = findings(now)
    stored = {alert.key: alert for alert in Alert.objects.open()}
    resolve([alert for key, alert in stored.items() if key not in found], now)
    open_new([finding for key, finding in found.items() if key not in stored], now)
    update_texts(stored, found)
    for alert in Alert.objects.open().filter(notified_at=None).select_related(*RELATED):
        with transaction.atomic():
            notify_of(alert, now)
    Alert.objects.filter(resolved_at__lt=now - KEEP).delete()


def resolve(alerts: Iterable[Alert], now: datetime) -> None:
    for batch in batched(alerts, AT_ONCE):
        Alert.objects.open().filter(pk__in=[alert.pk for alert in batch]).update(resolved_at=now)
        resolve_notices(*(f"alert:{alert.key}" for alert in batch))


def open_new(new: Iterable[Finding], now: datetime) -> None:
    rows = [
        Alert(
            condition=finding.condition,
            key=finding.key,
            cluster_id=finding.cluster_id,
            team_id=finding.team_id,
            claim_id=finding.claim_id,
            text=finding.text,
            url=finding.url,
            since=finding.since,
            opened_at=now,
            notified_at=now if finding.condition in TOLD_ELSEWHERE else None,
        )
        for finding in new
    ]
    Alert.objects.bulk_create(rows, batch_size=AT_ONCE, ignore_conflicts=True)  # another run may open one


def update_texts(stored: Mapping[str, Alert], found: Mapping[str, Finding]) -> None:
    """Store the numbers of today; an alert keeps the time since which it holds."""
    changed = []
    for key, alert in stored.items():
        if key in found and alert.text != found[key].text:
            alert.text = found[key].text
            changed.append(alert)
    Alert.objects.bulk_update(changed, ["text"], batch_size=AT_ONCE)


def notify_of(alert: Alert, now: datetime) -> None:
    """Tell the people whom it concerns; about one thing not more than once a day, however often it comes."""
    if not Alert.objects.filter(pk=alert.pk, notified_at=None).update(notified_at=now):
        return  # another run has, at this moment
    emit(EventKind.ALERT_OPENED, team_id=alert.team_id, data=partial(alert_data, alert))
    if is_known(alert):
        return
    key = f"alert:{alert.key}:{alert.opened_at:%Y-%m-%d}"
    Notice.objects.filter(key=key).update(read_at=None)  # it has come again on the same day
    notify(
        people_of(alert),
        kind=NoticeKind.PLATFORM if alert.team_id is None else NoticeKind.ALERT,
        key=key,
        team_id=alert.team_id,
        title=f"{alert.get_condition_display()}: {about(alert)}",
        body=alert.text,
        url=alert.url,
        important=True,
    )


class AlertData(TypedDict):
    id: UUID
    condition: str
    title: str
    text: str
    team: str | None
    claim: UUID | None
    cluster: str | None
    since: datetime
    url: str


def alert_data(alert: Alert) -> AlertData:
    return {
        "id": alert.pk,
        "condition": alert.condition,
        "title": alert.get_condition_display(),
        "text": alert.text,
        "team": alert.team.slug if alert.team else None,
        "claim": alert.claim_id,
        "cluster": alert.cluster.name if alert.cluster else None,
        "since": alert.since,
        "url": alert.url,
    }


def is_known(alert: Alert) -> bool:
    """Return whether leads have the notice of 80 or 100 % of this budget, which says when it runs out."""
    if alert.condition != Condition.BUDGET:
        return False
    _condition, about_budget = alert.key.split(":", 1)
    return bool(already_notified([f"budget:{about_budget}:{share}" for share in ("80%", "100%")]))


def about(alert: Alert) -> str:
    """Return the name of what it is about: a claim, a team or a cluster."""
    return str(alert.claim or alert.team or alert.cluster)


def people_of(alert: Alert) -> list[User]:
    """Return owner and leads of a claim, the leads of a team, and platform admins for a cluster."""
    if alert.team is None:
        return list(User.objects.filter(is_superuser=True, is_active=True))
    leads = people_in(alert.team, at_least=Role.LEAD)
    return [alert.claim.requested_by, *leads] if alert.claim else leads
