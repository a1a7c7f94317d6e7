"""
What groups give: a plan of what changes for whom, and carrying it out.

`plan` is a pure function of people, rules and roles. `apply` reads them under locks and writes the
difference, so that repeating it changes nothing. A role by hand stays by hand: the higher of both roles
counts, and whoever leaves a group loses only what the group gave. The last owner of a team keeps that role,
and the last platform admin, or the last one with a password, theirs; the plan says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from django.contrib.auth.hashers import is_password_usable
from django.db import connection
from django.db.models import Exists, Q
from django.dispatch import Signal

from core.transactions import service
from teams.identity.models import ExternalGroup, GroupRule
from teams.models import Membership, Role, Team, User, record_change, record_members
from teams.services import role_changed

ADVISORY_LOCK = 7_305_001  # of the rules; any number that nothing else here uses

# people, team: groups no longer give these people any role in the team; sent inside the transaction.
access_lost = Signal()

MEMBERS = ExternalGroup.members.through
REMOVE = (
    "DELETE FROM teams_membership WHERE team_id = %s AND user_id = ANY(%s)"  # no other row refers to them
)
PERSON = ("username", "is_superuser", "admin_from_groups", "password")  # what `planned` reads of a person


@dataclass(frozen=True, slots=True)
class GroupName:
    """A group of a person, as rules see it."""

    provider_id: UUID
    name: str
    external_id: str = ""


@dataclass(frozen=True, slots=True)
class TeamRole:
    """The role of a person in a team, and where it comes from, as `Membership` stores it."""

    role: str
    group_role: str = ""
    hand_role: str = ""

    @property
    def by_hand(self) -> str:
        """Return what was given by hand, "" for nothing."""
        return self.hand_role if self.group_role else self.role


@dataclass(frozen=True, slots=True)
class GroupMember:
    """An active person with their groups and what they have; `roles` by the id of the team."""

    id: UUID
    name: str
    groups: frozenset[GroupName] = frozenset()
    roles: Mapping[UUID, TeamRole] = field(default_factory=dict)
    is_admin: bool = False
    admin_from_groups: bool = False
    has_password: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """Who must stay: the active owners of each team, the active platform admins, those with a password."""

    owners: Mapping[UUID, frozenset[UUID]]
    admins: frozenset[UUID]
    admins_with_password: frozenset[UUID]


def groups_giving(team: Team, people: Collection[UUID]) -> dict[UUID, list[str]]:
    """
    Return through which groups people have a role in a team, as "gpu-vision of Company"; two queries, one
    for a team without rules.
    """
    rules = list(GroupRule.objects.filter(team=team).select_related("provider").defer("provider__sealed"))
    if not rules or not people:
        return {}
    titles = {rule.provider_id: rule.provider.title for rule in rules}
    rows = MEMBERS.objects.filter(user__in=people, externalgroup__provider__in=titles)
    fields = (f"externalgroup__{name}" for name in ("provider", "name", "external_id"))
    found: dict[UUID, list[str]] = defaultdict(list)
    for person, provider, name, external_id in rows.order_by("externalgroup__name").values_list(
        "user", *fields
    ):
        if any(rule.provider_id == provider and rule.matches(name, external_id) for rule in rules):
            found[person].append(f"{name} of {titles[provider]}")
    return found


@dataclass(frozen=True, slots=True)
class AccessChange:
    """
    What changes for a person: their role in a team, or without `team_id` whether they are platform admin.

    `before` and `after` are what is stored; `reason` names groups. With `refused` nothing changes, and it
    says why.
    """

    person: UUID
    name: str
    team_id: UUID | None
    before: TeamRole | None
    after: TeamRole | None
    reason: str
    refused: str = ""

    @property
    def old_role(self) -> str:
        return self.before.role if self.before else ""

    @property
    def new_role(self) -> str:
        return self.after.role if self.after else ""

    @property
    def is_visible(self) -> bool:
        """Whether the person may do something else than before; else only the source of the role changes."""
        return self.old_role != self.new_role


ADMIN = TeamRole("platform admin")


def plan(
    people: Iterable[GroupMember],
    rules: Sequence[GroupRule],
    standing: Standing,
    *,
    teams: Collection[UUID],
    titles: Mapping[UUID, str] | None = None,
) -> list[AccessChange]:
    """
    Return what the rules change for these people. `teams` are those that are not archived.

    `titles` names teams in sentences. Nothing is read or written.
    """
    owners = {team: set(who) for team, who in standing.owners.items()}
    admins, with_password = set(standing.admins), set(standing.admins_with_password)
    changes: list[AccessChange] = []
    for person in sorted(people, key=lambda one: one.id):
        given, reasons, admin_reason = _given(person, rules, teams)
        for team in sorted({*given, *(key for key, role in person.roles.items() if role.group_role)}):
            change = _team_change(person, team, given.get(team, ""), reasons.get(team, ""))
            if change is None:
                continue
            if change.old_role == Role.OWNER and change.new_role != Role.OWNER:
                if owners.get(team, set()) <= {person.id}:
                    where = (titles or {}).get(team, "the team")
                    change = _refused(
                        change,
                        f"{person.name} is the only owner of {where} and stays owner. "
                        "Make another member an owner first.",
                    )
                else:
                    owners[team].discard(person.id)
            elif change.new_role == Role.OWNER:
                owners.setdefault(team, set()).add(person.id)
            changes.append(change)
        if change := _admin_change(person, admin_reason):
            if person.is_admin:
                others = admins - {person.id}
                if not others or (person.has_password and not with_password - {person.id}):
                    what = "platform admin" if not others else "platform admin with a password"
                    change = _refused(
                        change,
                        f"{person.name} is the only {what} and stays one. Make somebody else one first.",
                    )
                else:
                    admins.discard(person.id)
                    with_password.discard(person.id)
            else:
                admins.add(person.id)
            changes.append(change)
    return changes


def _given(
    person: GroupMember, rules: Sequence[GroupRule], teams: Collection[UUID]
) -> tuple[dict[UUID, str], dict[UUID, str], str]:
    """Return the highest role in each team with the group that gives it, and the group of admins or ""."""
    given: dict[UUID, str] = {}
    reasons: dict[UUID, str] = {}
    admin = ""
    for rule in rules:
        matching = sorted(
            group.name
            for group in person.groups
            if group.provider_id == rule.provider_id and rule.matches(group.name, group.external_id)
        )
        if not matching:
            continue
        if rule.team_id is None:
            admin = admin or matching[0]
        elif rule.team_id in teams:
            have = given.get(rule.team_id, "")
            if not have or Role(rule.role).rank > Role(have).rank:
                given[rule.team_id], reasons[rule.team_id] = rule.role, matching[0]
    return given, reasons, admin


def _team_change(person: GroupMember, team: UUID, group_role: str, group: str) -> AccessChange | None:
    before = person.roles.get(team)
    hand = before.by_hand if before else ""
    after = None
    if group_role:
        role = max((Role(one) for one in (group_role, hand) if one), key=lambda one: one.rank)
        after = TeamRole(role.value, group_role, hand)
    elif hand:
        after = TeamRole(hand)
    if before == after:
        return None
    reason = f"through the group {group}" if group else "no longer in a group that gave it"
    return AccessChange(person.id, person.name, team, before, after, reason)


def _admin_change(person: GroupMember, group: str) -> AccessChange | None:
    if group and not person.is_admin:
        return AccessChange(person.id, person.name, None, None, ADMIN, f"through the group {group}")
    if not group and person.is_admin and person.admin_from_groups:
        return AccessChange(person.id, person.name, None, ADMIN, None, "no longer in a group that gave it")
    return None


def _refused(change: AccessChange, why: str) -> AccessChange:
    return AccessChange(
        change.person, change.name, change.team_id, change.before, change.before, change.reason, refused=why
    )


def lock_rules(*, exclusive: bool = False) -> None:
    """
    Hold the rules until the end of the transaction: many who apply them, or one who changes them.

    Without it, a rule that is saved while somebody joins a group would be applied to nobody of the two.
    """
    kind = "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {kind}(%s)", [ADVISORY_LOCK])


def lock_people(people: Collection[UUID]) -> None:
    """
    Lock these people; and all active platform admins, if groups made one of them admin and may end that.

    All in the order of their keys: of two admins whose groups end that at once, one stays.
    """
    some_admin = User.objects.filter(pk__in=people, admin_from_groups=True)
    rows = User.objects.filter(
        Q(pk__in=people) | (Q(is_superuser=True, is_active=True) & Exists(some_admin))
    ).order_by("pk")
    list(rows.select_for_update(no_key=True).values_list("pk"))


@service
def apply(people: Collection[UUID], *, by: User | None = None) -> list[AccessChange]:
    """
    Give and take what the rules say for these people, and return what changed or was refused.

    `by` changed a rule, None if the provider did. Locks the people, then the owners of teams that lose one.
    The number of statements grows with the teams, not with the people: a group has thousands of members.
    """
    if not people:
        return []
    lock_rules()
    lock_people(people)
    changes = planned(people, list(GroupRule.objects.all()), lock=True)
    teams = Team.objects.in_bulk([change.team_id for change in changes if change.team_id])
    users = User.objects.in_bulk([change.person for change in changes])
    of_teams: dict[UUID, list[AccessChange]] = defaultdict(list)
    for change in changes:
        if change.refused:
            continue
        if change.team_id is None:
            _write_admin(by, users[change.person], change)
        else:
            of_teams[change.team_id].append(change)
    for team, its_changes in of_teams.items():
        _write_roles(by, teams[team], its_changes, users)
    return changes


def planned(
    people: Collection[UUID] | None, rules: Sequence[GroupRule], *, lock: bool = False
) -> list[AccessChange]:
    """
    Return the plan of these rules for these people as they are stored; None is everybody who is in a group.

    A constant number of queries. With `lock` it locks the owners of teams, so that two cannot leave at once.
    """
    rows = User.objects.filter(is_active=True, service_of=None)
    if people is None:
        has_groups = Q(pk__in=MEMBERS.objects.values("user")) | Q(admin_from_groups=True)
        rows = rows.filter(has_groups | Q(memberships__in=Membership.objects.exclude(group_role="")))
    else:
        rows = rows.filter(pk__in=people)
    found = list(rows.distinct().values_list("pk", *PERSON))
    ids = [person[0] for person in found]
    groups: dict[UUID, set[GroupName]] = defaultdict(set)
    for user, provider, name, external_id in MEMBERS.objects.filter(user__in=ids).values_list(
        "user", "externalgroup__provider", "externalgroup__name", "externalgroup__external_id"
    ):
        groups[user].add(GroupName(provider, name, external_id))
    roles: dict[UUID, dict[UUID, TeamRole]] = defaultdict(dict)
    for membership in Membership.objects.filter(user__in=ids):
        roles[membership.user_id][membership.team_id] = TeamRole(
            membership.role, membership.group_role, membership.hand_role
        )
    members = [
        GroupMember(
            pk, name, frozenset(groups[pk]), roles[pk], is_admin, from_groups, is_password_usable(password)
        )
        for pk, name, is_admin, from_groups, password in found
    ]
    titles = dict(Team.objects.active().values_list("pk", "slug"))
    touched = {team for one in roles.values() for team, role in one.items() if role.role == Role.OWNER}
    return plan(members, rules, _standing(touched, lock=lock), teams=titles.keys(), titles=titles)


def _standing(teams: Collection[UUID], *, lock: bool) -> Standing:
    """Return who must stay, of these teams."""
    owners: dict[UUID, set[UUID]] = defaultdict(set)
    rows = Membership.objects.filter(team__in=teams, role=Role.OWNER).order_by("pk")
    if lock:
        rows = rows.select_for_update(no_key=True, of=("self",))
    memberships = list(rows)
    active = set(
        User.objects.filter(pk__in=[row.user_id for row in memberships], is_active=True).values_list(
            "pk", flat=True
        )
    )
    for row in memberships:
        if row.user_id in active:
            owners[row.team_id].add(row.user_id)
    admins = list(User.objects.filter(is_superuser=True, is_active=True))
    return Standing(
        {team: frozenset(who) for team, who in owners.items()},
        frozenset(person.pk for person in admins),
        frozenset(person.pk for person in admins if person.has_usable_password()),
    )


def _write_admin(by: User | None, person: User, change: AccessChange) -> None:
    admin = change.after is not None
    person.is_superuser = person.is_staff = person.admin_from_groups = admin
    person.save(update_fields=["is_superuser", "is_staff", "admin_from_groups"])
    record_change(
        by=by,
        of=person,
        change=f"{'platform admin' if admin else 'no longer platform admin'}, {change.reason}",
        values=[("Platform admin", "no", "yes") if admin else ("Platform admin", "yes", "no")],
        action="person.admin_granted" if admin else "person.admin_ended",
    )


def _write_roles(
    by: User | None, team: Team, changes: Sequence[AccessChange], users: Mapping[UUID, User]
) -> None:
    """
    Write what changes in one team. The rows send no signals of Django's models, which would be several
    queries for each person; `role_changed` and `access_lost` say it once.
    """
    rows = Membership.objects.filter(team=team)
    added: list[Membership] = []
    changed: dict[TeamRole, list[UUID]] = defaultdict(list)
    removed: list[UUID] = []
    for change in changes:
        if change.after is None:
            removed.append(change.person)
        elif change.before is None:
            added.append(Membership(user_id=change.person, team=team, **_columns(change.after)))
        else:
            changed[change.after].append(change.person)
    Membership.objects.bulk_create(added)
    for role, people in changed.items():
        rows.filter(user__in=people).update(**_columns(role))
    if removed:
        with connection.cursor() as cursor:
            cursor.execute(REMOVE, [team.pk, removed])
    visible = [change for change in changes if change.is_visible]
    record_members(by=by, team=team, changes=[_in_words(change, users) for change in visible])
    leads = (Role.LEAD, Role.OWNER)
    if any(change.before is not None or change.new_role in leads for change in visible):
        role_changed.send(Membership, team_id=team.pk)
    if removed:
        access_lost.send(Membership, people=[users[person] for person in removed], team=team)


def _columns(role: TeamRole) -> dict[str, str]:
    return {"role": role.role, "group_role": role.group_role, "hand_role": role.hand_role}


def _in_words(change: AccessChange, users: Mapping[UUID, User]) -> tuple[str, str, tuple[str, str, str]]:
    """Return action, text and values of the entry in the audit log."""
    old, new = (Role(role).label if role else "–" for role in (change.old_role, change.new_role))
    name = users[change.person].username
    if change.after is None:
        action, text = "member.removed", f"removed, was {old}"
    elif change.before is None:
        action, text = "member.added", f"added as {new}"
    else:
        action, text = "member.role_changed", f"{old} → {new}"
    return action, f"{name}: {text}, {change.reason}", (f"Role of {name}", old, new)
