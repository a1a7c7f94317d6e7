"""
Approve or deny a request, or approve it with changes.

Each decision is bound to what the person read. Of two people who decide at once, the second gets a conflict
that names the first.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.db.models import Prefetch, prefetch_related_objects
from django.db.models.functions import Now
from django.utils import timezone

from claims.access import RELATED
from claims.approvals import notices, pending
from claims.approvals.authority import (
    ApprovalAuthority,
    approval_stage,
    effective_rule_on,
    is_sole_admin,
    last_decision,
    person_label,
)
from claims.approvals.rules import EffectiveRule
from claims.delivery import tasks
from claims.models import Alternative, Approval, Claim, ClaimCharge
from claims.plans import plan
from claims.plans.changes import RequestChange, WantedChange, additional_usage, plan_change
from claims.quotas import quota_usage
from claims.states import ClaimState
from core.conditional import require_expected
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from core.prepared import PreparedObjects
from core.times import duration as in_words
from core.times import moment
from core.transactions import after_commit, lock_row, service
from teams.access import require_role
from teams.models import Role, User


@service
def approve(*, claim: Claim, by: User, spec_hash: str, note: str = "") -> Claim:
    """
    Approve the claim with the spec that `by` read; approving twice has the effect of once.

    Where a lead and a platform admin must both approve, the lead's approval is recorded and the request stays
    pending. Raises Forbidden if `by` may not decide, Conflict if the claim changed or somebody else decided.
    """
    claim, effective_rule, delegator = load_for_decision(claim, by, spec_hash=spec_hash)
    require_same_spec(claim, spec_hash)
    if claim.state != ClaimState.REQUESTED:
        return require_same_decision(claim, by, ClaimState.APPROVED)
    stage, first_approval = approval_stage(claim, effective_rule)
    if first_approval is not None and first_approval.by == by:
        return claim
    if effective_rule.approval == Approval.BOTH and stage == Approval.LEAD:
        return record_first_approval(claim, by, delegator, note)
    if not grant(claim, by, delegator, note):
        return require_same_decision(claim, by, ClaimState.APPROVED)
    notices.notify_decision(claim)
    return claim


@service
def deny(*, claim: Claim, by: User, reason: str) -> Claim:
    """Deny the request. Raises Invalid without a reason, Forbidden, Conflict if somebody decided first."""
    claim, _effective_rule, delegator = load_for_decision(claim, by)
    reason = reason.strip()
    if not reason:
        raise Invalid(f"Give a reason. {claim.requested_by.label} will see it.")
    moved = claim.state == ClaimState.REQUESTED and claim.advance(
        ClaimState.DENIED,
        why=with_delegator(reason, delegator),
        by=by,
        decided_by=by,
        decided_at=timezone.now(),
        decision_note=reason,
    )
    if not moved:
        return require_same_decision(claim, by, ClaimState.DENIED)
    notices.notify_decision(claim)
    return claim


def load_for_decision(
    claim: Claim, by: User, *, spec_hash: str = ""
) -> tuple[Claim, EffectiveRule, User | None]:
    """
    Read the claim again; return it with its effective rule and the lead whose delegate `by` is.

    Raises Http404 for an outsider, Forbidden if `by` may not decide, Conflict if another lead gave the first
    approval. Where two approvals are required, the row is locked, so only one of two leads is first.
    """
    require_role(by, claim.team, at_least=Role.VIEWER)
    authority = ApprovalAuthority(by, [claim.team])
    rows = TO_DECIDE.objects(claim.pk)
    if not rows:
        raise Claim.DoesNotExist
    alternatives = Alternative.objects.select_related("profile_version__profile")
    prefetch_related_objects(rows, Prefetch("alternatives", alternatives))
    (claim,) = rows
    require_expected(claim.pk, claim.version)
    effective_rule = authority.rules.for_claim(claim)
    if effective_rule.approval == Approval.BOTH:
        claim = lock_row(Claim.objects.select_related(*RELATED).with_profiles(), claim.pk)
    # A lead who is too late learns what was decided, not that they may not decide.
    is_late = claim.state != ClaimState.REQUESTED and effective_rule.approval == Approval.BOTH
    if is_late and claim.team_id in authority.teams:
        return claim, effective_rule, authority.delegator(claim)
    if reason := authority.reason_not_to_decide(claim):
        _stage, first_approval = approval_stage(claim, effective_rule)
        if first_approval is not None and first_approval.by != by and claim.team_id in authority.teams:
            raise Conflict(
                f"{person_label(first_approval.by)} gave the first approval of {claim} on "
                f"{moment(first_approval.at)}. A platform admin decides next."
            )
        repeats = first_approval is not None and first_approval.by == by
        if first_approval is None or not repeats or first_approval.spec_hash != spec_hash:
            raise Forbidden(reason)
    return claim, effective_rule, authority.delegator(claim)


TO_DECIDE: PreparedObjects[Claim] = PreparedObjects(
    lambda claim: Claim.objects.select_related(*RELATED).filter(pk=claim).order_by(), UUID
)


def require_same_spec(claim: Claim, spec_hash: str) -> None:
    """Raise Conflict unless the claim still has the spec that was read."""
    if claim.spec_hash != spec_hash:
        raise Conflict(
            f"{claim} has changed since you read it: its spec is now {claim.spec_hash[:8]}, you "
            f"approved {spec_hash[:8] or '—'}."
        )


def grant(claim: Claim, by: User, delegator: User | None, note: str, **fields: Any) -> bool:
    """Approve the claim, with `fields` changed in the same step; return False if somebody decided first."""
    now = timezone.now()
    duration = fields.get("duration", claim.duration)
    why = with_delegator(note.strip() or "Approved.", delegator)
    if claim.requested_by_id == by.pk and is_sole_admin(by):
        why += " Decided by the requester, the only platform admin."
    moved = claim.advance(
        ClaimState.APPROVED,
        why=why,
        by=by,
        decided_by=by,
        decided_at=now,
        decision_note=note.strip(),
        expires_at=now + duration,
        problem="",
        **{"approved_hash": claim.spec_hash, **fields},
    )
    if moved:
        after_commit(tasks.deliver, str(claim.pk))
    return moved


def record_first_approval(claim: Claim, by: User, delegator: User | None, note: str) -> Claim:
    """Record a lead's approval of the current spec and notify platform admins; the claim is locked."""
    claim.steps.all().delete()  # of an earlier spec, or from before the request came back
    claim.steps.create(role=Approval.LEAD, by=by, at=Now(), note=note.strip(), spec_hash=claim.spec_hash)
    why = with_delegator("First approval, by a lead.", delegator)
    claim.remark(" ".join(filter(None, [why, note.strip()])), by=by, action="claim.consented")
    pending.refresh(claims=[claim.pk])
    notices.notify_deciders(claim)
    return claim


def with_delegator(text: str, delegator: User | None) -> str:
    """Add for which lead a delegate decided."""
    return text if delegator is None else f"{text} As delegate of {delegator.label}."


def require_same_decision(claim: Claim, by: User | AnonymousUser, wanted: ClaimState) -> Claim:
    """Return the claim if `by` made the same decision before; else raise Conflict with the decision."""
    claim.refresh_from_db()
    decision = last_decision(claim)
    if decision is None:
        raise Conflict(f"{claim} has changed in the meantime. Read it again.")
    if decision.by == by and decision.new == wanted:
        return claim
    raise Conflict(_decision_sentence(claim, person_label(decision.by), decision.new, decision.at))


def _decision_sentence(claim: Claim, person: str, state: str, at: datetime) -> str:
    return {
        ClaimState.APPROVED: f"{person} already approved {claim} on {moment(at)}.",
        ClaimState.DENIED: f"{person} already denied {claim} on {moment(at)}.",
        ClaimState.WITHDRAWN: f"{person} withdrew {claim} on {moment(at)}.",
        ClaimState.EXPIRED: f"{claim} expired without a decision on {moment(at)}.",
    }[ClaimState(state)]


@service
def approve_with_changes(
    *, claim: Claim, by: User, spec_hash: str, wanted: WantedChange, note: str = ""
) -> Claim:
    """
    Approve a smaller version of the request and notify the requester.

    Compute the new spec and charges under the lock of the quota; `Claim.original_request` keeps the first.
    `spec_hash` is of the spec that `by` read. Where two approvals are required, the change voids the first:
    a lead's change is the new first approval, after an admin's change a lead must approve again. Raises
    Forbidden, Invalid, QuotaExceeded, Conflict.
    """
    claim, effective_rule, delegator = load_for_decision(claim, by)
    # The row before the quota, as everywhere; so the change and its approval are of the same spec.
    Claim.objects.select_for_update(no_key=True).get(pk=claim.pk)
    changed_meanwhile = (
        "state",
        "spec",
        "spec_hash",
        "devices",
        "duration",
        "profile_version",
        "alternatives",
    )
    claim.refresh_from_db(fields=changed_meanwhile)
    if claim.state != ClaimState.REQUESTED:
        return require_same_decision(claim, by, ClaimState.APPROVED)
    require_same_spec(claim, spec_hash)
    change = plan_change(claim, wanted)
    require_sound(claim, change)
    plan.require_permission(by, change.spec)
    if change.changes_spec:
        _require_quota(claim, change)
    stage, _first_approval = approval_stage(claim, effective_rule)
    fields = _changed_fields(claim, change)
    _replace_charges(claim, change)
    differences, note = "; ".join(change.differences), note.strip()
    if effective_rule.approval == Approval.BOTH:
        Claim.objects.filter(pk=claim.pk).update(**fields)
        claim = _reload(claim)
        claim.steps.all().delete()
        pending.refresh(claims=[claim.pk])
        _require_still_allowed(claim, by)
        notices.notify_change(claim, by, change.differences)
        if stage == Approval.LEAD:
            return record_first_approval(claim, by, delegator, "; ".join(filter(None, [differences, note])))
        claim.remark(f"Changed: {differences}.", by=by)
        notices.notify_deciders(claim)
        return claim
    remark = " ".join(filter(None, [f"Approved with changes: {differences}.", note]))
    if not grant(claim, by, delegator, remark, approved_hash=change.spec_hash, **fields):
        raise Conflict(f"{claim} has changed in the meantime. Read it again.")
    claim = _reload(claim)
    _require_still_allowed(claim, by)
    notices.notify_decision(claim, changes=change.differences, note=note)
    return claim


def require_sound(claim: Claim, change: RequestChange) -> None:
    """Raise Invalid with every problem of the change, and for a change without effect."""
    if change.problems:
        raise Invalid(" ".join(change.problems), problems=list(change.problems))
    if not change.differences:
        raise Invalid(f"Nothing has changed. Approve {claim} as it is.")
    if change.changes_spec and (reason := _reason_size_is_fixed(claim)):
        raise Invalid(reason)


def _reason_size_is_fixed(claim: Claim) -> str:
    """Return why only the duration of a claim that shares its quota with another may change, else ""."""
    if claim.carried or claim.charges.filter(carried__gt=0).exists():
        return f"{claim} replaces a claim that still holds devices; only its duration can be changed."
    if successor := claim.successors.live().first():
        return (
            f"{successor} replaces {claim} and shares its quota; only the duration of {claim} can be changed."
        )
    return ""


def _require_quota(claim: Claim, change: RequestChange) -> None:
    """Raise QuotaExceeded if the change needs more than is reserved and free, under the lock of the quota."""
    classes, profiles = additional_usage(claim, change)
    if not classes and not profiles:
        return
    rows = quota_usage.lock_quotas(team=claim.team, charge=classes, profiles=profiles)
    lines = quota_usage.quota_lines(rows, team=claim.team, charge=classes, profiles=profiles, claims=0)
    if refused := [line.sentence for line in lines if not line.fits]:
        raise QuotaExceeded(" ".join(refused))


def _changed_fields(claim: Claim, change: RequestChange) -> dict[str, object]:
    """Return the fields of the changed claim; `original_request` keeps the first request."""
    original = {
        "profile": str(claim.profile_version),
        "devices": claim.devices,
        "duration": in_words(claim.duration),
        "seconds": int(claim.duration.total_seconds()),
        "spec_hash": claim.spec_hash,
    }
    if claim.alternatives.exists():
        original["size"] = claim.sizes
    return {
        "profile_version": change.version,
        "spec": change.spec,
        "spec_hash": change.spec_hash,
        "devices": change.devices,
        "duration": change.duration,
        "original_request": claim.original_request or original,
    }


def _replace_charges(claim: Claim, change: RequestChange) -> None:
    """Replace the profiles and charges of the claim with those of the change."""
    if not change.changes_spec:
        return
    claim.alternatives.all().delete()
    if len(change.parts) > 1:
        Alternative.objects.bulk_create(
            Alternative(
                claim=claim,
                position=position,
                name=part.name,
                profile_version=part.version,
                devices=part.devices * claim.parallel,
                together=True,
            )
            for position, part in enumerate(change.parts)
        )
    claim.charges.all().delete()
    ClaimCharge.objects.bulk_create(
        ClaimCharge(claim=claim, device_class=name, devices=count)
        for name, count in change.charge.items()
        if count
    )


def _reload(claim: Claim) -> Claim:
    related = ("team", "requested_by", "decided_by", "profile_version__profile")
    return Claim.objects.select_related(*related).get(pk=claim.pk)


def _require_still_allowed(claim: Claim, by: User) -> None:
    """Raise Forbidden if `by` may not decide on the changed request; the transaction is rolled back."""
    needs_two = claim.state == ClaimState.REQUESTED and effective_rule_on(claim).approval == Approval.BOTH
    reason = ApprovalAuthority(by, [claim.team]).reason_not_to_decide(claim)
    if reason and not needs_two:
        raise Forbidden(reason)
