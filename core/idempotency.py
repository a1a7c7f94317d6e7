"""The Idempotency-Key of a write, which makes repeating it harmless (draft-ietf-httpapi-idempotency-key)."""

import uuid

from django.http import HttpRequest
from rest_framework.request import Request

from core.errors import Invalid

HEADER = "Idempotency-Key"
LONGEST = 80


def key_of(request: HttpRequest | Request) -> str:
    """Return the key that was sent, else one that nobody will send again; 422 for one that cannot be kept."""
    key = request.headers.get(HEADER, "").strip().strip('"')
    if len(key) > LONGEST or not key.isprintable():
        raise Invalid(
            f"An Idempotency-Key has at most {LONGEST} printable characters.",
            field=HEADER,
        )
    return key or uuid.uuid4().hex
