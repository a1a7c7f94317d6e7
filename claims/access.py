"""Who may change a claim or ask for one: read under its lock, and refused with a sentence."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest
from django.shortcuts import get_object_or_404

from claims.models import Claim
from claims.states import RUNNING
from core.errors import Conflict, Forbidden
from core.locking import lock_row
from teams.access import require_role, teams_where, user_of
from teams.models import Role, User

RELATED = ("team", "cluster", "requested_by", "profile_version__profile")


def locked(claim: Claim) -> Claim:
    """Read the claim anew and lock its row, so that what is decided on it stays true until the commit."""
    return lock_row(Claim.objects.select_related(*RELATED), claim.pk)


def own(claim: Claim, by: User) -> Claim:
    """
    Return the claim, locked, for its owner or a lead. Raises Http404 for an outsider, PermissionDenied for a
    viewer, Forbidden for other members.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = locked(claim)
    if reason := reason_not_to_end(by, claim, role):
        raise Forbidden(reason)
    return claim


def require_running(claim: Claim) -> datetime:
    """Return the end of a claim whose time runs; raise Conflict for any other."""
    if claim.state not in RUNNING:
        raise Conflict(f"{claim} is “{claim.get_state_display()}”; it has no time that could be changed.")
    if claim.expires_at is None:
        raise Conflict(f"{claim} has no end.")
    return claim.expires_at


def reason_not_to_end(user: User, claim: Claim, role: Role | None) -> str:
    """
    Return why somebody with this role in the team may not withdraw or release the claim, "" if they may.
    """
    if role is None or role.rank < Role.MEMBER.rank:
        return f"Only members of {claim.team} may do this."
    if user.pk != claim.requested_by_id and role.rank < Role.LEAD.rank:
        return f"{claim} belongs to {claim.requested_by.label}; they or a lead of {claim.team} may do this."
    return ""


def may_ask(request: HttpRequest) -> bool:
    return bool(teams_where(user_of(request), at_least=Role.MEMBER))


def require_member(request: HttpRequest) -> User:
    """Return the reader; 403 for whoever is a member of no team, before they fill anything in."""
    if not may_ask(request):
        raise PermissionDenied("You are a member of no team, so there is nobody you could ask for GPUs for.")
    return user_of(request)


def claim_for(request: HttpRequest, claim_id: UUID) -> Claim:
    """Return the claim with what its page names; 404 for somebody outside its team."""
    claims = (
        Claim.objects.visible_to(request.user)
        .select_related(
            "team", "cluster", "profile_version__profile", "requested_by", "decided_by", "replaces"
        )
        .with_profiles()
    )
    return get_object_or_404(claims, pk=claim_id)
