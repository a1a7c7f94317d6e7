"""
What follows when an identity provider refuses to renew somebody's sign-in.

Such a provider has disabled the account, revoked the sign-in or ended the session; it does not say which:
all are `invalid_grant` (RFC 6749 §5.2). A refresh token with `offline_access` outlives the session, so a
refusal is about the person and counts at once. Any other ends with the session there. Where the portal knows
that the person has signed out, here or by back-channel logout, the refusal counts `GRACE` later, unless they
sign in before; else it counts at once, since it may be about the person.

From when it counts, their API tokens are refused, and the portal's own ways to sign in, password and passkey,
are closed to them, until they sign in through a provider again. Break-glass accounts are exempt, which a
platform admin marks, and so is a platform admin if providers refuse all others. Service accounts sign in
nowhere.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from allauth.mfa.models import Authenticator
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.utils import timezone

from core.errors import Conflict
from core.text import counted
from core.times import utc_moment
from core.transactions import service
from teams.access import require_admin
from teams.identity.models import OFFLINE, IdentityGrant, IdentityProvider
from teams.identity.rules import lock_people
from teams.models import User, record, record_change
from teams.services import deactivate_person, reactivate_person, set_platform_admin
from teams.sessions import end_sessions

GRACE = timedelta(days=7)


def outlives_session(provider: IdentityProvider, granted: object) -> bool:
    """
    Return whether the refresh token of a sign-in outlives the session at the provider. `granted` is `scope`
    of the token answer, which names the scopes if they are others than were asked for (RFC 6749 §5.1).

    Asking is enough, since Microsoft Entra ID never names the scope; without the right to it, providers
    refuse the sign-in or give no refresh token.
    """
    scopes = {*provider.scopes.split(), *(granted.split() if isinstance(granted, str) else ())}
    return OFFLINE in scopes


def note_sign_out(provider: IdentityProvider, person: User | None, sid: str) -> None:
    """Remember that a sign-out has ended a session at the provider: that of `sid`, or any of the person."""
    grants = IdentityGrant.objects.filter(provider=provider, signed_out_at=None)
    grants = grants.filter(sid=sid) if sid else grants
    (grants if person is None else grants.filter(user=person)).update(signed_out_at=timezone.now())


def counts_from(grant: IdentityGrant, now: datetime, *, is_about_person: bool = False) -> datetime:
    """Return from when a refusal of this refresh token counts; at once if it `is_about_person` anyway."""
    if grant.is_offline or is_about_person or grant.signed_out_at is None:
        return now
    return max(now, grant.signed_out_at + GRACE)


def suspend_tokens(provider: IdentityProvider, person: User, *, at: datetime) -> bool:
    """Refuse the API tokens of a person from `at` on; return whether that is new."""
    if not may_suspend(provider, person):
        return False
    running = User.objects.filter(Q(tokens_suspended_at=None) | Q(tokens_suspended_at__gt=at), pk=person.pk)
    if not running.update(tokens_suspended_at=at):
        return False
    when = "" if at <= timezone.now() else f" from {utc_moment(at)} without another sign-in"
    _record(person, "token.suspended", f"suspended{when}: {provider.title} refuses to renew the sign-in")
    return True


def vouch_for(provider: IdentityProvider, person: User) -> bool:
    """Forget all refusals after a sign-in; return whether API tokens were refused until now."""
    IdentityGrant.objects.filter(user=person, refused_at__isnull=False).update(refused_at=None)
    return give_back_tokens(person, f"signed in through {provider.title}")


def give_back_tokens(person: User, why: str) -> bool:
    """Accept the API tokens of a person again; return whether they were refused until now."""
    at = User.objects.filter(pk=person.pk).values_list("tokens_suspended_at", flat=True).first()
    suspended = User.objects.filter(pk=person.pk, tokens_suspended_at__isnull=False)
    if not suspended.update(tokens_suspended_at=None) or at is None:
        return False
    _record(person, "token.given_back", f"work again: {why}")
    return at <= timezone.now()


def may_suspend(provider: IdentityProvider, person: User) -> bool:
    """Return whether a refusal of the provider suspends API tokens of this person."""
    return provider.suspends_tokens and not is_exempt(person)


def is_exempt(person: User) -> bool:
    """Return whether a person may sign in here whatever their provider says, so that nobody is locked out."""
    return person.break_glass or (person.is_superuser and not _other_admins(person).exists())


def _other_admins(person: User) -> QuerySet[User]:
    admins = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=person.pk)
    return admins.filter(Q(break_glass=True) | ~Exists(refusals().filter(user=OuterRef("pk"))))


def refusals() -> QuerySet[IdentityGrant]:
    """Return the sign-ins that an enabled provider refuses to renew, and that count by now."""
    return IdentityGrant.objects.filter(provider__enabled=True, refused_at__lte=timezone.now())


def refused_by(person: User) -> IdentityGrant | None:
    """Return the sign-in that an enabled provider refuses to renew, with its provider; it may count later."""
    refused = IdentityGrant.objects.filter(user=person, provider__enabled=True, refused_at__isnull=False)
    return refused.select_related("provider").order_by("refused_at").first()


def refusing_provider(person: User) -> IdentityProvider | None:
    """Return the provider that closes password and passkey to a person, None if nothing does."""
    refusal = refusals().filter(user=person).select_related("provider").order_by("-refused_at").first()
    return None if refusal is None or is_exempt(person) else refusal.provider


@service
def set_break_glass(*, by: User, person: User, marked: bool) -> None:
    """
    Let a person sign in with password or passkey whatever an identity provider says of them, or no longer.

    Without the mark a refusal counts that there has been. Raises Forbidden; Conflict for who has neither.
    """
    require_admin(by)
    lock_people([person.pk])  # of this and a refusal at the same moment one sees the other
    person = User.objects.get(pk=person.pk)
    if marked and not has_local_sign_in(person):
        raise Conflict(f"{person.username} has neither a password nor a passkey. Set one up first.")
    if person.break_glass == marked:
        return
    person.break_glass = marked
    person.save(update_fields=["break_glass"])
    change = "break-glass account" if marked else "no longer a break-glass account"
    record_change(
        by=by,
        of=person,
        change=change,
        values=[("Break-glass account", "no", "yes") if marked else ("Break-glass account", "yes", "no")],
        action="person.break_glass_marked" if marked else "person.break_glass_ended",
    )
    if marked:
        give_back_tokens(person, change)
        return
    for refusal in IdentityGrant.objects.filter(user=person, refused_at__isnull=False).select_related(
        "provider"
    ):
        if refusal.refused_at:
            suspend_tokens(refusal.provider, person, at=refusal.refused_at)
    if refusing_provider(person):
        end_sessions(person)


@service
def change_person(
    *,
    by: User,
    person: User,
    platform_admin: bool | None = None,
    break_glass: bool | None = None,
    active: bool | None = None,
) -> None:
    """Do what is given: all of it, or nothing. Raises as the services of `teams.services` and this module."""
    if active:
        reactivate_person(by=by, person=person)
    if platform_admin is not None:
        set_platform_admin(by=by, person=person, admin=platform_admin)
    if break_glass is not None:
        set_break_glass(by=by, person=person, marked=break_glass)
    if active is False:
        deactivate_person(by=by, person=person)


def has_local_sign_in(person: User) -> bool:
    passkeys = Authenticator.objects.filter(user=person, type=Authenticator.Type.WEBAUTHN)
    return person.has_usable_password() or passkeys.exists()


def _record(person: User, action: str, what: str) -> None:
    """Each session of a provider ends one day: only tokens that this concerns are worth an entry."""
    tokens = person.api_tokens.filter(revoked_at=None, expires_at__gt=timezone.now()).count()
    if tokens:
        record(
            by=None,
            action=action,
            kind="user",
            object_id=str(person.pk),
            name=person.username,
            text=f"{counted(tokens, 'API token')} {what}",
        )
