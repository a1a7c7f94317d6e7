# Made from dragoman/_async/login.py by make_sync.py. Change that file.
"""Sign-in of a command line through the browser (RFC 8628, device authorization)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import httpx

from dragoman._sync.transport import Transport, document
from dragoman.config import Settings, normalized
from dragoman.errors import DragomanError, Refused
from dragoman.results import parse_time

SLOWER = 5.0  # seconds added to the interval when the portal asks for it (RFC 8628, section 3.5)


class LoginFailed(DragomanError):
    """Nobody approved the sign-in: it was denied, or the code has expired."""


@dataclass(frozen=True)
class DeviceCode:
    """What a person needs: open `verification_uri_complete`, or enter `user_code` at `verification_uri`."""

    user_code: str
    verification_uri: str
    verification_uri_complete: str
    expires_in: float  # seconds


@dataclass(frozen=True)
class Token:
    access_token: str
    expires_at: datetime | None
    scopes: tuple[str, ...]


def device_login(
    url: str,
    show: Callable[[DeviceCode], None],
    *,
    client_name: str,
    scopes: Sequence[str] = ("read", "request"),
    http: httpx.Client | None = None,
) -> Token:
    """
    Ask the portal for a code, `show` it, and return the token once a person has approved it in the browser.

    Raises LoginFailed if it is denied or expires, and `Refused` for any other refusal.
    """
    transport = Transport(Settings(normalized(url)), http=http)
    try:
        body = {"client": client_name, "scopes": list(scopes)}
        answer = document(transport.send("POST", "login/device/", json=body, signed=False))
        code = DeviceCode(
            answer["user_code"],
            answer["verification_uri"],
            answer.get("verification_uri_complete") or answer["verification_uri"],
            float(answer["expires_in"]),
        )
        show(code)
        return _approved(transport, answer["device_code"], float(answer.get("interval") or 5), code)
    finally:
        transport.close()


def _approved(transport: Transport, device_code: str, interval: float, code: DeviceCode) -> Token:
    ends = time.monotonic() + code.expires_in
    while time.monotonic() < ends:
        time.sleep(interval)
        try:
            sent = transport.send(
                "POST", "login/device/token/", json={"device_code": device_code}, signed=False
            )
        except Refused as refusal:
            match str(refusal.problem.get("error") or refusal.code):
                case "authorization_pending":
                    continue
                case "slow_down":
                    interval += SLOWER
                    continue
                case "access_denied":
                    raise LoginFailed("The sign-in was denied in the browser.") from refusal
                case "expired_token":
                    break
            raise
        answer = document(sent)
        expires_at = answer.get("expires_at")
        return Token(
            answer["access_token"],
            parse_time(expires_at) if expires_at else None,
            tuple(answer.get("scopes") or ()),
        )
    raise LoginFailed(f"Nobody approved the code {code.user_code} in time. Run the command again.")
