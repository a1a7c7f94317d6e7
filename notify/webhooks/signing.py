"""
Secrets and signatures of webhooks, as Standard Webhooks 1.0 (standardwebhooks.com) describes them.

A secret is `whsec_` and 32 random bytes in Base64. The signature is HMAC-SHA256 over id, timestamp and body;
while a secret is being replaced, there is one of each, separated by a space.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Iterable
from datetime import datetime

PREFIX = "whsec_"
LENGTH = 32  # bytes


def new_secret() -> str:
    return PREFIX + base64.b64encode(secrets.token_bytes(LENGTH)).decode()


def signature(secret: str, *, message: str, timestamp: int, body: bytes) -> str:
    key = base64.b64decode(secret.removeprefix(PREFIX))
    signed = f"{message}.{timestamp}.".encode() + body
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def headers(message: str, body: bytes, *, at: datetime, secrets_now: Iterable[str]) -> dict[str, str]:
    timestamp = int(at.timestamp())
    signed = (signature(one, message=message, timestamp=timestamp, body=body) for one in secrets_now)
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(signed),
    }
