"""Deciding on a request. Whoever is second hears who was first."""

from functools import partial

from django.contrib.auth.models import AnonymousUser
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from claims import approvals, tasks
from claims.models import Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid
from core.templatetags.ui import moment
from teams.access import require_role
from teams.models import Role, User


@transaction.atomic(durable=True)
def approve(*, claim: Claim, by: User, spec_hash: str, note: str = "") -> Claim:
    """
    Approve what `by` has seen: the spec with this hash. Approving twice is approving once.

    Raises Forbidden for somebody who may not decide on it, Conflict if it changed or somebody else decided
    first.
    """
    claim = _to_decide(claim, by)
    if claim.spec_hash != spec_hash:
        raise Conflict(
            _("%(claim)s has changed since you read it: its spec is now %(now)s, you approved %(seen)s.")
            % {"claim": claim, "now": claim.spec_hash[:8], "seen": spec_hash[:8] or "—"}
        )
    now = timezone.now()
    moved = claim.state == ClaimState.REQUESTED and claim.advance(
        ClaimState.APPROVED,
        why=note.strip() or _("Approved."),
        by=by,
        decided_by=by,
        decided_at=now,
        decision_note=note.strip(),
        approved_hash=spec_hash,
        expires_at=now + claim.duration,
        problem="",
    )
    if not moved:
        return _decided_already(claim, by, ClaimState.APPROVED)
    transaction.on_commit(partial(tasks.deliver.delay, str(claim.pk)))
    return claim


@transaction.atomic(durable=True)
def deny(*, claim: Claim, by: User, reason: str) -> Claim:
    """
    Say no, and why. Raises Invalid without a reason, Forbidden, Conflict if somebody else decided first.
    """
    claim = _to_decide(claim, by)
    if not reason.strip():
        raise Invalid(
            _("%(person)s needs to know why: give a reason.") % {"person": claim.requested_by.label}
        )
    moved = claim.state == ClaimState.REQUESTED and claim.advance(
        ClaimState.DENIED,
        why=reason.strip(),
        by=by,
        decided_by=by,
        decided_at=timezone.now(),
        decision_note=reason.strip(),
    )
    return claim if moved else _decided_already(claim, by, ClaimState.DENIED)


def _to_decide(claim: Claim, by: User) -> Claim:
    """Read the claim anew; 404 for an outsider, Forbidden for one who may not decide."""
    require_role(by, claim.team, at_least=Role.VIEWER)
    related = ("team", "requested_by", "profile_version__profile")
    claim = Claim.objects.select_related(*related).get(pk=claim.pk)
    if reason := approvals.reason_not_to_decide(by, claim):
        raise Forbidden(reason)
    return claim


def _decided_already(claim: Claim, by: User | AnonymousUser, wanted: ClaimState) -> Claim:
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
