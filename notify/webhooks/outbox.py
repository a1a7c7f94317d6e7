"""
Events: `emit` writes one with a delivery for each webhook that wants it, in the transaction of the caller.

Where no webhook wants it, that is one query and nothing is written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Q

from core.transactions import after_commit
from notify.webhooks import tasks
from notify.webhooks.kinds import EventKind
from notify.webhooks.models import Webhook, WebhookDelivery, WebhookEvent


def emit(kind: EventKind, *, team_id: UUID | None, data: Callable[[], Mapping[str, Any]]) -> None:
    """
    Tell the webhooks of a team, and those of the portal. `data` returns what `portal.openapi.EVENT_DATA`
    describes; a `url` in it is a path of the portal. Call it in the transaction of what has happened.
    """
    # One that is switched off gets what happens meanwhile, once it is on again.
    wanted = Webhook.objects.filter(Q(team=team_id) | Q(team=None), kinds__contains=[kind]).order_by()
    if keys := list(wanted.values_list("pk", flat=True)):
        write(kind, team_id, data(), keys)


def write(
    kind: EventKind, team_id: UUID | None, data: Mapping[str, Any], webhooks: list[UUID]
) -> WebhookEvent:
    content: dict[str, Any] = json.loads(json.dumps(data, default=as_text))
    if settings.PORTAL_URL and str(content.get("url", "")).startswith("/"):
        content["url"] = f"{settings.PORTAL_URL}{content['url']}"
    event = WebhookEvent.objects.create(kind=kind, team_id=team_id, data=content)
    WebhookDelivery.objects.bulk_create(WebhookDelivery(webhook_id=key, event=event) for key in webhooks)
    after_commit(tasks.deliver_webhooks)
    return event


def as_text(value: object) -> str:
    """Return what JSON has no type for: instants as ISO 8601; ids and decimals as text."""
    return value.isoformat() if isinstance(value, datetime) else str(value)
