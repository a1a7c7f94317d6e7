"""
Bulk decisions: select requests of any kind, preview what a decision would do, then decide on each.

Each request is decided in a transaction of its own, so a failure does not stop the others, and sending the
same decisions twice has the effect of once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db.models import TextChoices
from django.http import Http404
from django.utils import timezone

from claims.approvals.authority import ApprovalAuthority, approval_stage
from claims.approvals.decide import approve, deny
from claims.budgets.extra import approve_extra, extra_effect
from claims.budgets.services import extra_words
from claims.budgets.use import blocking_teams
from claims.inbox.inbox import Inbox, Item, ItemKind
from claims.lifecycle.extension_rules import reason_not_to_extend
from claims.lifecycle.services import approve_extension, deny_extension
from claims.models import Approval, Claim, Extension, Quota, QuotaRequest
from claims.quotas.quota_requests import request_impact, request_kind, until_words
from claims.quotas.quota_usage import QuotaUsage, team_usage
from claims.quotas.services import approve_quota_request, deny_quota_request
from claims.requests.budget_check import extension_lines, refusal_sentence
from claims.states import RUNNING, ClaimState
from core.errors import Invalid, PortalError
from core.text import counted
from core.times import duration, moment

type InboxRequest = Claim | Extension | QuotaRequest

MAX_REQUESTS = 50  # each is a transaction while a person waits


class Decision(TextChoices):
    APPROVE = "approve"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected requests that the person may see, oldest first; `items` has the inbox row of each."""

    claims: Sequence[Claim] = ()
    extensions: Sequence[Extension] = ()
    quota_requests: Sequence[QuotaRequest] = ()
    items: dict[UUID, Item] = field(default_factory=dict)

    def __iter__(self) -> Iterator[InboxRequest]:
        requests: list[InboxRequest] = [*self.claims, *self.extensions, *self.quota_requests]
        return iter(sorted(requests, key=lambda request: (self.items[request.pk].requested_at, request.pk)))


@dataclass(frozen=True, slots=True)
class DecisionResult:
    """The result for one request: `done` says what was decided, else `refusal` why not, `code` its type."""

    item: Item
    done: str
    refusal: str = ""
    code: str = ""


def select_requests(inbox: Inbox, ids: Mapping[ItemKind, Collection[UUID]]) -> Selection:
    """
    Return the requests with these ids that the person may see, in a fixed number of queries. Raises Invalid
    for more than MAX_REQUESTS ids.
    """
    count = sum(len(kind_ids) for kind_ids in ids.values())
    if count > MAX_REQUESTS:
        raise Invalid(f"You selected {count} requests; you can decide on up to {MAX_REQUESTS} at once.")
    related = ("charges", "alternatives__profile_version__profile", "steps__by", "comments__by")
    on_claim = [f"claim__{name}" for name in (*related[:3], "successors")]
    claims = inbox.claims().filter(pk__in=ids.get("claim", ())).prefetch_related(*related)
    extensions = inbox.extensions().filter(pk__in=ids.get("extension", ())).prefetch_related(*on_claim)
    quota_requests = inbox.quota_requests().filter(pk__in=ids.get("quota", ()))
    selection = Selection(list(claims), list(extensions), list(quota_requests))
    visible: dict[ItemKind, list[UUID]] = {
        "claim": [claim.pk for claim in selection.claims],
        "extension": [extension.pk for extension in selection.extensions],
        "quota": [quota_request.pk for quota_request in selection.quota_requests],
    }
    selection.items.update(inbox.items(visible))
    return selection


def decide(
    inbox: Inbox, selection: Selection, decision: Decision, *, note: str, spec_hashes: Mapping[UUID, str]
) -> list[DecisionResult]:
    """Decide on each request; a claim is only approved with the hash of the spec that was read."""
    return [
        _decide_one(
            inbox, selection.items[request.pk], request, decision, note, spec_hashes.get(request.pk, "")
        )
        for request in selection
    ]


def _decide_one(
    inbox: Inbox, item: Item, request: InboxRequest, decision: Decision, note: str, spec_hash: str
) -> DecisionResult:
    try:
        if isinstance(request, Claim):
            return DecisionResult(item, _decide_claim(inbox, request, decision, note, spec_hash))
        if isinstance(request, Extension):
            return DecisionResult(item, _decide_extension(inbox, request, decision, note))
        return DecisionResult(item, _decide_quota_request(inbox, request, decision, note))
    except PortalError as refusal:
        return DecisionResult(item, "", refusal.message, refusal.code)
    except PermissionDenied as refusal:
        return DecisionResult(item, "", str(refusal), "forbidden")
    except Http404:
        return DecisionResult(item, "", "This request no longer exists.", "not-found")


def _decide_claim(inbox: Inbox, claim: Claim, decision: Decision, note: str, spec_hash: str) -> str:
    if decision == Decision.DENY:
        claim = deny(claim=claim, by=inbox.user, reason=note)
    else:
        claim = approve(claim=claim, by=inbox.user, spec_hash=spec_hash, note=note)
    if claim.state == ClaimState.REQUESTED:
        return "First approval recorded. A platform admin decides next."
    return str(claim.get_state_display())


def _decide_extension(inbox: Inbox, extension: Extension, decision: Decision, note: str) -> str:
    if decision == Decision.DENY:
        deny_extension(extension=extension, by=inbox.user, reason=note)
        return "Denied: the expiry stays as it is."
    extended = approve_extension(extension=extension, by=inbox.user, note=note)
    return f"Approved: it expires on {moment(extended.until)}."


def _decide_quota_request(inbox: Inbox, quota_request: QuotaRequest, decision: Decision, note: str) -> str:
    if decision == Decision.DENY:
        deny_quota_request(quota_request=quota_request, by=inbox.user, reason=note)
        return f"Denied: the {request_kind(quota_request).lower()} stays as it is."
    if quota_request.budget is not None:
        approved = approve_extra(quota_request=quota_request, by=inbox.user, note=note)
        return f"Approved: {extra_words(quota_request.budget, approved.amount, approved.hours)} more."
    granted = approve_quota_request(quota_request=quota_request, by=inbox.user, note=note)
    return f"Approved: a limit of {granted.devices}, {until_words(granted.until)}."


@dataclass(frozen=True)
class ReservedQuota:
    """A quota that counts a pending request as reserved; `requested` devices are of this request."""

    usage: QuotaUsage
    requested: int

    @property
    def without_request(self) -> QuotaUsage:
        return replace(self.usage, reserved=self.usage.reserved - self.requested)

    @property
    def sentence(self) -> str:
        """The change as "gpu.nvidia.com: 3 → 5 of 8 used"."""
        usage = self.usage
        return f"{usage.label}: {self.without_request.used} → {usage.used} of {usage.limit} used"


def reserved_quotas(claim: Claim, usages: Iterable[QuotaUsage] | None = None) -> list[ReservedQuota]:
    """Return the quotas that the claim counts against; `usages` are those of its team, if it was read."""
    charge = {row.device_class: row.devices for row in claim.charges.all()}
    profiles = {row.profile_version.profile_id: row.devices for row in claim.alternative_rows}
    profiles = profiles or {claim.profile_version.profile_id: claim.devices * claim.parallel}

    def requested(quota: Quota) -> int | None:
        if quota.profile_id:
            return profiles.get(quota.profile_id)
        return charge.get(quota.device_class) if quota.device_class else claim.parallel

    usages = team_usage([claim.team]) if usages is None else usages
    rows = [(usage, requested(usage.quota)) for usage in sorted(usages, key=lambda usage: usage.quota.pk)]
    return [ReservedQuota(usage, count) for usage, count in rows if count is not None]


@dataclass(frozen=True, slots=True)
class DecisionPreview:
    """
    What a decision on one request would do.

    `effects` says what an approval does, `warning` what speaks against it, `blocked_reason` why this person
    cannot decide.
    """

    item: Item
    request: InboxRequest
    effects: tuple[str, ...] = ()
    warning: str = ""
    blocked_reason: str = ""


def preview_decisions(inbox: Inbox, selection: Selection) -> list[DecisionPreview]:
    """
    Return what a decision on each request would do now. The number of queries grows only with the extensions
    of teams that have a blocking budget.
    """
    teams = {request.claim.team_id for request in selection if isinstance(request, Extension)}
    blocking = blocking_teams(teams) if teams else set()
    return [_preview_one(inbox, selection.items[request.pk], request, blocking) for request in selection]


def total_effects(previews: Iterable[DecisionPreview]) -> list[str]:
    """Return the effects of all approvals together, on each quota."""
    requests = [preview.request for preview in previews if not preview.blocked_reason]
    return [
        *_claim_totals([request for request in requests if isinstance(request, Claim)]),
        *_extension_totals([request for request in requests if isinstance(request, Extension)]),
        *_quota_totals([request for request in requests if isinstance(request, QuotaRequest)]),
    ]


def _preview_one(
    inbox: Inbox, item: Item, request: InboxRequest, blocking: Collection[UUID]
) -> DecisionPreview:
    if reason := _blocked_reason(inbox, item, request):
        return DecisionPreview(item, request, blocked_reason=reason)
    if isinstance(request, Claim):
        return DecisionPreview(item, request, tuple(_claim_effects(inbox.authority, request)))
    if isinstance(request, Extension):
        return _preview_extension(item, request, may_block=request.claim.team_id in blocking)
    return _preview_quota_request(item, request)


def _blocked_reason(inbox: Inbox, item: Item, request: InboxRequest) -> str:
    if item.decision:
        return f"Already decided: {item.decision}."
    if isinstance(request, Claim):
        return inbox.authority.reason_not_to_decide(request)
    if isinstance(request, Extension):
        return inbox.authority.reason_not_to_decide(request.claim, requester_id=request.requested_by_id)
    return "" if inbox.user.is_superuser else "Only platform admins decide on quota."


def _claim_effects(authority: ApprovalAuthority, claim: Claim) -> Iterable[str]:
    effective_rule = authority.rules.for_claim(claim)
    stage, first_approval = approval_stage(claim, effective_rule)
    if effective_rule.approval == Approval.BOTH and stage == Approval.LEAD:
        yield "You give the first approval; a platform admin gives the second."
    elif first_approval is not None:
        yield "You give the second approval."
    for reserved in reserved_quotas(claim):
        yield reserved.sentence


def _preview_extension(item: Item, extension: Extension, *, may_block: bool) -> DecisionPreview:
    claim, until = extension.claim, extension.until
    end = claim.expires_at or extension.previous_end
    effect = f"Expires on {moment(until)} instead of {moment(end)}: {duration(until - end)} longer."
    if claim.state not in RUNNING or until <= timezone.now():
        return DecisionPreview(item, extension, warning="It has ended; there is nothing left to extend.")
    if until <= end:
        return DecisionPreview(item, extension, warning=f"It already runs until {moment(end)}.")
    if may_block and (refusal := refusal_sentence(extension_lines(extension))):
        return DecisionPreview(item, extension, warning=refusal)
    warning = reason_not_to_extend(claim)
    if not warning and extension.exceeds_max_duration:
        version = claim.profile_version
        warning = (
            f"Total duration {duration(extension.total_duration)}; {version.profile} allows "
            f"{duration(version.max_duration)}."
        )
    return DecisionPreview(item, extension, (effect,), warning)


def _preview_quota_request(item: Item, quota_request: QuotaRequest) -> DecisionPreview:
    if quota_request.budget_id:
        return DecisionPreview(item, quota_request, (extra_effect(quota_request).sentence,))
    impact = request_impact(quota_request)
    period = until_words(quota_request.until)
    effect = f"Limit of {impact.label}: {impact.before} → {impact.after}, {period}."
    warning = ""
    if impact.more <= 0:
        warning = f"The team already has a limit of {impact.before}; there is nothing left to approve."
    elif impact.overcommitted:
        warning = f"Limits of all teams exceed capacity by {counted(impact.overcommitted, 'device')}."
    return DecisionPreview(item, quota_request, (effect,), warning)


def _claim_totals(claims: Sequence[Claim]) -> Iterable[str]:
    charged: Counter[tuple[UUID, str]] = Counter()
    for claim in claims:
        for row in claim.charges.all():
            charged[claim.team_id, row.device_class] += row.devices
    for usage in team_usage({claim.team for claim in claims}) if claims else ():
        if count := charged[usage.quota.team_id, usage.quota.device_class]:
            yield (
                f"{usage.team} would use {usage.used} of {usage.limit} {usage.label} devices, {count} of "
                "them for these requests."
            )


def _extension_totals(extensions: Sequence[Extension]) -> Iterable[str]:
    devices: Counter[tuple[str, str]] = Counter()
    device_hours: defaultdict[tuple[str, str], float] = defaultdict(float)
    for extension in extensions:
        claim = extension.claim
        longer = max(
            (extension.until - (claim.expires_at or extension.previous_end)).total_seconds() / 3600, 0
        )
        for row in claim.charges.all():
            key = (claim.team.slug, row.device_class)
            devices[key] += row.devices
            device_hours[key] += row.devices * longer
    for (team, label), count in sorted(devices.items()):
        hours = device_hours[team, label]
        yield f"{team} would keep {count} × {label} longer: {hours:.0f} device-hours in total."


def _quota_totals(quota_requests: Sequence[QuotaRequest]) -> Iterable[str]:
    for quota_request in quota_requests:
        if quota_request.budget_id:
            yield extra_effect(quota_request).sentence
            continue
        impact = request_impact(quota_request)
        yield f"{quota_request.team}: limit of {impact.label} {impact.before} → {impact.after}."
