"""Withdraw, release, extend, shorten and transfer claims, and repair drift of a claim's object."""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils import timezone

from claims.access import lock_claim, lock_owned_claim, reason_not_to_release, require_running
from claims.approvals import authority
from claims.budgets.use import lock_budgets
from claims.delivery import eviction, tasks
from claims.delivery.eviction import start_release
from claims.lifecycle.extension_rules import (
    ExtensionPolicy,
    extension_approvers,
    pending_extension,
    reason_not_to_extend,
)
from claims.lifecycle.keep_alive import NOT_KEPT_ALIVE
from claims.models import Claim, Extension, RequestStatus
from claims.notices import OF_OWNER, notify_of, resolve_of_leaver
from claims.observation import drift
from claims.observation.observations import observe
from claims.observation.ownership import refresh_claim
from claims.requests.budget_check import ExtensionBudgets, require_budget
from claims.states import RELEASE_STARTED, RUNNING, ClaimState
from core.conditional import require_expected
from core.errors import Conflict, Forbidden, IllegalTransition, Invalid
from core.idempotency import KeyUsed
from core.times import duration as in_words
from core.times import moment, require_date, utc_moment
from core.transactions import after_commit, lock_row, service
from inventory.states import EndPolicy
from notify.models import NoticeKind
from notify.services import resolve
from teams.access import people_in, require_role
from teams.models import Role, Team, User


@service
def withdraw(*, claim: Claim, by: User, reason: str = "") -> Claim:
    """Withdraw a pending request. Raises Forbidden, IllegalTransition, Conflict."""
    claim = _lock_owned_claim(claim, by)
    if claim.state == ClaimState.WITHDRAWN:
        return claim
    if claim.state != ClaimState.REQUESTED:
        raise IllegalTransition(
            f"{claim} is not waiting for a decision any more, so it cannot be withdrawn; "
            f"it is “{claim.get_state_display()}”."
        )
    if not claim.advance(ClaimState.WITHDRAWN, why=reason.strip() or "Withdrawn.", by=by, problem=""):
        raise _state_conflict(claim)
    return claim


@service
def release(*, claim: Claim, by: User, reason: str = "") -> Claim:
    """
    Give devices back: the portal deletes the object; pods that still use it keep the devices until they end.

    Raises Forbidden, IllegalTransition, Conflict.
    """
    claim = _lock_owned_claim(claim, by)
    if claim.state in RELEASE_STARTED:
        return claim
    if claim.state not in RUNNING:
        raise IllegalTransition(
            f"{claim} holds nothing that could be released; it is “{claim.get_state_display()}”."
        )
    if not start_release(claim, why=reason.strip() or "Released by its team.", by=by):
        raise _state_conflict(claim)
    after_commit(tasks.remove, str(claim.pk))
    return claim


@service
def evict(*, claim: Claim, by: User, reason: str = "") -> Claim:
    """
    Evict the pods that still hold devices of an ended claim, now. Repeating it changes nothing.

    Raises Forbidden, and Conflict unless the claim is being released and its end policy allows it.
    """
    claim = _lock_owned_claim(claim, by)
    if eviction.is_due(claim):
        return claim
    pods = eviction.holding_pods(observe([claim])[claim.pk])
    if refusal := reason_not_to_evict(claim, [pod.name for pod in pods]):
        raise Conflict(refusal)
    eviction.evict_now(claim, pods, by=by, why=reason.strip())
    after_commit(tasks.evict, str(claim.pk))
    return claim


def reason_not_to_evict(claim: Claim, pods: Collection[str]) -> str:
    """Return why the pods of a claim cannot be evicted, "" if they can; `pods` are those with devices."""
    if claim.state != ClaimState.RELEASING:
        return (
            f"{claim} is “{claim.get_state_display()}”; its pods can be evicted only while it is “Releasing”."
        )
    if claim.end_policy == EndPolicy.RUN:
        return f"The end policy of {claim} is “{claim.end_policy.label}”; end them in the cluster."
    return "" if pods else f"No pod holds devices of {claim} any more, or all of them are ending."


def _lock_owned_claim(claim: Claim, by: User) -> Claim:
    """
    Read the claim under its lock: a release is meant whether or not a pod gets the devices at this moment.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    related = ("team", "cluster", "requested_by", "profile_version")
    claim = lock_row(Claim.objects.select_related(*related), claim.pk)
    require_expected(claim.pk, claim.version)
    if reason := reason_not_to_release(by, claim, role):
        raise Forbidden(reason)
    return claim


def _state_conflict(claim: Claim) -> Conflict:
    claim.refresh_from_db(fields=["state"])
    return Conflict(f"{claim} has changed in the meantime and is now “{claim.get_state_display()}”.")


@service
def extend(*, claim: Claim, by: User, until: datetime, reason: str = "", key: str) -> Extension:
    """
    Move the end of a claim to `until`, or request it; the same `key` of the same person requests it once.

    Raises Http404, PermissionDenied, Forbidden, Invalid for an invalid end, Conflict for a claim that is
    over, is being replaced, or has a pending extension, and BudgetExceeded.
    """
    claim = lock_owned_claim(claim, by)
    if not key or len(key) > 80:
        raise Invalid("An extension needs a key of 1 to 80 characters: sent twice, it asks once.")
    if earlier := Extension.objects.filter(requested_by=by, key=key).first():
        return _earlier_extension(earlier, claim, until, reason)
    end = require_running(claim)
    require_date(until)
    _require_later_end(claim, end, until)
    policy = ExtensionPolicy(claim, by=by, uses=lock_budgets(claim.team))
    require_budget(policy.budget_lines(until))
    option = policy.option(until)
    if not option.at_once:
        _require_none_waiting(claim, by)
    granted: dict[str, Any] = {}
    if option.at_once:
        granted = {
            "status": RequestStatus.APPROVED,
            "decided_at": timezone.now(),
            "decision_note": option.why,
        }
    try:
        with transaction.atomic():
            extension = Extension.objects.create(
                key=key,
                claim=claim,
                requested_by=by,
                reason=reason.strip(),
                previous_end=end,
                until=until,
                decide_by=claim.deleted_at,
                **granted,
            )
    except IntegrityError:
        if earlier := Extension.objects.filter(requested_by=by, key=key).first():  # created at this moment
            return _earlier_extension(earlier, claim, until, reason)
        _require_none_waiting(claim, by)
        raise
    if option.at_once:
        _move_end(claim, until, why=option.why, by=by)
    else:
        claim.remark(
            f"Extension until {utc_moment(until)} requested.", by=by, action="claim.extension_requested"
        )
        _notify_approvers(extension)
    return extension


@service
def approve_extension(*, extension: Extension, by: User, note: str = "") -> Extension:
    """
    Approve the extension as requested. Approving twice has the effect of once.

    Raises Forbidden for somebody who may not decide, Conflict if it is decided already or too late, and
    BudgetExceeded if a budget does not allow it any more.
    """
    claim, extension = _to_decide(extension, by)
    over = claim.state not in RUNNING or extension.until <= timezone.now()
    if extension.status == RequestStatus.WAITING and over:
        raise Conflict(f"{claim} has ended; there is nothing left to extend.")
    if extension.status == RequestStatus.WAITING and (reason := reason_not_to_extend(claim)):
        raise Conflict(reason)
    if extension.status == RequestStatus.WAITING:
        budgets = ExtensionBudgets(claim, lock_budgets(claim.team))
        require_budget(budgets.lines(extension.until))
    if extension.decide(RequestStatus.APPROVED, by=by, note=note.strip()):
        _move_end(claim, extension.until, why=note.strip(), by=by)
        _notify_requester(extension, by)
        return extension
    return _decided_already(extension, by, RequestStatus.APPROVED)


@service
def deny_extension(*, extension: Extension, by: User, reason: str) -> Extension:
    """Deny the extension. Raises Invalid without a reason, Forbidden, Conflict if it is decided already."""
    claim, extension = _to_decide(extension, by)
    if not reason.strip():
        raise Invalid(f"{extension.requested_by.label} needs to know why: give a reason.")
    if extension.decide(RequestStatus.DENIED, by=by, note=reason.strip()):
        why = f"Not extended until {utc_moment(extension.until)}: {reason.strip()}"
        claim.remark(why, by=by, action="claim.extension_denied")
        _notify_requester(extension, by)
        return extension
    return _decided_already(extension, by, RequestStatus.DENIED)


@service
def withdraw_extension(*, extension: Extension, by: User) -> Extension:
    """Withdraw an extension request. Raises Forbidden, and Conflict if it was decided."""
    claim = lock_owned_claim(extension.claim, by)
    extension = Extension.objects.select_related("requested_by", "decided_by").get(pk=extension.pk)
    if extension.decide(RequestStatus.WITHDRAWN, by=by):
        claim.remark("Extension request withdrawn.", by=by, action="claim.extension_withdrawn")
        return extension
    return _decided_already(extension, by, RequestStatus.WITHDRAWN)


def _require_later_end(claim: Claim, end: datetime, until: datetime) -> None:
    if reason := reason_not_to_extend(claim):
        raise Conflict(reason)
    if until <= end:
        raise Invalid(f"{claim} ends on {moment(end)}. Choose a later time.")
    if until <= timezone.now():
        raise Invalid(f"{moment(until)} is in the past.")


def _require_none_waiting(claim: Claim, by: User) -> None:
    if waiting := pending_extension(claim):
        raise Conflict(
            f"{waiting.requested_by.has(by)} already requested an extension of {claim} until "
            f"{moment(waiting.until)}. Wait for the decision, or withdraw that request first."
        )


def _earlier_extension(earlier: Extension, claim: Claim, until: datetime, reason: str) -> Extension:
    if (earlier.claim_id, earlier.until, earlier.reason) != (claim.pk, until, reason.strip()):
        raise KeyUsed(f"an extension of {earlier.claim} until {utc_moment(earlier.until)}")
    return earlier


def _to_decide(extension: Extension, by: User) -> tuple[Claim, Extension]:
    """
    Read both again, the claim under its lock; 404 for an outsider, Forbidden for somebody who may not decide.
    """
    require_role(by, extension.claim.team, at_least=Role.VIEWER)
    claim = lock_claim(extension.claim)
    extension = Extension.objects.select_related("requested_by", "decided_by").get(pk=extension.pk)
    extension.claim = claim
    if reason := authority.reason_not_to_decide(by, claim, requester=extension.requested_by):
        raise Forbidden(reason)
    return claim, extension


def _decided_already(extension: Extension, by: User, wanted: RequestStatus) -> Extension:
    """Return the extension if `by` made the same decision before; else raise Conflict."""
    if extension.decided_by_id == by.pk and extension.status == wanted:
        return extension
    raise Conflict(extension.decision_sentence)


def _move_end(claim: Claim, until: datetime, *, why: str, by: User) -> None:
    """Move the end to `until` unless it is later already, and record it in the history."""
    end = claim.expires_at
    if end is not None and until <= end:
        return
    message = f"Extended by {in_words(until - end) if end else ''}, until {utc_moment(until)}. {why}"
    claim.remark(message.strip(), by=by, action="claim.extended", expires_at=until)
    resolve(f"ends:{claim.pk}")


def _notify_approvers(extension: Extension) -> None:
    claim = extension.claim
    until, end = utc_moment(extension.until), utc_moment(extension.previous_end)
    message = f"Until {until}; it ends on {end} if nobody decides before."
    notify_of(
        claim,
        extension_approvers(claim, requested_by=extension.requested_by),
        kind=NoticeKind.DECIDE,
        key=f"extension:{extension.pk}:asked",
        title=f"{extension.requested_by.label} requests an extension of {claim}",
        body=" ".join(filter(None, (message, extension.reason))),
        url=reverse("claims:extension", args=[extension.pk]),
        important=True,
    )


def _notify_requester(extension: Extension, by: User) -> None:
    """Notify the requester and the owner, unless they have just decided themselves."""
    claim = extension.claim
    granted = extension.status == RequestStatus.APPROVED
    end = extension.until if granted else claim.expires_at
    decision = f"{by.label} approved: it" if granted else f"{by.label} denied the extension. It"
    message = f"{decision} ends on {utc_moment(end) if end else ''}."
    people = [person for person in (extension.requested_by, claim.requested_by) if person != by]
    notify_of(
        claim,
        people,
        kind=NoticeKind.DECISION,
        key=f"extension:{extension.pk}:answer",
        title=f"{claim} is extended" if granted else f"{claim} is not extended",
        body=" ".join(filter(None, (message, extension.decision_note))),
    )


@service
def shorten(*, claim: Claim, by: User, until: datetime) -> Claim:
    """
    Move the end of a claim forward to `until`. Repeating it changes nothing.

    Raises Http404, PermissionDenied, Forbidden, Conflict for a claim that is over, and Invalid for an end
    that is past (which would be a release) or later than the current one.
    """
    claim = lock_owned_claim(claim, by)
    require_date(until)
    end = require_running(claim)
    if until == end:
        return claim
    if until <= timezone.now():
        raise Invalid(f"{moment(until)} is in the past; to end {claim} now, release it.")
    if until > end:
        raise Invalid(f"{claim} ends on {moment(end)} already; to keep it longer, extend it.")
    message = f"Shortened by {in_words(end - until)}, until {utc_moment(until)}."
    claim.remark(message, by=by, action="claim.shortened", expires_at=until)
    if claim.requested_by != by:
        notify_of(
            claim,
            kind=NoticeKind.CHANGE,
            key=f"shortened:{claim.pk}:{until.isoformat()}",
            title=f"{claim} ends earlier",
            body=f"{by.label} has moved its end to {utc_moment(until)}.",
        )
    return claim


TAKE_BACK_TIME = timedelta(minutes=10)  # after a transfer, to take it back


@service
def transfer(*, claim: Claim, by: User, to: User) -> Claim:
    """
    Make `to` the owner of a claim. Repeating it changes nothing.

    The owner or a lead may do this; whoever just did may take it back. A pending extension stays with its
    requester, because nobody may decide on their own. Raises Http404, PermissionDenied, Forbidden, Invalid if
    `to` is no member of the team, and Conflict for a claim that is not running.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = lock_claim(claim)
    if claim.requested_by == to:
        return claim
    reason = reason_not_to_release(by, claim, role)
    if reason and not (to == by and _transferred_just_now(claim, by)):
        raise Forbidden(reason)
    if claim.state not in RUNNING:
        state = claim.get_state_display()
        raise Conflict(f"{claim} is “{state}”; only a running claim can be transferred.")
    if to not in eligible_owners(claim.team):
        raise Invalid(f"{to.label} is no member of {claim.team}, so {claim} cannot be theirs.")
    old = claim.requested_by
    # Keys are unique per requester; the new owner may have used the same one.
    key_in_use = Claim.objects.filter(requested_by=to, key=claim.key).exists()
    key = f"handed-over-{claim.pk}" if key_in_use else claim.key
    why = f"Transferred from {old.label} to {to.label}."
    # The program of the old owner may not renew it.
    claim.remark(why, by=by, action="claim.transferred", requested_by=to, key=key, **NOT_KEPT_ALIVE)
    _notify_transfer(claim, by, old, to)
    resolve(*(f"{kind}:{claim.pk}" for kind in OF_OWNER), person=old)
    resolve_of_leaver(claim, old.pk)
    return claim


def eligible_owners(team: Team) -> list[User]:
    """Return the people who may own a claim of the team."""
    return people_in(team, at_least=Role.MEMBER)


def _transferred_just_now(claim: Claim, by: User) -> bool:
    """
    Return whether the last entry of the history is that `by` transferred the claim.

    Only its owner, besides leads, can have written it; and they are no longer the owner afterwards.
    """
    last = claim.history.order_by("-at", "-pk").first()
    if last is None or last.old != last.new or last.by_id != by.pk:
        return False
    return last.at > timezone.now() - TAKE_BACK_TIME


def _notify_transfer(claim: Claim, by: User, old: User, to: User) -> None:
    owner = "" if by == old else f" from {old.label}"
    message = f"{by.label} transferred {claim}{owner} to {to.label}."
    line = claim.history.order_by("-at", "-pk").values_list("pk", flat=True).first()
    for person, owner_now in ((to, "yours"), (old, f"{to.label}'s")):
        if person != by:
            title = f"{claim} is {owner_now} now"
            notify_of(
                claim, [person], kind=NoticeKind.CHANGE, key=f"handed-over:{line}", title=title, body=message
            )


@service
def accept_object(*, claim: Claim, by: User, reason: str = "") -> Claim:
    """
    Accept the object that somebody recreated under the claim's name as the claim's own.

    Only for platform admins, and only while it requests what was approved. Raises Forbidden, Conflict.
    """
    require_role(by, claim.team, at_least=Role.VIEWER)
    if not by.is_platform_admin:
        raise Forbidden(f"Only a platform admin may accept another object for {claim}.")
    claim = lock_claim(claim)
    seen = observe([claim])[claim.pk]
    found_drift = drift.find_drift(claim, seen)
    if found_drift is None or found_drift.code != drift.REPLACED or seen.written is None:
        raise Conflict(f"{claim} has no new object with the approved spec.")
    why = reason.strip() or "Accepted the object that somebody else recreated."
    claim.remark(why, by=by, object_uid=seen.written.uid, observation_hash="", problem="")
    resolve(f"drift:{claim.pk}")
    refresh_claim(claim)
    _queue_reconcile(claim)
    return claim


@service
def label_again(*, claim: Claim, by: User) -> Claim:
    """
    Restore the portal's labels on the object of a claim. Repeating it changes nothing.

    Raises Forbidden, Conflict for a claim without an object.
    """
    role = require_role(by, claim.team, at_least=Role.MEMBER)
    claim = Claim.objects.select_related("team", "cluster", "requested_by").get(pk=claim.pk)
    if reason := reason_not_to_release(by, claim, role):
        raise Forbidden(reason)
    if not observe([claim])[claim.pk].there():
        raise Conflict(f"{claim} has no object in {claim.cluster}.")
    after_commit(tasks.label, str(claim.pk))
    return claim


def _queue_reconcile(claim: Claim) -> None:
    """Queue a reconciliation; the next sweep repairs a lost message."""
    names = [f"{claim.namespace}/{claim.name}"]
    after_commit(tasks.reconcile_objects, str(claim.cluster_id), names)
