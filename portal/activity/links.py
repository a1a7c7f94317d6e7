"""Where an entry about anything but a claim leads: to its object, if it exists and the reader may see it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from django.db.models import CharField, F, QuerySet, Value
from django.db.models.functions import Cast
from django.urls import reverse

from claims.approvals.services import delegations_of
from claims.models import ApprovalRule, Budget, Profile, Quota, QuotaRequest
from core.inputs import valid_ids
from inventory.models import Cluster
from portal.activity.entries import ActivityEntry
from teams.access import is_platform_admin
from teams.models import ApiToken, User

# kind of object → the page of one, by its key or, for the last two, by its name in addresses
PAGES: Mapping[str, Callable[[str, str], str]] = {
    "quota": lambda key, _name: reverse("claims:quota", args=[key]),
    "budget": lambda key, _name: reverse("claims:budget", args=[key]),
    "quotarequest": lambda key, _name: reverse("claims:quota_request_decision", args=[key]),
    "apitoken": lambda _key, _name: reverse("teams:tokens"),
    "delegation": lambda _key, _name: reverse("claims:delegations"),
    "approvalrule": lambda key, _name: reverse("claims:approval_rule", args=[key]),
    "user": lambda key, _name: reverse("setup:person", args=[key]),
    "profile": lambda _key, slug: reverse("claims:profile_edit", args=[slug]),
    "cluster": lambda _key, name: reverse("inventory:cluster", args=[name]),
}


# kind of object of a team → those that the reader may see
OF_TEAMS: Mapping[str, Callable[[User], QuerySet[Any]]] = {
    "quota": Quota.objects.visible_to,
    "quotarequest": QuotaRequest.objects.visible_to,
    "budget": Budget.objects.visible_to,
}


def _objects(kind: str, reader: User) -> QuerySet[Any] | None:
    """Return the objects of a kind of PAGES whose page the reader may open, None if there are none."""
    if kind in OF_TEAMS:
        return OF_TEAMS[kind](reader)
    if kind == "apitoken":
        return ApiToken.objects.filter(user=reader)
    if kind == "delegation":
        return delegations_of(reader)
    if not is_platform_admin(reader):
        return None
    if kind == "profile":
        return Profile.objects.all()
    if kind == "cluster":
        return Cluster.objects.all()
    return User.objects.all() if kind == "user" else ApprovalRule.objects.all()


NAMES = {"profile": "slug", "cluster": "name"}


def with_links(entries: Iterable[ActivityEntry], reader: User) -> list[ActivityEntry]:
    """Return the entries with the addresses of their objects; one query at most."""
    entries = list(entries)
    keys: dict[str, list[str]] = defaultdict(list)
    for entry in entries:
        if entry.kind in PAGES:
            keys[entry.kind].append(entry.object_id)
    found = _existing(keys, reader)
    return [replace(entry, url=_url(entry, found, reader)) for entry in entries]


def _existing(keys: Mapping[str, list[str]], reader: User) -> dict[tuple[str, str], str]:
    """Return the name of each object that exists and that the reader may see, by kind and key."""
    parts = []
    for kind, texts in sorted(keys.items()):
        objects, ids = _objects(kind, reader), valid_ids(texts)
        if objects is not None and ids:
            name = F(NAMES[kind]) if kind in NAMES else Value("")
            columns = (Cast(column, CharField()) for column in (Value(kind), F("pk"), name))
            parts.append(objects.order_by().filter(pk__in=ids).values_list(*columns))
    if not parts:
        return {}
    return {(kind, key): name for kind, key, name in parts[0].union(*parts[1:], all=True).order_by()}


def _url(entry: ActivityEntry, found: Mapping[tuple[str, str], str], reader: User) -> str:
    if entry.url:
        return entry.url
    if entry.kind == "team" and entry.team:
        return reverse("team", args=[entry.team])
    if entry.kind == "rate":
        return reverse("usage:rates")
    if entry.kind == "closedmonth" and is_platform_admin(reader):
        return reverse("usage:report")
    if entry.kind in ("installation", "invitation") and is_platform_admin(reader):
        return reverse("setup:settings" if entry.kind == "installation" else "setup:people")
    name = found.get((entry.kind, entry.object_id))
    return "" if name is None else PAGES[entry.kind](entry.object_id, name)
