"""
One action on several claims: what it would do to each, and doing it to each by its own service.

Each claim is a transaction of its own: what cannot be done to one says so and holds up no other. Sending the
same twice does it once, as the services do.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import Http404

from claims.access import reason_not_to_release
from claims.lifecycle import services
from claims.models import Claim, RequestStatus
from claims.observation.observations import Observation, observe
from claims.states import RUNNING, ClaimState
from core.errors import Invalid, PortalError
from core.text import counted
from core.times import duration as in_words
from core.times import moment
from teams.models import Membership, Role, Team, User

MOST = 200  # claims at once: each is a transaction of its own while a person waits


class BulkAction(models.TextChoices):
    RELEASE = "release", "Release"
    WITHDRAW = "withdraw", "Withdraw"
    EXTEND = "extend", "Extend"
    TRANSFER = "transfer", "Hand over"


@dataclass(frozen=True, slots=True)
class Order:
    """`by` is how much longer to keep claims, `to` who gets them; `key` makes an extension happen once."""

    action: BulkAction
    reason: str = ""
    by: timedelta | None = None
    to: User | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """What an order does to one claim: `will` says it, or `reason_not` why it cannot be done."""

    claim: Claim
    will: str
    reason_not: str = ""
    devices: int = 0  # that it holds now
    pods: int = 0  # that use it now


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of one claim; `refusal` is the sentence of why not, "" where it was done."""

    claim: Claim
    done: str
    refusal: str = ""
    code: str = ""


def chosen(user: User, ids: Collection[UUID]) -> list[Claim]:
    """Return the claims among these that `user` may see. Raise Invalid for more than can be done at once."""
    if len(ids) > MOST:
        raise Invalid(
            f"{counted(len(ids), 'claim is', 'claims are')} chosen; at most {MOST} can be changed at once."
        )
    claims = Claim.objects.visible_to(user).filter(pk__in=ids)
    related = claims.select_related("team", "cluster", "profile_version__profile", "requested_by")
    return list(related.order_by("name", "pk"))


def preview(user: User, claims: Sequence[Claim], order: Order) -> list[BulkPreview]:
    """Return what the order would do; as many queries for one claim as for many."""
    seen, roles = observe(claims), roles_of(user, {claim.team for claim in claims})
    heirs = set() if order.to is None else {team.pk for team in _teams_of(order.to)}
    return [_line(user, claim, order, seen[claim.pk], roles.get(claim.team_id), heirs) for claim in claims]


def do(user: User, claims: Sequence[Claim], order: Order) -> list[BulkResult]:
    return [_one(user, claim, order) for claim in claims]


def roles_of(user: User, teams: Collection[Team]) -> dict[UUID, Role]:
    """Return the role of a person in each of these teams, in one query; owner for a platform admin."""
    if user.is_platform_admin:
        return {team.pk: Role.OWNER for team in teams}
    rows = Membership.objects.filter(user=user, team__in=teams).values_list("team", "role")
    return {team: Role(role) for team, role in rows}


def _teams_of(person: User) -> list[Team]:
    """Return the teams in which a person may own claims: none for somebody who cannot sign in any more."""
    if not person.is_active:
        return []
    roles = [role for role in Role if role.rank >= Role.MEMBER.rank]
    return list(Team.objects.filter(memberships__user=person, memberships__role__in=roles))


def _line(
    user: User, claim: Claim, order: Order, seen: Observation, role: Role | None, heirs: Collection[UUID]
) -> BulkPreview:
    devices, pods = len(seen.open), len(seen.users)
    if reason := _why_not(user, claim, order, role, heirs):
        return BulkPreview(claim, "", reason, devices, pods)
    return BulkPreview(claim, _will(claim, order, devices, pods), "", devices, pods)


def _why_not(user: User, claim: Claim, order: Order, role: Role | None, heirs: Collection[UUID]) -> str:
    if reason := reason_not_to_release(user, claim, role):
        return reason
    to = order.to.label if order.to else ""
    if order.action == BulkAction.WITHDRAW and claim.state != ClaimState.REQUESTED:
        return f"It is “{claim.get_state_display()}”; only a request that waits can be withdrawn."
    if order.action == BulkAction.RELEASE and claim.state not in RUNNING:
        return f"It is “{claim.get_state_display()}”; it holds nothing that could be released."
    if order.action in (BulkAction.EXTEND, BulkAction.TRANSFER) and claim.state not in RUNNING:
        return f"It is “{claim.get_state_display()}”; only a claim that runs can be changed so."
    if order.action == BulkAction.TRANSFER and claim.team_id not in heirs:
        return f"{to} is no member of {claim.team}."
    if order.action == BulkAction.TRANSFER and claim.requested_by == order.to:
        return "It is theirs already."
    return ""


def _will(claim: Claim, order: Order, devices: int, pods: int) -> str:
    match order.action:
        case BulkAction.WITHDRAW:
            count = claim.devices * claim.parallel
            return (
                f"Withdrawn: {counted(count, 'device goes', 'devices go')} back to the quota of {claim.team}."
            )
        case BulkAction.EXTEND:
            end = claim.expires_at
            return (
                f"Kept until {moment(end + order.by) if end and order.by else ''} instead of "
                f"{moment(end) if end else ''}: at once where a rule allows it, else asked for."
            )
        case BulkAction.TRANSFER:
            return f"Goes from {claim.requested_by.label} to {order.to and order.to.label}; its pods go on."
    if not devices:
        return "Released: it holds no device now."
    if not pods:
        return f"Released: {counted(devices, 'device is', 'devices are')} freed."
    return (
        f"Released: {pods} pod keeps its devices until it ends."
        if pods == 1
        else f"Released: {pods} pods keep their devices until they end."
    )


def _one(user: User, claim: Claim, order: Order) -> BulkResult:
    try:
        return BulkResult(claim, _done(user, claim, order))
    except PortalError as refusal:
        return BulkResult(claim, "", refusal.message, refusal.code)
    except PermissionDenied as refusal:
        return BulkResult(claim, "", str(refusal), "forbidden")
    except Http404:
        return BulkResult(claim, "", "It is not there any more.", "not-found")


def _done(user: User, claim: Claim, order: Order) -> str:
    """Do it by the service of one claim, and say what has been done."""
    match order.action:
        case BulkAction.RELEASE:
            services.release(claim=claim, by=user, reason=order.reason)
            return "It is being released."
        case BulkAction.WITHDRAW:
            services.withdraw(claim=claim, by=user, reason=order.reason)
            return "It is withdrawn."
        case BulkAction.TRANSFER:
            if order.to is None:
                raise Invalid("Say who gets the claims.")
            services.transfer(claim=claim, by=user, to=order.to)
            return f"Transferred to {order.to.label}."
    if order.by is None or not order.key:
        raise Invalid("Say how much longer to keep the claims.")
    if claim.expires_at is None:
        raise Invalid(f"{claim} has no end date.")
    extension = services.extend(
        claim=claim,
        by=user,
        until=claim.expires_at + order.by,
        reason=order.reason,
        key=f"{order.key[:40]}:{claim.pk}",
    )
    if extension.answer == RequestStatus.APPROVED:
        return f"It is kept for {in_words(order.by)} longer."
    return f"{in_words(order.by)} more are asked for."
