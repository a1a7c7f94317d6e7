"""
Decide on several requests of any kind at once: what it would do, then each by its own service.

Deciding on several wishes of any kind at once.

Each is decided by its own service in a transaction of its own: one that cannot be holds up no other, and
sending the same twice decides once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import TextChoices
from django.http import Http404
from django.utils import timezone

from claims.approvals.authority import ApprovalAuthority, stage_of
from claims.approvals.decide import approve, deny
from claims.inbox.inbox import Inbox, Item, ItemKind
from claims.lifecycle.extensions import reason_not_to_extend
from claims.lifecycle.services import approve_extension, deny_extension
from claims.models import Approval, Claim, Extension, QuotaRequest, RequestStatus
from claims.quotas.requests import request_impact, until_words
from claims.quotas.services import approve_quota_request, deny_quota_request
from claims.quotas.usage import QuotaUsage, charged_quotas, quota_usage, team_usage
from claims.states import RUNNING, ClaimState
from core.errors import Invalid, PortalError
from core.times import duration, moment

type InboxItem = Claim | Extension | QuotaRequest

MOST = 50  # wishes at once: each is a transaction of its own while a person waits


class Decision(TextChoices):
    APPROVE = "approve"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Chosen:
    """Wishes that somebody may know of, oldest first; `items` has each as the inbox shows it."""

    claims: Sequence[Claim] = ()
    extensions: Sequence[Extension] = ()
    quota_requests: Sequence[QuotaRequest] = ()
    items: dict[UUID, Item] = field(default_factory=dict)

    def __iter__(self) -> Iterator[InboxItem]:
        every: list[InboxItem] = [*self.claims, *self.extensions, *self.quota_requests]
        return iter(sorted(every, key=lambda one: (self.items[one.pk].asked_at, one.pk)))


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """What became of one: `refusal` is the sentence of why not, and `code` its name; "" where it was done."""

    item: Item
    done: str
    refusal: str = ""
    code: str = ""


def chosen(inbox: Inbox, ids: Mapping[ItemKind, Collection[UUID]]) -> Chosen:
    """
    Return the wishes of these ids that the person may know of, in a fixed number of queries. Raise Invalid
    for more than can be decided at once.
    """
    count = sum(len(each) for each in ids.values())
    if count > MOST:
        raise Invalid(f"{count} are chosen; at most {MOST} can be decided at once.")
    parts = ("charges", "alternatives__profile_version__profile", "steps__by", "comments__by")
    of_claim = [f"claim__{part}" for part in (*parts[:3], "successors")]
    claims = inbox.claims().filter(pk__in=ids.get("claim", ())).prefetch_related(*parts)
    extensions = inbox.extensions().filter(pk__in=ids.get("extension", ())).prefetch_related(*of_claim)
    requests = inbox.quota_requests().filter(pk__in=ids.get("quota", ()))
    found = Chosen(list(claims), list(extensions), list(requests))
    items = [inbox.of_claim(one) for one in found.claims]
    items += [inbox.of_extension(one, waits=one.answer == RequestStatus.WAITING) for one in found.extensions]
    items += [
        inbox.of_quota_request(one, waits=one.answer == RequestStatus.WAITING) for one in found.quota_requests
    ]
    found.items.update({item.pk: item for item in items})
    return found


def decide(
    inbox: Inbox, wishes: Chosen, decision: Decision, *, note: str, seen: Mapping[UUID, str]
) -> list[DecisionResult]:
    """
    Decide on each by itself; `seen` has for each claim the hash of the spec that was read, without which it
    is not approved.
    """
    return [_one(inbox, wishes.items[wish.pk], wish, decision, note, seen) for wish in wishes]


def _one(
    inbox: Inbox,
    item: Item,
    wish: InboxItem,
    decision: Decision,
    note: str,
    seen: Mapping[UUID, str],
) -> DecisionResult:
    try:
        if isinstance(wish, Claim):
            return DecisionResult(item, _claim_decided(inbox, wish, decision, note, seen.get(wish.pk, "")))
        return DecisionResult(item, _ask_decided(inbox, wish, decision, note))
    except PortalError as refusal:
        return DecisionResult(item, "", refusal.message, refusal.code)
    except PermissionDenied as refusal:
        return DecisionResult(item, "", str(refusal), "forbidden")
    except Http404:
        return DecisionResult(item, "", "It is not there any more.", "not-found")


def _claim_decided(inbox: Inbox, claim: Claim, decision: Decision, note: str, spec_hash: str) -> str:
    if decision == Decision.DENY:
        claim = deny(claim=claim, by=inbox.user, reason=note)
    else:
        claim = approve(claim=claim, by=inbox.user, spec_hash=spec_hash, note=note)
    if claim.state == ClaimState.REQUESTED:
        return "You consented; a platform admin decides now."
    return str(claim.get_state_display())


def _ask_decided(inbox: Inbox, wish: Extension | QuotaRequest, decision: Decision, note: str) -> str:
    denies, by = decision == Decision.DENY, inbox.user
    if isinstance(wish, Extension):
        if denies:
            deny_extension(extension=wish, by=by, reason=note)
            return "Denied: it keeps its end."
        extended = approve_extension(extension=wish, by=by, note=note)
        return f"Approved: it ends on {moment(extended.until)}."
    if denies:
        deny_quota_request(quota_request=wish, by=by, reason=note)
        return "Denied: the quota stays as it is."
    asked = approve_quota_request(quota_request=wish, by=by, note=note)
    return f"Approved: a limit of {asked.devices}, {until_words(asked.until)}."


@dataclass(frozen=True)
class Reserved:
    """A quota in which a request already counts as reserved: `this` of it is the request."""

    standing: QuotaUsage
    this: int

    @property
    def others(self) -> QuotaUsage:
        return replace(self.standing, reserved=self.standing.reserved - self.this)

    @property
    def sentence(self) -> str:
        """Say it as "gpu.nvidia.com: 3 → 5 of 8 taken"."""
        return (
            f"{self.standing.label}: {self.others.used} → {self.standing.used} of {self.standing.limit} taken"
        )


def reserved_in(claim: Claim) -> list[Reserved]:
    charge = {row.device_class: row.devices for row in claim.charges.all()}
    named = claim.alternatives.select_related("profile_version__profile")
    profiles = {one.profile_version.profile: one.devices for one in named}
    profiles = profiles or {claim.profile_version.profile: claim.devices * claim.parallel}
    rows = charged_quotas(team=claim.team, charge=charge, profiles=profiles)
    by_profile = {profile.pk: devices for profile, devices in profiles.items()}
    return [
        Reserved(
            each,
            by_profile[each.quota.profile_id]
            if each.quota.profile_id
            else charge.get(each.quota.device_class, 0)
            if each.quota.device_class
            else claim.parallel,
        )
        for each in quota_usage(rows)
    ]


@dataclass(frozen=True, slots=True)
class DecisionPreview:
    """
    What deciding would do to one wish: `will` says what approving does, `warning` what speaks against it, and
    `reason_not` why this person may not decide at all.
    """

    item: Item
    wish: InboxItem
    will: tuple[str, ...] = ()
    warning: str = ""
    reason_not: str = ""


def preview(inbox: Inbox, wishes: Chosen) -> list[DecisionPreview]:
    """Say what deciding would do to each, as things are now."""
    return [_line(inbox, wishes.items[wish.pk], wish) for wish in wishes]


def together(lines: Iterable[DecisionPreview]) -> list[str]:
    """Say what the wishes that can be decided come to in each quota."""
    ready = [line.wish for line in lines if not line.reason_not]
    claims = [wish for wish in ready if isinstance(wish, Claim)]
    return [
        *_of_claims(claims),
        *_of_extensions([wish for wish in ready if isinstance(wish, Extension)]),
        *_of_quota_requests([wish for wish in ready if isinstance(wish, QuotaRequest)]),
    ]


def _line(inbox: Inbox, item: Item, wish: InboxItem) -> DecisionPreview:
    if reason := _why_not(inbox, item, wish):
        return DecisionPreview(item, wish, reason_not=reason)
    if isinstance(wish, Claim):
        return DecisionPreview(item, wish, tuple(_will_claim(inbox.desk, wish)))
    if isinstance(wish, Extension):
        return _line_of_extension(item, wish)
    return _line_of_quota_request(item, wish)


def _why_not(inbox: Inbox, item: Item, wish: InboxItem) -> str:
    if item.answer:
        return f"Decided already: {item.answer}."
    if isinstance(wish, Claim):
        return inbox.desk.reason_not_to_decide(wish)
    if isinstance(wish, Extension):
        return inbox.desk.reason_not_to_decide(wish.claim, asked_by=wish.asked_by_id)
    return "" if inbox.user.is_superuser else "Only a platform admin decides on quota."


def _will_claim(desk: ApprovalAuthority, claim: Claim) -> Iterable[str]:
    ruling = desk.rules.on(claim)
    stage, consent = stage_of(claim, ruling)
    if ruling.approval == Approval.BOTH and stage == Approval.LEAD:
        yield "You consent; then a platform admin decides."
    elif consent is not None:
        yield "Approved: a lead has consented."
    for row in reserved_in(claim):
        yield row.sentence


def _line_of_extension(item: Item, wish: Extension) -> DecisionPreview:
    claim = wish.claim
    end = claim.expires_at or wish.was
    will = f"Ends on {moment(wish.until)} instead of {moment(end)}: {duration(wish.until - end)} longer."
    if claim.state not in RUNNING or wish.until <= timezone.now():
        return DecisionPreview(item, wish, warning="It has ended; there is nothing left to extend.")
    if wish.until <= end:
        return DecisionPreview(item, wish, warning=f"It ends on {moment(end)} anyway.")
    warning = reason_not_to_extend(claim)
    if not warning and wish.exceeds_max_duration:
        warning = (
            f"{duration(wish.total_duration)} in all; {claim.profile_version.profile} allows "
            f"{duration(claim.profile_version.max_duration)}."
        )
    return DecisionPreview(item, wish, (will,), warning)


def _line_of_quota_request(item: Item, wish: QuotaRequest) -> DecisionPreview:
    impact = request_impact(wish)
    will = f"Limit of {impact.label}: {impact.before} → {impact.after}, {until_words(wish.until)}."
    warning = ""
    if impact.more <= 0:
        warning = f"The team may have {impact.before} already; there is nothing left to approve."
    elif impact.overcommitted:
        warning = (
            f"{impact.overcommitted} device more is promised to all teams than there is."
            if impact.overcommitted == 1
            else f"{impact.overcommitted} devices more are promised to all teams than there are."
        )
    return DecisionPreview(item, wish, (will,), warning)


def _of_claims(claims: Sequence[Claim]) -> Iterable[str]:
    charged: dict[tuple[UUID, str], int] = {}
    for claim in claims:
        for row in claim.charges.all():
            key = (claim.team_id, row.device_class)
            charged[key] = charged.get(key, 0) + row.devices
    for each in team_usage({claim.team for claim in claims}) if claims else ():
        if count := charged.get((each.quota.team_id, each.quota.device_class), 0):
            yield (f"{each.team}: {count} of the {each.used} taken of {each.limit} {each.label} are these.")


def _of_extensions(extensions: Sequence[Extension]) -> Iterable[str]:
    kept: dict[tuple[str, str], tuple[int, float]] = {}
    for one in extensions:
        longer = max((one.until - (one.claim.expires_at or one.was)).total_seconds() / 3600, 0)
        for row in one.claim.charges.all():
            key = (one.claim.team.slug, row.device_class)
            devices, hours = kept.get(key, (0, 0.0))
            kept[key] = (devices + row.devices, hours + row.devices * longer)
    for (team, label), (devices, hours) in sorted(kept.items()):
        yield (
            f"{team}: {devices} device of {label} is kept longer, {hours:.0f} device-hours in all."
            if devices == 1
            else (f"{team}: {devices} devices of {label} are kept longer, {hours:.0f} device-hours in all.")
        )


def _of_quota_requests(requests: Sequence[QuotaRequest]) -> Iterable[str]:
    for one in requests:
        impact = request_impact(one)
        yield f"{one.team}: the limit of {impact.label} goes from {impact.before} to {impact.after}."
