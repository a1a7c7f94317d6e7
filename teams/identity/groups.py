"""
Writes groups of identity providers and their members: from tokens, from userinfo, and from SCIM.

Nothing else writes `ExternalGroup`. Each function applies the rules of `teams.identity.rules` to whom it
changes, in the same transaction, so that nobody keeps what a group no longer gives. Repeating a call changes
nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Set
from uuid import UUID

from core.errors import Conflict
from core.transactions import service, unless_taken
from teams.identity.models import ExternalGroup, IdentityProvider
from teams.identity.rules import AccessChange, apply, lock_people, lock_rules
from teams.models import User

MAX_GROUPS = 1000  # of one person in one provider
MAX_NAME = 200  # characters
MEMBERS = ExternalGroup.members.through


@service
def set_groups_of(
    user: User, provider: IdentityProvider, groups: Collection[str], *, by: User | None = None
) -> list[AccessChange]:
    """
    Make `user` a member of exactly these groups of the provider, and return what that changes.

    Groups are created as needed. Those that SCIM keeps stay as SCIM says. Names that are empty or longer than
    `MAX_NAME`, and those beyond `MAX_GROUPS`, are left out.
    """
    lock_rules()
    names = sorted({name for name in groups if 0 < len(name) <= MAX_NAME})[:MAX_GROUPS]
    lock_people([user.pk])
    rows = ExternalGroup.objects.filter(provider=provider, kept_by=ExternalGroup.Keeper.CLAIM)
    have = set(rows.filter(members=user).values_list("name", flat=True))
    if left := have - set(names):
        MEMBERS.objects.filter(
            user=user, externalgroup__provider=provider, externalgroup__name__in=left
        ).delete()
    if new := set(names) - have:
        ExternalGroup.objects.bulk_create(
            [ExternalGroup(provider=provider, name=name) for name in sorted(new)], ignore_conflicts=True
        )
        joined = rows.filter(name__in=new).values_list("pk", flat=True)
        MEMBERS.objects.bulk_create(
            [MEMBERS(externalgroup_id=pk, user_id=user.pk) for pk in joined], ignore_conflicts=True
        )
    return apply([user.pk], by=by)


def _lock(group: ExternalGroup) -> None:
    lock_rules()
    ExternalGroup.objects.select_for_update(no_key=True).get(pk=group.pk)


@service
def set_members(group: ExternalGroup, wanted: Set[UUID], *, by: User | None = None) -> list[AccessChange]:
    """
    Make exactly these people, who are no service accounts, the members of a group, and return what that
    changes.
    """
    _lock(group)
    have = _members_of(group)
    return _write(group, joined=wanted - have, left=have - wanted, by=by)


@service
def change_members(
    group: ExternalGroup, *, joined: Set[UUID], left: Set[UUID], by: User | None = None
) -> list[AccessChange]:
    """
    Add people to a group and take others out of it, and return what that changes. The members that stay are
    not read. `joined` has no service accounts.
    """
    _lock(group)
    rows = MEMBERS.objects.filter(externalgroup=group, user__in=joined | left)
    have = set(rows.values_list("user", flat=True))
    return _write(group, joined=joined - have, left=left & have, by=by)


def _write(
    group: ExternalGroup, *, joined: Set[UUID], left: Set[UUID], by: User | None
) -> list[AccessChange]:
    MEMBERS.objects.filter(externalgroup=group, user__in=left).delete()
    MEMBERS.objects.bulk_create(
        [MEMBERS(externalgroup_id=group.pk, user_id=pk) for pk in sorted(joined)], ignore_conflicts=True
    )
    return apply(joined | left, by=by)


def save_group(
    provider: IdentityProvider,
    *,
    name: str,
    external_id: str = "",
    group: ExternalGroup | None = None,
    by: User | None = None,
) -> ExternalGroup:
    """
    Create a group that SCIM keeps, or rename `group`; one of that name that tokens told of becomes it.

    Raises Conflict if SCIM keeps another group of this name or external id.
    """
    scim = ExternalGroup.Keeper.SCIM
    with unless_taken(Conflict(f"{provider.title} has another group {name}.", field="name")):
        lock_rules()
        if group is None:
            told = ExternalGroup.objects.filter(
                provider=provider, name=name, kept_by=ExternalGroup.Keeper.CLAIM
            )
            if told.update(kept_by=scim, external_id=external_id):
                saved = ExternalGroup.objects.get(provider=provider, name=name)
            else:
                saved = ExternalGroup.objects.create(
                    provider=provider, name=name, external_id=external_id, kept_by=scim
                )
        else:
            ExternalGroup.objects.filter(pk=group.pk).update(name=name, external_id=external_id, kept_by=scim)
            saved = ExternalGroup.objects.get(pk=group.pk)
        apply(_members_of(saved), by=by)
    return saved


@service
def remove_group(group: ExternalGroup, *, by: User | None = None) -> list[AccessChange]:
    """Forget a group with its members, and return what that changes."""
    lock_rules()
    members = _members_of(group)
    ExternalGroup.objects.filter(pk=group.pk).delete()
    return apply(members, by=by)


def _members_of(group: ExternalGroup) -> set[UUID]:
    return set(MEMBERS.objects.filter(externalgroup=group).values_list("user", flat=True))
