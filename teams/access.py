"""Who may see a team, and who may do what in it. No other module reads Membership for access."""

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, cast
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery, Value
from django.db.models.expressions import Combinable
from django.http import Http404, HttpRequest

from core.errors import Forbidden, unknown
from core.limits import limiting_team
from core.prepared import Prepared, PreparedObjects
from teams.models import Membership, Role, Team, TeamQuerySet, User

TEAM_FIELDS = tuple(field.attname for field in Team._meta.concrete_fields)
USER_FIELDS = tuple(field.attname for field in User._meta.concrete_fields)


def user_of(request: HttpRequest) -> User:
    """Return the user of an authenticated request."""
    return cast(User, request.user)


def role_in(user: User | AnonymousUser, team: Team) -> Role | None:
    """Return the role of `user` in `team`, owner for a platform admin, None for an outsider."""
    if not user.is_authenticated:
        return None
    if user.is_superuser:
        return Role.OWNER
    if user.roles_read is not None:
        return user.roles_read.get(team)
    for (role,) in ROLE.rows(user.pk, team.pk):
        return Role(role)
    return None


ROLE = Prepared(
    lambda user, team: Membership.objects.filter(user=user, team=team).order_by().values_list("role"),
    UUID,
    UUID,
)
# The teams of a person with their role in each.
ROLES = Prepared(
    lambda user: (
        Membership.objects.filter(user=user)
        .order_by("team__slug")
        .values_list("role", *(f"team__{field}" for field in TEAM_FIELDS))
    ),
    UUID,
)


def reader_roles(request: HttpRequest) -> dict[Team, Role]:
    """Return the teams that the reader is a member of, with their role in each; read once in a request."""
    user = getattr(request, "user", None)
    if user is None or not user.is_authenticated:
        return {}
    roles: dict[Team, Role] | None = user.roles_read
    if roles is None:
        roles = getattr(request, "team_roles", None)
    if roles is None:
        roles = request.team_roles = roles_from_rows(ROLES.rows(user.pk))  # type: ignore[attr-defined]
    return roles


def roles_from_rows(rows: Iterable[Sequence[Any]]) -> dict[Team, Role]:
    """Return the roles of one person, of rows of the role and the fields of the team."""
    return {Team.from_db("default", TEAM_FIELDS, values): Role(role) for role, *values in rows}


def roles_by_team(user: User) -> dict[UUID, Role]:
    """Return the role of `user` in each of their teams, by the id of the team."""
    if user.roles_read is not None:
        return {team.pk: role for team, role in user.roles_read.items()}
    rows = memberships_of(user).values_list("team", "role")
    return {team: Role(role) for team, role in rows}


def role_subquery(user: User, *, team: OuterRef) -> Combinable:
    """Return `role_in` as part of a query whose rows have a team; null for an outsider."""
    if user.is_superuser:
        return Value(Role.OWNER)
    return Subquery(Membership.objects.filter(user=user, team=team).values("role"))


def team_for(user: User | AnonymousUser, slug: str, *, at_least: Role = Role.VIEWER) -> Team:
    """Return the team; 404 for an outsider, 403 for a role below `at_least`."""
    team = Team.objects.visible_to(user).filter(slug=slug).first()
    if team is None:
        raise Http404
    require_role(user, team, at_least=at_least)
    return team


def team_of_filter(user: User | AnonymousUser, slug: str) -> Team:
    """Return a team that the reader may see; raise Invalid with those that there are."""
    visible = Team.objects.visible_to(user)
    team = visible.filter(slug=slug).first()
    if team is None:
        raise unknown("team", slug, visible.order_by("slug").values_list("slug", flat=True)[:21])
    return team


def require_role(user: User | AnonymousUser, team: Team, *, at_least: Role) -> Role:
    """Return the role; 404 for an outsider, 403 for a role below `at_least`."""
    role = role_in(user, team)
    if role is None:
        raise Http404
    if role.rank < at_least.rank:
        raise PermissionDenied(f"You are {role.label} of {team}; this requires the role {at_least.label}.")
    return role


def teams_where(user: User | AnonymousUser, *, at_least: Role) -> list[Team]:
    """Return the teams in which `user` has at least this role, by slug; one query, if they were not read."""
    if user.is_authenticated and not user.is_superuser and user.roles_read is not None:
        return [team for team, role in user.roles_read.items() if role.rank >= at_least.rank]
    if user.is_authenticated and user.is_superuser:
        return ALL_TEAMS.objects()
    return list(team_rows_where(user, at_least=at_least))


ALL_TEAMS: PreparedObjects[Team] = PreparedObjects(lambda: Team.objects.active())  # of a platform admin


def has_role(user: User | AnonymousUser, *, at_least: Role) -> bool:
    """Return whether `user` has at least this role in some team; one query."""
    return team_rows_where(user, at_least=at_least).order_by().exists()


def team_rows_where(user: User | AnonymousUser, *, at_least: Role) -> TeamQuerySet:
    """Return the rows of `teams_where`, for a condition of another query."""
    if not user.is_authenticated or user.is_superuser:
        return Team.objects.visible_to(user).active()
    roles = [role for role in Role if role.rank >= at_least.rank]
    teams = Team.objects.filter(memberships__user=user, memberships__role__in=roles)
    only = limiting_team()
    return teams if only is None else teams.filter(pk=only)


def memberships_of(user: User | UUID) -> QuerySet[Membership]:
    """Return the memberships of a reader; in a request with a token of one team only that of it."""
    rows = Membership.objects.filter(user=user)
    only = limiting_team()
    return rows if only is None else rows.filter(team=only)


def people_in(team: Team, *, at_least: Role) -> list[User]:
    """Return active people with at least this role in `team`, ordered by user name; one query."""
    return _people(at_least).objects(team.pk)


@cache
def _people(at_least: Role) -> PreparedObjects[User]:
    roles = [role for role in Role if role.rank >= at_least.rank]

    def build(team: UUID) -> QuerySet[User]:
        people = User.objects.filter(
            is_active=True, service_of=None, memberships__team=team, memberships__role__in=roles
        )
        return people.order_by("username")  # a person has one membership of a team

    return PreparedObjects(build, UUID)


def readers_among(people: Iterable[User], team_id: UUID) -> list[User]:
    """Return those of `people` who may see the team; one query."""
    people = list(people)
    members = set(Membership.objects.filter(team=team_id, user__in=people).values_list("user", flat=True))
    return [person for person in people if person.is_superuser or person.pk in members]


def is_platform_admin(user: User | AnonymousUser) -> bool:
    return user.is_authenticated and user.is_superuser


def require_admin(by: User) -> None:
    if not is_platform_admin(by):
        raise Forbidden("Only platform admins may do this.")
