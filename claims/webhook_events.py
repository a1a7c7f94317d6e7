"""What webhooks are told of claims, extensions, quota and budgets. Nothing is read where none wants it."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TypedDict
from uuid import UUID

from django.urls import reverse

from claims.models import Budget, Claim, Extension, QuotaRequest
from notify.webhooks.kinds import EventKind
from notify.webhooks.outbox import emit

MAX_TEXT = 1000  # characters of a message of a cluster: bodies stay small


class ClaimData(TypedDict):
    id: UUID
    name: str
    team: str
    cluster: str
    namespace: str
    profile: str
    devices: int
    parallel: int
    requested_by: str
    state: str
    version: int
    expires_at: datetime | None
    ends_unless_renewed_at: datetime | None
    problem: str
    url: str


class ClaimStateData(ClaimData):
    """`previous_state` is null of a new claim."""

    previous_state: str | None


class ExtensionData(TypedDict):
    id: UUID
    claim: UUID
    name: str
    team: str
    requested_by: str
    until: datetime
    status: str
    note: str
    url: str


class QuotaRequestData(TypedDict):
    """A request for quota, or with `budget` for `amount` or `hours` beside that budget."""

    id: UUID
    team: str
    requested_by: str
    device_class: str
    profile: str | None
    counts: str
    devices: int
    budget: UUID | None
    amount: str
    hours: str
    until: datetime | None
    status: str
    note: str
    url: str


class BudgetData(TypedDict):
    """`share` is used; it has just passed `threshold`, which is 0.5, 0.8 or 1."""

    id: UUID
    team: str
    title: str
    share: float
    threshold: float
    url: str


def claim_data(key: UUID) -> ClaimData:
    related = ("team", "cluster", "requested_by", "profile_version__profile")
    claim = Claim.objects.select_related(*related).get(pk=key)
    return {
        "id": claim.pk,
        "name": claim.name,
        "team": claim.team.slug,
        "cluster": claim.cluster.name,
        "namespace": claim.namespace,
        "profile": claim.profile_version.profile.slug,
        "devices": claim.devices,
        "parallel": claim.parallel,
        "requested_by": claim.requested_by.username,
        "state": claim.state,
        "version": claim.version,
        "expires_at": claim.expires_at,
        "ends_unless_renewed_at": claim.ends_unless_renewed_at,
        "problem": claim.problem[:MAX_TEXT],
        "url": reverse("claims:detail", args=[claim.pk]),
    }


def tell_of_state(claim: Claim, old: str, new: str) -> None:
    """Tell of a new claim, or of its new state."""

    def data() -> ClaimStateData:
        return {**claim_data(claim.pk), "previous_state": old or None}

    emit(EventKind(f"claim.{new}"), team_id=claim.team_id, data=data)


def tell_of_end(claim: Claim) -> None:
    emit(EventKind.CLAIM_EXPIRING, team_id=claim.team_id, data=partial(claim_data, claim.pk))


def tell_of_request(request: Extension | QuotaRequest, *, decided: bool) -> None:
    """Tell of a request for an extension, quota or budget, or of the decision on it."""
    if isinstance(request, Extension):
        kind = EventKind.EXTENSION_DECIDED if decided else EventKind.EXTENSION_REQUESTED
        claim = Claim.objects.values_list("team", flat=True)
        emit(kind, team_id=claim.get(pk=request.claim_id), data=partial(extension_data, request.pk))
    else:
        kind = EventKind.QUOTA_DECIDED if decided else EventKind.QUOTA_REQUESTED
        emit(kind, team_id=request.team_id, data=partial(quota_data, request.pk))


def extension_data(key: UUID) -> ExtensionData:
    extension = Extension.objects.select_related("claim__team", "requested_by").get(pk=key)
    return {
        "id": extension.pk,
        "claim": extension.claim_id,
        "name": extension.claim.name,
        "team": extension.claim.team.slug,
        "requested_by": extension.requested_by.username,
        "until": extension.until,
        "status": extension.status,
        "note": extension.decision_note,
        "url": reverse("claims:detail", args=[extension.claim_id]),
    }


def quota_data(key: UUID) -> QuotaRequestData:
    asked = QuotaRequest.objects.select_related("team", "profile", "requested_by").get(pk=key)
    return {
        "id": asked.pk,
        "team": asked.team.slug,
        "requested_by": asked.requested_by.username,
        "device_class": asked.device_class,
        "profile": asked.profile.slug if asked.profile else None,
        "counts": asked.counts,
        "devices": asked.devices,
        "budget": asked.budget_id,
        "amount": str(asked.amount),
        "hours": str(asked.hours),
        "until": asked.until,
        "status": asked.status,
        "note": asked.decision_note,
        "url": reverse("claims:quota_requests"),
    }


def tell_of_budget(budget: Budget, *, share: float, threshold: float) -> None:
    """Tell that so much of a budget is used."""

    def data() -> BudgetData:
        return {
            "id": budget.pk,
            "team": budget.team.slug,
            "title": budget.title,
            "share": round(share, 4),
            "threshold": threshold,
            "url": reverse("claims:budget", args=[budget.pk]),
        }

    emit(EventKind.BUDGET_USED, team_id=budget.team_id, data=data)
