"""
Manage members of a team: for its owners and platform admins. A team keeps at least one owner.

The signal `role_changed` notifies the packages above.
"""

from __future__ import annotations

from django.db import transaction
from django.dispatch import Signal

from core.errors import Conflict, Invalid
from core.models import record_change
from teams.access import require_role
from teams.models import Membership, Role, Team, User

# team_id: the role of a member changed; sent inside the transaction. Added and removed members send the
# signals of Django's models.
role_changed = Signal()


@transaction.atomic(durable=True)
def add_member(*, by: User, team: Team, username: str, role: Role) -> Membership:
    """Add a person by exact user name, so that nobody can list people by searching."""
    require_role(by, team, at_least=Role.OWNER)
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None:
        raise Invalid(f"No user has the name “{username}”.", field="username")
    membership, is_new = Membership.objects.get_or_create(user=person, team=team, defaults={"role": role})
    if not is_new:
        raise Conflict(f"{username} is already {Role(membership.role).label} of {team.slug}.")
    record_change(by=by, of=team, change=f"{username}: added as {role.label}")
    return membership


@transaction.atomic(durable=True)
def change_role(*, by: User, team: Team, member: Membership, role: Role) -> None:
    require_role(by, team, at_least=Role.OWNER)
    if role != Role.OWNER:
        require_another_owner(team, without=member)
    before = member.role
    if before == role:
        return
    if not Membership.objects.filter(pk=member.pk, role=before).update(role=role):
        raise Conflict(f"The role of {member.user.username} has changed in the meantime. Look again.")
    record_change(by=by, of=team, change=f"{member.user.username}: {Role(before).label} → {role.label}")
    role_changed.send(Membership, team_id=team.pk)


@transaction.atomic(durable=True)
def remove_member(*, by: User, team: Team, member: Membership) -> None:
    """Remove a person from the team. Their claims stay with the team."""
    if by.pk != member.user_id:  # everybody may leave
        require_role(by, team, at_least=Role.OWNER)
    require_another_owner(team, without=member)
    deleted, _of_kinds = Membership.objects.filter(pk=member.pk).delete()
    if deleted:
        change = f"{member.user.username}: removed, was {Role(member.role).label}"
        record_change(by=by, of=team, change=change)


def require_another_owner(team: Team, *, without: Membership) -> None:
    """Raise Conflict if `without` is the last owner. Locks the owners, so that two cannot leave at once."""
    owners = (
        team.memberships.filter(role=Role.OWNER).order_by("pk").select_for_update(no_key=True, of=("self",))
    )
    if [owner.pk for owner in owners] == [without.pk]:
        raise Conflict(
            f"{without.user.username} is the only owner of {team.slug}. Make another member an owner first."
        )
