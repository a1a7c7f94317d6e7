"""
What the approval card shows of a pending request: quota, devices, price, cheaper profiles and past use.

`settings.PAST_UTILIZATION` names the function that reads utilization. Without a measurement there is no
telemetry, which is not the same as no use.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q
from django.utils import timezone
from django.utils.module_loading import import_string

from claims.approvals.authority import effective_rule_on
from claims.approvals.rules import approver_label
from claims.catalogue.listing import DeviceKind, kinds_for, max_prices
from claims.inbox.bulk import ReservedQuota, reserved_quotas
from claims.match_page import FunnelRow, funnel_rows
from claims.models import Allocation, Claim, ClaimCharge
from claims.requests.suggestions import suggestions_for
from claims.states import FINAL, QUEUED, ClaimState
from core.text import counted
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from inventory.cluster_snapshot import current_snapshot
from inventory.freshness import OF_DEVICES, Age, ages
from teams.models import Team, User

LOOKBACK = timedelta(days=90)
MAX_PAST_CLAIMS = 5


@dataclass(frozen=True, slots=True)
class PastUse:
    """Claims of the last 90 days, the GPU-hours that they held, and the mean utilization of their devices."""

    claims: int
    gpu_hours: float
    utilization: float | None

    @property
    def sentence(self) -> str:
        if not self.claims:
            return "No claim in the last 90 days."
        claims = f"{counted(self.claims, 'claim')} in the last 90 days held {self.gpu_hours:.0f} GPU-hours"
        if self.utilization is None:
            return f"{claims}; no telemetry."
        return f"{claims}; mean utilization {round(self.utilization * 100)} %."


def past_use(person: User, team: Team) -> PastUse:
    """Return what `person` held for `team` in the last 90 days; three queries."""
    now = timezone.now()
    since = now - LOOKBACK
    held = Q(allocations__ended_at=None) | Q(allocations__ended_at__gt=since)
    requested = Claim.objects.filter(requested_by=person, team=team)
    recent = Q(created_at__gte=since) | (Q(allocations__isnull=False) & held)
    claims = list(requested.filter(recent).distinct())
    seconds = 0.0
    rows = Allocation.objects.filter(claim__in=claims).filter(Q(ended_at=None) | Q(ended_at__gt=since))
    for start, end, fraction in rows.values_list("started_at", "ended_at", "fraction"):
        seconds += (min(end or now, now) - max(start, since)).total_seconds() * float(fraction)
    utilization: float | None = import_string(settings.PAST_UTILIZATION)(claims, since) if claims else None
    return PastUse(len(claims), seconds / 3600, utilization)


@dataclass(frozen=True)
class Impact:
    quotas: list[ReservedQuota]
    match: match.Preview
    funnel: list[FunnelRow]
    kinds: frozenset[DeviceKind]
    age: Age
    share: str
    queue: str
    past_claims: str
    past_use: str
    cheaper: str
    cheaper_slug: str
    short_reason: str  # why approval is required, in a word
    rule: str  # the sentence of the rule that requires it
    approver: str  # "a team lead"


def claim_impact(claim: Claim) -> Impact:
    """Return the rows of the card of a pending claim."""
    snapshot = current_snapshot(claim.cluster)
    preview = match.preview(snapshot, claim.spec, claims=claim.parallel)
    effective_rule = effective_rule_on(claim)
    kinds = kinds_for(claim.cluster_id, snapshot, claim.spec)
    cheaper, cheaper_slug = cheaper_profile(claim, snapshot, kinds)
    return Impact(
        quotas=reserved_quotas(claim),
        match=preview,
        funnel=funnel_rows(preview),
        kinds=kinds,
        age=ages(OF_DEVICES, cluster=claim.cluster)[0],
        share=share_of_free(claim, preview.free),
        queue=queue_sentence(claim),
        past_claims=past_claims(claim),
        past_use=past_use(claim.requested_by, claim.team).sentence,
        cheaper=cheaper,
        cheaper_slug=cheaper_slug,
        short_reason=effective_rule.short_reason or "sent back",
        rule=effective_rule.sentence if effective_rule.short_reason else "The cluster refused it.",
        approver=approver_label(effective_rule.approval),
    )


def share_of_free(claim: Claim, free: int | None) -> str:
    """Return how many of the free devices the request needs; `free` is None if it is unknown."""
    if free is None:
        return "Unknown: free devices cannot be counted for this spec."
    needed = claim.devices * claim.parallel
    return f"{needed} of {counted(free, 'free matching device')}; {max(free - needed, 0)} left."


def cheaper_profile(claim: Claim, snapshot: ClusterSnapshot, kinds: frozenset[DeviceKind]) -> tuple[str, str]:
    """Return a sentence on the cheapest profile that fits now and costs less, and its slug; "" if none."""
    if claim.together:
        return "", ""  # no single profile replaces several
    suggestions = suggestions_for(
        team=claim.team,
        cluster=claim.cluster,
        snapshot=snapshot,
        chosen=[claim.profile_version.profile],
        devices=claim.devices,
        parallel=claim.parallel,
        delivery=claim.delivery,
    )
    own, *others = max_prices([kinds, *(suggestion.kinds for suggestion in suggestions)])
    if own is None:
        return "", ""
    priced = [
        (price * suggestion.devices, suggestion)
        for price, suggestion in zip(others, suggestions, strict=True)
        if price is not None and suggestion.devices <= claim.devices
    ]
    cheapest = min(priced, key=lambda option: option[0], default=None)
    if cheapest is None or cheapest[0] >= own * claim.devices:
        return "", ""
    price, suggestion = cheapest
    saving = round(100 - 100 * price / (own * claim.devices))
    free = counted(suggestion.free, "matching device")
    sentence = f"{suggestion.profile.title} costs {saving} % less and fits now: {free} free."
    return sentence, suggestion.profile.slug


def queue_sentence(claim: Claim) -> str:
    """Return how many claims wait for the same classes in the same cluster, without names of other teams."""
    classes = [row.device_class for row in claim.charges.all()]
    charged = ClaimCharge.objects.filter(claim=OuterRef("pk"), device_class__in=classes, live=True)
    same = Claim.objects.filter(Exists(charged), cluster=claim.cluster, state__in=QUEUED)
    waiting = same.exclude(pk=claim.pk).aggregate(
        requests=Count("pk", filter=Q(state=ClaimState.REQUESTED)),
        of_team=Count("pk", filter=Q(state=ClaimState.REQUESTED, team=claim.team)),
        pods=Count("pk", filter=Q(state=ClaimState.PROVISIONED)),
    )
    sentences = []
    if count := waiting["requests"]:
        others = counted(count, "other request waits", "other requests wait")
        sentences.append(f"{others} for a decision, {waiting['of_team']} of {claim.team}.")
    if count := waiting["pods"]:
        sentences.append(f"{counted(count, 'approved claim waits', 'approved claims wait')} for a pod.")
    return " ".join(sentences) or "No other claim waits for these devices."


def past_claims(claim: Claim) -> str:
    """Return how the last claims of the requester in the team ended."""
    person = claim.requested_by
    ended = Claim.objects.filter(requested_by=person, team=claim.team, state__in=FINAL)
    states = list(ended.order_by("-state_since").values_list("state", flat=True)[:MAX_PAST_CLAIMS])
    if not states:
        return f"{person.label} has no earlier claim in {claim.team}."
    counts = ", ".join(
        f"{states.count(state)} {ClaimState(state).label.lower()}" for state in dict.fromkeys(states)
    )
    claims = "Last claim" if len(states) == 1 else f"Last {len(states)} claims"
    return f"{claims} of {person.label}: {counts}."
