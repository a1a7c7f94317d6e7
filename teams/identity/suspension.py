"""
API tokens of somebody for whom an identity provider no longer vouches: suspended, and given back.

A provider that refuses to renew a sign-in has disabled the account, revoked the sign-in or ended the session;
it does not say which. Tokens are then refused until the person signs in through a provider again, and stay as
they are. Whoever may sign in with a password of the portal keeps them: that account is the portal's own, and
a platform admin ends it. Service accounts sign in nowhere.
"""

from __future__ import annotations

from django.utils import timezone

from core.models import Installation
from core.text import counted
from teams.identity.models import IdentityProvider
from teams.models import User, record


def suspend_tokens(provider: IdentityProvider, person: User) -> bool:
    """Refuse the API tokens of a person from now on; return whether that is new."""
    if not may_suspend(provider, person):
        return False
    running = User.objects.filter(pk=person.pk, tokens_suspended_at=None)
    if not running.update(tokens_suspended_at=timezone.now()):
        return False
    _record(person, "token.suspended", f"suspended: {provider.title} refuses to renew the sign-in")
    return True


def give_back_tokens(provider: IdentityProvider, person: User) -> bool:
    """Accept the API tokens of a person who has signed in again; return whether that is new."""
    suspended = User.objects.filter(pk=person.pk, tokens_suspended_at__isnull=False)
    if not suspended.update(tokens_suspended_at=None):
        return False
    _record(person, "token.given_back", f"work again: signed in through {provider.title}")
    return True


def may_suspend(provider: IdentityProvider, person: User) -> bool:
    """Return whether a refusal of the provider suspends API tokens: not those of who has an own password."""
    if not provider.suspends_tokens:
        return False
    if not person.has_usable_password():
        return True
    return not (person.is_superuser or Installation.load().password_sign_in)


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
