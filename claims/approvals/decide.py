"""Approve or deny a request, or approve it with changes. Whoever is second hears who was first."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from claims.approvals import authority, notices
from claims.approvals.rules import EffectiveRule
from claims.delivery import tasks
from claims.models import Alternative, Approval, Claim, ClaimCharge
from claims.plans import plan
from claims.plans.changes import RequestChange, WantedChange, additional_usage, plan_change
from claims.quotas import usage
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from core.times import duration as in_words
from core.times import moment
from core.transactions import after_commit, lock_row
from teams.access import require_role
from teams.models import Role, User


@transaction.atomic(durable=True)
def approve(*, claim: Claim, by: User, spec_hash: str, note: str = "") -> Claim:
    """
    Approve what `by` has seen: the spec with this hash. Approving twice is approving once.

    Where a lead and a platform admin have to agree, the lead's consent is kept and the request goes on
    waiting. Raises Forbidden for somebody who may not decide on it, Conflict if it changed or somebody else
    decided first.
    """
    claim, ruling, instead = to_decide(claim, by, spec_hash=spec_hash)
    same_spec(claim, spec_hash)
    if claim.state != ClaimState.REQUESTED:
        return decided_already(claim, by, ClaimState.APPROVED)
    stage, given = authority.stage_of(claim, ruling)
    if given is not None and given.by == by:
        return claim  # consenting twice is consenting once
    if ruling.approval == Approval.BOTH and stage == Approval.LEAD:
        return consent(claim, by, instead, note)
    if not grant(claim, by, instead, note):
        return decided_already(claim, by, ClaimState.APPROVED)
    notices.decided(claim)
    return claim


@transaction.atomic(durable=True)
def deny(*, claim: Claim, by: User, reason: str) -> Claim:
    """
    Say no, and why. Raises Invalid without a reason, Forbidden, Conflict if somebody else decided first.
    """
    claim, _ruling, instead = to_decide(claim, by)
    if not reason.strip():
        raise Invalid(f"{claim.requested_by.label} needs to know why: give a reason.")
    moved = claim.state == ClaimState.REQUESTED and claim.advance(
        ClaimState.DENIED,
        why=in_place_of(reason.strip(), instead),
        by=by,
        decided_by=by,
        decided_at=timezone.now(),
        decision_note=reason.strip(),
    )
    if not moved:
        return decided_already(claim, by, ClaimState.DENIED)
    notices.decided(claim)
    return claim


def to_decide(claim: Claim, by: User, *, spec_hash: str = "") -> tuple[Claim, EffectiveRule, User | None]:
    """
    Read the claim anew; return it with its ruling and the lead in whose place `by` decides.

    404 for an outsider, Forbidden for one who may not decide, Conflict for one who comes after another who
    consented to the same. Where two have to agree, the row is locked, so that of two leads one is first.
    """
    require_role(by, claim.team, at_least=Role.VIEWER)
    desk = authority.ApprovalAuthority(by, [claim.team])
    related = ("team", "requested_by", "profile_version__profile")
    claims = Claim.objects.select_related(*related)
    claim = claims.get(pk=claim.pk)
    ruling = desk.rules.on(claim)
    if ruling.approval == Approval.BOTH:
        claim = lock_row(claims, claim.pk)
    # A lead of two who comes late hears what became of it.
    late = claim.state != ClaimState.REQUESTED and ruling.approval == Approval.BOTH
    if late and claim.team_id in desk.teams:
        return claim, ruling, desk.in_place_of(claim)
    if reason := desk.reason_not_to_decide(claim):
        _stage, consent = authority.stage_of(claim, ruling)
        if consent is not None and consent.by != by and claim.team_id in desk.teams:
            raise Conflict(
                f"{authority.label_of(consent.by)} consented to {claim} first, on {moment(consent.at)}; "
                "now a platform admin decides."
            )
        if consent is None or consent.by != by or consent.spec_hash != spec_hash:
            raise Forbidden(reason)
    return claim, ruling, desk.in_place_of(claim)


def same_spec(claim: Claim, spec_hash: str) -> None:
    """Raise Conflict unless the claim still is what was read."""
    if claim.spec_hash != spec_hash:
        raise Conflict(
            f"{claim} has changed since you read it: its spec is now {claim.spec_hash[:8]}, you "
            f"approved {spec_hash[:8] or '—'}."
        )


def grant(claim: Claim, by: User, instead: User | None, note: str, **fields: object) -> bool:
    """Approve the claim as it stands, with `fields` changed in the same step; False if somebody was first."""
    now = timezone.now()
    duration = fields.get("duration", claim.duration)
    moved = claim.advance(
        ClaimState.APPROVED,
        why=in_place_of(note.strip() or "Approved.", instead),
        by=by,
        decided_by=by,
        decided_at=now,
        decision_note=note.strip(),
        expires_at=now + duration,  # type: ignore[operator]
        problem="",
        **{"approved_hash": claim.spec_hash, **fields},
    )
    if moved:
        after_commit(tasks.deliver, str(claim.pk))
    return moved


def consent(claim: Claim, by: User, instead: User | None, note: str) -> Claim:
    """Keep the lead's consent to the spec as it is and ask platform admins; the claim is locked."""
    claim.steps.all().delete()  # of an earlier wait, or to what it was before
    claim.steps.create(role=Approval.LEAD, by=by, at=Now(), note=note.strip(), spec_hash=claim.spec_hash)
    why = in_place_of("Consented as a lead.", instead)
    claim.remark(" ".join(filter(None, [why, note.strip()])), by=by)
    notices.asked(claim)
    return claim


def in_place_of(said: str, instead: User | None) -> str:
    """Add for whom a stand-in decided."""
    return said if instead is None else f"{said} For {instead.label}."


def decided_already(claim: Claim, by: User | AnonymousUser, wanted: ClaimState) -> Claim:
    """
    Return the claim if `by` decided the same before; else raise Conflict that says who was first and when.
    """
    claim.refresh_from_db()
    step = authority.decision_on(claim)
    if step is None:
        raise Conflict(f"{claim} has changed in the meantime; read it again.")
    if step.by == by and step.new == wanted:
        return claim
    values = {
        "claim": claim,
        "person": step.by.label if step.by else "The portal",
        "when": moment(step.at),
    }
    said = {
        ClaimState.APPROVED: "%(person)s was first and approved %(claim)s on %(when)s.",
        ClaimState.DENIED: "%(person)s was first and denied %(claim)s on %(when)s.",
        ClaimState.WITHDRAWN: "%(person)s withdrew %(claim)s on %(when)s.",
        ClaimState.EXPIRED: "%(claim)s expired undecided on %(when)s.",
    }
    raise Conflict(said[ClaimState(step.new)] % values)


@transaction.atomic(durable=True)
def approve_with_changes(
    *, claim: Claim, by: User, spec_hash: str, wanted: WantedChange, note: str = ""
) -> Claim:
    """
    Approve the request made smaller: its spec and charges are worked out anew under the lock of the quota,
    `Claim.asked` keeps what it was, and the asker is told.

    `spec_hash` is of the spec that `by` read before the change. Where a lead and a platform admin have to
    agree, the change voids what was consented to: a lead's change counts as their consent, after an admin's a
    lead is asked again. Raises Forbidden, Invalid, QuotaExceeded, Conflict.
    """
    claim, ruling, instead = to_decide(claim, by)
    # The row before the quota, as everywhere; the change and its approval are then of one and the same spec.
    Claim.objects.select_for_update(no_key=True).get(pk=claim.pk)
    claim.refresh_from_db(fields=["state", "spec", "spec_hash", "devices", "duration", "profile_version"])
    if claim.state != ClaimState.REQUESTED:
        return decided_already(claim, by, ClaimState.APPROVED)
    same_spec(claim, spec_hash)
    change = plan_change(claim, wanted)
    require_sound(claim, change)
    plan.require_permission(by, change.spec)
    if change.changes_spec:
        _require_quota(claim, change)
    stage, _given = authority.stage_of(claim, ruling)
    fields = _fields(claim, change)
    _rewrite(claim, change)
    if ruling.approval == Approval.BOTH:
        Claim.objects.filter(pk=claim.pk).update(**fields)
        claim = _again(claim)
        claim.steps.all().delete()
        _require_still(claim, by)
        notices.changed(claim, by, change.differences)
        if stage == Approval.LEAD:
            return consent(claim, by, instead, "; ".join(filter(None, [*change.differences, note.strip()])))
        claim.remark(f"Changed: {'; '.join(change.differences)}.", by=by)
        notices.asked(claim)
        return claim
    said = " ".join(
        filter(
            None,
            [f"Approved with changes: {'; '.join(change.differences)}.", note.strip()],
        )
    )
    if not grant(claim, by, instead, said, approved_hash=change.spec_hash, **fields):
        raise Conflict(f"{claim} has changed in the meantime; read it again.")
    claim = _again(claim)
    _require_still(claim, by)
    notices.decided(claim, changes=change.differences, note=note.strip())
    return claim


def require_sound(claim: Claim, change: RequestChange) -> None:
    """Raise Invalid with every problem of the change, and for one that changes nothing."""
    if change.problems:
        raise Invalid(" ".join(change.problems), problems=list(change.problems))
    if not change.differences:
        raise Invalid(f"Nothing is changed: {claim} can be approved as it is.")
    if change.changes_spec and (reason := _counted_together(claim)):
        raise Invalid(reason)


def _counted_together(claim: Claim) -> str:
    """Return why the size of a claim may not change that shares what it counts for with another one."""
    if claim.carried or claim.charges.filter(carried__gt=0).exists():
        return f"{claim} replaces another claim that still holds devices; only its duration can be changed."
    if successor := claim.successors.live().first():
        return f"{successor} replaces {claim} and counts together with it; only its duration can be changed."
    return ""


def _require_quota(claim: Claim, change: RequestChange) -> None:
    """Count what the change takes beyond what is reserved, under the lock of the quota."""
    classes, profiles = additional_usage(claim, change)
    if not classes and not profiles:
        return
    rows = usage.lock_quotas(team=claim.team, charge=classes, profiles=profiles)
    lines = usage.quota_lines(rows, team=claim.team, charge=classes, profiles=profiles, claims=0)
    if refused := [line.sentence for line in lines if not line.fits]:
        raise QuotaExceeded(" ".join(refused))


def _fields(claim: Claim, change: RequestChange) -> dict[str, object]:
    first = {
        "profile": str(claim.profile_version),
        "devices": claim.devices,
        "duration": in_words(claim.duration),
        "seconds": int(claim.duration.total_seconds()),
        "spec_hash": claim.spec_hash,
    }
    if claim.alternatives.exists():
        first["what"] = claim.sizes
    return {
        "profile_version": change.version,
        "spec": change.spec,
        "spec_hash": change.spec_hash,
        "devices": change.devices,
        "duration": change.duration,
        "asked": claim.asked or first,
    }


def _rewrite(claim: Claim, change: RequestChange) -> None:
    """Charge what is approved."""
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


def _again(claim: Claim) -> Claim:
    related = ("team", "requested_by", "decided_by", "profile_version__profile")
    return Claim.objects.select_related(*related).get(pk=claim.pk)


def _require_still(claim: Claim, by: User) -> None:
    """Refuse a change to a profile on which somebody stricter decides; the transaction takes it back."""
    ruling = authority.ruling_on(claim)
    allowed = authority.ApprovalAuthority(by, [claim.team]).reason_not_to_decide(claim)
    waits = claim.state == ClaimState.REQUESTED
    if allowed and not (waits and ruling.approval == Approval.BOTH):
        raise Forbidden(allowed)
