"""
People of a provider: created or linked, changed, ended.

Somebody who has an account is linked, never doubled: by the subject with which they sign in, where the
provider sends that as `externalId`, else by user name. Whom somebody here made platform admin, or marked as
break-glass account, no provider links, changes or ends, whenever that was: such an account is the way in when
the provider is away or in wrong hands. What a provider ends a platform admin may give back, and what a
platform admin ended a provider cannot.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from allauth.socialaccount.models import SocialAccount
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db.models import QuerySet
from django.utils import timezone

from core.transactions import lock_row, unless_taken
from teams import services
from teams.identity.groups import change_members
from teams.identity.models import ExternalGroup, IdentityProvider
from teams.identity.rules import apply, lock_rules
from teams.models import User, record_change
from teams.names import account_name, is_made_from
from teams.scim.errors import InvalidValue, NotUnique, OutOfReach
from teams.scim.models import ScimUser

MAX_EMAILS = 4_000  # characters as JSON


@dataclass(frozen=True, slots=True)
class ProvisionedPerson:
    """What a provider says of somebody; "" for what it does not say."""

    user_name: str
    external_id: str = ""
    first_name: str = ""
    last_name: str = ""
    emails: tuple[Mapping[str, Any], ...] = ()  # value, type, primary
    active: bool = True

    @property
    def email(self) -> str:
        """The address to which mails go: the primary one, else the first; "" without one that is sound."""
        sound = [one for one in self.emails if is_address(str(one.get("value", "")))]
        return str(next(iter(sorted(sound, key=lambda one: not one.get("primary"))), {}).get("value", ""))

    def require_sound(self) -> None:
        """Raise InvalidValue for what the portal cannot store."""
        limits = {"userName": (self.user_name, 500), "externalId": (self.external_id, 200)}
        limits |= {"name.givenName": (self.first_name, 150), "name.familyName": (self.last_name, 150)}
        for name, (value, longest) in limits.items():
            if len(value) > longest or "\x00" in value:
                raise InvalidValue(f"{name} has at most {longest} characters and no NUL.")
        if not self.user_name.strip():
            raise InvalidValue("userName is missing.")
        if len(json.dumps(self.emails)) > MAX_EMAILS:
            raise InvalidValue(f"emails has at most {MAX_EMAILS} characters.")


def is_address(text: str) -> bool:
    """Return whether mail can go there; others, such as "mia@corp", are kept as the provider says them."""
    try:
        validate_email(text)
    except ValidationError:
        return False
    return len(text) <= 254


def people_of(provider: IdentityProvider) -> QuerySet[ScimUser]:
    """Return the people whom the provider keeps, each with their account."""
    return ScimUser.objects.filter(provider=provider, deleted_at=None).select_related("user", "provider")


def create(provider: IdentityProvider, person: ProvisionedPerson) -> ScimUser:
    """
    Give somebody an account, or link the one that they have. Raises NotUnique if the provider
    keeps this user already, or must not keep the account.
    """
    person.require_sound()
    with unless_taken(NotUnique(f"{provider.title} has another user {person.user_name}.")):
        return _create(provider, person)


def _create(provider: IdentityProvider, person: ProvisionedPerson) -> ScimUser:
    user = find_account(provider, person)
    row = None
    if user is None:
        user = User(username=account_name(person.user_name, person.email), email=person.email)
        user.first_name, user.last_name = person.first_name, person.last_name
        user.is_active = person.active
        user.set_unusable_password()
        user.save(force_insert=True)
        row = ScimUser(deactivated=not person.active)
    else:
        _require_linkable(provider, user)
        row = ScimUser.objects.filter(user=user).first()
    row = row or ScimUser()
    row.provider, row.user, row.deleted_at = provider, user, None
    row.user_name, row.external_id, row.emails = person.user_name, person.external_id, [*person.emails]
    row.created_at = timezone.now()
    row.save()
    change = f"kept by {provider.title} through SCIM as {person.user_name}"
    record_change(by=None, of=user, change=change, action="identity.provisioned")
    _write(row, person)
    return row


def find_account(provider: IdentityProvider, person: ProvisionedPerson) -> User | None:
    """Return the account that somebody has: of the subject with which they sign in, else of the user name."""
    if person.external_id and provider.external_id_claim == "sub":
        subject = SocialAccount.objects.filter(provider=provider.slug, uid=person.external_id)
        if found := User.objects.filter(pk__in=subject.values("user")).first():
            return found
    return User.objects.filter(username__iexact=person.user_name).order_by("pk").first()


def _require_linkable(provider: IdentityProvider, user: User) -> None:
    refusal = beyond_reach(user)
    kept = ScimUser.objects.filter(user=user, deleted_at=None).select_related("provider").first()
    elsewhere = SocialAccount.objects.filter(user=user).exclude(provider=provider.slug)
    here = SocialAccount.objects.filter(user=user, provider=provider.slug)
    if kept is not None and kept.provider_id == provider.pk:
        refusal = "is a user of this provider already: change it instead"
    elif kept is not None or (elsewhere.exists() and not here.exists()):
        refusal = "belongs to another identity provider"
    elif user.is_service_account:
        refusal = "is a service account of a team"
    if refusal:
        raise NotUnique(f"{user.username} {refusal}.")


def beyond_reach(user: User) -> str:
    """Return why no provider may link, change or end an account, "" if one may."""
    if user.break_glass:
        return "is a break-glass account, which no provider may end. A platform admin takes the mark away"
    if user.is_superuser and not user.admin_from_groups:
        return (
            "was made platform admin in the portal: the way in when this provider is away, which it must not "
            "be able to end. A platform admin ends the role first, or a group rule gives it"
        )
    return ""


def require_reach(user: User, *, ends: bool) -> None:
    """Raise OutOfReach for an account that no provider may change or end."""
    if refusal := beyond_reach(user):
        refused = OutOfReach(f"{user.username} {refusal}.")
        refused.ended = user if ends and user.is_active else None
        raise refused


def locked(provider: IdentityProvider, pk: UUID) -> ScimUser | None:
    """Lock a person of the provider until the end of the transaction: who changes has read what is there."""
    lock_rules()  # which comes before the rows
    try:
        return lock_row(people_of(provider), pk)
    except ScimUser.DoesNotExist:
        return None


def change(row: ScimUser, person: ProvisionedPerson) -> None:
    """Make the person of the locked `row` what the provider says. Raises InvalidValue, NotUnique."""
    person.require_sound()
    with unless_taken(NotUnique(f"{person.user_name} is the name of somebody else.")):
        _write(row, person)


def _write(row: ScimUser, person: ProvisionedPerson) -> None:
    """Write what differs to the account, and record it."""
    user = row.user
    columns = {"first_name": person.first_name, "last_name": person.last_name, "email": person.email}
    if person.user_name != row.user_name and is_made_from(user.username, row.user_name):
        columns["username"] = account_name(person.user_name, person.email, of=user)  # else it was chosen here
    names = services.FIELD_NAMES | {"username": "User name"}
    values = [
        (names[name], str(getattr(user, name)), value)
        for name, value in columns.items()
        if value != getattr(user, name)
    ]
    if values:
        require_reach(user, ends=not person.active)
        User.objects.filter(pk=user.pk).update(**columns)
        for name, value in columns.items():
            setattr(user, name, value)
        what = ", ".join(label for label, _before, _after in values)
        record_change(by=None, of=user, change=f"changed {what}", values=values, in_activity=False)
    said = (row.user_name, row.external_id, row.emails)
    row.user_name, row.external_id, row.emails = person.user_name, person.external_id, [*person.emails]
    is_switched = _switch(row, active=person.active)
    if values or is_switched or said != (row.user_name, row.external_id, row.emails):
        row.changed_at = timezone.now()
        row.save(update_fields=["user_name", "external_id", "emails", "changed_at", "deactivated"])


def _switch(row: ScimUser, *, active: bool) -> bool:
    """End or give back the sign-in; return whether that changed something."""
    user, reason = row.user, f"by {row.provider.title} through SCIM"
    if not active and user.is_active:
        require_reach(user, ends=True)
        services.end_account(person=user, reason=reason)
        user.is_active, row.deactivated = False, True
        return True
    if active and not user.is_active and row.deactivated:
        services.restore_account(person=user, reason=reason)
        user.is_active, row.deactivated = True, False
        apply([user.pk])  # of groups that changed meanwhile
        return True
    return False


def delete(row: ScimUser) -> None:
    """End an account that the provider no longer keeps; `row` is locked. Claims stay with their teams."""
    require_reach(row.user, ends=True)
    groups = ExternalGroup.objects.filter(
        provider=row.provider, kept_by=ExternalGroup.Keeper.SCIM, members=row.user
    )
    for group in groups.order_by("pk"):
        change_members(group, joined=frozenset(), left={row.user_id})
    _switch(row, active=False)
    row.deleted_at = timezone.now()
    row.save(update_fields=["deleted_at", "deactivated"])
    text = f"no longer kept by {row.provider.title}"
    record_change(by=None, of=row.user, change=text, action="identity.deprovisioned")
