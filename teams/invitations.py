"""
Invitations by email: a platform admin invites an address, and whoever has the link accepts once.

The link is signed with SECRET_KEY and not stored. Who is signed in joins the team with their account; anybody
else creates a local account, with a password that Django's validators accept.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core import signing
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from core.errors import Conflict, Invalid, PortalError
from core.models import Installation
from core.transactions import service, unless_taken
from teams.access import require_admin
from teams.models import Invitation, Membership, Role, Team, User, record_change
from teams.names import require_free

LIFETIME = timedelta(days=7)
SALT = "teams.invitations"


class InvitationOver(PortalError):
    """The link was used, revoked, replaced, has expired, or was never valid: 410."""

    code = "invitation-over"
    status = 410
    title = "This invitation is no longer valid"


def invite(*, by: User, email: str, team: Team | None = None, role: Role = Role.MEMBER) -> Invitation:
    """
    Invite an address for `LIFETIME`; an open invitation of the same address and team is renewed.

    Raises Forbidden, and Conflict if the person is a member already, or has an account and needs no other.
    """
    require_admin(by)
    email = email.strip().lower()
    person = User.objects.filter(email__iexact=email).first()
    if person is not None and team is None:
        raise Conflict(f"{email} has an account: {person.username}.", field="email")
    if team is not None and Membership.objects.filter(team=team, user__email__iexact=email).exists():
        raise Conflict(f"{email} is already in {team}.", field="email")
    if team is not None and team.archived_at:
        raise Conflict(f"{team} is archived. Restore it first.", field="team")
    now = timezone.now()
    values = {"role": role, "invited_by": by, "sent_at": now, "expires_at": now + LIFETIME}
    with service:
        invitation, _is_new = Invitation.objects.open().update_or_create(
            email=email, team=team, defaults=values
        )
        _record(by, invitation, f"{email}: invited as {role.label}", action="invitation.sent")
    return invitation


def link_token(invitation: Invitation) -> str:
    """Return the signed part of the link."""
    return signing.dumps([str(invitation.pk), invitation.sent_at.isoformat()], salt=SALT)


def find_invitation(token: str) -> Invitation:
    """Return the open invitation of a link. Raises InvitationOver."""
    try:
        pk, sent_at = signing.loads(token, salt=SALT)
        invitation = Invitation.objects.select_related("team", "invited_by").filter(pk=UUID(pk)).first()
    except (signing.BadSignature, ValueError, TypeError):
        invitation, sent_at = None, ""
    if invitation is None or invitation.sent_at.isoformat() != sent_at:
        raise InvitationOver("This link is not valid, or a newer one was sent. Ask for a new invitation.")
    if invitation.accepted_at:
        raise InvitationOver("This invitation was accepted already. Sign in.")
    if invitation.revoked_at:
        raise InvitationOver("This invitation was withdrawn. Ask for a new one.")
    if invitation.is_expired:
        raise InvitationOver("This invitation has expired. Ask for a new one.")
    return invitation


@service
def revoke_invitation(*, by: User, invitation: Invitation) -> None:
    """End the link. Repeating it changes nothing."""
    require_admin(by)
    if Invitation.objects.open().filter(pk=invitation.pk).update(revoked_at=timezone.now()):
        _record(by, invitation, f"{invitation.email}: invitation withdrawn", action="invitation.withdrawn")


@service
def accept_as(*, by: User, token: str) -> Invitation:
    """Join the team with the account of `by`. Raises InvitationOver, Conflict."""
    invitation = find_invitation(token)
    _accept(invitation, by)
    return invitation


def accept_as_new(*, token: str, username: str, name: tuple[str, str], password: str) -> User:
    """
    Create an account with the invited address, and join. Raises InvitationOver, Invalid, and Conflict where
    there is such an account, or where only platform admins sign in with a password.
    """
    invitation = find_invitation(token)
    if not Installation.load().password_sign_in:
        raise Conflict("Only platform admins have a password here. Sign in through your identity provider.")
    if User.objects.filter(email__iexact=invitation.email).exists():
        raise Conflict(f"{invitation.email} has an account. Sign in to accept.")
    require_free(username)
    first_name, last_name = name
    person = User(username=username, email=invitation.email, first_name=first_name, last_name=last_name)
    _require_password(password, person)
    person.set_password(password)
    with unless_taken(
        Conflict(f"The user name “{username}” is taken. Choose another one.", field="username")
    ):
        person.save(force_insert=True)
        _accept(invitation, person)
    return person


def open_invitations_of(email: str) -> list[Invitation]:
    """Return the invitations of an address that can still be accepted, oldest first."""
    rows = Invitation.objects.open().filter(email__iexact=email, expires_at__gt=timezone.now())
    return list(rows.select_related("team", "invited_by").order_by("sent_at"))


def accept_verified(invitation: Invitation, person: User) -> None:
    """
    Accept for a person whose address an identity provider has verified, so that no link is needed.

    One that somebody else has accepted just now, or whose team was archived, is left out.
    """
    try:
        with transaction.atomic():
            _accept(invitation, person)
    except PortalError:
        return


def _require_password(password: str, person: User) -> None:
    try:
        validate_password(password, person)
    except ValidationError as refusal:
        problem = " ".join(refusal.messages)
    else:
        return
    raise Invalid(problem, field="password")


def _accept(invitation: Invitation, person: User) -> None:
    """Use the invitation up, and add the member. Of two who accept at once, one is refused."""
    still_open = Invitation.objects.open().filter(pk=invitation.pk, sent_at=invitation.sent_at)
    if not still_open.update(accepted_at=timezone.now(), accepted_by=person):
        raise InvitationOver("This invitation was accepted already. Sign in.")
    team = invitation.team
    if team is not None:
        if team.archived_at:
            raise Conflict(f"{team} was archived meanwhile.")
        Membership.objects.get_or_create(user=person, team=team, defaults={"role": invitation.role})
    inviter = invitation.invited_by.username
    change = f"{person.username}: accepted the invitation of {inviter}"
    _record(person, invitation, change, action="invitation.accepted")


def _record(by: User, invitation: Invitation, change: str, *, action: str) -> None:
    """Record it with the team, whose owners see it, or with the invitation."""
    record_change(by=by, of=invitation.team or invitation, change=change, action=action)
