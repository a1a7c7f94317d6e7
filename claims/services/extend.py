"""More time for a claim: at once where a rule allows it, else by those who decide on the claim."""

from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from claims.access import locked, own, require_running
from claims.approval import approvals
from claims.life.extensions import Terms, deciders_on, deleted_at, reason_not_to_extend, waiting_on
from claims.models import Answer, Claim, Extension
from claims.states import RUNNING
from core.errors import Conflict, Forbidden, Invalid
from core.templatetags.ui import moment, moment_with_zone
from core.times import duration as in_words
from core.times import require_date
from teams.access import require_role
from teams.models import Role, User
from teams.notices import tell


@transaction.atomic(durable=True)
def extend(*, claim: Claim, by: User, until: datetime, reason: str = "", key: str) -> Extension:
    """
    Move the end of a claim to `until`, or ask for it; the same `key` of the same person asks once.

    Raises Http404, PermissionDenied, Forbidden, Invalid for an end that is none, and Conflict for a claim
    that is over, is being replaced, or for which an extension waits already.
    """
    claim = own(claim, by)
    if not key or len(key) > 80:
        raise Invalid(_("An extension needs a key of 1 to 80 characters: sent twice, it asks once."))
    if earlier := Extension.objects.filter(asked_by=by, key=key).first():
        return _same(earlier, claim)
    end = require_running(claim)
    require_date(until)
    _require_sound(claim, end, until)
    way = Terms(claim, by=by).way(until)
    if not way.at_once:
        _require_none_waiting(claim)
    granted: dict[str, Any] = {}
    if way.at_once:
        granted = {"answer": Answer.APPROVED, "decided_at": timezone.now(), "decision_note": way.why}
    try:
        with transaction.atomic():
            extension = Extension.objects.create(
                key=key,
                claim=claim,
                asked_by=by,
                reason=reason.strip(),
                was=end,
                until=until,
                decide_by=deleted_at(claim),
                **granted,
            )
    except IntegrityError:
        if earlier := Extension.objects.filter(asked_by=by, key=key).first():  # at this moment
            return _same(earlier, claim)
        _require_none_waiting(claim)
        raise
    if way.at_once:
        _move_end(claim, until, why=way.why, by=by)
    else:
        claim.remark(_("Asked to keep it until %(when)s.") % {"when": moment_with_zone(until)}, by=by)
        _tell_deciders(extension)
    return extension


@transaction.atomic(durable=True)
def approve_extension(*, extension: Extension, by: User, note: str = "") -> Extension:
    """
    Let the claim be kept as asked. Approving twice is approving once.

    Raises Forbidden for somebody who may not decide, Conflict if somebody else was first or it is too late.
    """
    claim, extension = _to_decide(extension, by)
    over = claim.state not in RUNNING or extension.until <= timezone.now()
    if extension.answer == Answer.WAITING and over:
        raise Conflict(_("%(claim)s has ended; there is nothing left to extend.") % {"claim": claim})
    if extension.answer == Answer.WAITING and (reason := reason_not_to_extend(claim)):
        raise Conflict(reason)
    if extension.decide(Answer.APPROVED, by=by, note=note.strip()):
        _move_end(claim, extension.until, why=note.strip(), by=by)
        _tell_asker(extension, by)
        return extension
    return _decided_already(extension, by, Answer.APPROVED)


@transaction.atomic(durable=True)
def deny_extension(*, extension: Extension, by: User, reason: str) -> Extension:
    """Say no, and why. Raises Invalid without a reason, Forbidden, Conflict if somebody else was first."""
    claim, extension = _to_decide(extension, by)
    if not reason.strip():
        raise Invalid(
            _("%(person)s needs to know why: give a reason.") % {"person": extension.asked_by.label}
        )
    if extension.decide(Answer.DENIED, by=by, note=reason.strip()):
        values = {"when": moment_with_zone(extension.until), "reason": reason.strip()}
        claim.remark(_("Not extended until %(when)s: %(reason)s") % values, by=by)
        _tell_asker(extension, by)
        return extension
    return _decided_already(extension, by, Answer.DENIED)


@transaction.atomic(durable=True)
def withdraw_extension(*, extension: Extension, by: User) -> Extension:
    """Take the wish back before it is decided. Raises Forbidden, Conflict if it was decided."""
    claim = own(extension.claim, by)
    extension = Extension.objects.select_related("asked_by", "decided_by").get(pk=extension.pk)
    if extension.decide(Answer.WITHDRAWN, by=by):
        claim.remark(_("The wish to keep it longer was withdrawn."), by=by)
        return extension
    return _decided_already(extension, by, Answer.WITHDRAWN)


def _require_sound(claim: Claim, end: datetime, until: datetime) -> None:
    if reason := reason_not_to_extend(claim):
        raise Conflict(reason)
    if until <= end:
        said = _("%(claim)s ends on %(when)s anyway; a later time extends it.")
        raise Invalid(said % {"claim": claim, "when": moment(end)})
    if until <= timezone.now():
        raise Invalid(_("%(when)s is in the past.") % {"when": moment(until)})


def _require_none_waiting(claim: Claim) -> None:
    if waiting := waiting_on(claim):
        values = {"claim": claim, "person": waiting.asked_by.label, "when": moment(waiting.until)}
        raise Conflict(
            _("%(person)s has asked to keep %(claim)s until %(when)s; that is decided first.") % values
        )


def _same(earlier: Extension, claim: Claim) -> Extension:
    if earlier.claim_id != claim.pk:
        raise Conflict(_("This key was already used to extend another claim."))
    return earlier


def _to_decide(extension: Extension, by: User) -> tuple[Claim, Extension]:
    """Read both anew, the claim under its lock; 404 for an outsider, Forbidden for one who may not decide."""
    require_role(by, extension.claim.team, at_least=Role.VIEWER)
    claim = locked(extension.claim)
    extension = Extension.objects.select_related("asked_by", "decided_by").get(pk=extension.pk)
    extension.claim = claim
    if reason := approvals.reason_not_to_decide(by, claim, asked_by=extension.asked_by):
        raise Forbidden(reason)
    return claim, extension


def _decided_already(extension: Extension, by: User, wanted: Answer) -> Extension:
    """Return it if `by` said the same before; else raise Conflict that says who was first and when."""
    if extension.decided_by_id == by.pk and extension.answer == wanted:
        return extension
    values = {
        "person": extension.decided_by.label if extension.decided_by else _("The portal"),
        "when": moment(extension.decided_at) if extension.decided_at else "",
        "answer": extension.get_answer_display(),
    }
    raise Conflict(_("%(person)s was first: it was %(answer)s on %(when)s.") % values)


def _move_end(claim: Claim, until: datetime, *, why: str, by: User) -> None:
    """Put the end to `until` unless it is later already, and say so in the history."""
    end = claim.expires_at
    if end is not None and until <= end:
        return
    values = {"span": in_words(until - end) if end else "", "when": moment_with_zone(until), "why": why}
    said = _("Extended by %(span)s, until %(when)s. %(why)s") % values
    claim.remark(said.strip(), by=by, expires_at=until)


def _tell_deciders(extension: Extension) -> None:
    claim = extension.claim
    values = {"person": extension.asked_by.label, "claim": claim}

    def body() -> str:
        when = {"until": moment_with_zone(extension.until), "was": moment_with_zone(extension.was)}
        said = _("Until %(until)s; it ends on %(was)s if nobody decides before.") % when
        return " ".join(filter(None, (said, extension.reason)))

    tell(
        deciders_on(claim, asked_by=extension.asked_by),
        key=f"extension:{extension.pk}:asked",
        title=_("%(person)s asks to keep %(claim)s longer") % values,
        body=body,
        url=reverse("claims:extension", args=[extension.pk]),
        important=True,
    )


def _tell_asker(extension: Extension, by: User) -> None:
    """Tell who asked, and whose claim it is, unless they have just decided themselves."""
    claim = extension.claim
    granted = extension.answer == Answer.APPROVED
    end = extension.until if granted else claim.expires_at

    def body() -> str:
        values = {"person": by.label, "end": moment_with_zone(end) if end else ""}
        said = (
            _("%(person)s approved: it ends on %(end)s.")
            if granted
            else _("%(person)s said no. It ends on %(end)s.")
        )
        return " ".join(filter(None, (said % values, extension.decision_note)))

    people = [person for person in (extension.asked_by, claim.requested_by) if person != by]
    tell(
        people,
        key=f"extension:{extension.pk}:answer",
        title=(_("%(claim)s is extended") if granted else _("%(claim)s is not extended")) % {"claim": claim},
        body=body,
        url=reverse("claims:detail", args=[claim.pk]),
    )
