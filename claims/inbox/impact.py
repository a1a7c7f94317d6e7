"""
What a decision would do: quota, price, past use, cheaper profiles, devices.

What a person did with what they had, for those who decide on more.

Measurements come from `settings.PAST_UTILIZATION`; where there are none, it is "no telemetry", not 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from django.conf import settings
from django.db.models import Count, Q
from django.utils import timezone
from django.utils.module_loading import import_string

from claims.approvals.authority import ruling_on
from claims.approvals.rules import whom
from claims.catalogue.listing import DeviceKind, kinds_for, max_prices
from claims.inbox.bulk import Reserved, reserved_in
from claims.match_page import FunnelRow, funnel_rows
from claims.models import Allocation, Claim
from claims.requests.suggestions import suggestions_for
from claims.states import FINAL, ClaimState
from core.text import counted
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from inventory.cluster_snapshot import current_snapshot
from inventory.freshness import OF_DEVICES, Age, ages
from teams.models import Team, User

LOOKED_BACK = timedelta(days=90)


@dataclass(frozen=True, slots=True)
class PastUse:
    """Claims of the last 90 days, the GPU-hours that they held, and how active the devices were."""

    claims: int
    gpu_hours: float
    activity: float | None

    @property
    def sentence(self) -> str:
        if not self.claims:
            return "No claim in the last 90 days."
        held = f"{counted(self.claims, 'claim')} in the last 90 days held {self.gpu_hours:.0f} GPU-hours"
        if self.activity is None:
            return f"{held}; no telemetry."
        return f"{held}; mean activity {round(self.activity * 100)} %."


def past_use(person: User, team: Team) -> PastUse:
    """Look at what `person` held for `team` in the last 90 days; three queries."""
    now = timezone.now()
    since = now - LOOKED_BACK
    held = Q(allocations__ended_at=None) | Q(allocations__ended_at__gt=since)
    asked = Claim.objects.filter(requested_by=person, team=team)
    recent = Q(created_at__gte=since) | (Q(allocations__isnull=False) & held)
    claims = list(asked.filter(recent).distinct())
    seconds = 0.0
    rows = Allocation.objects.filter(claim__in=claims).filter(Q(ended_at=None) | Q(ended_at__gt=since))
    for begun, ended, fraction in rows.values_list("started_at", "ended_at", "fraction"):
        seconds += (min(ended or now, now) - max(begun, since)).total_seconds() * float(fraction)
    activity: float | None = import_string(settings.PAST_UTILIZATION)(claims, since) if claims else None
    return PastUse(len(claims), seconds / 3600, activity)


REMEMBERED = 5  # earlier claims of the person that are looked at


@dataclass(frozen=True)
class Impact:
    quotas: list[Reserved]
    match: match.Preview
    funnel: list[FunnelRow]
    kinds: frozenset[DeviceKind]
    age: Age
    share: str
    waiting: str
    past: str
    use: str
    cheaper: str
    cheaper_slug: str
    why: tuple[str, str]  # in a word, and the sentence of the rule that asks
    who: str  # decides by it


def impact_of(claim: Claim) -> Impact:
    """Work out the rows of the card for a request that waits."""
    snapshot = current_snapshot(claim.cluster)
    found = match.preview(snapshot, claim.spec, claims=claim.parallel)
    ruling = ruling_on(claim)
    kinds = kinds_for(claim.cluster_id, snapshot, claim.spec)
    cheaper, slug = cheaper_than(claim, snapshot, kinds)
    return Impact(
        quotas=reserved_in(claim),
        match=found,
        funnel=funnel_rows(found),
        kinds=kinds,
        age=ages(OF_DEVICES, cluster=claim.cluster)[0],
        share=share_of(claim, found),
        waiting=others_waiting(claim),
        past=past_of(claim),
        use=past_use(claim.requested_by, claim.team).sentence,
        cheaper=cheaper,
        cheaper_slug=slug,
        why=(ruling.word or "sent back", ruling.sentence if ruling.word else "The cluster refused it."),
        who=whom(ruling.approval),
    )


def share_of(claim: Claim, found: match.Preview) -> str:
    """Say how much of what is free now this would take; unknown stays unknown."""
    if found.free is None:
        return "What is free cannot be told for this specification."
    needs = claim.devices * claim.parallel
    left = max(found.free - needs, 0)
    return (
        f"{needs} of {found.free} free device that matches; {left} stays free."
        if found.free == 1
        else f"{needs} of {found.free} free devices that match; {left} stay free."
    )


def cheaper_than(claim: Claim, snapshot: ClusterSnapshot, kinds: frozenset[DeviceKind]) -> tuple[str, str]:
    """Name the cheapest profile that fits now and costs less, and its slug; empty where none is known to."""
    if claim.together:
        return "", ""  # no single profile gives what several do
    offers = suggestions_for(
        team=claim.team,
        cluster=claim.cluster,
        snapshot=snapshot,
        chosen=[claim.profile_version.profile],
        devices=claim.devices,
        parallel=claim.parallel,
        delivery=claim.delivery,
    )
    own, *others = max_prices([kinds, *(offer.kinds for offer in offers)])
    if own is None:
        return "", ""
    known = [
        (price * offer.devices, offer)
        for price, offer in zip(others, offers, strict=True)
        if price is not None and offer.devices <= claim.devices
    ]
    best = min(known, key=lambda one: one[0], default=None)
    if best is None or best[0] >= own * claim.devices:
        return "", ""
    price, offer = best
    less = round(100 - 100 * price / (own * claim.devices))
    free = counted(offer.free, "of its devices is", "of its devices are")
    return f"{offer.profile.title} costs {less} % less and fits now; {free} free.", offer.profile.slug


def others_waiting(claim: Claim) -> str:
    """Count claims that wait for the same classes in the same cluster; other teams' names stay theirs."""
    classes = [row.device_class for row in claim.charges.all()]
    same = Claim.objects.filter(cluster=claim.cluster, charges__device_class__in=classes).exclude(pk=claim.pk)
    waiting = same.aggregate(
        requests=Count("pk", filter=Q(state=ClaimState.REQUESTED), distinct=True),
        mine=Count("pk", filter=Q(state=ClaimState.REQUESTED, team=claim.team), distinct=True),
        pods=Count("pk", filter=Q(state=ClaimState.PROVISIONED), distinct=True),
    )
    said = []
    if count := waiting["requests"]:
        said.append(
            f"{count} other request waits for a decision, {waiting['mine']} of {claim.team}."
            if count == 1
            else (f"{count} other requests wait for a decision, {waiting['mine']} of them of {claim.team}.")
        )
    if count := waiting["pods"]:
        said.append(f"{counted(count, 'approved claim waits', 'approved claims wait')} for a pod.")
    return " ".join(said) or "Nobody else waits for these devices."


def past_of(claim: Claim) -> str:
    """Say how the last claims of the person ended."""
    ended = Claim.objects.filter(requested_by=claim.requested_by, team=claim.team, state__in=FINAL)
    states = list(ended.order_by("-state_since").values_list("state", flat=True)[:REMEMBERED])
    if not states:
        return f"{claim.requested_by.label} has no earlier claim in {claim.team}."
    words = ", ".join(
        f"{states.count(state)} {ClaimState(state).label.lower()}" for state in dict.fromkeys(states)
    )
    return (
        f"The last claim of {claim.requested_by.label}: {words}."
        if len(states) == 1
        else f"The last {len(states)} claims of {claim.requested_by.label}: {words}."
    )
