"""
Service accounts: accounts of a team for pipelines, which use tokens and never sign in.

A lead or owner creates one, with the role viewer or member: people decide on requests, so no account is a
lead. Its user name is `<name>@<team>`; it is shown as "ci-train (service account of vision)".
Its claims stay with the team when it is deleted, and it ends with the team.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.db.models import F, Max, QuerySet

from core.errors import Conflict, Invalid
from core.inputs import validate_name
from core.scopes import Scope
from core.transactions import service, unless_taken
from teams.access import require_role
from teams.models import ApiToken, Membership, Role, Team, User, record_change
from teams.tokens import DEFAULT_OVERLAP, DEFAULT_SCOPES, create_token, rotate_token

MAX_NAME_LENGTH = 40
ROLES = (Role.VIEWER, Role.MEMBER)
SCOPES = (Scope.READ, Scope.REQUEST)  # what its roles may at most


def service_accounts_of(team: Team) -> QuerySet[User]:
    """Return the accounts by name, with `role` and `last_used_at`, when a token of them was used last."""
    accounts = User.objects.filter(service_of=team, memberships__team=team).select_related("service_of")
    return accounts.order_by("first_name").annotate(
        role=F("memberships__role"), last_used_at=Max("api_tokens__last_used_at")
    )


def username_of(name: str, team: Team) -> str:
    """Return the user name of an account, which nobody changes: by it the account is found."""
    return f"{name}@{team.slug}"


def create_service_account(*, by: User, team: Team, name: str, role: Role = Role.MEMBER) -> User:
    """
    Create an account with a role in the team.

    Raises Http404 for an outsider, PermissionDenied below lead, Invalid for a name or role, Conflict if the
    name is taken or the team is archived.
    """
    require_role(by, team, at_least=Role.LEAD)
    if team.archived_at:
        raise Conflict(f"{team} is archived. Restore it first.")
    if len(name) > MAX_NAME_LENGTH or not is_name(name):
        raise Invalid(
            f"A name has lower-case letters, digits and hyphens, at most {MAX_NAME_LENGTH}.", field="name"
        )
    if role not in ROLES:
        raise Invalid("A service account is viewer or member: people decide on requests.", field="role")
    account = User(
        username=username_of(name, team),
        first_name=name,
        last_name=f"(service account of {team.slug})",
        password=make_password(None),
        service_of=team,
    )
    with unless_taken(Conflict(f"{team} has a service account “{name}” already.", field="name")):
        account.save(force_insert=True)
        Membership.objects.create(user=account, team=team, role=role)
        change = f"service account {name}: created as {role.label}"
        record_change(by=by, of=team, change=change, action="service_account.created")
    return account


@service
def set_enabled(*, by: User, account: User, enabled: bool) -> None:
    """Let its tokens work, or not. Repeating it changes nothing. Raises as `create_service_account`."""
    team = team_of(account)
    require_role(by, team, at_least=Role.LEAD)
    if User.objects.filter(pk=account.pk, is_active=not enabled, memberships__team=team).update(
        is_active=enabled
    ):
        word = "enabled" if enabled else "disabled"
        change = f"service account {account.first_name}: {word}"
        record_change(by=by, of=team, change=change, action="service_account.changed")


@service
def delete_service_account(*, by: User, account: User) -> None:
    """
    End an account: its tokens are revoked, its claims and what it did stay under its name. Its row stays too,
    without a role, and its name is free again.
    """
    team = team_of(account)
    require_role(by, team, at_least=Role.LEAD)
    membership = Membership.objects.filter(user=account, team=team).first()
    if membership is None:
        return
    membership.delete()
    _end(by, account, "the service account was deleted")
    change = f"service account {account.first_name}: deleted"
    record_change(by=by, of=team, change=change, action="service_account.deleted")


def end_accounts_of(team: Team, *, by: User) -> None:
    """End the accounts of a team that is archived, which has removed their roles."""
    for account in User.objects.filter(service_of=team, is_active=True):
        _end(by, account, f"{team} was archived")


def _end(by: User, account: User, reason: str) -> None:
    account.api_tokens.all().revoke(by=by, reason=reason)
    freed = f"{account.username}+{account.pk.hex[-12:]}"
    User.objects.filter(pk=account.pk).update(is_active=False, username=freed)


def create_account_token(
    *,
    by: User,
    account: User,
    title: str,
    scopes: Collection[str] = DEFAULT_SCOPES,
    expires_at: datetime | None = None,
    made_with: ApiToken | None = None,
) -> tuple[ApiToken, str]:
    """Create a token of an account, for a lead of its team. Raises Invalid for a scope beyond `SCOPES`."""
    require_role(by, team_of(account), at_least=Role.LEAD)
    if beyond := sorted(set(scopes) - set(SCOPES)):
        raise Invalid(f"A service account cannot have {', '.join(beyond)}: people do that.", field="scopes")
    return create_token(
        by=by, account=account, title=title, scopes=scopes, expires_at=expires_at, made_with=made_with
    )


def rotate_account_token(
    *,
    by: User,
    account: User,
    token: ApiToken,
    overlap: timedelta = DEFAULT_OVERLAP,
    end_made: bool = False,
    made_with: ApiToken | None = None,
) -> str:
    """Rotate a token of an account, for a lead of its team (`teams.tokens.rotate_token`)."""
    require_role(by, team_of(account), at_least=Role.LEAD)
    return rotate_token(by=by, token=token, overlap=overlap, end_made=end_made, made_with=made_with)


@service
def revoke_account_token(*, by: User, account: User, token: ApiToken) -> None:
    """Revoke a token of an account at once, for a lead of its team."""
    require_role(by, team_of(account), at_least=Role.LEAD)
    account.api_tokens.filter(pk=token.pk).revoke(by=by)


def team_of(account: User) -> Team:
    """Return the team of a service account."""
    if account.service_of is None:
        raise ValueError(f"{account.username} is a person.")
    return account.service_of


def is_name(text: str) -> bool:
    try:
        validate_name(text)
    except ValidationError:
        return False
    return True
