"""Set quotas; request more, approve, deny, withdraw."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError
from django.urls import reverse
from django.utils import timezone

from claims.models import Profile, Quota, QuotaIncrease, QuotaRequest, RequestStatus
from claims.quotas import tasks
from claims.quotas.quota_requests import named_quota, quota_words, request_impact, until_words
from claims.quotas.quota_usage import quota_usage
from core.errors import Conflict, Forbidden, Invalid
from core.idempotency import KeyUsed
from core.times import moment, require_date, utc_moment
from core.transactions import lock_row, service
from dra.quota import no_class_reason
from notify.models import NoticeKind
from notify.services import notify
from teams.access import require_admin, require_role
from teams.models import Role, Team, User, record_change


def set_quota(
    *,
    by: User,
    team: Team,
    device_class: str = "",
    profile: Profile | None = None,
    counts: str = Quota.Counts.DEVICES,
    devices: int,
    guaranteed: int | None = None,
) -> Quota:
    """
    Set the limit of `team` for a device class or a profile, or, with `counts`, for its number of claims.
    `guaranteed` devices of a class are kept free for it; None keeps the guarantee that there is.

    A quota lowered below what is held takes nothing away; it is shown as over. Raises Forbidden, Invalid.
    """
    require_admin(by)
    require_quota(device_class=device_class, profile=profile, counts=counts, devices=devices)
    if guaranteed and not device_class:
        raise Invalid("Only devices of a device class can be guaranteed.")
    with service:
        if lock_team(team).archived_at:
            raise Conflict(f"{team} is archived. Restore it first.")
        if guaranteed is None:
            have = Quota.objects.filter(team=team, device_class=device_class, profile=profile, counts=counts)
            guaranteed = have.values_list("guaranteed", flat=True).first() or 0
        if not 0 <= guaranteed <= devices:
            raise Invalid(f"A guarantee of {guaranteed} is more than the limit of {devices}.")
        return save_quota(
            by=by,
            team=team,
            device_class=device_class,
            profile=profile,
            counts=counts,
            values={"devices": devices, "guaranteed": guaranteed},
        )


@service
def remove_quota(*, by: User, quota: Quota) -> None:
    """
    Remove a limit: of a device class the team may then hold none, of a profile or claims any number.

    Held devices stay. Removing it twice is removing it once. Raises Forbidden.
    """
    require_admin(by)
    lock_team(quota.team)
    deleted, _of_kinds = Quota.objects.filter(pk=quota.pk).delete()
    if deleted:
        change, values = f"removed, limit was {quota.devices}", [("limit", str(quota.devices), "–")]
        record_change(by=by, of=quota, change=change, values=values)
        tasks.queue_team(quota.team_id)


def require_quota(*, device_class: str, profile: Profile | None, counts: str, devices: int) -> None:
    """Raise Invalid unless this names exactly one thing to count, and a valid number."""
    named = [bool(device_class), profile is not None, counts == Quota.Counts.CLAIMS]
    if sum(named) != 1:
        raise Invalid("A quota is for one device class, for one profile, or for the number of claims.")
    if problem := device_class and no_class_reason(device_class):
        raise Invalid(problem)
    if not 0 <= devices <= Quota.MOST:
        raise Invalid(f"A quota is from 0 to {Quota.MOST} devices; it is {devices}.")


def save_quota(
    *,
    by: User,
    team: Team,
    device_class: str,
    profile: Profile | None,
    counts: str,
    values: dict[str, int],
    note: str = "",
    reason: str = "",
) -> Quota:
    """
    Write these columns of a team's quota, record who changed what, and queue the ResourceQuotas.

    Call it in a transaction that has locked the team.
    """
    named = {"team": team, "device_class": device_class, "profile": profile, "counts": counts}
    before = Quota.objects.filter(**named).first() or Quota(devices=0)
    quota, _made = Quota.objects.update_or_create(
        **named, defaults=values, create_defaults={"devices": 0, **values}
    )
    rows = [
        (label, str(getattr(before, name)), str(getattr(quota, name)))
        for name, label in (("devices", "limit"), ("guaranteed", "guaranteed"))
        if getattr(before, name) != getattr(quota, name)
    ]
    if rows or note:
        changes = (f"{label} {old} → {new}" for label, old, new in rows)
        change = ", ".join(filter(None, (*changes, note)))
        record_change(by=by, of=quota, change=change, values=rows, reason=reason)
    tasks.queue_team(team.pk)
    return quota


RELATED = ("team", "profile", "budget", "requested_by", "decided_by")


def request_quota(
    *,
    by: User,
    team: Team,
    device_class: str = "",
    profile: Profile | None = None,
    counts: str = Quota.Counts.DEVICES,
    devices: int,
    until: datetime | None = None,
    reason: str,
    key: str,
) -> QuotaRequest:
    """
    Request a limit of `devices` for `team`, until `until` or permanently; the same `key` requests it once.

    Raises Http404 for an outsider, PermissionDenied for a viewer, Invalid for no more than the current limit,
    and Conflict while an earlier request for the same quota is pending.
    """
    require_role(by, team, at_least=Role.MEMBER)
    require_quota(device_class=device_class, profile=profile, counts=counts, devices=devices)
    if not key or len(key) > 80:
        raise Invalid("A request needs a key of 1 to 80 characters, so that sending it twice asks once.")
    sent: dict[str, Any] = {
        "team": team, "device_class": device_class, "profile": profile, "counts": counts, "devices": devices,
        "until": until, "reason": reason.strip(),
    }  # fmt: skip
    if earlier := earlier_request(by, key, sent):
        return earlier
    if not reason.strip():
        raise Invalid("Say what it is for: whoever decides has nothing else to go by.")
    _require_future(until)
    named: dict[str, Any] = {"device_class": device_class, "profile": profile, "counts": counts}
    row = named_quota(
        team, device_class=device_class, profile_id=profile.pk if profile else None, counts=counts
    )
    limit = quota_usage([row])[0].limit if row else 0
    if devices <= limit:
        raise Invalid(f"{team} may have {limit} already; request more than that.")
    try:
        with service:
            lock_team(team)  # of two equal requests at once, the second is refused with the first
            if earlier := earlier_request(by, key, sent):
                return earlier
            _require_none_waiting(team, named, by)
            quota_request = QuotaRequest.objects.create(
                key=key,
                team=team,
                requested_by=by,
                devices=devices,
                until=until,
                reason=reason.strip(),
                decide_by=timezone.now() + settings.REQUEST_TTL,
                **named,
            )
            until_text = until_words(until, utc_moment)
            asked = f"requested {devices} × {quota_words(quota_request)} {until_text}"
            values = [("limit", "–", str(devices))]
            record_change(by=by, of=quota_request, change=asked, values=values, reason=reason.strip())
            tell_admins(quota_request, f"more quota for {team}: {quota_words(quota_request)}")
    except IntegrityError:
        if earlier := earlier_request(by, key, sent):  # the same request was sent twice at the same time
            return earlier
        raise
    return quota_request


@service
def approve_quota_request(
    *,
    quota_request: QuotaRequest,
    by: User,
    devices: int | None = None,
    until: datetime | None = None,
    note: str = "",
) -> QuotaRequest:
    """
    Approve the requested limit, or `devices` in total, until the requested time, or `until`.

    A permanent one sets the limit; a temporary one is an increase that ends by itself. Approving twice has
    the effect of once. Raises Forbidden, Invalid, and Conflict if it is decided already.
    """
    pending = to_decide(quota_request, by)
    if pending.status != RequestStatus.WAITING:
        return decided_already(pending, by, RequestStatus.APPROVED)
    pending.devices = pending.devices if devices is None else devices
    pending.until = until or pending.until
    _require_future(pending.until)
    lock_team(pending.team)  # a team without this quota has no row to lock
    impact = request_impact(pending)
    if impact.more <= 0:
        raise Invalid(f"{pending.team} may have {impact.before} already; there is nothing left to approve.")
    if not pending.decide(RequestStatus.APPROVED, by=by, note=note.strip()):
        return decided_already(pending, by, RequestStatus.APPROVED)
    pending.save(update_fields=["devices", "until"])
    record_decision(by, pending, "approved", RequestStatus.APPROVED)
    named: dict[str, Any] = {
        "device_class": pending.device_class,
        "profile": pending.profile,
        "counts": pending.counts,
    }
    requested = f"requested by {pending.requested_by.label}"
    if pending.until is None:
        row = save_quota(
            by=by,
            team=pending.team,
            values={"devices": pending.devices},
            note=requested,
            reason=pending.decision_note,
            **named,
        )
        row.increases.filter(ends_at__gt=timezone.now()).delete()  # the new limit holds what they gave
    else:
        more = f"{impact.more} more {until_words(pending.until, utc_moment)}, {requested}"
        row = save_quota(
            by=by, team=pending.team, values={}, note=more, reason=pending.decision_note, **named
        )
        QuotaIncrease.objects.create(
            quota=row, devices=impact.more, ends_at=pending.until, request=pending, by=by
        )
    _notify_requester(pending)
    return pending


@service
def deny_quota_request(*, quota_request: QuotaRequest, by: User, reason: str) -> QuotaRequest:
    """Deny the request. Raises Forbidden, Invalid without a reason, Conflict if it is decided already."""
    pending = to_decide(quota_request, by)
    if not reason.strip():
        raise Invalid(f"{pending.requested_by.label} needs to know why: give a reason.")
    if pending.decide(RequestStatus.DENIED, by=by, note=reason.strip()):
        record_decision(by, pending, "denied", RequestStatus.DENIED)
        _notify_requester(pending)
        return pending
    return decided_already(pending, by, RequestStatus.DENIED)


@service
def withdraw_quota_request(*, quota_request: QuotaRequest, by: User) -> QuotaRequest:
    """
    Withdraw a pending request: its requester, or a lead.

    Raises Http404, PermissionDenied, Forbidden, Conflict.
    """
    role = require_role(by, quota_request.team, at_least=Role.MEMBER)
    pending = _read(quota_request)
    if reason := reason_not_to_withdraw(by, pending, role):
        raise Forbidden(reason)
    if pending.decide(RequestStatus.WITHDRAWN, by=by):
        record_decision(by, pending, "withdrew", RequestStatus.WITHDRAWN)
        return pending
    return decided_already(pending, by, RequestStatus.WITHDRAWN)


def record_decision(by: User, pending: QuotaRequest, change: str, status: RequestStatus) -> None:
    """Record how a request was decided, in the transaction that decides it."""
    values = [("State", RequestStatus.WAITING.label, status.label)]
    record_change(
        by=by,
        of=pending,
        change=change,
        values=values,
        reason=pending.decision_note,
        action=f"quota_request.{status}",
        in_activity=status != RequestStatus.APPROVED,  # that shows as the change of the quota
    )


def reason_not_to_withdraw(user: User, quota_request: QuotaRequest, role: Role | None) -> str:
    """Return why somebody with this role in the team may not withdraw the request, "" if they may."""
    if role is None or role.rank < Role.MEMBER.rank:
        return f"Only members of {quota_request.team} may do this."
    if user.pk != quota_request.requested_by_id and role.rank < Role.LEAD.rank:
        requester, team = quota_request.requested_by.label, quota_request.team
        return f"{requester} sent this request; only the requester or a lead of {team} may withdraw it."
    return ""


def lock_team(team: Team) -> Team:
    """Lock the quotas of the team until the end of the transaction; return its current row."""
    return Team.objects.select_for_update(no_key=True).get(pk=team.pk)


def _require_none_waiting(team: Team, named: dict[str, Any], by: User) -> None:
    waiting = QuotaRequest.objects.filter(team=team, status=RequestStatus.WAITING, **named)
    if other := waiting.select_related("requested_by").first():
        raise Conflict(
            f"{other.requested_by.has(by)} already requested {other.devices}. "
            "Wait for the decision, or withdraw that request first."
        )


def _read(quota_request: QuotaRequest) -> QuotaRequest:
    return QuotaRequest.objects.select_related(*RELATED).get(pk=quota_request.pk)


def earlier_request(by: User, key: str, sent: Mapping[str, Any]) -> QuotaRequest | None:
    """Return the request that this key has made; raise Invalid if another one was sent with it."""
    earlier = QuotaRequest.objects.filter(requested_by=by, key=key).first()
    if earlier is None or QuotaRequest.objects.filter(pk=earlier.pk, **sent).exists():
        return earlier
    raise KeyUsed


def _require_future(until: datetime | None) -> None:
    require_date(until)
    if until is not None and until <= timezone.now():
        raise Invalid(f"{moment(until)} is in the past.")


def to_decide(quota_request: QuotaRequest, by: User) -> QuotaRequest:
    """
    Read the request again under the lock of its row: the second of two approvers sees the first decision.
    """
    require_admin(by)
    return lock_row(QuotaRequest.objects.select_related(*RELATED), quota_request.pk)


def decided_already(quota_request: QuotaRequest, by: User, wanted: RequestStatus) -> QuotaRequest:
    """Return the request if `by` made the same decision before; else raise Conflict."""
    quota_request = _read(quota_request)
    if quota_request.decided_by_id == by.pk and quota_request.status == wanted:
        return quota_request
    raise Conflict(quota_request.decision_sentence)


def tell_admins(quota_request: QuotaRequest, what: str) -> None:
    """Notify platform admins of a request; `what` says what for."""
    admins = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=quota_request.requested_by_id)
    notify(
        admins,
        kind=NoticeKind.DECIDE,
        key=f"quota-request-{quota_request.pk}",
        team_id=quota_request.team_id,
        title=f"{quota_request.requested_by.label} requests {what}",
        body=quota_request.reason,
        url=reverse("claims:quota_request_decision", args=[quota_request.pk]),
        important=True,
    )


def _notify_requester(quota_request: QuotaRequest) -> None:
    words = quota_words(quota_request)
    title = f"{quota_request.team}: request for more {words} denied"
    if quota_request.status == RequestStatus.APPROVED:
        until = until_words(quota_request.until, utc_moment)
        title = f"{quota_request.team} may have {quota_request.devices} × {words} {until}"
    tell_requester(quota_request, title)


def tell_requester(quota_request: QuotaRequest, title: str) -> None:
    notify(
        [quota_request.requested_by],
        kind=NoticeKind.DECISION,
        key=f"quota-request-decided-{quota_request.pk}",
        team_id=quota_request.team_id,
        title=title,
        body=quota_request.decision_note,
        url=reverse("claims:quota_request_decision", args=[quota_request.pk]),
    )
