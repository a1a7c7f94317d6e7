"""
Who decides on each undecided request, kept as rows, so that a page counts them with one query.

`refresh` computes rows from approval rules, first approvals, escalation and leads, and is called in the
transaction that changes one of these. Delegations depend on the time: `waiting_for` reads them in its query.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from claims.approvals.authority import LEADS, active_delegations, approval_stage, other_admins
from claims.approvals.rules import EffectiveRule, Rules
from claims.models import (
    Approval,
    Claim,
    Extension,
    PendingDecision,
    Profile,
    QuotaRequest,
    RequestStatus,
)
from claims.states import ClaimState
from core.models import RowDifferences
from teams.access import memberships_of
from teams.models import Membership, User

Kind = PendingDecision.Kind
COMPUTED = [
    column for column in PendingDecision._meta.concrete_fields if column.name not in ("id", "reminded_at")
]
COLUMNS = tuple(column.attname for column in COMPUTED)
FIELDS = tuple(column.name for column in COMPUTED)
# Columns that do not matter for who decides; they are most of the bytes of a row.
DEFERRED = ("spec", "original_request", "reason", "decision_note", "profile_version__spec")
NOTHING = Q(pk__in=())


# Reading.


def waiting_for(user: User, *, now: datetime | None = None) -> QuerySet[PendingDecision]:
    """Return the undecided requests that wait for `user`, oldest first."""
    return PendingDecision.objects.filter(waits_for(user, now=now))


def waits_for(user: User, *, now: datetime | None = None) -> Q:
    """
    Return the condition on rows that wait for `user`.

    Platform admins may decide on more than waits for them. `ApprovalAuthority` checks a decision itself.
    """
    led_teams = memberships_of(user).filter(role__in=LEADS).values("team")
    delegations = active_delegations(now).filter(to=user)
    delegated = Q(for_leads=True, team__in=delegations.values("team"))
    not_own = ~Q(requester=user)
    as_lead = Q(for_leads=True, team__in=led_teams)
    if user.is_superuser:
        second_approver = Q(first_approver=None) | ~Q(first_approver=user)
        as_admin = Q(for_admins=True) & second_approver
        as_delegate = delegated & Q(two_approvals=False)
        # Where only platform admins decide, the only one decides on their own requests too.
        for_sole_admin = (
            ~Q(kind=Kind.QUOTA) & Q(for_leads=False, two_approvals=False) & ~Q(Exists(other_admins(user)))
        )
        return (as_lead | as_admin | as_delegate) & (Q(self_approval=True) | not_own | for_sole_admin)
    # A delegate does not decide on a request of the lead who delegated, unless leads may decide on their own.
    of_others = delegations.filter(team=OuterRef("team")).exclude(lead=OuterRef("requester"))
    return as_lead & (Q(self_approval=True) | not_own) | delegated & not_own & (
        Q(self_approval=True) | Q(Exists(of_others))
    )


@dataclass(frozen=True, slots=True)
class Backlog:
    """The number of requests that wait for a person, and when the oldest was made."""

    count: int = 0
    oldest: datetime | None = None


# Writing.


@dataclass(frozen=True, slots=True)
class _Scope:
    """Conditions on undecided requests of each kind, and on the rows of the same requests."""

    claims: Q = NOTHING
    extensions: Q = NOTHING
    quota_requests: Q = NOTHING
    rows: Q = NOTHING


EVERYTHING = _Scope(Q(), Q(), Q(), Q())


def refresh(
    *,
    claims: Collection[UUID] | None = None,
    teams: Collection[UUID] | None = None,
    profile: Profile | None = None,
    request: Extension | QuotaRequest | None = None,
) -> RowDifferences:
    """
    Update the rows of these claims with their extensions, of these teams, of a profile, or of one request;
    without an argument all rows. Return what differed.
    """
    if profile is not None:
        claims = list(_undecided_claims_with(profile))
    if claims is not None:
        scope = _Scope(Q(pk__in=claims), Q(claim__in=claims), rows=Q(claim__in=claims))
    elif teams is not None:
        rows = Q(team__in=teams) & ~Q(kind=Kind.QUOTA)  # nothing of a team changes who decides on quota
        scope = _Scope(Q(team__in=teams), Q(claim__team__in=teams), rows=rows)
    elif isinstance(request, Extension):
        scope = _Scope(extensions=Q(pk=request.pk), rows=Q(pk=request.pk))
    elif request is not None:
        scope = _Scope(quota_requests=Q(pk=request.pk), rows=Q(pk=request.pk))
    else:
        # Comparing all rows takes long; what differs is read again, with the decisions made meanwhile.
        _drift, changed, obsolete = _compare(EVERYTHING)
        differing = Q(pk__in=[*(row.pk for row in changed), *obsolete])
        scope = _Scope(differing, differing, differing, differing)
    with transaction.atomic(savepoint=False):
        return _write(scope)


def add(claim: Claim, rule: EffectiveRule, leads: Iterable[User]) -> None:
    """
    Write the row of a request that has just been created: there is nothing to compare it with.

    `rule` is the rule for the claim, `leads` are the active leads of its team.
    """
    lead_ids = {lead.pk for lead in leads}
    PendingDecision.objects.bulk_create([_row(claim, _columns(claim, claim.requested_by_id, rule, lead_ids))])


def remove(claim: Claim) -> None:
    """Remove the row of a request that has been decided; compare an extension that waits as well."""
    rows = PendingDecision.objects.filter(claim=claim).values_list("pk", flat=True)
    if any(pk != claim.pk for pk in rows):
        refresh(claims=[claim.pk])
    else:
        PendingDecision.objects.filter(pk=claim.pk).delete()


def find_differences() -> RowDifferences:
    """Compare all rows with what they should be, and change nothing."""
    differences, _changed, _obsolete = _compare(EVERYTHING)
    return differences


def _undecided_claims_with(profile: Profile) -> QuerySet[Claim, UUID]:
    undecided = Q(state=ClaimState.REQUESTED) | Q(
        pk__in=Extension.objects.filter(status=RequestStatus.WAITING).values("claim")
    )
    return Claim.objects.with_profile(profile.slug).filter(undecided).order_by().values_list("pk", flat=True)


def _write(scope: _Scope) -> RowDifferences:
    differences, changed, obsolete = _compare(scope)
    if changed:
        PendingDecision.objects.bulk_create(
            changed, update_conflicts=True, unique_fields=["id"], update_fields=FIELDS
        )
    if obsolete:
        PendingDecision.objects.filter(pk__in=obsolete).delete()
    return differences


def _compare(scope: _Scope) -> tuple[RowDifferences, list[PendingDecision], list[UUID]]:
    """Return the differences, the rows to write and the ids of the rows to delete."""
    expected = {row.pk: row for row in _expected_rows(scope)}
    stored = {row.pk: row for row in PendingDecision.objects.filter(scope.rows)}
    missing = [row for pk, row in expected.items() if pk not in stored]
    altered = [row for pk, row in expected.items() if pk in stored and _values(row) != _values(stored[pk])]
    obsolete = [pk for pk in stored if pk not in expected]
    differences = RowDifferences(len(missing), len(altered), len(obsolete))
    # In one order, so that two transactions that write the same rows do not wait for each other.
    return differences, sorted([*missing, *altered], key=lambda row: row.pk), obsolete


def _values(row: PendingDecision) -> list[Any]:
    return [getattr(row, column) for column in COLUMNS]


def _expected_rows(scope: _Scope) -> Iterator[PendingDecision]:
    """Yield the rows as they should be, in a fixed number of queries."""
    claims, extensions = _claims(scope.claims), _extensions(scope.extensions)
    if claims or extensions:
        teams = {claim.team_id for claim in [*claims, *(extension.claim for extension in extensions)]}
        audience = _Audience(teams)
        for claim in claims:
            yield audience.row(claim)
        for extension in extensions:
            yield PendingDecision(
                id=extension.pk,
                kind=Kind.EXTENSION,
                claim_id=extension.claim_id,
                extension_id=extension.pk,
                requested_at=extension.requested_at,
                **audience.columns(extension.claim, extension.requested_by_id),
            )
    if scope.quota_requests != NOTHING:
        for quota_request in QuotaRequest.objects.filter(scope.quota_requests, status=RequestStatus.WAITING):
            yield PendingDecision(
                id=quota_request.pk,
                kind=Kind.QUOTA,
                quota_request_id=quota_request.pk,
                team_id=quota_request.team_id,
                requester_id=quota_request.requested_by_id,
                requested_at=quota_request.requested_at,
                for_leads=False,
                for_admins=True,
            )


def _claims(condition: Q) -> list[Claim]:
    if condition == NOTHING:
        return []
    claims = Claim.objects.filter(condition, state=ClaimState.REQUESTED).order_by()
    related = ("alternatives__profile_version__profile", "steps")
    return list(claims.select_related("profile_version__profile").defer(*DEFERRED).prefetch_related(*related))


def _extensions(condition: Q) -> list[Extension]:
    if condition == NOTHING:
        return []
    extensions = Extension.objects.filter(condition, status=RequestStatus.WAITING).order_by()
    deferred = [f"claim__{name}" for name in DEFERRED]
    related = ("claim__alternatives__profile_version__profile", "claim__steps")
    return list(
        extensions.select_related("claim__profile_version__profile")
        .defer(*deferred)
        .prefetch_related(*related)
    )


class _Audience:
    """The groups of people who decide on claims of some teams, and on extensions of these claims."""

    def __init__(self, teams: Iterable[UUID]) -> None:
        teams = list(teams)
        self._rules = Rules(teams)
        self._leads: dict[UUID, set[UUID]] = {}
        leads = Membership.objects.filter(team__in=teams, role__in=LEADS, user__is_active=True)
        for team, lead in leads.values_list("team", "user"):
            self._leads.setdefault(team, set()).add(lead)

    def row(self, claim: Claim) -> PendingDecision:
        return _row(claim, self.columns(claim, claim.requested_by_id))

    def columns(self, claim: Claim, requester_id: UUID) -> dict[str, Any]:
        rule, leads = self._rules.for_claim(claim), self._leads.get(claim.team_id, set())
        return _columns(claim, requester_id, rule, leads)


def _row(claim: Claim, columns: dict[str, Any]) -> PendingDecision:
    return PendingDecision(
        id=claim.pk, kind=Kind.CLAIM, claim_id=claim.pk, requested_at=claim.created_at, **columns
    )


def _columns(claim: Claim, requester_id: UUID, rule: EffectiveRule, leads: set[UUID]) -> dict[str, Any]:
    stage, first_approval = approval_stage(claim, rule)
    able_leads = leads if rule.self_approval else leads - {requester_id}
    return {
        "team_id": claim.team_id,
        "requester_id": requester_id,
        "for_leads": stage != Approval.ADMIN,
        "for_admins": stage == Approval.ADMIN or claim.escalated_at is not None or not able_leads,
        "two_approvals": rule.approval == Approval.BOTH,
        "self_approval": rule.self_approval,
        "first_approver_id": first_approval.by_id if first_approval else None,
    }
