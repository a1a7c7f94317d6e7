"""Approving less than was asked for: what is approved is what the approver has seen."""

from __future__ import annotations

from django.db import transaction
from django.utils.translation import gettext as _

from claims.approval import announce, approvals
from claims.models import Alternative, Approval, Claim, ClaimCharge
from claims.quota import quotas
from claims.request import admin_access
from claims.request.changes import Change, Wanted, change_of, growth
from claims.services.decide import consent, decided_already, grant, same_spec, to_decide
from claims.states import ClaimState
from core.errors import Conflict, Forbidden, Invalid, QuotaExceeded
from core.times import duration as in_words
from teams.models import User


@transaction.atomic(durable=True)
def approve_with_changes(*, claim: Claim, by: User, spec_hash: str, wanted: Wanted, note: str = "") -> Claim:
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
    change = change_of(claim, wanted)
    require_sound(claim, change)
    admin_access.require_person(by, change.spec)
    if change.reshaped:
        _require_quota(claim, change)
    stage, _given = approvals.stage_of(claim, ruling)
    fields = _fields(claim, change)
    _rewrite(claim, change)
    if ruling.approval == Approval.BOTH:
        Claim.objects.filter(pk=claim.pk).update(**fields)
        claim = _again(claim)
        claim.steps.all().delete()
        _require_still(claim, by)
        announce.changed(claim, by, change.said)
        if stage == Approval.LEAD:
            return consent(claim, by, instead, "; ".join(filter(None, [*change.said, note.strip()])))
        claim.remark(_("Changed: %(changes)s.") % {"changes": "; ".join(change.said)}, by=by)
        announce.asked(claim)
        return claim
    said = " ".join(
        filter(
            None,
            [_("Approved with changes: %(changes)s.") % {"changes": "; ".join(change.said)}, note.strip()],
        )
    )
    if not grant(claim, by, instead, said, approved_hash=change.spec_hash, **fields):
        raise Conflict(_("%(claim)s has changed in the meantime; read it again.") % {"claim": claim})
    claim = _again(claim)
    _require_still(claim, by)
    announce.decided(claim, changes=change.said, note=note.strip())
    return claim


def require_sound(claim: Claim, change: Change) -> None:
    """Raise Invalid with every problem of the change, and for one that changes nothing."""
    if change.problems:
        raise Invalid(" ".join(change.problems), problems=list(change.problems))
    if not change.said:
        raise Invalid(_("Nothing is changed: %(claim)s can be approved as it is.") % {"claim": claim})
    if change.reshaped and (reason := _counted_together(claim)):
        raise Invalid(reason)


def _counted_together(claim: Claim) -> str:
    """Return why the size of a claim may not change that shares what it counts for with another one."""
    if claim.carried or claim.charges.filter(carried__gt=0).exists():
        said = _(
            "%(claim)s replaces another claim that still holds devices; only its duration can be changed."
        )
        return said % {"claim": claim}
    if successor := claim.successors.live().first():
        said = _("%(new)s replaces %(claim)s and counts together with it; only its duration can be changed.")
        return said % {"claim": claim, "new": successor}
    return ""


def _require_quota(claim: Claim, change: Change) -> None:
    """Count what the change takes beyond what is reserved, under the lock of the quota."""
    classes, profiles = growth(claim, change)
    if not classes and not profiles:
        return
    rows = quotas.lock_rows(team=claim.team, charge=classes, profiles=profiles)
    lines = quotas.lines_for(rows, team=claim.team, charge=classes, profiles=profiles, claims=0)
    if refused := [line.sentence for line in lines if not line.fits]:
        raise QuotaExceeded(" ".join(refused))


def _fields(claim: Claim, change: Change) -> dict[str, object]:
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


def _rewrite(claim: Claim, change: Change) -> None:
    """Charge what is approved."""
    if not change.reshaped:
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
    ruling = approvals.ruling_on(claim)
    allowed = approvals.Desk(by, [claim.team]).reason_not_to_decide(claim)
    waits = claim.state == ClaimState.REQUESTED
    if allowed and not (waits and ruling.approval == Approval.BOTH):
        raise Forbidden(allowed)
