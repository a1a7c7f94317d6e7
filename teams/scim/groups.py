"""Groups of a provider, through `teams.identity.groups`, which gives and takes the roles of their members."""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from django.db.models import QuerySet

from core.errors import Conflict
from teams.identity import groups
from teams.identity.groups import MAX_NAME, MEMBERS, save_group, set_members
from teams.identity.models import ExternalGroup, IdentityProvider
from teams.identity.rules import lock_rules
from teams.scim.errors import InvalidValue, NotUnique
from teams.scim.models import ScimUser

MAX_MEMBERS = 20_000


def groups_of(provider: IdentityProvider) -> QuerySet[ExternalGroup]:
    """Return the groups that the provider keeps through SCIM; those that only tokens tell of are not its."""
    return ExternalGroup.objects.filter(provider=provider, kept_by=ExternalGroup.Keeper.SCIM)


def members_of(groups: Collection[ExternalGroup]) -> dict[UUID, list[str]]:
    """Return the ids of the members of each group whom its provider keeps; one query."""
    found: dict[UUID, list[str]] = {group.pk: [] for group in groups}
    rows = MEMBERS.objects.filter(
        externalgroup__in=found, user__scim_user__deleted_at=None, user__scim_user__isnull=False
    )
    columns = ("externalgroup", "user__scim_user__pk")
    for group, pk in rows.order_by("user__scim_user__pk").values_list(*columns):
        found[group].append(str(pk))
    return found


def groups_of_users(users: Collection[UUID], provider: IdentityProvider) -> dict[UUID, list[ExternalGroup]]:
    """Return the groups of each person, by the id of the account; one query."""
    found: dict[UUID, list[ExternalGroup]] = {user: [] for user in users}
    rows = MEMBERS.objects.filter(user__in=users, externalgroup__in=groups_of(provider))
    for row in rows.select_related("externalgroup").order_by("externalgroup__name"):
        found[row.user_id].append(row.externalgroup)
    return found


def locked(provider: IdentityProvider, pk: UUID) -> ExternalGroup | None:
    """Lock a group until the end of the transaction: of two that add a member at once both are added."""
    lock_rules()  # which comes before the rows
    return groups_of(provider).select_for_update(no_key=True).filter(pk=pk).first()


def save(
    provider: IdentityProvider,
    *,
    name: str,
    external_id: str,
    members: Collection[str] | None,
    group: ExternalGroup | None = None,
) -> ExternalGroup:
    """
    Create a group, or change the locked `group`; `members` are ids of people of the provider, None leaves
    them. Raises NotUnique, and InvalidValue for an id of nobody.
    """
    for field, value in (("displayName", name), ("externalId", external_id)):
        if len(value) > MAX_NAME or "\x00" in value:
            raise InvalidValue(f"{field} has at most {MAX_NAME} characters and no NUL.")
    if not name.strip():
        raise InvalidValue("displayName is missing.")
    people = None if members is None else _people(provider.pk, members)
    if group is None or (group.name, group.external_id) != (name, external_id):
        try:
            group = save_group(provider, name=name, external_id=external_id, group=group)
        except Conflict as taken:
            raise NotUnique(taken.message) from taken
    if people is not None:
        set_members(group, people)
    return group


def change_members(group: ExternalGroup, *, joined: Collection[str], left: Collection[str]) -> None:
    """
    Add and remove members of the locked `group` by their ids; the others are not read. Whoever leaves and is
    no member changes nothing. Raises InvalidValue for an id of nobody who would join.
    """
    leaving = ScimUser.objects.filter(provider=group.provider_id, pk__in=filter(_is_key, left)).order_by()
    groups.change_members(
        group,
        joined=_people(group.provider_id, joined),
        left=set(leaving.values_list("user", flat=True)),
    )
    _require_few(MEMBERS.objects.filter(externalgroup=group).count())


def _is_key(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def _require_few(members: int) -> None:
    if members > MAX_MEMBERS:
        raise InvalidValue(f"A group has at most {MAX_MEMBERS} members.")


def _people(provider: UUID, members: Collection[str]) -> set[UUID]:
    _require_few(len(members))
    keys = set()
    for member in members:
        try:
            keys.add(UUID(member))
        except ValueError:
            raise InvalidValue(f"members: there is no user {member[:60]}.") from None
    kept = ScimUser.objects.filter(provider=provider, deleted_at=None, pk__in=keys).order_by()
    found = dict(kept.values_list("pk", "user"))  # of thousands only the keys
    if missing := keys - found.keys():
        raise InvalidValue(f"members: there is no user {min(missing)}.")
    return set(found.values())
