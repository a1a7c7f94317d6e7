"""Remind the people who decide on a request that nobody has decided on yet."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db.models import Q
from django.urls import reverse

from claims.access import lock_claim
from claims.approvals.authority import deciders, join_names
from claims.models import Approval, PendingDecision
from core.errors import Conflict
from core.times import duration, moment, utc_moment
from core.transactions import service
from notify.models import NoticeKind
from notify.services import notify
from teams.access import require_admin
from teams.models import User

Kind = PendingDecision.Kind
AGAIN_AFTER = timedelta(hours=4)  # as long as a request may wait before it counts as late
DECIDED_ON = {
    Kind.CLAIM: "claims:approval",
    Kind.EXTENSION: "claims:extension",
    Kind.QUOTA: "claims:quota_request_decision",
}


def decision_address(kind: PendingDecision.Kind, pk: object) -> str:
    """Return the page on which people decide on a request."""
    return reverse(DECIDED_ON[kind], args=[pk])


def deciders_of(request: PendingDecision) -> list[User]:
    """Return the people for whom the request waits now; delegates too."""
    people: dict[object, User] = {}
    if request.for_leads:
        people |= {one.pk: one for one in deciders(request.team, Approval.LEAD, request.requester)}
    if request.for_admins:
        people |= {one.pk: one for one in deciders(request.team, Approval.ADMIN)}
    without = {request.first_approver_id, None if request.self_approval else request.requester_id}
    return [person for pk, person in people.items() if pk not in without]


@service
def remind_deciders(*, request: PendingDecision, by: User, now: datetime) -> list[User]:
    """
    Notify the people who decide on a request that it still waits, and return them; the history of a
    claim says so.

    Raises Forbidden for everybody but platform admins, and Conflict if they were reminded within
    `AGAIN_AFTER`, if the request was decided meanwhile, or if only `by` can decide.
    """
    require_admin(by)
    people = [person for person in deciders_of(request) if person.pk != by.pk]
    if not people:
        raise Conflict("Nobody but you can decide on this request now.")
    name = _name(request)
    due = Q(reminded_at=None) | Q(reminded_at__lte=now - AGAIN_AFTER)
    if not PendingDecision.objects.filter(due, pk=request.pk).update(reminded_at=now):
        row = PendingDecision.objects.filter(pk=request.pk).first()
        if row is None or row.reminded_at is None:
            raise Conflict(f"{name} was decided in the meantime.")
        raise Conflict(
            f"{join_names(people)} got a reminder of {name} {duration(now - row.reminded_at)} ago. The next "
            f"one is possible on {moment(row.reminded_at + AGAIN_AFTER)}."
        )
    if request.kind == Kind.CLAIM and request.claim is not None:
        lock_claim(request.claim).remark(
            f"Reminded {join_names(people)} to decide.", by=by, action="claim.reminded"
        )
    waited = duration(now - request.requested_at)
    notify(
        people,
        kind=NoticeKind.DECIDE,
        key=f"remind:{request.pk}:{now.timestamp():.0f}",
        team_id=request.team_id,
        title=f"{name} has waited for your decision for {waited}",
        body=(
            f"{request.requester.label} of {request.team} requested it on "
            f"{utc_moment(request.requested_at)}. {by.label} sends this reminder."
        ),
        url=decision_address(Kind(request.kind), request.pk),
        important=True,
    )
    return people


def _name(request: PendingDecision) -> str:
    if request.kind == Kind.QUOTA:
        return f"The quota request of {request.team}"
    return f"The extension of {request.claim}" if request.kind == Kind.EXTENSION else str(request.claim)
