"""Requests that somebody began to write: kept for their writer alone, until they are sent or grow old."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.models import Claim, Draft
from claims.request.drafts import unsent
from core.errors import Conflict, Invalid
from teams.models import User

MOST = 50  # drafts of one person
LONGEST = 8000  # characters of the fields as JSON: every field at its limit is shorter

type Fields = Mapping[str, list[str]]


@transaction.atomic(durable=True)
def save_draft(*, by: User, key: str, fields: Fields, now: datetime | None = None) -> Draft | None:
    """
    Keep what was typed under the key of its form, in the place of what was kept before.

    None where the request of this key has been sent: what is typed comes late. Raises Invalid for a key or
    fields that no form has, Conflict for more drafts than a person may have.
    """
    if not key or len(key) > 80 or len(json.dumps(dict(fields))) > LONGEST:
        raise Invalid(_("This is no draft of a request."))
    if Claim.objects.filter(requested_by=by, key=key).exists():
        return None
    others = unsent(by).exclude(key=key).count()
    if others >= MOST:
        raise Conflict(
            ngettext(
                "You have %(count)d draft; delete one before you keep another.",
                "You have %(count)d drafts; delete one before you keep another.",
                others,
            )
            % {"count": others}
        )
    values = {"fields": dict(fields), "updated_at": now or timezone.now()}
    return Draft.objects.update_or_create(by=by, key=key, defaults=values)[0]


@transaction.atomic(durable=True)
def delete_draft(*, by: User, draft: Draft) -> None:
    """Forget a draft of one's own; to forget it twice is no error."""
    Draft.objects.filter(by=by, pk=draft.pk).delete()
