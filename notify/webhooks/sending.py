"""
Sends one POST to an address that somebody has typed, and nowhere else.

The name is resolved once and the connection goes to the address that was checked, so that a name cannot
change in between (DNS rebinding). Only global addresses are allowed; a webhook that a platform admin has
marked as internal may also be at a private or loopback address and without TLS, but never at a link-local
one, where clouds hand out credentials. Redirects are not followed, proxies of the environment not used, and
a request ends after TIMEOUT seconds however slowly the other side talks.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from core.addresses import literal, reason_to_refuse
from core.errors import Invalid

TIMEOUT = 10.0  # seconds, for a whole request
KEPT = 500  # bytes of an answer that the log keeps
MAX_URL = 500
AGENT = "Dragoman-Webhook/1"


@dataclass(frozen=True, slots=True)
class Answer:
    """What an attempt met: a status with the first bytes of its body, or an error in words."""

    status: int | None
    ms: int
    error: str = ""
    answer: str = ""

    @property
    def is_success(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def require_url(url: str, *, is_internal: bool) -> SplitResult:
    """Return the parts of an address that a webhook may have. Raises Invalid; nothing is resolved."""
    problem = ""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Invalid("This is not an address such as https://hooks.example.org/gpus.", field="url") from None
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url:
        problem = f"An address has at most {MAX_URL} printable ASCII characters."
    elif parts.scheme != "https" and not (is_internal and parts.scheme == "http"):
        problem = "The address has to begin with https://."
        problem += (
            " A platform admin may allow http:// inside your network." if parts.scheme == "http" else ""
        )
    elif not parts.hostname or port == 0:
        problem = "The address has no name of a server."
    elif parts.username or parts.password:
        problem = "Leave user and password out: the signature says who sends it."
    elif parts.fragment:
        problem = "Leave the part after # out: it is not sent."
    if problem:
        raise Invalid(problem, field="url")
    if (address := literal(parts.hostname or "")) and (
        reason := reason_to_refuse(address, is_internal=is_internal)
    ):
        raise Invalid(reason, field="url")
    return parts


def checked_address(host: str, port: int, *, is_internal: bool) -> tuple[str, int]:
    """Resolve a name; return the first address if all of them are allowed. Raises OSError."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(row[4][0]).partition("%")[0] for row in found]
    for address in addresses:
        if reason := reason_to_refuse(ip_address(address), is_internal=is_internal):
            raise PermissionError(reason)
    return addresses[0], port


class _Connection(http.client.HTTPConnection):
    """
    Connects to the address that was checked, whatever its name leads to by then. `line` is its socket, which
    an answer takes over from `sock`.
    """

    line: socket.socket | None = None

    def __init__(self, parts: SplitResult, *, is_internal: bool, context: ssl.SSLContext | None) -> None:
        self.name, self.is_internal, self.context = parts.hostname or "", is_internal, context
        super().__init__(self.name, parts.port or (443 if context else 80), timeout=TIMEOUT)

    def connect(self) -> None:
        address = checked_address(self.name, self.port, is_internal=self.is_internal)
        line = socket.create_connection(address, timeout=TIMEOUT)
        if self.context is None:
            self.sock = self.line = line
        else:  # the handshake may take too long as well
            secured = self.context.wrap_socket(line, server_hostname=self.name, do_handshake_on_connect=False)
            self.sock = self.line = secured
            secured.do_handshake()


def post(url: str, body: bytes, headers: Mapping[str, str], *, is_internal: bool) -> Answer:
    """Send a body of JSON; never raises for what the other side does."""
    began = time.monotonic()

    def result(status: int | None, error: str = "", answer: str = "") -> Answer:
        return Answer(status, round(1000 * (time.monotonic() - began)), error[:300], answer)

    try:
        parts = require_url(url, is_internal=is_internal)
    except Invalid as refusal:
        return result(None, refusal.message)
    context = ssl.create_default_context() if parts.scheme == "https" else None
    connection = _Connection(parts, is_internal=is_internal, context=context)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    late = threading.Timer(TIMEOUT, _hang_up, [connection])
    late.daemon = True
    late.start()
    try:
        all_headers = {
            "Content-Type": "application/json",
            "User-Agent": AGENT,
            "Connection": "close",
            **headers,
        }
        connection.request("POST", path, body, all_headers)
        answer = connection.getresponse()
        kept = answer.read(KEPT).decode("utf-8", "replace").replace("\x00", "�")
        if time.monotonic() - began >= TIMEOUT:
            raise TimeoutError
        return result(
            answer.status, "" if 200 <= answer.status < 300 else f"It answered {answer.status}.", kept
        )
    except TimeoutError:
        return result(None, f"It did not answer within {TIMEOUT:.0f} s.")
    except (OSError, http.client.HTTPException, UnicodeError) as error:
        if time.monotonic() - began >= TIMEOUT:
            return result(None, f"It did not answer within {TIMEOUT:.0f} s.")
        return result(None, str(error) or type(error).__name__)
    finally:
        late.cancel()
        connection.close()


def _hang_up(connection: _Connection) -> None:
    """End a request that takes too long: what reads gets nothing more."""
    if connection.line is not None:
        with suppress(OSError):
            connection.line.shutdown(socket.SHUT_RDWR)
