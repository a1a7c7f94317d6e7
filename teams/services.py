"""What owners of a team, and platform admins, do with its people. A team keeps at least one owner."""

from django.db import transaction

from core.errors import Conflict, Invalid
from teams.access import require_role
from teams.models import Membership, Role, Team, User


@transaction.atomic(durable=True)
def add_member(*, by: User, team: Team, username: str, role: Role) -> Membership:
    """Add a person by user name. Only whole names are looked up: nobody can list people."""
    require_role(by, team, at_least=Role.OWNER)
    person = User.objects.filter(username=username, is_active=True).first()
    if person is None:
        raise Invalid(f"There is nobody with the user name “{username}”.", field="username")
    membership, is_new = Membership.objects.get_or_create(user=person, team=team, defaults={"role": role})
    if not is_new:
        raise Conflict(f"{username} already is in {team.slug}, as {Role(membership.role).label}.")
    return membership


@transaction.atomic(durable=True)
def change_role(*, by: User, team: Team, member: Membership, role: Role) -> None:
    require_role(by, team, at_least=Role.OWNER)
    if role != Role.OWNER:
        keep_an_owner(team, without=member)
    Membership.objects.filter(pk=member.pk).update(role=role)


@transaction.atomic(durable=True)
def remove_member(*, by: User, team: Team, member: Membership) -> None:
    """Take a person out of the team. Their claims stay the team's."""
    if by.pk != member.user_id:  # everybody may leave
        require_role(by, team, at_least=Role.OWNER)
    keep_an_owner(team, without=member)
    Membership.objects.filter(pk=member.pk).delete()


def keep_an_owner(team: Team, *, without: Membership) -> None:
    """Refuse to take the last owner away. The owners are locked: two may not step down at once."""
    owners = (
        team.memberships.filter(role=Role.OWNER).order_by("pk").select_for_update(no_key=True, of=("self",))
    )
    if [owner.pk for owner in owners] == [without.pk]:
        raise Conflict(
            f"{without.user.username} is the only owner of {team.slug}. Make somebody else an owner first."
        )
