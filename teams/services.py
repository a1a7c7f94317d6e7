"""
Teams and people: members of a team, for its owners; teams, accounts and platform admins, for platform admins.

A team keeps at least one owner, the portal one active platform admin. The signal `role_changed` notifies the
packages above; `claims.quotas.namespaces` archives a team.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.dispatch import Signal

from core.errors import Conflict, Forbidden, Invalid
from core.transactions import service, unless_taken
from teams.access import require_admin, require_role
from teams.models import Membership, Role, Team, User, record_change
from teams.sessions import end_sessions

# team_id: the role of a member changed; sent inside the transaction. Added and removed members send the
# signals of Django's models.
role_changed = Signal()
# person, before: somebody has another email address than `before`; sent inside the transaction.
address_changed = Signal()
# person, who, reason: an account was ended, by a platform admin or without `who` by an identity provider;
# sent inside the transaction.
account_ended = Signal()
# person, by: an identity provider, by its title, has ended an account that it may not end.
end_refused = Signal()


@service
def add_member(*, by: User, team: Team, username: str, role: Role) -> Membership:
    """Add a person by exact user name, so that nobody can list people by searching."""
    require_role(by, team, at_least=Role.OWNER)
    if team.archived_at:
        raise Conflict(f"{team} is archived. Restore it first.")
    person = User.objects.filter(username=username, is_active=True, service_of=None).first()
    if person is None:
        raise Invalid(f"No user has the name “{username}”.", field="username")
    membership, is_new = Membership.objects.get_or_create(user=person, team=team, defaults={"role": role})
    if not is_new and membership.from_groups and not membership.hand_role:
        _require_not_below_group(membership, role)
        Membership.objects.filter(pk=membership.pk).update(role=role, hand_role=role)
        membership.role = membership.hand_role = role
        role_changed.send(Membership, team_id=team.pk)
    elif not is_new:
        raise Conflict(f"{username} is already {Role(membership.role).label} of {team.slug}.")
    _record_added(by, team, username, role)
    return membership


def _record_added(by: User, team: Team, name: str, role: Role) -> None:
    values = [(f"Role of {name}", "–", role.label)]
    record_change(
        by=by, of=team, change=f"{name}: added as {role.label}", values=values, action="member.added"
    )


@service
def change_role(*, by: User, team: Team, member: Membership, role: Role) -> None:
    require_role(by, team, at_least=Role.OWNER)
    if role != Role.OWNER:
        require_another_owner(team, without=member)
    before = member.role
    columns = {"role": role}
    if member.from_groups:
        _require_not_below_group(member, role)
        columns["hand_role"] = role
    elif before == role:
        return
    if not Membership.objects.filter(pk=member.pk, role=before, group_role=member.group_role).update(
        **columns
    ):
        raise Conflict(f"The role of {member.user.username} has changed in the meantime. Look again.")
    if before == role:
        return  # only where it comes from
    name, old = member.user.username, Role(before).label
    values = [(f"Role of {name}", old, role.label)]
    change = f"{name}: {old} → {role.label}"
    record_change(by=by, of=team, change=change, values=values, action="member.role_changed")
    role_changed.send(Membership, team_id=team.pk)


@service
def remove_member(*, by: User, team: Team, member: Membership) -> None:
    """Remove a person from the team. Their claims stay with the team."""
    if by.pk != member.user_id:  # everybody may leave
        require_role(by, team, at_least=Role.OWNER)
    if member.from_groups:
        raise Conflict(
            f"{member.user.username} is {Role(member.group_role).label} of {team.slug} through a group of an "
            "identity provider. Take them out of the group there."
        )
    require_another_owner(team, without=member)
    deleted, _of_kinds = Membership.objects.filter(pk=member.pk).delete()
    if deleted:
        name, old = member.user.username, Role(member.role).label
        values = [(f"Role of {name}", old, "–")]
        change = f"{name}: removed, was {old}"
        record_change(by=by, of=team, change=change, values=values, action="member.removed")


def _require_not_below_group(member: Membership, role: Role) -> None:
    if role.rank < Role(member.group_role).rank:
        raise Conflict(
            f"{member.user.username} is {Role(member.group_role).label} through a group of an identity "
            "provider; by hand the role can only be raised. Take them out of the group there."
        )


def require_another_owner(team: Team, *, without: Membership) -> None:
    """Raise Conflict if `without` is the last owner. Locks the owners, so that two cannot leave at once."""
    owners = (
        team.memberships.filter(role=Role.OWNER).order_by("pk").select_for_update(no_key=True, of=("self",))
    )
    if [owner.pk for owner in owners] == [without.pk]:
        raise Conflict(
            f"{without.user.username} is the only owner of {team.slug}. Make another member an owner first."
        )


FIELD_NAMES = {
    "first_name": "First name",
    "last_name": "Last name",
    "email": "Email address",
    "timezone": "Time zone",
    "theme": "Theme",
}


@service
def change_profile(*, by: User, **fields: str) -> None:
    """
    Change one's own account: `first_name`, `last_name`, `email`, `timezone`, `theme`. Raises Forbidden for a
    service account, whose name its team has given.
    """
    if by.is_service_account:
        raise Forbidden(f"{by.username} is a service account: the leads of its team manage it.")
    if not fields:
        return
    account = User.objects.filter(pk=by.pk)
    before = account.values(*fields).get()
    changed = [
        (FIELD_NAMES[name], str(before[name]), str(value))
        for name, value in fields.items()
        if value != before[name]
    ]
    account.update(**fields)
    for name, value in fields.items():
        setattr(by, name, value)
    if changed:
        what = ", ".join(label for label, _before, _after in changed)
        record_change(by=by, of=by, change=f"changed {what}", values=changed, in_activity=False)
    if fields.get("email", before.get("email")) != before.get("email") and before["email"]:
        address_changed.send(User, person=by, before=before["email"])


SERIES = 5  # chart colors


def create_team(*, by: User, slug: str, title: str, owner: User | None = None) -> Team:
    """Create a team with its first owner. Raises Forbidden, and Conflict if the name is taken."""
    require_admin(by)
    with unless_taken(Conflict(f"A team “{slug}” exists already.", field="slug")):
        team = Team.objects.create(slug=slug, title=title, series=Team.objects.count() % SERIES + 1)
        record_change(by=by, of=team, change=f"created: {title}")
        if owner is not None:
            Membership.objects.create(user=owner, team=team, role=Role.OWNER)
            _record_added(by, team, owner.username, Role.OWNER)
    return team


TEAM_FIELDS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "title": ("Title", str),
    "efficiency_goal": ("Efficiency goal", lambda goal: "none" if goal is None else f"{goal} %"),
}


@service
def change_team(*, by: User, team: Team, **fields: Any) -> None:
    """
    Change `title`, or `efficiency_goal`: which share of the measured time devices are to compute, in percent;
    None is no goal. The slug stays: it is a label on objects in clusters.

    Raises Forbidden for everybody but platform admins, Invalid for a goal beyond 1 to 100, Conflict for a
    field that somebody else changes at this moment.
    """
    require_admin(by)
    goal = fields.get("efficiency_goal")
    if goal is not None and not 1 <= goal <= 100:
        raise Invalid(f"A goal is 1 to 100 %; {goal} was sent.", field="efficiency_goal")
    before = Team.objects.values(*TEAM_FIELDS).get(pk=team.pk)
    changed = {name: value for name, value in fields.items() if value != before[name]}
    if changed:
        unchanged = {name: before[name] for name in changed}
        if not Team.objects.filter(pk=team.pk, **unchanged).update(**changed):
            raise Conflict(f"{team} has changed in the meantime. Look again.")
        shown = [(name, *TEAM_FIELDS[name]) for name in changed]
        values = [(label, words(before[name]), words(fields[name])) for name, label, words in shown]
        change = ", ".join(f"{label[0].lower()}{label[1:]} {old} → {new}" for label, old, new in values)
        record_change(by=by, of=team, change=change, values=values)


@service
def set_platform_admin(*, by: User, person: User, admin: bool) -> None:
    """Make a person platform admin, or end that. Raises Conflict for the last one."""
    require_admin(by)
    person, other_admins = _lock_person(person)
    if person.admin_from_groups and admin:  # stays one whatever becomes of the groups
        person.admin_from_groups = False
        person.save(update_fields=["admin_from_groups"])
    if person.is_superuser == admin:
        return
    if person.admin_from_groups:
        raise Conflict(
            f"{person.username} is platform admin through a group of an identity provider. "
            "Take them out of the group there."
        )
    if person.is_service_account:
        raise Conflict(f"{person.label} is a service account; only people are platform admins.")
    if admin and not person.is_active:
        raise Conflict(f"{person.username} is deactivated. Reactivate the account first.")
    if not admin and not other_admins:
        raise _last_admin(person)
    person.is_superuser = person.is_staff = admin
    person.save(update_fields=["is_superuser", "is_staff"])
    record_change(
        by=by,
        of=person,
        change="platform admin" if admin else "no longer platform admin",
        values=[("Platform admin", "no", "yes") if admin else ("Platform admin", "yes", "no")],
        action="person.admin_granted" if admin else "person.admin_ended",
    )


@service
def deactivate_person(*, by: User, person: User) -> None:
    """End the sessions of a person and revoke their API tokens. Raises Conflict for the last admin."""
    require_admin(by)
    end_account(person=person, who=by)


@transaction.atomic
def end_account(*, person: User, who: User | None = None, reason: str = "") -> None:
    """
    What `deactivate_person` does, decided by a platform admin, or without `who` by an identity provider.
    Tells the packages above with `account_ended`. Raises Conflict for the last admin.
    """
    person, other_admins = _lock_person(person)
    if not person.is_active:
        return
    if person.is_superuser and not other_admins:
        raise _last_admin(person)
    person.is_active = False
    person.save(update_fields=["is_active"])
    end_sessions(person)
    person.api_tokens.all().revoke(by=who, reason="the account was deactivated")
    values = [("Active", "yes", "no")]
    record_change(by=who, of=person, change="deactivated", values=values, reason=reason)
    account_ended.send(User, person=person, who=who, reason=reason)


@service
def reactivate_person(*, by: User, person: User) -> None:
    """Let a person sign in again, with the roles they had. Their tokens stay revoked."""
    require_admin(by)
    restore_account(person=person, who=by)


@transaction.atomic
def restore_account(*, person: User, who: User | None = None, reason: str = "") -> None:
    """What `reactivate_person` does, whoever decided it."""
    person, _other_admins = _lock_person(person)
    if person.is_active:
        return
    person.is_active = True
    person.save(update_fields=["is_active"])
    values = [("Active", "no", "yes")]
    record_change(by=who, of=person, change="reactivated", values=values, reason=reason)


def _lock_person(person: User) -> tuple[User, int]:
    """
    Lock a person and all active platform admins; return the person and how many other admins there are.

    All in the order of their keys: of two admins who end each other's role at once, one is refused.
    """
    rows = User.objects.filter(Q(pk=person.pk) | Q(is_superuser=True, is_active=True)).order_by("pk")
    people = {row.pk: row for row in rows.select_for_update(no_key=True)}
    return people.pop(person.pk), len(people)


def _last_admin(person: User) -> Conflict:
    return Conflict(f"{person.username} is the only platform admin. Make somebody else one first.")
