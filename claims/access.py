"""Who may see, request or change a claim: the locks and refusals that services share."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime
from functools import cache
from typing import Any, cast
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.contrib.postgres.expressions import ArraySubquery
from django.core.exceptions import PermissionDenied
from django.db.models import (
    CharField,
    Exists,
    F,
    OuterRef,
    Prefetch,
    QuerySet,
    Value,
    prefetch_related_objects,
)
from django.db.models.functions import Cast, Concat
from django.http import Http404, HttpRequest
from django.urls import reverse

from claims.models import Alternative, Claim, ClaimCharge, Comment, Extension, TeamNamespace
from claims.states import RUNNING
from core.conditional import require_expected
from core.errors import Conflict, Forbidden
from core.inputs import valid_ids
from core.prepared import Prepared, PreparedObjects
from core.transactions import lock_row
from inventory.holders import Person
from inventory.models import ResourceClaim
from inventory.states import Holder
from teams.access import has_role, reader_roles, require_role, user_of
from teams.models import Role, Team, User

NO_CLAIM = UUID(int=0)  # in the pattern of an address, which is faster filled in than made for each row
RELATED = ("team", "cluster", "requested_by", "profile_version__profile")


def lock_claim(claim: Claim) -> Claim:
    """
    Read the claim again and lock its row until the transaction ends.

    Raises Changed if the request expects another version of it.
    """
    claim = lock_row(Claim.objects.select_related(*RELATED), claim.pk)
    require_expected(claim.pk, claim.version)
    return claim


def lock_owned_claim(claim: Claim, by: User) -> Claim:
    """
    Return the claim, locked, for its owner or a lead.

    Raises Http404 for an outsider, PermissionDenied for a viewer, Forbidden for other members.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = lock_claim(claim)
    if reason := reason_not_to_release(by, claim, role):
        raise Forbidden(reason)
    return claim


def require_running(claim: Claim) -> datetime:
    """Return the end date of a running claim; raise Conflict for any other."""
    if claim.state not in RUNNING:
        raise Conflict(f"{claim} is “{claim.get_state_display()}”; only a running claim has an end date.")
    if claim.expires_at is None:
        raise Conflict(f"{claim} has no end date.")
    return claim.expires_at


def reason_not_to_release(user: User, claim: Claim, role: Role | None) -> str:
    """Return why a user with this role in the team may not withdraw or release the claim, "" if they may."""
    if role is None or role.rank < Role.MEMBER.rank:
        return f"Only members of {claim.team} may do this."
    if user.pk != claim.requested_by_id and role.rank < Role.LEAD.rank:
        owner, team = claim.requested_by.label, claim.team
        return f"{claim} belongs to {owner}; only the owner or a lead of {team} may do this."
    return ""


def may_request(request: HttpRequest) -> bool:
    """Return whether the user is at least a member of some team."""
    user = user_of(request)
    if user.is_superuser:
        return has_role(user, at_least=Role.MEMBER)
    return any(role.rank >= Role.MEMBER.rank for role in reader_roles(request).values())


def require_member(request: HttpRequest, teams: Collection[object] | None = None) -> User:
    """
    Return the user; 403 if they are a member of no team, before they fill in a form. `teams` are those of
    which they are a member, if the caller has read them.
    """
    user = user_of(request)
    if not (may_request(request) if teams is None else teams):
        if user.is_superuser:  # who may request for every team
            raise PermissionDenied("There is no team yet. Create one under Teams; requests belong to a team.")
        raise PermissionDenied("You need the role “member” in a team to request devices. Ask a team owner.")
    return user


def visible_claim(request: HttpRequest, claim_id: UUID) -> Claim:
    """
    Return the claim with the related rows that its page shows; 404 for a user outside its team.

    `has_alternatives`, `has_comments`, `has_extensions` and `has_successors` say whether it had such rows;
    `charged` has its charge per device class, as "2 × gpu.nvidia.com".
    """
    user = user_of(request)
    claims = _visible_claims(is_admin=user.is_superuser).objects(claim_id, user.pk)
    if not claims:
        raise Http404
    (claim,) = claims
    if claim.has_alternatives:  # type: ignore[attr-defined]
        alternatives = Alternative.objects.select_related("profile_version__profile")
        prefetch_related_objects(claims, Prefetch("alternatives", alternatives))
    else:
        claim.listed_alternatives = []  # type: ignore[attr-defined]
    return claim


@cache
def _visible_claims(*, is_admin: bool) -> PreparedObjects[Claim]:
    """Return the query of `visible_claim` for a claim and its reader."""

    def rows(claim_id: UUID, person: UUID) -> QuerySet[Claim]:
        claims = Claim.objects.visible_to(User(pk=person, is_superuser=is_admin)).filter(pk=claim_id)
        related = "team", "cluster", "profile_version__profile", "requested_by", "decided_by", "replaces"
        text = Concat(Cast("devices", CharField()), Value(" × "), F("device_class"), output_field=CharField())
        charges = (
            ClaimCharge.objects.filter(claim=OuterRef("pk")).order_by("device_class").annotate(text=text)
        )
        return (
            claims.order_by()
            .select_related(*related)
            .annotate(
                has_alternatives=Exists(Alternative.objects.filter(claim=OuterRef("pk"))),
                has_comments=Exists(Comment.objects.filter(claim=OuterRef("pk")).order_by()),
                has_extensions=Exists(Extension.objects.filter(claim=OuterRef("pk")).order_by()),
                has_successors=Exists(Claim.objects.filter(replaces=OuterRef("pk")).order_by()),
                charged=ArraySubquery(charges.order_by("device_class").values("text")),
            )
        )

    return PreparedObjects(rows, UUID, UUID)


@cache
def _named_claims(*, is_admin: bool) -> Prepared:
    """Return the query of the claims of a list of ids that a person may see, with their names."""

    def rows(person: UUID, claim_id: UUID) -> QuerySet[Claim, Any]:
        claims = Claim.objects.visible_to(User(pk=person, is_superuser=is_admin)).filter(pk=claim_id)
        return claims.order_by().values_list("pk", "cluster", "namespace", "name")

    return Prepared(rows, UUID, UUID, any_of="pk")


OWN_NAMESPACES = Prepared(
    lambda person: (
        TeamNamespace.objects.filter(team__in=Team.objects.visible_to(User(pk=person)))
        .order_by()
        .values_list("cluster", "namespace")
    ),
    UUID,
)


def namespace_teams(person: Person) -> dict[tuple[UUID, str], str]:
    """Return the team of each namespace, by cluster and namespace, of the teams that `person` may see."""
    teams = Team.objects.visible_to(cast(User | AnonymousUser, person))
    rows = TeamNamespace.objects.filter(team__in=teams).order_by()
    return {
        (cluster, name): slug
        for cluster, name, slug in rows.values_list("cluster", "namespace", "team__slug")
    }


def visible_holders(person: Person, held: Iterable[ResourceClaim]) -> dict[int, Holder]:
    """
    Return the holders that `person` may see, by primary key: managed claims with a link to their page, others
    by namespace and name (`settings.DEVICE_HOLDERS`). At most two queries for any number of claims.
    """
    held, reader = list(held), cast(User | AnonymousUser, person)
    if not reader.is_authenticated:
        return {}
    ids = valid_ids({row.owner for row in held})
    claims = _named_claims(is_admin=reader.is_superuser).rows(reader.pk, ids) if ids else []
    names = {(str(pk), cluster, namespace): name for pk, cluster, namespace, name in claims}
    own = set() if reader.is_superuser else set(OWN_NAMESPACES.rows(reader.pk))
    holders: dict[int, Holder] = {}
    address = reverse("claims:detail", args=[NO_CLAIM])
    for row in held:
        name = names.get((row.owner, row.cluster_id, row.namespace))
        if name is not None:
            holders[row.pk] = Holder(name, address.replace(str(NO_CLAIM), row.owner))
        elif reader.is_superuser or (row.cluster_id, row.namespace) in own:
            holders[row.pk] = Holder(f"{row.namespace}/{row.name}")
    return holders
