"""
What an OpenID Connect provider says of itself: its metadata (OpenID Connect Discovery 1.0) and its keys.

Both are cached for minutes, since each sign-in and each logout needs them. A key that is not known is looked
for at once, at most every `KEYS_AGAIN`: providers change keys without notice. Who is not signed in makes the
portal ask: so an answer has `LONGEST` in all, and a provider that gave none is not asked again for `AWAY`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
from django.conf import settings
from django.core.cache import cache
from django.utils.text import capfirst
from django.views.decorators.debug import sensitive_variables

from core.addresses import connection_check, reason_to_refuse_host
from core.errors import Invalid, PortalError
from core.text import is_text
from teams.identity.models import IdentityProvider

TIMEOUT = httpx.Timeout(5, connect=3)  # seconds
MAX_BYTES = 1024 * 1024  # of a response
CACHED = 300  # seconds
KEYS_AGAIN = 5  # seconds between two readings for unknown keys
LONGEST = 10  # seconds for an answer, however slowly it comes
AWAY = 5  # seconds
PLAIN = "identity"  # the encoding of an answer that is not compressed
WELL_KNOWN = "/.well-known/openid-configuration"
REQUIRED = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
ENDPOINTS = (*REQUIRED[1:], "userinfo_endpoint")


class ProviderUnavailable(PortalError):
    """A provider does not answer, or not as the standard says; the sentence says which. 503."""

    code = "provider-unavailable"
    status = 503
    title = "The identity provider does not answer"


def schemes() -> tuple[str, ...]:
    """Return how an address of a provider may begin: with http only if the portal itself is served so."""
    return ("https://",) if settings.HTTPS else ("https://", "http://")


def require_address(text: str, *, field: str) -> str:
    """
    Return an address of a provider without a slash at its end. Raises Invalid.

    https only, except where the portal itself is served without; no credentials, query or fragment, and no
    link-local address, where clouds hand out credentials of the machine.
    """
    address = text.strip()
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    if not host or not address.isprintable() or " " in address:
        raise Invalid("This is not an address such as https://sso.example.org/realms/main.", field=field)
    if f"{parts.scheme}://" not in schemes():
        raise Invalid(
            "The address begins with https://: what is sent must not be read on the way.", field=field
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid("The address has neither user name, query nor fragment.", field=field)
    if reason := reason_to_refuse_host(host):
        raise Invalid(reason, field=field)
    return address.rstrip("/")


class BoundedBody(httpx.SyncByteStream):
    """The body of an answer, which ends after `LONGEST` or `MAX_BYTES`."""

    def __init__(self, stream: httpx.SyncByteStream) -> None:
        self.stream, self.ends = stream, time.monotonic() + LONGEST

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for part in self.stream:
            size += len(part)
            if time.monotonic() > self.ends:
                raise httpx.ReadTimeout(f"It did not end within {LONGEST} s.")
            if size > MAX_BYTES:
                raise httpx.ReadError(f"Its answer has more than {MAX_BYTES // 1024} KiB.")
            yield part

    def close(self) -> None:
        self.stream.close()


class ProviderClient(httpx.Client):
    """A client for providers: it bounds their answers, and lets one that is away alone for a while."""

    def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        """Return the answer. Raises ProviderUnavailable for a server that gave none just now."""
        server = f"{request.url.host}:{request.url.port or ''}"
        if cache.get(f"identity:away:{server}"):
            raise ProviderUnavailable(f"{server} did not answer a moment ago. Try again in {AWAY} s.")
        try:
            return super().send(request, **options)
        except (httpx.TimeoutException, httpx.ConnectError):
            cache.set(f"identity:away:{server}", 1, AWAY)
            raise


def bound(response: httpx.Response) -> None:
    """Bound an answer. Raises HTTPError for a compressed one, which nobody has asked for and could grow."""
    if response.headers.get("Content-Encoding", PLAIN) != PLAIN:
        raise httpx.DecodingError("Its answer is compressed.", request=response.request)
    if isinstance(response.stream, httpx.SyncByteStream):
        response.stream = BoundedBody(response.stream)


def client() -> httpx.Client:
    """Return a client that follows no redirects: a provider does not send its readers elsewhere."""
    hooks: dict[str, list[Callable[..., Any]]] = {
        "request": [connection_check(ProviderUnavailable)],
        "response": [bound],
    }
    headers = {"Accept-Encoding": PLAIN}
    return ProviderClient(timeout=TIMEOUT, follow_redirects=False, event_hooks=hooks, headers=headers)


def read_json(url: str, what: str) -> dict[str, Any]:
    """Return a JSON object. Raises ProviderUnavailable; `what` names it in the sentence."""
    host = urlsplit(url).netloc
    problem, content = "", b""
    try:
        with client() as http:
            response = http.get(url, headers={"Accept": "application/json"})
        content = response.content
        if response.status_code != httpx.codes.OK:
            problem = f"{host} answers {response.status_code} for {what} ({url})."
    except httpx.TimeoutException:
        problem = f"{host} did not answer within {TIMEOUT.read:.0f} s."
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        problem = f"{host} cannot be reached: {error}."
    if not problem:
        with suppress(ValueError):
            return json_object(content)
        problem = f"{capfirst(what)} of {host} is not a JSON object ({url})."
    raise ProviderUnavailable(problem)


def json_object(content: bytes) -> dict[str, Any]:
    """Return the object that an answer is. Raises ValueError for anything else, and for half characters."""
    try:
        found = json.loads(content)
    except RecursionError:
        found = None
    if not isinstance(found, dict) or not is_text(found):
        raise ValueError
    return found


def metadata(provider: IdentityProvider, *, fresh: bool = False) -> dict[str, Any]:
    """
    Return the metadata of a provider. Raises ProviderUnavailable, also if it is that of another issuer.

    The issuer must be equal, but for a slash at its end (OpenID Connect Discovery 1.0 §4.3): else a provider
    could sign for another one. Endpoints have https where the issuer must: the client secret is sent there.
    """
    key = f"identity:metadata:{provider.issuer}"
    found: dict[str, Any] | None = None if fresh else cache.get(key)
    if found is None:
        found = read_json(f"{provider.issuer}{WELL_KNOWN}", "the discovery document")
        missing = [name for name in REQUIRED if not isinstance(found.get(name), str)]
        if missing:
            raise ProviderUnavailable(f"The discovery document of {provider.title} lacks {missing[0]}.")
        if found["issuer"].rstrip("/") != provider.issuer:
            raise ProviderUnavailable(
                f"{provider.issuer} says that its issuer is {found['issuer']}. Enter that as the issuer."
            )
        for name in ENDPOINTS:
            address = found.get(name)
            if isinstance(address, str) and not address.startswith(schemes()):
                raise ProviderUnavailable(f"{name} of {provider.title} does not begin with {schemes()[0]}.")
        cache.set(key, found, CACHED)
    return found


def read_keys(provider: IdentityProvider) -> list[dict[str, Any]]:
    """Return the keys of a provider as it publishes them now (RFC 7517). Raises ProviderUnavailable."""
    found = read_json(metadata(provider)["jwks_uri"], "the keys")
    keys = found.get("keys")
    if not isinstance(keys, list):
        raise ProviderUnavailable(f"The keys of {provider.title} are not a JWK Set.")
    return [key for key in keys if isinstance(key, dict)]


def keys_to_try(provider: IdentityProvider, kid: str | None) -> Iterator[dict[str, Any]]:
    """
    Yield the signing keys with this id, all of them without one. Who needs more than the cached ones has a
    token of an unknown id, or of a key that was replaced under the same one: keys are read again then.

    Raises ProviderUnavailable.
    """
    name = f"identity:keys:{provider.issuer}"
    cached: list[dict[str, Any]] | None = cache.get(name)
    known = _matching(cached or [], kid)
    yield from known
    if cached is None or cache.add(f"{name}:again", 1, KEYS_AGAIN):
        keys = read_keys(provider)
        cache.set(name, keys, CACHED)
        yield from (key for key in _matching(keys, kid) if key not in known)


def _matching(keys: list[dict[str, Any]], kid: str | None) -> list[dict[str, Any]]:
    return [key for key in keys if key.get("use", "sig") == "sig" and kid in (None, key.get("kid"))]


@sensitive_variables()
def read_userinfo(http: httpx.Client, provider: IdentityProvider, access_token: str) -> httpx.Response:
    """Return the answer of the userinfo endpoint. Raises ProviderUnavailable where there is none."""
    endpoint = metadata(provider).get("userinfo_endpoint")
    if not isinstance(endpoint, str):
        raise ProviderUnavailable(f"{provider.title} has no userinfo endpoint.")
    return http.get(endpoint, headers={"Authorization": f"Bearer {access_token}"})


@sensitive_variables("secret", "body")
def post_as_client(
    http: httpx.Client,
    provider: IdentityProvider,
    found: dict[str, Any],
    secret: str,
    url: str,
    body: dict[str, str],
) -> httpx.Response:
    """Send a form with the credentials of the client, as the provider takes them (RFC 6749 §2.3.1)."""
    methods = found.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
    if "client_secret_post" in methods:
        form = {**body, "client_id": provider.client_id, "client_secret": secret}
        return http.post(url, data=form)
    return http.post(url, data=body, auth=httpx.BasicAuth(provider.client_id, secret))
