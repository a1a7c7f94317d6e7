"""
Bulk actions: release, withdraw, extend or transfer several claims, with a preview for each.

Each claim is changed by its own service in its own transaction, so a refusal for one does not stop the
others. Repeating a bulk request changes nothing, because the services are idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid5

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db import models
from django.http import Http404

from claims.access import reason_not_to_release
from claims.lifecycle import services
from claims.models import Claim, Extension, RequestStatus
from claims.observation.observations import Observation, observe
from claims.states import RUNNING, ClaimState
from core.errors import Invalid, PortalError
from core.text import counted
from core.times import duration as in_words
from core.times import moment
from inventory.states import EndPolicy
from teams.models import Membership, Role, Team, User

MAX_CLAIMS = 200  # each claim is a transaction while a person waits


class BulkAction(models.TextChoices):
    RELEASE = "release", "Release"
    WITHDRAW = "withdraw", "Withdraw"
    EXTEND = "extend", "Extend"
    TRANSFER = "transfer", "Transfer"


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """`by` is the length of an extension, `to` the new owner; `key` makes extensions idempotent."""

    action: BulkAction
    reason: str = ""
    by: timedelta | None = None
    to: User | None = None
    key: str = ""


@dataclass(frozen=True, slots=True)
class BulkPreview:
    """What a bulk request would do to one claim: its `effect`, or the `obstacle` that prevents it."""

    claim: Claim
    effect: str
    obstacle: str = ""
    devices: int = 0  # held now
    pods: int = 0  # using it now


@dataclass(frozen=True, slots=True)
class BulkResult:
    """The outcome for one claim: `done` says what was done, or `refusal` why it was not."""

    claim: Claim
    done: str
    refusal: str = ""
    code: str = ""


def selected_claims(user: User, ids: Collection[UUID]) -> list[Claim]:
    """Return the claims among these that `user` may see. Raises Invalid for more than `MAX_CLAIMS`."""
    if len(ids) > MAX_CLAIMS:
        raise Invalid(
            f"{counted(len(ids), 'claim is', 'claims are')} selected. At most {MAX_CLAIMS} can be changed "
            "at once."
        )
    claims = Claim.objects.visible_to(user).filter(pk__in=ids)
    related = claims.select_related("team", "cluster", "profile_version__profile", "requested_by")
    return list(related.order_by("name", "pk"))


def preview(user: User, claims: Sequence[Claim], request: BulkRequest) -> list[BulkPreview]:
    """Return the preview for each claim; the number of queries does not depend on the number of claims."""
    seen, roles = observe(claims), team_roles(user, {claim.team for claim in claims})
    eligible_teams = set() if request.to is None else {team.pk for team in eligible_teams_for(request.to)}
    return [
        preview_claim(user, claim, request, seen[claim.pk], roles.get(claim.team_id), eligible_teams)
        for claim in claims
    ]


def run(user: User, claims: Sequence[Claim], request: BulkRequest) -> list[BulkResult]:
    return [result_of(claim, partial(run_action, user, claim, request)) for claim in claims]


def team_roles(user: User, teams: Collection[Team]) -> dict[UUID, Role]:
    """Return the role of a person in each of these teams, in one query; owner for a platform admin."""
    if user.is_platform_admin:
        return {team.pk: Role.OWNER for team in teams}
    rows = Membership.objects.filter(user=user, team__in=teams).values_list("team", "role")
    return {team: Role(role) for team, role in rows}


def eligible_teams_for(person: User) -> list[Team]:
    """Return the teams in which a person may own claims; none for an inactive or a service account."""
    if not person.is_active or person.is_service_account:
        return []
    roles = [role for role in Role if role.rank >= Role.MEMBER.rank]
    return list(Team.objects.filter(memberships__user=person, memberships__role__in=roles))


def preview_claim(
    user: User,
    claim: Claim,
    request: BulkRequest,
    seen: Observation,
    role: Role | None,
    eligible_teams: Collection[UUID],
) -> BulkPreview:
    devices, pods = len(seen.open), len(seen.users)
    if reason := obstacle_to(user, claim, request, role, eligible_teams):
        return BulkPreview(claim, "", reason, devices, pods)
    return BulkPreview(claim, expected_effect(claim, request, devices, pods), "", devices, pods)


def obstacle_to(
    user: User, claim: Claim, request: BulkRequest, role: Role | None, eligible_teams: Collection[UUID]
) -> str:
    if reason := reason_not_to_release(user, claim, role):
        return reason
    to = request.to.label if request.to else ""
    if request.action == BulkAction.WITHDRAW and claim.state != ClaimState.REQUESTED:
        return f"It is “{claim.get_state_display()}”. Only pending requests can be withdrawn."
    if request.action == BulkAction.RELEASE and claim.state not in RUNNING:
        return f"It is “{claim.get_state_display()}”. There is nothing to release."
    if request.action in (BulkAction.EXTEND, BulkAction.TRANSFER) and claim.state not in RUNNING:
        return f"It is “{claim.get_state_display()}”. Only running claims can be changed this way."
    if request.action == BulkAction.TRANSFER and claim.team_id not in eligible_teams:
        return f"{to} is not a member of {claim.team}."
    if request.action == BulkAction.TRANSFER and claim.requested_by == request.to:
        return "They already own it."
    return ""


def expected_effect(claim: Claim, request: BulkRequest, devices: int, pods: int) -> str:
    match request.action:
        case BulkAction.WITHDRAW:
            count = claim.devices * claim.parallel
            returned = counted(count, "device is", "devices are")
            return f"Withdrawn: {returned} returned to the quota of {claim.team}."
        case BulkAction.EXTEND:
            if claim.expires_at is None or request.by is None:
                return "It has no expiry."
            new_end = moment(claim.expires_at + request.by)
            return (
                f"Extended from {moment(claim.expires_at)} to {new_end}: at once if a rule allows it, "
                "otherwise after approval."
            )
        case BulkAction.TRANSFER:
            new_owner = request.to.label if request.to else ""
            return f"Transferred from {claim.requested_by.label} to {new_owner}; its pods keep running."
    if not devices:
        return "Released: it holds no device now."
    if not pods:
        return f"Released: {counted(devices, 'device is', 'devices are')} freed."
    if claim.end_policy == EndPolicy.EVICT:
        late = in_words(settings.EVICTION_NOTICE)
        return f"Released: {counted(pods, 'pod is', 'pods are')} evicted {late} later."
    return (
        f"Released: {pods} pod keeps its devices until it ends."
        if pods == 1
        else f"Released: {pods} pods keep their devices until they end."
    )


def result_of(claim: Claim, act: Callable[[], str]) -> BulkResult:
    """Act on a claim; return what came of it, or how it was refused."""
    try:
        return BulkResult(claim, act())
    except PortalError as refusal:
        return BulkResult(claim, "", refusal.message, refusal.code)
    except PermissionDenied as refusal:
        return BulkResult(claim, "", str(refusal), "forbidden")
    except Http404:
        return BulkResult(claim, "", "It no longer exists.", "not-found")


def run_action(user: User, claim: Claim, request: BulkRequest) -> str:
    """Call the service for one claim and return what was done."""
    match request.action:
        case BulkAction.RELEASE:
            services.release(claim=claim, by=user, reason=request.reason)
            return "Release started."
        case BulkAction.WITHDRAW:
            services.withdraw(claim=claim, by=user, reason=request.reason)
            return "Withdrawn."
        case BulkAction.TRANSFER:
            if request.to is None:
                raise Invalid("Choose a new owner.")
            services.transfer(claim=claim, by=user, to=request.to)
            return f"Transferred to {request.to.label}."
    if request.by is None or not request.key:
        raise Invalid("Enter the length of the extension.")
    key = uuid5(claim.pk, request.key).hex
    earlier = Extension.objects.filter(requested_by=user, key=key).first()
    end = earlier.previous_end if earlier else claim.expires_at
    if end is None:
        raise Invalid(f"{claim} has no end date.")
    extension = services.extend(claim=claim, by=user, until=end + request.by, reason=request.reason, key=key)
    if extension.status == RequestStatus.APPROVED:
        return f"Extended by {in_words(request.by)}."
    return f"Extension by {in_words(request.by)} requested."
