"""What expires (claims, requests, extensions), and the reminders before."""

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from itertools import batched
from uuid import UUID

from django.db import transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, Value
from django.db.models.functions import Coalesce
from django.urls import reverse

from claims.approvals import authority
from claims.delivery.eviction import fate_of_pods, holding_pods, notify_team, start_release
from claims.lifecycle import keep_alive
from claims.lifecycle.extension_rules import ExtensionPolicy, duration_start, reason_not_to_extend
from claims.models import Claim, Extension, RequestStatus
from claims.notices import notify_of
from claims.observation.observations import observe
from claims.plans.plan import delivery_kind
from claims.states import RUNNING, ClaimState
from claims.webhook_events import tell_of_end
from core.cache import is_web_away
from core.text import counted
from core.times import duration as in_words
from core.times import utc_moment
from inventory.states import EndPolicy
from notify.models import Notice, NoticeKind
from teams.access import people_in
from teams.models import Role

RELATED = ("team", "cluster", "requested_by", "profile_version__profile")


def end_overdue(now: datetime) -> list[UUID]:
    """
    End everything that is overdue; return the ids of the claims whose objects must be deleted.

    A row that fails does not stop the others; the errors are raised at the end.
    """
    failed: list[Exception] = []
    undecided = Claim.objects.filter(state=ClaimState.REQUESTED, decide_by__lte=now)
    for claim in undecided.select_related(*RELATED):
        _end_or_collect_error(claim, lambda claim: _expire(claim, now), failed)
    ended = []
    # In SQL: there are many claims in grace, too many to read every minute.
    deleted_before = ExpressionWrapper(Value(now) - F("profile_version__grace"), DateTimeField())
    overdue = Claim.objects.filter(state__in=RUNNING, expires_at__lte=now).filter(
        expires_at__lte=deleted_before
    )
    for claim in overdue.select_related(*RELATED):
        deleted = claim.deleted_at
        if deleted is not None and deleted <= now and _end_or_collect_error(claim, _release, failed):
            ended.append(claim.pk)
    if is_web_away(now):
        keep_alive.excuse_silence(now)
    silent = keep_alive.silent_claims(now).select_related(*RELATED)
    ended += [
        claim.pk
        for claim in silent
        if _end_or_collect_error(claim, lambda claim: _end_silent(claim, now), failed)
    ]
    for extension in Extension.objects.filter(status=RequestStatus.WAITING).exclude(claim__state__in=RUNNING):
        extension.decide(RequestStatus.EXPIRED, by=None, note="The claim has ended.")
    if failed:
        raise ExceptionGroup("Claims could not be ended", failed)
    return ended


def _end_or_collect_error(claim: Claim, move: Callable[[Claim], bool], failed: list[Exception]) -> bool:
    try:
        return _end(claim, move)
    except Exception as error:
        error.add_note(f"claim {claim.pk}")
        failed.append(error)
        return False


def _end(claim: Claim, move: Callable[[Claim], bool]) -> bool:
    """End it and notify in one transaction; an end that was moved meanwhile stays."""
    with transaction.atomic():
        locked = Claim.objects.select_for_update(no_key=True).filter(pk=claim.pk)
        ends = ("state", "expires_at", "decide_by", "ends_unless_renewed_at")
        same = locked.filter(**{name: getattr(claim, name) for name in ends})
        return same.first() is not None and move(claim)


def _expire(claim: Claim, now: datetime) -> bool:
    undecided = f"Nobody decided within {in_words(now - claim.state_since)}"  # advance moves state_since
    if not claim.advance(ClaimState.EXPIRED, why=f"{undecided}."):
        return False
    notify_of(
        claim,
        kind=NoticeKind.DECISION,
        key=f"expired:{claim.pk}",
        title=f"{claim} expired undecided",
        body=f"{undecided}; its quota is free again. You can ask again from its page.",
        important=True,
    )
    return True


def _end_silent(claim: Claim, now: datetime) -> bool:
    """Tell the owner that the program of a claim is silent, or end the claim some time after that."""
    if claim.silence_noticed_at is None:
        return keep_alive.notice_silence(claim, now)
    why = keep_alive.silence(claim, now)
    if claim.state != ClaimState.REQUESTED:
        return _release(claim, why=why, title=f"{claim} has ended with its program")
    if not claim.advance(ClaimState.WITHDRAWN, why=why, problem=""):
        return False
    notify_of(
        claim,
        kind=NoticeKind.END,
        key=f"ended:{claim.pk}:{now.isoformat()}",
        title=f"The request {claim} is withdrawn",
        body=f"{why} Its quota is free again; you can ask again from its page.",
    )
    return False


def _release(claim: Claim, *, why: str = "", title: str = "") -> bool:
    end = claim.expires_at or claim.state_since
    why = why or f"Its time of {in_words(end - duration_start(claim))} is over."
    if not start_release(claim, why=why):
        return False
    seen = observe([claim])[claim.pk]
    if claim.end_policy != EndPolicy.RUN and holding_pods(seen):
        return True  # `start_release` has notified people
    pods = [pod.name for pod in seen.users]
    people = [claim.requested_by]
    if pods:
        people += people_in(claim.team, at_least=Role.LEAD)
        body = f"{fate_of_pods(claim, pods).rstrip('.')}, and they are billed until then."
    else:
        body = "No pod uses it; its devices are free again."
    notify_of(
        claim,
        people,
        kind=NoticeKind.END,
        key=f"ended:{claim.pk}:{end.isoformat()}",
        title=title or f"The time of {claim} is over",
        body=f"{why} {body}",
        important=bool(pods),
    )
    return True


REMIND_BEFORE = (timedelta(hours=1), timedelta(days=1), timedelta(days=7))
REMIND_UNDECIDED_BEFORE = timedelta(days=1)
NOTIFIED_AT_ONCE = 200  # claims in memory: thousands may end within the same week
REMINDED_WITH = ("team", "cluster", "requested_by", "profile_version__profile")


def remind(now: datetime) -> None:
    """Notify people of ends that are near; two queries where nobody is notified."""
    near = Claim.objects.filter(
        state__in=RUNNING, expires_at__gt=now, expires_at__lte=now + max(REMIND_BEFORE)
    )
    begun = Coalesce("decided_at", "created_at")
    columns = near.values_list("pk", "expires_at", begun, "requested_by")
    due = {
        key: (pk, requester)
        for pk, end, since, requester in columns
        if end is not None and (key := _due_reminder(pk, end, since, now))
    }
    notified = _notified_keys(due)
    fresh = {pk: key for key, (pk, requester) in due.items() if (key, requester) not in notified}
    for batch in batched(fresh, NOTIFIED_AT_ONCE):
        claims = list(near.filter(pk__in=batch).select_related(*REMINDED_WITH))
        seen = observe(claims)
        for claim in claims:
            _notify_end(claim, fresh[claim.pk], [pod.name for pod in seen[claim.pk].users])
    undecided = Claim.objects.filter(
        state=ClaimState.REQUESTED, decide_by__gt=now, decide_by__lte=now + REMIND_UNDECIDED_BEFORE
    )
    waiting = {f"undecided:{claim.pk}": claim for claim in undecided.select_related(*REMINDED_WITH)}
    notified = _notified_keys(waiting)
    for key, claim in waiting.items():
        if (key, claim.requested_by_id) not in notified:
            _notify_undecided(claim, key)


REPORT_OVERSTAY_AFTER = (timedelta(days=7), timedelta(days=1))


def report_overstays(now: datetime) -> None:
    """Notify owner and leads of ended claims whose pods still hold devices; one query without any."""
    ended = Claim.objects.filter(
        state=ClaimState.RELEASING, state_since__lte=now - min(REPORT_OVERSTAY_AFTER)
    )
    due = {_overstay_key(claim, now): claim for claim in ended.select_related(*REMINDED_WITH)}
    notified = _notified_keys(due)
    fresh = {key: claim for key, claim in due.items() if (key, claim.requested_by_id) not in notified}
    seen = observe(list(fresh.values())) if fresh else {}
    for key, claim in fresh.items():
        if pods := [pod.name for pod in holding_pods(seen[claim.pk])]:
            billed = counted(len(seen[claim.pk].open), "device is", "devices are")
            policy = claim.end_policy
            page = "claims:evict" if policy == EndPolicy.ASK else "claims:detail"
            fate = claim.problem if policy == EndPolicy.EVICT else fate_of_pods(claim, pods)
            notify_team(
                claim,
                key=key,
                title=f"{claim} ended {in_words(now - claim.state_since)} ago and still holds devices",
                body=f"{billed} billed until its pods end: {', '.join(sorted(pods))}. {fate}".strip(),
                url=reverse(page, args=[claim.pk]),
            )


def _overstay_key(claim: Claim, now: datetime) -> str:
    """Return the key of the latest report that is due."""
    after = next(span for span in REPORT_OVERSTAY_AFTER if claim.state_since <= now - span)
    return f"overstay:{claim.pk}:{after.total_seconds():.0f}"


def _due_reminder(claim_id: UUID, end: datetime, begun: datetime, now: datetime) -> str:
    """Return the key of the reminder that is due now, "" if none is."""
    before = next((span for span in REMIND_BEFORE if end - now <= span), None)
    if before is None or before * 2 > end - begun:
        return ""
    return f"ends:{claim_id}:{end.isoformat()}:{before.total_seconds():.0f}"


def _notified_keys(keys: Iterable[str]) -> set[tuple[str, object]]:
    return set(Notice.objects.filter(key__in=list(keys)).values_list("key", "user"))


def _notify_end(claim: Claim, key: str, pods: list[str]) -> None:
    end = claim.expires_at
    if end is None:
        return
    sentences = [f"the portal deletes the {delivery_kind(claim.delivery).kind} {claim} in {claim.cluster}."]
    if pods:
        sentences.append(fate_of_pods(claim, pods))
    else:
        sentences.append("No pod uses it now.")
    sentences.append(reason_not_to_extend(claim) or _how_to_extend(claim))
    notify_of(
        claim,
        kind=NoticeKind.END,
        key=key,
        title=f"{claim} ends on {utc_moment(end)}",
        body=" ".join([_deletion_sentence(end, claim.profile_version.grace), *sentences]),
        url=reverse("claims:extend", args=[claim.pk]),
        important=True,
    )
    tell_of_end(claim)


def _deletion_sentence(end: datetime, grace: timedelta) -> str:
    """Return the beginning of "On … the portal deletes …"."""
    if not grace:
        return f"On {utc_moment(end)}"
    deleted = utc_moment(end + grace)
    return f"On {utc_moment(end)} it expires; after a grace period of {in_words(grace)}, on {deleted},"


def _how_to_extend(claim: Claim) -> str:
    policy = ExtensionPolicy(claim, by=claim.requested_by)
    end, free = claim.expires_at, policy.at_a_time
    if free and end is not None and policy.option(end + free).at_once:
        return f"You may extend it by up to {in_words(free)} without approval."
    return "To keep it longer, request an extension."


def _notify_undecided(claim: Claim, key: str) -> None:
    """Notify the requester and the deciders that the request is about to expire."""
    end = claim.decide_by
    if end is None:
        return
    deciders = authority.deciders_on(claim)
    notify_of(
        claim,
        kind=NoticeKind.DECISION,
        key=key,
        title=f"{claim} expires on {utc_moment(end)} if nobody decides",
        body=f"Nobody has decided on it yet; ask {authority.join_names(deciders) or 'a platform admin'}.",
        important=True,
    )
    notify_of(
        claim,
        deciders,
        kind=NoticeKind.DECIDE,
        key=key,
        title=f"{claim} expires on {utc_moment(end)} if nobody decides",
        body=f"{claim.requested_by.label} waits for your decision.",
        url=reverse("claims:approval", args=[claim.pk]),
        important=True,
    )
