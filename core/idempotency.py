"""
Repeated writes with one Idempotency-Key: executed once, with the same response
(draft-ietf-httpapi-idempotency-key).

Responses are stored for a day. A refusal is not stored: the request may be sent again with the same key.
Writes that create a claim or ask for quota store the key with their own row instead (docs/idempotency.md).
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, cast

from django.db.models import Model
from django.forms import BaseForm
from django.http import HttpRequest, QueryDict
from django.utils import timezone
from rest_framework import mixins
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from rest_framework.viewsets import GenericViewSet

from core.errors import Conflict, Invalid, PortalError
from core.limits import limiting_team
from core.models import StoredResponse
from core.transactions import service

HEADER = "Idempotency-Key"
MAX_KEY_LENGTH = 80
KEEP = timedelta(days=1)
ABANDONED_AFTER = timedelta(minutes=1)  # gunicorn stops a request long before


def idempotency_key(request: HttpRequest | Request) -> str:
    """Return the key of the request, a random one without a header. Raises Invalid for a malformed key."""
    key = request.headers.get(HEADER, "").strip().strip('"')
    if len(key) > MAX_KEY_LENGTH or not key.isprintable():
        raise Invalid(
            f"An Idempotency-Key has at most {MAX_KEY_LENGTH} printable characters.",
            field=HEADER,
        )
    return key or uuid.uuid4().hex


class KeyUsed(Invalid):
    """The key was used for something else; `what` says for what."""

    def __init__(self, what: str = "another request") -> None:
        super().__init__(f"This Idempotency-Key was used for {what}. Use a new key.", field=HEADER)
        self.what = what


def on_form[Refusal: PortalError](refusal: Refusal, form: BaseForm) -> Refusal | Invalid:
    """Return a refusal as a form says it. A form that was sent before and changed since gets a new key."""
    if not isinstance(refusal, KeyUsed):
        return refusal
    form.data = data = copy(cast(QueryDict, form.data))
    data["key"] = uuid.uuid4().hex
    return Invalid(
        f"You have sent this form before, for {refusal.what}. Send it again if you want this as well."
    )


class IdempotentWrites(APIView):
    """
    A view of the API whose POST honors the Idempotency-Key: it is executed once per key and address.

    `keyed_by_service` names actions whose service stores the key itself. `shown_once` names fields of a
    response that are not stored: the second request is then refused with the rest of the response. The
    response is stored in the transaction of the write, unless this `is_several` writes.
    """

    is_keyed: ClassVar[bool] = True
    is_several: ClassVar[bool] = False
    keyed_by_service: ClassVar[frozenset[str]] = frozenset()
    shown_once: ClassVar[frozenset[str]] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        handler = getattr(self, "post", None)
        by_service = getattr(self, "action", None) in self.keyed_by_service
        if request.method == "POST" and handler and not by_service and HEADER in request.headers:
            whole = nullcontext() if self.is_several else service
            vars(self)["post"] = partial(respond_once, handler, self.shown_once, whole)


class Objects[M: Model](
    IdempotentWrites, mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[M]
):
    """A list and each of its objects, whose writes honor the header."""


def respond_once(
    handler: Callable[..., Response],
    shown_once: frozenset[str],
    whole: AbstractContextManager[None],
    request: Request,
    *args: Any,
    **kwargs: Any,
) -> Response:
    """
    Return the response of `handler`, or the stored one of the first request.

    Raises Invalid for another content with the same key, Conflict while the first request is in progress and
    for a response that is shown once.
    """
    key = idempotency_key(request)
    stored, is_complete = _stored_response(request, key)
    if is_complete:
        if shown_once:
            raise Conflict(
                "This was done already with this Idempotency-Key. A part of the response is shown only once.",
                answered=json.loads(stored.body),
            )
        return Response(json.loads(stored.body), status=stored.status)
    try:
        with whole:  # what is not answered is not done either
            response = handler(request, *args, **kwargs)
            body = response.data
            if shown_once:
                body = {name: value for name, value in body.items() if name not in shown_once}
            stored.status, stored.body = response.status_code, JSONRenderer().render(body).decode() or "null"
            stored.save(update_fields=["status", "body"])
    except Exception:
        StoredResponse.objects.filter(pk=stored.pk, status=None).delete()
        raise
    return response


def _stored_response(request: Request, key: str) -> tuple[StoredResponse, bool]:
    """Return the row of this key and whether it has a response; without one, the caller writes it."""
    user: Any = request.user.pk  # never None: writes need a user
    now = timezone.now()
    sent = json.dumps(request.data, sort_keys=True, default=str)
    # A token of one team does not get the answer that its person has got about another one.
    team = "" if limiting_team() is None else f"\n{limiting_team()}"
    digest = _hash(f"{request.get_full_path()}\n{sent}{team}")
    responses = StoredResponse.objects.filter(user=user)
    responses.filter(at__lt=now - KEEP).delete()
    stored, is_new = responses.get_or_create(
        user_id=user, key=key, address=_hash(request.path), defaults={"digest": digest, "at": now}
    )
    if is_new:
        return stored, False
    if stored.digest != digest:
        raise KeyUsed
    if stored.status is not None:
        return stored, True
    # The worker of the first request may have died: one of the later requests takes over.
    if not responses.filter(pk=stored.pk, status=None, at=stored.at, at__lt=now - ABANDONED_AFTER).update(
        at=now
    ):
        raise Conflict("A request with this Idempotency-Key is in progress. Try again in a moment.")
    return stored, False


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
