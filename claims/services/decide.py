"""Deciding on a request. Whoever is second hears who was first."""

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.translation import gettext as _

from claims import tasks
from claims.approval import announce, approvals
from claims.approval.rules import Ruling
from claims.models import Approval, Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from core.locking import lock_row
from core.queueing import after_commit
from core.templatetags.ui import moment
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
    stage, given = approvals.stage_of(claim, ruling)
    if given is not None and given.by == by:
        return claim  # consenting twice is consenting once
    if ruling.approval == Approval.BOTH and stage == Approval.LEAD:
        return consent(claim, by, instead, note)
    if not grant(claim, by, instead, note):
        return decided_already(claim, by, ClaimState.APPROVED)
    announce.decided(claim)
    return claim


@transaction.atomic(durable=True)
def deny(*, claim: Claim, by: User, reason: str) -> Claim:
    """
    Say no, and why. Raises Invalid without a reason, Forbidden, Conflict if somebody else decided first.
    """
    claim, _ruling, instead = to_decide(claim, by)
    if not reason.strip():
        raise Invalid(
            _("%(person)s needs to know why: give a reason.") % {"person": claim.requested_by.label}
        )
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
    announce.decided(claim)
    return claim


def to_decide(claim: Claim, by: User, *, spec_hash: str = "") -> tuple[Claim, Ruling, User | None]:
    """
    Read the claim anew; return it with its ruling and the lead in whose place `by` decides.

    404 for an outsider, Forbidden for one who may not decide, Conflict for one who comes after another who
    consented to the same. Where two have to agree, the row is locked, so that of two leads one is first.
    """
    require_role(by, claim.team, at_least=Role.VIEWER)
    desk = approvals.Desk(by, [claim.team])
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
        _stage, consent = approvals.stage_of(claim, ruling)
        if consent is not None and consent.by != by and claim.team_id in desk.teams:
            raise Conflict(
                _("%(person)s consented to %(claim)s first, on %(when)s; now a platform admin decides.")
                % {"person": approvals.label_of(consent.by), "claim": claim, "when": moment(consent.at)}
            )
        if consent is None or consent.by != by or consent.spec_hash != spec_hash:
            raise Forbidden(reason)
    return claim, ruling, desk.in_place_of(claim)


def same_spec(claim: Claim, spec_hash: str) -> None:
    """Raise Conflict unless the claim still is what was read."""
    if claim.spec_hash != spec_hash:
        raise Conflict(
            _("%(claim)s has changed since you read it: its spec is now %(now)s, you approved %(seen)s.")
            % {"claim": claim, "now": claim.spec_hash[:8], "seen": spec_hash[:8] or "—"}
        )


def grant(claim: Claim, by: User, instead: User | None, note: str, **fields: object) -> bool:
    """Approve the claim as it stands, with `fields` changed in the same step; False if somebody was first."""
    now = timezone.now()
    duration = fields.get("duration", claim.duration)
    moved = claim.advance(
        ClaimState.APPROVED,
        why=in_place_of(note.strip() or _("Approved."), instead),
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
    why = in_place_of(_("Consented as a lead."), instead)
    claim.remark(" ".join(filter(None, [why, note.strip()])), by=by)
    announce.asked(claim)
    return claim


def in_place_of(said: str, instead: User | None) -> str:
    """Add for whom a stand-in decided."""
    return said if instead is None else _("%(said)s For %(lead)s.") % {"said": said, "lead": instead.label}


def decided_already(claim: Claim, by: User | AnonymousUser, wanted: ClaimState) -> Claim:
    """
    Return the claim if `by` decided the same before; else raise Conflict that says who was first and when.
    """
    claim.refresh_from_db()
    step = approvals.decision_on(claim)
    if step is None:
        raise Conflict(_("%(claim)s has changed in the meantime; read it again.") % {"claim": claim})
    if step.by == by and step.new == wanted:
        return claim
    values = {
        "claim": claim,
        "person": step.by.label if step.by else _("The portal"),
        "when": moment(step.at),
    }
    said = {
        ClaimState.APPROVED: _("%(person)s was first and approved %(claim)s on %(when)s."),
        ClaimState.DENIED: _("%(person)s was first and denied %(claim)s on %(when)s."),
        ClaimState.WITHDRAWN: _("%(person)s withdrew %(claim)s on %(when)s."),
        ClaimState.EXPIRED: _("%(claim)s expired undecided on %(when)s."),
    }
    raise Conflict(said[ClaimState(step.new)] % values)
