"""
Who signs in through a provider: which account it is, whether a new one is made, and what the groups give.

An account is never taken over by an address: the provider must call it verified, and the account must have no
password, since whoever chose one could have entered any address in their profile, and no link to a provider,
which says who it is. The same holds for accounts that the provider keeps through SCIM. Everybody else signs
in as before once and links the provider in the profile.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from allauth.socialaccount.models import SocialAccount
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone

from cluster.credentials import seal_fields
from core.errors import PortalError
from core.text import one_line
from core.transactions import service, unless_taken
from teams.identity.groups import set_groups_of
from teams.identity.models import GroupRule, IdentityGrant, IdentityProvider
from teams.identity.rules import AccessChange
from teams.identity.suspension import vouch_for
from teams.invitations import accept_verified, open_invitations_of
from teams.models import User, record_change
from teams.names import account_name
from teams.scim.models import ScimUser

READ_AGAIN = timedelta(minutes=5)  # how long a group that somebody left may still give something

LINK_FIRST = (
    "Sign in as you did before, then link this provider in your account under Sign-in. "
    "If you cannot, ask a platform admin."
)


class SignInRefused(PortalError):
    """Nobody signs in; the sentence says what happened and what to do: 403."""

    code = "sign-in-refused"
    status = 403
    title = "You are not signed in"


@dataclass(frozen=True, slots=True)
class Identity:
    """
    What a provider says of a person. `subject` is exactly its `sub`; `email` is "" unless it is an address;
    `groups` is None if it says nothing of them, which is not the same as none, or nothing that can be read,
    of which `groups_problem` is the sentence.
    """

    subject: str
    username: str = ""
    first_name: str = ""
    last_name: str = ""
    email: str = ""
    email_verified: bool = False
    groups: tuple[str, ...] | None = None
    groups_problem: str = ""
    external_id: str = ""  # what SCIM calls the person


def identity_of(provider: IdentityProvider, claims: Mapping[str, Any]) -> Identity:
    """Return what the claims of a person say, of ID token and userinfo together."""
    email = whole_text(claims, "email").lower()
    try:
        validate_email(email)
    except ValidationError:
        email = ""
    email = email if len(email) <= 254 else ""
    full_name = text_of(claims, "name").partition(" ")
    groups, problem = groups_in(claims, provider.groups_claim)
    verified = claims.get("email_verified")
    is_verified = verified is True or verified == "true"  # a text in tokens of some providers
    return Identity(
        subject=whole_text(claims, "sub"),
        username=whole_text(claims, "preferred_username"),
        first_name=text_of(claims, "given_name") or full_name[0],
        last_name=text_of(claims, "family_name") or full_name[2],
        email=email,
        email_verified=bool(email) and (is_verified or provider.trusts_email),
        groups=groups,
        groups_problem=problem,
        external_id=external_id_of(claims, provider.external_id_claim),
    )


def external_id_of(claims: Mapping[str, Any], claim: str) -> str:
    """Return the claim with the `externalId` of SCIM exactly as it is, "" for none: a part is another id."""
    value = whole_text(claims, claim)
    return value if len(value) <= 200 and "\x00" not in value else ""


def whole_text(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim exactly as it is, "" if it is no text. What is cut or trimmed is somebody else's."""
    value = claims.get(name)
    return value if isinstance(value, str) else ""


def text_of(claims: Mapping[str, Any], name: str) -> str:
    """Return a claim that is only shown: on one line, and not too long."""
    return one_line(whole_text(claims, name))[:150]


KINDS: Mapping[type, str] = {
    **{bool: "true or false", int: "numbers", float: "numbers"},
    **{dict: "objects", list: "lists in a list"},
}
type Groups = tuple[tuple[str, ...] | None, str]  # None and a sentence: what is there cannot be read


def groups_in(claims: Mapping[str, Any], claim: str) -> Groups:
    """
    Return the groups of a claim, and why they cannot be read: of its name, or of a path such as
    `realm_access.roles`, whose parts may have dots themselves. Names are exactly as the provider has them.

    A list has names, a map has them as keys, a text is one name, or a list of them as JSON or with commas,
    unless it is a distinguished name. A claim that is missing means no groups: Microsoft Entra ID leaves it
    out then. None where no claim is read, where the provider leaves it out because there are too many
    (OpenID Connect Core 1.0 §5.6.2), and for numbers, objects and other lists: that changes nothing.
    """
    if not claim:
        return None, ""
    value = value_at(claims, claim)
    if value is None:
        elsewhere = claims.get("_claim_names")
        if claims.get("hasgroups") or (isinstance(elsewhere, Mapping) and claim in elsewhere):
            return None, "the provider leaves them out, because there are too many"
        return (), ""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError):
            value = json.loads(value)
    if isinstance(value, str) and "," in value and "=" not in value:
        value = [name.strip() for name in value.split(",")]
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, list | dict) else [value]
    if strange := [type(name) for name in names if not isinstance(name, str)]:
        return None, f"the claim has {KINDS.get(strange[0], 'values that are no text')}"
    return tuple(name for name in names if name and "\x00" not in name), ""


def value_at(value: Any, path: str) -> Any:
    """Return what stands in nested maps under a path, whose parts may have dots; None for nothing."""
    if not isinstance(value, Mapping):
        return None
    path = path.replace("\\.", ".")
    if value.get(path) is not None:
        return value[path]
    dots = [place for place, letter in enumerate(path) if letter == "."]
    found = (value_at(value.get(path[:dot]), path[dot + 1 :]) for dot in dots)
    return next((one for one in found if one is not None), None)


def note_groups(provider: IdentityProvider, person: User, problem: str) -> None:
    """Show on the page of the provider that the groups of somebody cannot be read, until they can be."""
    begins = f"The groups of {person.username} "
    rows = IdentityProvider.objects.filter(pk=provider.pk)
    if problem:
        rows.update(problem=f"{begins}cannot be read from “{provider.groups_claim}”: {problem}.")
    elif provider.problem.startswith(begins):
        rows.filter(problem__startswith=begins).update(problem="")


@dataclass(frozen=True, slots=True)
class SignIn:
    """Whose account it is, whether it is new, and what the groups changed."""

    person: User
    is_new: bool
    changes: list[AccessChange]


@transaction.atomic
def person_signing_in(provider: IdentityProvider, identity: Identity) -> SignIn:
    """
    Return the account of a person who was authenticated by the provider, with what the groups give.

    Finds the one that is linked; links the one that the provider keeps through SCIM, or the one without a
    password that has the verified address; else makes one, for whom the provider admits. Raises
    SignInRefused.
    """
    person, is_new = linked_person(provider, identity), False
    if person is None:
        person = person_of_scim(provider, identity)
        if person is not None:
            require_free(provider, person)
    if person is None:
        person = person_of_address(provider, identity)
    if person is None:
        person, is_new = _new_person(provider, identity), True
    if not person.is_active:
        raise SignInRefused("Your account is deactivated. Ask a platform admin.")
    if is_new or not SocialAccount.objects.filter(provider=provider.slug, uid=identity.subject).exists():
        link(provider, identity.subject, person)
    for invitation in open_invitations_of(identity.email) if identity.email_verified else ():
        accept_verified(invitation, person)
    changes = set_groups_of(person, provider, identity.groups, by=None) if identity.groups is not None else []
    note_groups(provider, person, identity.groups_problem)
    person.refresh_from_db()
    return SignIn(person, is_new, changes)


def linked_person(provider: IdentityProvider, identity: Identity) -> User | None:
    account = SocialAccount.objects.filter(provider=provider.slug, uid=identity.subject)
    return User.objects.filter(pk__in=account.values("user"), service_of=None).first()


def person_of_scim(provider: IdentityProvider, identity: Identity) -> User | None:
    """Return whom this provider, and no other, keeps through SCIM with this `externalId`."""
    if not identity.external_id:
        return None
    kept = ScimUser.objects.filter(provider=provider, external_id=identity.external_id, deleted_at=None)
    return User.objects.filter(pk__in=kept.values("user"), service_of=None).first()


def require_free(provider: IdentityProvider, person: User) -> None:
    """
    Raise SignInRefused unless a first sign-in may link this account of SCIM: one with a password is of
    whoever knows that, and one that is linked belongs to another subject, or is another provider's too.
    """
    keeps = f"{provider.title} keeps the account {person.username} for you"
    links = SocialAccount.objects.filter(user=person)
    if links.filter(provider=provider.slug).exists():
        raise SignInRefused(f"{keeps}, but somebody else signs in to it. Ask a platform admin.")
    if links.exists():
        raise SignInRefused(
            f"{keeps}, to which you sign in through another provider. Sign in as you did, then link "
            f"{provider.title} in your account under Sign-in."
        )
    if person.has_usable_password():
        raise SignInRefused(f"{keeps}, which has a password. {LINK_FIRST}")


def person_of_address(provider: IdentityProvider, identity: Identity) -> User | None:
    """Return the account to link by its address, None if nobody has it. Raises SignInRefused for others."""
    if not identity.email:
        return None
    found = list(User.objects.filter(email__iexact=identity.email, service_of=None)[:2])
    if not found:
        return None
    if not identity.email_verified:
        raise SignInRefused(
            f"There is an account with the address {identity.email}, and {provider.title} does not say that "
            f"the address is yours. {LINK_FIRST}"
        )
    person = found[0]
    is_linked = SocialAccount.objects.filter(user=person).exists()  # to this provider or to another one
    if len(found) > 1 or person.has_usable_password() or is_linked:
        raise SignInRefused(f"There is an account with the address {identity.email} already. {LINK_FIRST}")
    return person


def _new_person(provider: IdentityProvider, identity: Identity) -> User:
    if not _is_admitted(provider, identity):
        none = f"your groups cannot be read: {identity.groups_problem}" if identity.groups_problem else ""
        raise SignInRefused(
            f"{provider.title} knows you, but {none or 'none of your groups has a role in this portal'}. "
            "Ask a platform admin for an invitation."
        )
    email = identity.email if identity.email_verified else ""
    person = User(
        username=account_name(identity.username, identity.email.partition("@")[0], identity.email),
        first_name=identity.first_name,
        last_name=identity.last_name,
        email=email,
    )
    person.set_unusable_password()
    with unless_taken(
        SignInRefused(f"Somebody has taken the user name {person.username} just now. Sign in again.")
    ):
        person.save(force_insert=True)
    return person


def _is_admitted(provider: IdentityProvider, identity: Identity) -> bool:
    if provider.admits_everybody:
        return True
    if identity.email_verified and open_invitations_of(identity.email):
        return True
    rules = list(GroupRule.objects.filter(provider=provider).filter(team__archived_at=None))
    return any(rule.matches(name) for rule in rules for name in identity.groups or ())


def link(provider: IdentityProvider, subject: str, person: User) -> None:
    """Let a person sign in through the provider from now on. Raises SignInRefused if it is another's."""
    with unless_taken(SignInRefused(f"This account of {provider.title} belongs to somebody else here.")):
        SocialAccount.objects.create(provider=provider.slug, uid=subject, user=person)
    record_change(
        by=person,
        of=person,
        change=f"linked: {provider.title}",
        action="identity.linked",
        in_activity=False,
    )


def unlink(*, by: User, provider: IdentityProvider) -> None:
    """
    Sign in through the provider no more. Raises SignInRefused without a password, which would lock `by` out,
    and where the provider refuses to renew the sign-in, which would let `by` in after all.
    """
    with service:
        if IdentityGrant.objects.filter(provider=provider, user=by, refused_at__isnull=False).exists():
            raise SignInRefused(f"{provider.title} has ended your sign-in. Sign in through it again first.")
        others = SocialAccount.objects.filter(user=by).exclude(provider=provider.slug)
        if not by.has_usable_password() and not others.exists():
            raise SignInRefused("Choose a password first: there is no other way for you to sign in.")
        deleted, _of_kinds = SocialAccount.objects.filter(provider=provider.slug, user=by).delete()
        IdentityGrant.objects.filter(provider=provider, user=by).delete()
        if deleted:
            change = f"unlinked: {provider.title}"
            record_change(by=by, of=by, change=change, action="identity.unlinked", in_activity=False)
            set_groups_of(by, provider, (), by=by)


@transaction.atomic
def keep_grant(
    provider: IdentityProvider,
    person: User,
    subject: str,
    refresh_token: str,
    *,
    is_offline: bool = False,
    sid: str = "",
) -> bool:
    """
    Store the refresh token, sealed, to read the groups again after `READ_AGAIN`; return whether API tokens
    that were suspended work again with this sign-in. One that `is_offline` outlives the session `sid` there.
    """
    now = timezone.now()
    sealed = seal_fields({"refresh_token": refresh_token}) if refresh_token else b""
    IdentityGrant.objects.filter(provider=provider, subject=subject).exclude(user=person).delete()
    IdentityGrant.objects.update_or_create(
        provider=provider,
        user=person,
        defaults={
            "subject": subject,
            "sealed": sealed,
            "signed_in_at": now,
            "read_at": now,
            "due_at": now + READ_AGAIN if refresh_token else None,
            "is_offline": is_offline and bool(refresh_token),
            "sid": sid,
            "signed_out_at": None,
        },
    )
    return vouch_for(provider, person)
