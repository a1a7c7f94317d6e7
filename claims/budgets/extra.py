"""
Extra budget for the current period: requested by a member or lead, decided by platform admins in the inbox.

It is a `QuotaRequest` with a budget: list, comments, expiry, denial and withdrawal are those of quota.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

from django.conf import settings
from django.db import IntegrityError
from django.utils import timezone

from claims.budgets.cards import BudgetCard, card_of
from claims.budgets.services import add_extra, extra_words, require_extra
from claims.budgets.use import NO_EXTRA, compute_with, day_words, utc_day
from claims.models import Budget, QuotaRequest, RequestStatus
from claims.quotas.services import (
    decided_already,
    earlier_request,
    lock_team,
    record_decision,
    tell_admins,
    tell_requester,
    to_decide,
)
from core.errors import Conflict, Invalid
from core.transactions import service
from teams.access import require_role
from teams.models import Role, User, record_change

NOTHING = Decimal(0)


def request_extra(
    *,
    by: User,
    budget: Budget,
    amount: Decimal = NOTHING,
    hours: Decimal = NOTHING,
    reason: str,
    key: str,
) -> QuotaRequest:
    """
    Request money or GPU-hours beside a budget, for its current period; the same `key` requests it once.

    Raises Http404 for an outsider, PermissionDenied for a viewer, Invalid, and Conflict while an earlier
    request for this budget is pending, or if the budget has been ended.
    """
    team = budget.team
    require_role(by, team, at_least=Role.MEMBER)
    if not key or len(key) > 80:
        raise Invalid("A request needs a key of 1 to 80 characters, so that sending it twice asks once.")
    sent = {"budget": budget, "amount": amount, "hours": hours, "reason": reason.strip()}
    if earlier := earlier_request(by, key, sent):
        return earlier
    if not reason.strip():
        raise Invalid("Say what it is for: whoever decides has nothing else to go by.")
    require_extra(budget, amount=amount, hours=hours)
    first, last = budget.period(utc_day(timezone.now()))
    if utc_day(timezone.now()) > last:
        raise Conflict(f"The period of this budget ended on {day_words(last)}.")
    try:
        with service:
            lock_team(team)  # of two requests at once, the second is refused with the first
            if earlier := earlier_request(by, key, sent):
                return earlier
            if not Budget.objects.open().filter(pk=budget.pk).exists():
                raise Conflict("This budget has been ended.")
            _require_none_waiting(budget, by)
            quota_request = QuotaRequest.objects.create(
                key=key,
                team=team,
                budget=budget,
                first=first,
                requested_by=by,
                devices=0,
                amount=amount,
                hours=hours,
                reason=reason.strip(),
                decide_by=timezone.now() + settings.REQUEST_TTL,
            )
            words = extra_words(budget, amount, hours)
            change = f"requested {words} more until {day_words(last)}"
            record_change(
                by=by, of=budget, change=change, values=[("Extra", "–", words)], reason=reason.strip()
            )
            tell_admins(quota_request, f"{words} more budget for {team}")
    except IntegrityError:
        if earlier := earlier_request(by, key, sent):  # the same request was sent twice at the same time
            return earlier
        raise
    return quota_request


@service
def approve_extra(
    *,
    quota_request: QuotaRequest,
    by: User,
    amount: Decimal | None = None,
    hours: Decimal | None = None,
    note: str = "",
) -> QuotaRequest:
    """
    Add what was requested, or this much, to the period that it was requested for.

    Approving twice has the effect of once. Raises Forbidden, Invalid, and Conflict if it is decided already,
    the period is over, or the budget has been ended.
    """
    pending = to_decide(quota_request, by)
    budget = pending.budget
    if budget is None:
        raise Invalid("This is a request for quota, not for budget.")
    if pending.status != RequestStatus.WAITING:
        return decided_already(pending, by, RequestStatus.APPROVED)
    pending.amount = pending.amount if amount is None else amount
    pending.hours = pending.hours if hours is None else hours
    _require_period(budget, pending.first)
    require_extra(budget, amount=pending.amount, hours=pending.hours)
    if not pending.decide(RequestStatus.APPROVED, by=by, note=note.strip()):
        return decided_already(pending, by, RequestStatus.APPROVED)
    pending.save(update_fields=["amount", "hours"])
    record_decision(by, pending, "approved", RequestStatus.APPROVED)
    requested = f"Requested by {pending.requested_by.label}. {pending.decision_note}".strip()
    budget.team = pending.team
    add_extra(
        by=by,
        budget=budget,
        amount=pending.amount,
        hours=pending.hours,
        first=pending.first,
        reason=requested,
    )
    words = extra_words(budget, pending.amount, pending.hours)
    tell_requester(pending, f"{pending.team} has {words} more budget")
    return pending


@dataclass(frozen=True, slots=True)
class ExtraEffect:
    """What an extra amount does to a budget: its cards without it and with it, in the current period."""

    quota_request: QuotaRequest
    budget: Budget
    before: BudgetCard
    after: BudgetCard

    @property
    def words(self) -> str:
        return extra_words(self.budget, self.quota_request.amount, self.quota_request.hours)

    @property
    def sentence(self) -> str:
        return (
            f"{self.budget.team}: {self.words} more, budget {self.before.limit} → {self.after.limit}, "
            f"used {self.before.share} → {self.after.share}."
        )


def extra_effect(quota_request: QuotaRequest) -> ExtraEffect:
    """Return what approving the request would do now; it has a budget with its team."""
    budget, now = quota_request.budget, timezone.now()
    assert budget is not None  # callers have looked  # noqa: S101
    extra = (quota_request.amount, quota_request.hours)
    before, after = (
        card_of(budget, use, now=now) for use in compute_with([budget, budget], [NO_EXTRA, extra], now=now)
    )
    return ExtraEffect(quota_request, budget, before, after)


def _require_period(budget: Budget, first: date | None) -> None:
    current, _last = budget.period(utc_day(timezone.now()))
    if first != current:
        raise Conflict("The period that it was requested for is over. Deny it; it can be requested again.")


def _require_none_waiting(budget: Budget, by: User) -> None:
    waiting = QuotaRequest.objects.filter(budget=budget, status=RequestStatus.WAITING)
    if other := waiting.select_related("requested_by").first():
        words = extra_words(budget, other.amount, other.hours)
        raise Conflict(
            f"{other.requested_by.has(by)} already requested {words} more. Wait for the decision, or "
            "withdraw that request first."
        )
