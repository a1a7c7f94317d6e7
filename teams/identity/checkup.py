"""The test of a provider: each finding says what was found and, where it is needed, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any

import httpx
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from cluster.checkup import CheckupFinding, CheckupVerdict
from core.text import counted
from teams.identity.discovery import (
    WELL_KNOWN,
    ProviderUnavailable,
    client,
    metadata,
    post_as_client,
    read_keys,
)
from teams.identity.models import OFFLINE, ExternalGroup, IdentityGrant, IdentityProvider
from teams.identity.rules import MEMBERS
from teams.identity.services import secret_of
from teams.identity.suspension import GRACE
from teams.identity.tokens import ALGORITHMS, LEEWAY

GOOD, NOTE, BAD = CheckupVerdict.GOOD, CheckupVerdict.NOTE, CheckupVerdict.BAD
NO_CODE = "dragoman-test-of-the-client-secret"  # no code that a provider gives


@sensitive_variables()
def check_provider(provider: IdentityProvider, *, redirect_uri: str) -> list[CheckupFinding]:
    """Ask the provider, and return what was found. Nothing is stored."""
    try:
        found = metadata(provider, fresh=True)
    except ProviderUnavailable as refusal:
        remedy = f"Open {provider.issuer}{WELL_KNOWN} in a browser. The issuer is the address before it."
        return [CheckupFinding(BAD, "Discovery document", refusal.message, remedy)]
    findings = [CheckupFinding(GOOD, "Discovery document", f"{provider.issuer} answers with its own name")]
    findings += _keys(provider)
    findings += _clock(provider)
    findings += _secret(provider, found, redirect_uri)
    findings += _scopes(provider, found)
    findings += _groups(provider, found)
    findings += _abilities(provider, found)
    return findings


def _keys(provider: IdentityProvider) -> Iterator[CheckupFinding]:
    try:
        keys = [key for key in read_keys(provider) if key.get("use", "sig") == "sig"]
    except ProviderUnavailable as refusal:
        yield CheckupFinding(
            BAD, "Signing keys", refusal.message, "The portal must reach the address jwks_uri."
        )
        return
    usable = [key for key in keys if key.get("alg", "RS256") in ALGORITHMS and key.get("kty") != "oct"]
    algorithms = sorted({str(key.get("alg", "")) for key in usable} - {""})
    if usable:
        yield CheckupFinding(
            GOOD, "Signing keys", f"{counted(len(usable), 'key')} {', '.join(algorithms)}".strip()
        )
    else:
        yield CheckupFinding(
            BAD, "Signing keys", "none that the portal accepts", f"Sign with one of {', '.join(ALGORITHMS)}."
        )


def _clock(provider: IdentityProvider) -> Iterator[CheckupFinding]:
    try:
        with client() as http:
            date = http.get(f"{provider.issuer}{WELL_KNOWN}").headers.get("Date", "")
        away = (parsedate_to_datetime(date) - timezone.now()).total_seconds()
    except (httpx.HTTPError, ValueError, TypeError, ProviderUnavailable):
        yield CheckupFinding(NOTE, "Clock", "the provider does not say its time")
        return
    if abs(away) > LEEWAY:
        yield CheckupFinding(
            BAD,
            "Clock",
            f"the provider is {abs(away):.0f} s {'ahead of' if away > 0 else 'behind'} this server",
            f"Set both clocks by NTP: tokens are refused beyond {LEEWAY} s.",
        )
    else:
        yield CheckupFinding(GOOD, "Clock", f"within {LEEWAY} s of this server")


@sensitive_variables()
def _secret(provider: IdentityProvider, found: dict[str, Any], redirect_uri: str) -> Iterator[CheckupFinding]:
    """A code that no provider gave is refused as `invalid_grant` to a client with the right secret."""
    secret = secret_of(provider)
    if not secret:
        yield CheckupFinding(BAD, "Client secret", "none", "Copy it from the client of the provider.")
        return
    body = {"grant_type": "authorization_code", "code": NO_CODE, "redirect_uri": redirect_uri}
    body["code_verifier"] = NO_CODE * 2
    try:
        with client() as http:
            answer = post_as_client(http, provider, found, secret, found["token_endpoint"], body)
        error = answer.json().get("error", "")
    except (httpx.HTTPError, ValueError, AttributeError, ProviderUnavailable):
        yield CheckupFinding(NOTE, "Client secret", "the provider does not say whether it is right")
        return
    if error == "invalid_grant":
        yield CheckupFinding(GOOD, "Client secret", "accepted")
    elif error in ("invalid_client", "unauthorized_client"):
        yield CheckupFinding(
            BAD,
            "Client secret",
            f"refused for the client {provider.client_id}",
            "Compare the client ID, and give the secret again: providers replace secrets that expire.",
        )
    else:
        yield CheckupFinding(
            NOTE, "Client secret", f"the provider answers {error or answer.status_code}, which says nothing"
        )


def _scopes(provider: IdentityProvider, found: dict[str, Any]) -> Iterator[CheckupFinding]:
    supported = found.get("scopes_supported")
    wanted = provider.scopes.split()
    if not isinstance(supported, list):
        yield CheckupFinding(NOTE, "Scopes", "the provider does not say which it knows")
        return
    unknown = [scope for scope in wanted if scope not in supported]
    if unknown:
        yield CheckupFinding(
            NOTE,
            "Scopes",
            f"{', '.join(unknown)} {'is' if len(unknown) == 1 else 'are'} not among those that it names",
            "Some providers refuse the sign-in then: remove them, or add them to the client.",
        )
    else:
        yield CheckupFinding(GOOD, "Scopes", ", ".join(wanted))


def _groups(provider: IdentityProvider, found: dict[str, Any]) -> Iterator[CheckupFinding]:
    claim = provider.groups_claim
    if not claim:
        yield CheckupFinding(NOTE, "Groups", "no claim is read: only SCIM tells of groups")
        return
    groups = ExternalGroup.objects.filter(provider=provider)
    people = MEMBERS.objects.filter(externalgroup__in=groups).values("user").distinct().count()
    if people:
        told = f"{counted(groups.count(), 'group')} of {counted(people, 'person', 'people')} so far"
        yield CheckupFinding(GOOD, "Groups", told)
        return
    named = claim in (found.get("claims_supported") or ())
    yield CheckupFinding(
        NOTE,
        "Groups",
        f"nobody has signed in with the claim {claim} yet"
        + ("" if named else ", and the provider does not name it"),
        f"Put the groups into the claim {claim} of ID token and userinfo, then sign in once.",
    )


def _api_tokens(provider: IdentityProvider) -> CheckupFinding:
    """What the answers with tokens said counts more than the scopes that are asked for."""
    bound = IdentityGrant.objects.filter(provider=provider, due_at__isnull=False, is_offline=False).count()
    if OFFLINE in provider.scopes.split() and not bound:
        told = "stop within minutes for whom the provider refuses; a sign-out there does not matter"
        return CheckupFinding(GOOD, "API tokens", told)
    days = f"{GRACE.days} days"
    so_far = f", so far of {counted(bound, 'person', 'people')}" if bound else ""
    return CheckupFinding(
        NOTE,
        "API tokens",
        f"{OFFLINE} is missing{so_far}: tokens stop when a session there ends, and {days} after a "
        "sign-out of which the portal knows",
        f"Add the scope {OFFLINE}, and let people sign in once more: then only whom the provider refuses "
        "loses tokens and local sign-in, within minutes.",
    )


def _sign_out(provider: IdentityProvider, found: dict[str, Any]) -> CheckupFinding:
    if not found.get("end_session_endpoint"):
        return CheckupFinding(NOTE, "Sign-out", "the provider has no end_session_endpoint: it ends here only")
    if not provider.signs_out:
        return CheckupFinding(NOTE, "Sign-out", "ends the session here only, as the settings say")
    return CheckupFinding(GOOD, "Sign-out", "ends the session at the provider too")


def _abilities(provider: IdentityProvider, found: dict[str, Any]) -> Iterator[CheckupFinding]:
    """What the portal uses where a provider has it."""
    methods = found.get("code_challenge_methods_supported") or ()
    if "S256" in methods:
        yield CheckupFinding(GOOD, "PKCE", "S256")
    else:
        yield CheckupFinding(NOTE, "PKCE", "the provider does not name S256; it is sent all the same")
    refreshes = "refresh_token" in (found.get("grant_types_supported") or ())
    if refreshes and found.get("userinfo_endpoint"):
        yield CheckupFinding(GOOD, "Groups between sign-ins", "read again with the refresh token")
    else:
        yield CheckupFinding(
            NOTE,
            "Groups between sign-ins",
            "the provider does not name the grant refresh_token and a userinfo endpoint",
            "Whoever leaves a group keeps its roles until the next sign-in, unless SCIM tells of it.",
        )
    if provider.suspends_tokens and refreshes:
        yield _api_tokens(provider)
    yield _sign_out(provider, found)
    if found.get("backchannel_logout_supported"):
        yield CheckupFinding(GOOD, "Back-channel logout", "supported")
    else:
        yield CheckupFinding(
            NOTE,
            "Back-channel logout",
            "the provider does not name it",
            "Whoever signs out there stays signed in here until their session ends.",
        )
