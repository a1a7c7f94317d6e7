"""
Writes that are sent twice with one Idempotency-Key: done once, answered twice
(draft-ietf-httpapi-idempotency-key).

A refusal is not kept: what was refused may be sent again with the same key. Answers are kept for a day.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar

from django.http import HttpRequest
from django.utils import timezone
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from core.errors import Conflict, Invalid
from core.models import StoredResponse

HEADER = "Idempotency-Key"
LONGEST = 80
KEPT = timedelta(days=1)
ABANDONED = timedelta(minutes=1)  # gunicorn gives a request up long before


def idempotency_key(request: HttpRequest | Request) -> str:
    """Return the key that was sent, else one that nobody will send again; 422 for one that cannot be kept."""
    key = request.headers.get(HEADER, "").strip().strip('"')
    if len(key) > LONGEST or not key.isprintable():
        raise Invalid(
            f"An Idempotency-Key has at most {LONGEST} printable characters.",
            field=HEADER,
        )
    return key or uuid.uuid4().hex


class IdempotentWrites(APIView):
    """
    A view of the API whose POST honours the Idempotency-Key: the same key at the same address is done once.

    `keyed_by_service` names the actions whose service keeps the key with what it makes. `shown_once` names
    the fields of an answer that are not kept: of such a write, the second hears that the first was done.
    """

    is_keyed: ClassVar[bool] = True
    keyed_by_service: ClassVar[frozenset[str]] = frozenset()
    shown_once: ClassVar[frozenset[str]] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        handler = getattr(self, "post", None)
        by_service = getattr(self, "action", None) in self.keyed_by_service
        if request.method == "POST" and handler and not by_service and HEADER in request.headers:
            vars(self)["post"] = partial(once, handler, self.shown_once)


def once(
    handler: Callable[..., Response],
    shown_once: frozenset[str],
    request: Request,
    *args: Any,
    **kwargs: Any,
) -> Response:
    """
    Let `handler` answer, or answer as it did before.

    Raises Invalid for another content under the same key, Conflict while the first is being worked on, and
    for what is not told twice.
    """
    key = idempotency_key(request)
    kept, answered = _taken(request, key)
    if answered:
        if shown_once:
            raise Conflict(
                "This was done already with this Idempotency-Key, and a part of its answer is shown once.",
                answered=json.loads(kept.answer),
            )
        return Response(json.loads(kept.answer), status=kept.status)
    try:
        response = handler(request, *args, **kwargs)
    except Exception:
        kept.delete()
        raise
    told = response.data
    if shown_once:
        told = {name: value for name, value in told.items() if name not in shown_once}
    kept.status, kept.answer = response.status_code, JSONRenderer().render(told).decode() or "null"
    kept.save(update_fields=["status", "answer"])
    return response


def _taken(request: Request, key: str) -> tuple[StoredResponse, bool]:
    """Return the row of this key and whether it was answered; the caller has to answer where it was not."""
    person: Any = request.user.pk  # never None: whoever writes has signed in
    now = timezone.now()
    sent = json.dumps(request.data, sort_keys=True, default=str)
    digest = _hash(f"{request.get_full_path()}\n{sent}")
    mine = StoredResponse.objects.filter(user=person)
    mine.filter(at__lt=now - KEPT).delete()
    kept, made = mine.get_or_create(
        user_id=person, key=key, address=_hash(request.path), defaults={"digest": digest, "at": now}
    )
    if made:
        return kept, False
    if kept.digest != digest:
        raise Invalid(
            "Something else was sent with this Idempotency-Key before; take another key for it.",
            field=HEADER,
        )
    if kept.status is not None:
        return kept, True
    # Whoever was to answer may have died: of those who come after, one takes it over.
    if not mine.filter(pk=kept.pk, status=None, at=kept.at, at__lt=now - ABANDONED).update(at=now):
        raise Conflict("The same is being worked on already; ask again in a moment.")
    return kept, False


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
