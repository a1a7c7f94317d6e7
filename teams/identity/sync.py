"""
Reads the groups of people again between their sign-ins, so that who leaves a group loses access in minutes.

With the refresh token of a sign-in the portal asks for a new access token and reads userinfo. A provider that
refuses the refresh token has ended that sign-in: the sessions here that began with it end, and the API tokens
of the person are refused until the next one (`suspension`). A provider that is away removes nobody, and is
asked again later, at growing intervals.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import httpx
import structlog
from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone
from django.views.decorators.debug import sensitive_variables

from cluster.credentials import seal_fields, unseal_fields
from core.errors import Invalid
from teams.identity.discovery import (
    ProviderUnavailable,
    client,
    json_object,
    metadata,
    post_as_client,
    read_userinfo,
)
from teams.identity.groups import set_groups_of
from teams.identity.models import IdentityGrant, IdentityProvider
from teams.identity.people import READ_AGAIN, groups_in, note_groups, value_at
from teams.identity.rules import lock_people
from teams.identity.services import secret_of
from teams.identity.suspension import counts_from, is_exempt, refusals, refusing_provider, suspend_tokens
from teams.identity.tokens import ProviderTokenRefused, id_token_claims
from teams.models import User, record
from teams.sessions import end_provider_sessions, end_sessions, going_on

log = structlog.get_logger(__name__)

BATCH = 200  # grants of one provider in one run
FIRST_BACKOFF, LONGEST_BACKOFF = timedelta(minutes=1), timedelta(hours=1)
CLAIMED = timedelta(minutes=2)  # how long a grant belongs to the run that took it
# Errors of RFC 6749 §5.2 that are about this refresh token; others are about the client or the provider.
OVER = frozenset(("invalid_grant",))


class GrantOver(Exception):
    """The provider has ended the sign-in: it refuses the refresh token."""


class PersonRefused(GrantOver):
    """It renews the sign-in and refuses to say who that is: this is about the person, not the session."""


class GrantLost(GrantOver):
    """The key that sealed the refresh token is gone; the provider has said nothing."""


@dataclass(frozen=True, slots=True)
class UserinfoReading:
    """
    What the provider says now; `groups` is None if it says nothing of them. `refresh_token` replaces the one
    that was used, "" without a new one.
    """

    groups: tuple[str, ...] | None
    refresh_token: str
    groups_problem: str


def read_groups_again() -> Counter[str]:
    """Read what is due, a batch of each enabled provider; return how many were read, over, or put off."""
    done: Counter[str] = Counter()
    now = timezone.now()
    ready = IdentityProvider.objects.filter(Q(retry_at=None) | Q(retry_at__lte=now), enabled=True)
    for provider in ready:
        for grant in due_grants(provider, now):
            try:
                done[read_grant(provider, grant)] += 1
            except ProviderUnavailable as problem:
                _put_off(provider, problem.message)
                done["unavailable"] += 1
                break
        else:
            if provider.failures:
                IdentityProvider.objects.filter(pk=provider.pk).update(failures=0, retry_at=None, problem="")
    return done


def due_grants(provider: IdentityProvider, now: datetime) -> list[IdentityGrant]:
    """Take the grants that are due, the oldest first, for `CLAIMED`: two runs at once read each one once."""
    with transaction.atomic():
        rows = IdentityGrant.objects.filter(provider=provider, due_at__lte=now, user__is_active=True)
        taken = list(
            rows.order_by("due_at")
            .select_for_update(of=("self",), skip_locked=True)
            .select_related("user")[:BATCH]
        )
        _take(taken, now)
    return taken


def _take(grants: list[IdentityGrant], now: datetime) -> None:
    IdentityGrant.objects.filter(pk__in=[grant.pk for grant in grants]).update(due_at=now + CLAIMED)


def read_grant(provider: IdentityProvider, grant: IdentityGrant) -> str:
    """Read one person again and apply the rules; return what became of it. Raises ProviderUnavailable."""
    try:
        reading = ask(provider, grant)
    except GrantOver as over:
        return _end(provider, grant, over)
    now = timezone.now()
    columns: dict[str, Any] = {"read_at": now, "due_at": now + READ_AGAIN}
    if reading.refresh_token:
        columns["sealed"] = seal_fields({"refresh_token": reading.refresh_token})
    # A new sign-in meanwhile has stored a newer token, and has read the groups itself.
    unchanged = IdentityGrant.objects.filter(pk=grant.pk, signed_in_at=grant.signed_in_at)
    with transaction.atomic():
        if unchanged.update(**columns):
            note_groups(provider, grant.user, reading.groups_problem)
            if reading.groups is not None:
                set_groups_of(grant.user, provider, reading.groups, by=None)
    return "read"


@sensitive_variables()
def ask(provider: IdentityProvider, grant: IdentityGrant) -> UserinfoReading:
    """
    Return what userinfo says of a person now, and the new ID token, if there is one: some providers name
    groups only in it. Raises GrantOver, ProviderUnavailable.
    """
    try:
        refresh_token = str(unseal_fields(grant.sealed)["refresh_token"])
    except (Invalid, KeyError) as lost:
        raise GrantLost from lost
    problem = ""
    try:
        with client() as http:
            tokens = _refreshed(http, provider, refresh_token)
            claims = _userinfo(http, provider, str(tokens["access_token"]))
        told = [claims]
        if isinstance(tokens.get("id_token"), str):
            told.insert(0, id_token_claims(provider, tokens["id_token"]))
        if {one.get("sub") for one in told} != {grant.subject}:  # OpenID Connect Core 1.0 §5.3.2, §12.2
            problem = f"{provider.title} sent userinfo about somebody else."
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        problem = f"{provider.title} cannot be reached: {type(error).__name__}."
    except (ValueError, AttributeError, KeyError, TypeError):
        problem = f"{provider.title} sent an answer that is not valid when groups are read again."
    except ProviderTokenRefused as refusal:
        problem = f"{provider.title} sent an ID token that is not valid. {refusal.message}"
    if problem:
        raise ProviderUnavailable(problem)
    groups, unreadable = groups_in(
        {name: value for one in told for name, value in one.items()}, provider.groups_claim
    )
    if not groups and len(told) == 1 and not _names_groups(claims, provider.groups_claim):
        groups = None  # they may stand in ID tokens alone, of which there is no new one
    return UserinfoReading(groups, str(tokens.get("refresh_token") or ""), unreadable)


def _names_groups(claims: dict[str, Any], claim: str) -> bool:
    return claim in claims or claim.partition(".")[0] in claims or value_at(claims, claim) is not None


@sensitive_variables()
def _refreshed(http: httpx.Client, provider: IdentityProvider, refresh_token: str) -> dict[str, Any]:
    """Return the answer of the token endpoint to a refresh token (RFC 6749 §6)."""
    found = metadata(provider)
    body = {"grant_type": "refresh_token", "refresh_token": refresh_token}
    answer = post_as_client(http, provider, found, secret_of(provider), found["token_endpoint"], body)
    tokens = json_object(answer.content)
    if answer.status_code == httpx.codes.BAD_REQUEST and tokens.get("error") in OVER:
        raise GrantOver
    if answer.status_code != httpx.codes.OK:
        error = tokens.get("error") or answer.status_code
        raise ProviderUnavailable(f"{provider.title} answers {error} when groups are read again.")
    return tokens


@sensitive_variables()
def _userinfo(http: httpx.Client, provider: IdentityProvider, access_token: str) -> dict[str, Any]:
    answer = read_userinfo(http, provider, access_token)
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise PersonRefused
    if answer.status_code != httpx.codes.OK:
        raise ProviderUnavailable(f"{provider.title} answers {answer.status_code} for userinfo.")
    return json_object(answer.content)


def _end(provider: IdentityProvider, grant: IdentityGrant, over: GrantOver) -> str:
    """
    The sign-in is over there: end it here too, with what else follows from a refusal (`suspension`). A newer
    sign-in meanwhile stays.
    """
    now = timezone.now()
    at = counts_from(grant, now, is_about_person=isinstance(over, PersonRefused))
    is_refused = not isinstance(over, GrantLost)
    with transaction.atomic():
        same = IdentityGrant.objects.filter(pk=grant.pk, signed_in_at=grant.signed_in_at)
        if not same.update(sealed=b"", due_at=None, refused_at=at if is_refused else None):
            return "newer"
        lock_people([grant.user_id])
        person = User.objects.get(pk=grant.user_id)  # whatever was marked since the grant was read
        if is_refused:
            suspend_tokens(provider, person, at=at)
        if is_refused and at <= now and not is_exempt(person):
            ended = end_sessions(person)  # those that began with a password or passkey too
        else:
            ended = end_provider_sessions(provider.slug, person=person)
        _record_ended(provider, person, ended)
    return "over"


def end_refused_sessions() -> None:
    """
    End the sessions of people whom a provider refuses by now: of a sign-in at the same moment as the refusal,
    and of one before a refusal began to count.
    """
    theirs = going_on().filter(user__in=refusals().values("user"))
    for person in User.objects.filter(pk__in=theirs.values("user")):
        if provider := refusing_provider(person):
            with transaction.atomic():
                _record_ended(provider, person, theirs.filter(user=person).delete()[0])


def _record_ended(provider: IdentityProvider, person: User, ended: int) -> None:
    if ended:
        record(
            by=None,
            action="session.ended",
            kind="user",
            object_id=str(person.pk),
            name=person.username,
            text=f"the sign-in at {provider.title} is over: {ended} of their sessions ended",
        )


def _put_off(provider: IdentityProvider, problem: str) -> None:
    """Ask the provider again later, and its people with it: nobody loses anything meanwhile."""
    wait = min(FIRST_BACKOFF * 2 ** min(provider.failures, 10), LONGEST_BACKOFF)
    log.warning("provider_unavailable", provider=provider.slug, problem=problem, wait=wait.total_seconds())
    IdentityProvider.objects.filter(pk=provider.pk).update(
        failures=F("failures") + 1, retry_at=timezone.now() + wait, problem=problem
    )
