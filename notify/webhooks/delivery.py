"""
Delivers events at least once: what is due is taken, sent, and its result stored.

A failed delivery is due again after the next of `WAITS`, for a day in all. A webhook that has failed for a
day, or answers 410, is switched off, and the people who manage it are told. What was taken by a worker that
died is due again after `TAKEN_FOR`.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict
from datetime import datetime, timedelta

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Count, F
from django.db.models.functions import Coalesce
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from cluster.credentials import unseal_fields
from core.errors import Invalid
from notify.models import NoticeKind
from notify.services import notify
from notify.webhooks import signing
from notify.webhooks.models import DeliveryState, Webhook, WebhookDelivery, WebhookEvent
from notify.webhooks.sending import Answer, post
from teams.access import people_in
from teams.models import Role, User

log = structlog.get_logger(__name__)

_m, _h = timedelta(minutes=1), timedelta(hours=1)
# After the first, second, … failure; a tenth more or less, so that not all come at once. 24 h in all.
WAITS = (timedelta(seconds=10), _m, 5 * _m, 15 * _m, 30 * _m, _h, 2 * _h, 4 * _h, 8 * _h, 8 * _h)
GIVE_UP_AFTER = timedelta(days=1)
IN_FLIGHT = 2  # deliveries of one webhook at once
TAKEN_FOR = timedelta(minutes=1)  # longer than a request may take
PER_RUN = 100
CANDIDATES = 20  # that are looked at before nothing is taken
KEPT_ATTEMPTS = 12
GONE = 410  # “do not send this any more”


def deliver_due() -> int:
    """Deliver what is due, up to `PER_RUN`; return how many deliveries were attempted."""
    for number in range(PER_RUN):
        taken = take()
        if taken is None:
            return number
        attempt(taken)
    return PER_RUN


def take() -> WebhookDelivery | None:
    """
    Take the delivery that has been due for longest, of a webhook with room; None if there is none.

    No lock is needed: of two that take the same one, one updates the row; a slot of a webhook is taken once.
    The update has no join: PostgreSQL does not look at a subquery again once it has waited for the row.
    """
    now = timezone.now()
    WebhookDelivery.objects.filter(taken_until__lte=now).update(taken_until=None, slot=None)
    due = WebhookDelivery.objects.filter(due_at__lte=now, taken_until=None)
    taken = WebhookDelivery.objects.exclude(slot=None).order_by().values("webhook")
    full = taken.annotate(number=Count("pk")).filter(number__gte=IN_FLIGHT).values("webhook")
    wanted = due.filter(webhook__disabled_at=None).exclude(webhook__in=full)
    candidates = wanted.order_by("due_at", "pk").values_list("pk", flat=True)
    for key in candidates[:CANDIDATES]:
        for slot in range(IN_FLIGHT):
            changes = {"taken_until": timezone.now() + TAKEN_FOR, "slot": slot, "tries": F("tries") + 1}
            try:
                with transaction.atomic():
                    is_mine = bool(due.filter(pk=key).update(**changes))
            except IntegrityError:
                continue  # the slot is taken
            if is_mine:
                return WebhookDelivery.objects.select_related("webhook__team", "event").get(pk=key)
            break  # the delivery is
    return None


def attempt(delivery: WebhookDelivery) -> None:
    """Send one delivery and store what came of it."""
    sent_at = timezone.now()
    answer = send(delivery.webhook, delivery.event, sent_at)
    entry = {"at": sent_at.isoformat(), **asdict(answer)}
    attempts = [*delivery.attempts, entry][-KEPT_ATTEMPTS:]
    webhook = Webhook.objects.filter(pk=delivery.webhook_id)
    if answer.is_success:
        changes: dict[str, object] = {"state": DeliveryState.DELIVERED, "due_at": None}
        webhook.exclude(failing_since=None).update(failing_since=None)
    else:
        webhook.update(failing_since=Coalesce("failing_since", sent_at))
        changes = after_failure(delivery.tries, sent_at)
        log.warning(
            "webhook_failed", webhook=str(delivery.webhook_id), status=answer.status, error=answer.error
        )
    # Not of a delivery that was replayed meanwhile.
    mine = WebhookDelivery.objects.filter(pk=delivery.pk, taken_until=delivery.taken_until)
    mine.update(taken_until=None, slot=None, attempts=attempts, **changes)
    if not answer.is_success:
        switch_off_if_hopeless(delivery.webhook, answer, sent_at)


def after_failure(tries: int, now: datetime) -> dict[str, object]:
    """Return the columns after so many failures: due again, or failed for good."""
    if tries > len(WAITS):
        return {"state": DeliveryState.FAILED, "due_at": None}
    return {"due_at": now + WAITS[tries - 1] * random.uniform(0.9, 1.1)}  # noqa: S311, no secret


def message_id(event: WebhookEvent) -> str:
    return f"msg_{event.pk.hex}"


def body_of(event: WebhookEvent) -> bytes:
    """Return the same bytes at each attempt: compact JSON."""
    content = {"type": event.kind, "timestamp": event.at.isoformat(), "data": event.data}
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


@sensitive_variables()
def send(webhook: Webhook, event: WebhookEvent, now: datetime) -> Answer:
    try:
        secrets_now = secrets_of(webhook, now)
    except Invalid as refusal:
        return Answer(None, 0, refusal.message)
    body = body_of(event)
    headers = signing.headers(message_id(event), body, at=now, secrets_now=secrets_now)
    return post(webhook.url, body, headers, is_internal=webhook.is_internal)


@sensitive_variables()
def secrets_of(webhook: Webhook, now: datetime) -> list[str]:
    """Return the secrets that sign now, the newest first. Raises Invalid without their key."""
    sealed = [webhook.sealed]
    if webhook.earlier and webhook.earlier_until and webhook.earlier_until > now:
        sealed.append(webhook.earlier)
    return [unseal_fields(one)["secret"] for one in sealed]


def switch_off_if_hopeless(webhook: Webhook, answer: Answer, now: datetime) -> None:
    """Switch a webhook off that answers 410 or has failed for a day, and tell who manages it, once."""
    rows = Webhook.objects.enabled().filter(pk=webhook.pk)
    reason = "It answered 410: it wants no more events."
    if answer.status != GONE:
        rows = rows.filter(failing_since__lte=now - GIVE_UP_AFTER)
        reason = f"It has failed for a day: {answer.error}"[:300]
    with transaction.atomic():
        if not rows.update(disabled_at=now, disabled_because=reason):
            return
        notify(
            people_for(webhook),
            kind=NoticeKind.ALERT if webhook.team_id else NoticeKind.PLATFORM,
            key=f"webhook:{webhook.pk}:{now.timestamp():.0f}",
            team_id=webhook.team_id,
            title=f"The webhook {webhook} is switched off",
            body=f"{reason} Repair it, then switch it on again; what waits is delivered then.",
            url=reverse("notify:webhook", args=[webhook.pk]),
            important=True,
        )


def people_for(webhook: Webhook) -> list[User]:
    """Return the leads of its team, or platform admins for one of the portal."""
    if webhook.team is not None:
        return people_in(webhook.team, at_least=Role.LEAD)
    return list(User.objects.filter(is_superuser=True, is_active=True))
