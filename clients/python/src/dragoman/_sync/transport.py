# Made from dragoman/_async/transport.py by make_sync.py. Change that file.
"""Requests to the portal: who is calling, when to send again, and refusals as exceptions."""

from __future__ import annotations

import os
import platform
import random
import ssl
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from dragoman.config import API, Settings
from dragoman.errors import (
    ConfigurationError,
    Conflict,
    Refused,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    refusal,
)
from dragoman.text import set_clock
from dragoman.version import VERSION

TRIES = 5
LONGEST_PAUSE = 8.0  # seconds between tries
LONGEST_RETRY_AFTER = 60.0  # seconds; a portal that wants more gets an exception
AGAIN = frozenset((429, 502, 503, 504))
# The request did not reach the portal, so even a write without a key may be sent again.
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
Parameters = Mapping[str, Any] | httpx.QueryParams | None
USER_AGENT = f"dragoman-client/{VERSION} Python/{platform.python_version()}"


class Transport:
    """
    Sends requests to one portal as one person.

    Connection errors, 429 and 502 to 504 are tried again with growing pauses: reads, and writes that carry an
    Idempotency-Key, which the portal executes once.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        timeout: float = 30.0,
        tries: int = TRIES,
        ca: str = "",
        http: httpx.Client | None = None,
    ) -> None:
        self.settings, self.tries = settings, max(1, tries)
        self.timeout, self.ca, self.is_own = timeout, ca, http is None
        self._token = settings.token
        try:
            self._http = http or httpx.Client(timeout=timeout, verify=trust(ca))
        except ImportError as error:
            proxy = proxy_of(settings.url) or "the proxy"
            raise ConfigurationError(f"{proxy} needs another package: pip install 'httpx[socks]'") from error

    def close(self) -> None:
        self._http.close()

    def get(self, path: str, *, wait: float = 0.0, params: Parameters = None) -> Any:
        """Return the JSON at `path`, which is below /api/v1/. `wait` seconds are added to the time limit."""
        return document(self.send("GET", path, params=without_empty(params), wait=wait))

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, key: str = "") -> Any:
        """Write once, however often it has to be sent: under `key`, or a new one."""
        answer = self.send("POST", path, json=dict(body or {}), key=key or uuid.uuid4().hex)
        return document(answer) if answer.content else None

    def put(self, path: str) -> Any:
        """State something that stays the same if it is said twice."""
        return document(self.send("PUT", path))

    def pages(self, path: str, *, params: Parameters = None) -> Iterator[Any]:
        """Yield the rows of a list, page by page."""
        while True:
            answer = self.get(path, params=params)
            for row in answer["results"]:
                yield row
            if not answer.get("next"):
                return
            params = httpx.URL(answer["next"]).params  # its host may be one that only proxies know

    def send(
        self,
        method: str,
        path: str,
        *,
        key: str = "",
        signed: bool = True,
        wait: float = 0.0,
        **content: Any,
    ) -> httpx.Response:
        """
        Return the answer of the portal. Without `signed` it is sent without a token.

        Raises a `Refused`; `Unavailable` if no answer came.
        """
        address = f"{self.settings.url}{API}/{path}"
        may_repeat, was_lost = method in ("GET", "PUT") or bool(key), False
        renewed = False
        for number in range(1, self.tries + 1):
            is_last = number == self.tries
            request = self._http.build_request(
                method, address, headers=self._headers(key, signed=signed), **content
            )
            if wait:
                limits = httpx.Timeout(self._http.timeout)
                request.extensions["timeout"] = limits.as_dict() | {"read": (limits.read or 30.0) + wait}
            try:
                answer = self._http.send(request)
            except httpx.TransportError as error:
                failure = no_answer(self.settings.url, error)
                gives_up = isinstance(failure, ConfigurationError) or failure.code == "proxy"
                if is_last or gives_up or not (may_repeat or isinstance(error, NOT_SENT)):
                    raise failure from error
                was_lost = True
                time.sleep(pause(number))
                continue
            set_clock(answer.headers.get("Date", ""))
            if answer.is_success:
                return answer
            refused = refusal_of(answer)
            if signed:
                self._say_how_to_sign_in(refused)
            if is_last:
                raise refused
            if answer.status_code == 401 and signed and self.settings.cluster_login and not renewed:
                renewed, self._token = True, ""  # the token of the pod has expired: sign in again
                continue
            if not self._again(answer, refused, may_repeat=may_repeat, was_lost=was_lost):
                raise refused
            time.sleep(pause(number, retry_after(answer)))
        raise AssertionError("The last try returns or raises.")

    def _say_how_to_sign_in(self, refused: Refused) -> None:
        login = f"dragoman login {self.settings.url}"
        if isinstance(refused, Unauthenticated):
            refused.say_more(f"Sign in again: {login}")
        elif refused.code == "scope_missing":
            refused.say_more(f"Sign in with it: {login} --scope {refused.problem.get('scope', 'SCOPE')}")

    def _again(self, answer: httpx.Response, failure: Refused, *, may_repeat: bool, was_lost: bool) -> bool:
        """Return whether to send a refused request again."""
        if answer.status_code in AGAIN:
            seconds = retry_after(answer)
            may_repeat = may_repeat or answer.status_code == 429  # refused before anything was done
            return may_repeat and (seconds is None or seconds <= LONGEST_RETRY_AFTER)
        # The request whose answer was lost is still in progress.
        return was_lost and isinstance(failure, Conflict) and failure.code == "conflict"

    def _headers(self, key: str, *, signed: bool) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": USER_AGENT}
        if key:
            headers["Idempotency-Key"] = key
        if signed:
            if not self._token:
                self._token = self._kubernetes_login()
            headers["Authorization"] = f"Bearer {self._token}"
        return headers

    def _kubernetes_login(self) -> str:
        """Exchange the service account token of this pod for a token of the portal."""
        try:
            token = Path(self.settings.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigurationError(f"The token of this pod cannot be read: {error}") from error
        body = {"cluster": self.settings.cluster_login, "token": token}
        answer = self.send("POST", "login/kubernetes/", json=body, signed=False, key=uuid.uuid4().hex)
        return str(document(answer)["access_token"])

    @contextmanager
    def stream(self, path: str, *, params: Mapping[str, Any]) -> Iterator[Iterator[bytes]]:
        """Read a file in pieces. Raises a `Refused`."""
        headers = self._headers("", signed=True) | {"Accept": "*/*"}
        address = f"{self.settings.url}{API}/{path}"
        try:
            with self._http.stream("GET", address, params=dict(params), headers=headers) as answer:
                if not answer.is_success:
                    answer.read()
                    raise refusal_of(answer)
                yield answer.iter_bytes()
        except httpx.TransportError as error:
            raise no_answer(self.settings.url, error) from error


def trust(ca: str) -> ssl.SSLContext | bool:
    """
    Return what certificates are checked with: the usual authorities, and those of a file.

    Raises ConfigurationError for a file that cannot be read. Without a file httpx reads SSL_CERT_FILE.
    """
    chosen = ca or os.environ.get("DRAGOMAN_CA_FILE", "")
    if not chosen:
        return True
    context = httpx.create_ssl_context()
    try:
        context.load_verify_locations(cafile=chosen)
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The certificates in {chosen} cannot be read: {error}") from error
    return context


def proxy_of(url: str) -> str:
    """Return the proxy that the environment names for an address, without its password; "" for none."""
    parts, proxies = urlsplit(url), getproxies()
    if proxy_bypass(parts.hostname or ""):
        return ""
    found = urlsplit(proxies.get(parts.scheme) or proxies.get("all", ""))
    return found._replace(netloc=found.netloc.rpartition("@")[2]).geturl()


def no_answer(url: str, error: httpx.TransportError) -> Unavailable | ConfigurationError:
    """Return why no answer came, and what helps."""
    reason = str(error) or type(error).__name__
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return ConfigurationError(
            f"The certificate of {url} is not trusted: {reason.rpartition('failed: ')[2]}. Name a file with "
            "the authority that signed it: DRAGOMAN_CA_FILE=/path/ca.pem, or Client(ca=…)."
        )
    proxy = proxy_of(url)
    if proxy and isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)):
        return Unavailable(
            f"The proxy {proxy} does not connect to {url}: {reason}. Check HTTPS_PROXY and HTTP_PROXY, or "
            f"name the host in NO_PROXY.",
            code="proxy",
        )
    return Unavailable(
        f"{url} does not answer: {reason}. Is the address right, and does the portal run?", code="no-answer"
    )


def without_empty(params: Parameters) -> Parameters:
    if params is None or isinstance(params, httpx.QueryParams):
        return params
    return {name: value for name, value in params.items() if value not in (None, "", [], ())}


def document(answer: httpx.Response) -> Any:
    """Return the JSON of an answer. Raises Refused for a page, such as the sign-in of a proxy."""
    try:
        return answer.json()
    except ValueError:
        sentence = f"{answer.request.url} answered with something other than JSON. Is it the portal?"
        raise Refused(sentence, status=answer.status_code) from None


def refusal_of(answer: httpx.Response) -> Refused:
    if answer.is_redirect:
        sentence = f"{answer.request.url} redirects to {answer.headers.get('Location')}. Use that address."
        return Refused(sentence, status=answer.status_code)
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    failure = refusal(
        answer.status_code, problem if isinstance(problem, dict) else None, address=str(answer.request.url)
    )
    if isinstance(failure, TooManyRequests):
        failure.retry_after = retry_after(answer)
    return failure


def retry_after(answer: httpx.Response) -> float | None:
    """Return the seconds of Retry-After; its other form, a date, is not used by the portal."""
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else None


def pause(number: int, wanted: float | None = None) -> float:
    """Return the seconds before the next try: they double, and differ between clients."""
    least = wanted or 0.0
    return float(least + min(LONGEST_PAUSE, 0.25 * 2**number) * random.uniform(0.5, 1.0))  # noqa: S311
