"""
What the approval card shows of a pending request: quota, devices, price, cheaper profiles and past use.

`settings.PAST_UTILIZATION` names the function that reads utilization. Without a measurement there is no
telemetry, which is not the same as no use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import (
    FilteredRelation,
    OuterRef,
    Q,
    QuerySet,
    prefetch_related_objects,
)
from django.utils import timezone
from django.utils.module_loading import import_string

from claims.approvals.authority import effective_rule_on
from claims.approvals.rules import EffectiveRule, approver_label
from claims.catalogue.listing import DeviceKind, kinds_for, max_prices
from claims.inbox.bulk import ReservedQuota, reserved_quotas
from claims.match_page import FunnelRow, funnel_rows
from claims.models import AtLimit, Claim, ClaimCharge
from claims.quotas.quota_usage import QuotaUsage, team_usage
from claims.requests.budget_check import BudgetLine, approval_sentence, lines_of_claim
from claims.requests.suggestions import fitting_profiles
from claims.states import FINAL, QUEUED, ClaimState
from core.prepared import Prepared, Statement
from core.text import counted
from dra import match
from dra.cluster_snapshot import ClusterSnapshot
from dra.devices import is_gpu
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
        claims = f"{counted(self.claims, 'claim')} in the last 90 days held {self.gpu_hours:,.0f} GPU-hours"
        if self.utilization is None:
            return f"{claims}; no telemetry."
        return f"{claims}; mean utilization {round(self.utilization * 100)} %."


def past_use(person: User, team: Team) -> PastUse:
    """Return what `person` held for `team` in the last 90 days."""
    now = timezone.now()
    since = now - LOOKBACK
    claims: set[UUID] = set()
    seconds = 0.0
    for claim, start, end, fraction, *device in PAST_ALLOCATIONS.rows(person.pk, team.pk, since):
        claims.add(claim)
        if start is not None and is_gpu(*device):
            seconds += (min(end or now, now) - max(start, since)).total_seconds() * float(fraction)
    utilization = import_string(settings.PAST_UTILIZATION)(list(claims), since) if claims else None
    return PastUse(len(claims), seconds / 3600, utilization)


def _past_allocations(person: UUID, team: UUID, since: datetime) -> QuerySet[Claim, Any]:
    """
    Return (claim, start, end, fraction, device) of what a person held for a team since then, and a row
    without an allocation for each claim that they requested since then.
    """
    recent = FilteredRelation(
        "allocations", condition=Q(allocations__ended_at=None) | Q(allocations__ended_at__gt=since)
    )
    claims = Claim.objects.filter(requested_by=person, team=team).annotate(recent=recent).order_by()
    claims = claims.filter(Q(created_at__gte=since) | Q(recent__isnull=False))
    columns = ("started_at", "ended_at", "fraction", "driver", "device", "product", "memory_bytes")
    return claims.values_list("pk", *(f"recent__{column}" for column in columns))


PAST_ALLOCATIONS = Prepared(_past_allocations, UUID, UUID, datetime)


@dataclass(frozen=True)
class Impact:
    quotas: list[ReservedQuota]
    budgets: list[BudgetLine]
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


def claim_impact(claim: Claim, effective_rule: EffectiveRule | None = None) -> Impact:
    """Return the rows of the card of a pending claim; `effective_rule` is its rule, if it was read."""
    prefetch_related_objects([claim], "charges")
    cluster = claim.cluster
    snapshot = current_snapshot(cluster, (cluster.revision, cluster.version))  # read with the claim
    preview = match.preview(snapshot, claim.spec, claims=claim.parallel)
    effective_rule = effective_rule or effective_rule_on(claim)
    kinds = kinds_for(claim.cluster_id, snapshot, claim.spec)
    usages = team_usage([claim.team])
    cheaper, cheaper_slug = cheaper_profile(claim, snapshot, kinds, usages)
    others = other_claims(claim)
    budgets = lines_of_claim(claim)
    for_budget = any(line.budget.at_limit == AtLimit.APPROVAL for line in budgets)
    return Impact(
        quotas=reserved_quotas(claim, usages),
        budgets=budgets,
        match=preview,
        funnel=funnel_rows(preview),
        kinds=kinds,
        age=ages(OF_DEVICES, cluster=cluster)[0],
        share=share_of_free(claim, preview.free),
        queue=queue_sentence(claim, others),
        past_claims=past_claims(claim, others),
        past_use=past_use(claim.requested_by, claim.team).sentence,
        cheaper=cheaper,
        cheaper_slug=cheaper_slug,
        short_reason=effective_rule.short_reason or ("over budget" if for_budget else "sent back"),
        rule=_reason(effective_rule, budgets, for_budget=for_budget),
        approver=approver_label(effective_rule.approval),
    )


def _reason(rule: EffectiveRule, budgets: Sequence[BudgetLine], *, for_budget: bool) -> str:
    """Return why a person decides: the rule, else a budget that asks for approval, else the cluster."""
    if rule.short_reason:
        return rule.sentence
    if for_budget:
        return approval_sentence(budgets) or "It exceeded the budget when it was sent; now it fits."
    return "The cluster refused it."


def share_of_free(claim: Claim, free: int | None) -> str:
    """Return how many of the free devices the request needs; `free` is None if it is unknown."""
    if free is None:
        return "Unknown: free devices cannot be counted for this spec."
    needed = claim.devices * claim.parallel
    return f"{needed} of {counted(free, 'free matching device')}; {max(free - needed, 0)} left."


def cheaper_profile(
    claim: Claim, snapshot: ClusterSnapshot, kinds: frozenset[DeviceKind], usages: Sequence[QuotaUsage]
) -> tuple[str, str]:
    """
    Return a sentence on the cheapest profile that gives as much, fits now and costs less, and its slug; "" if
    none. `usages` are the quotas of the team.
    """
    if claim.together:
        return "", ""  # no single profile replaces several
    suggestions = fitting_profiles(
        team=claim.team,
        cluster=claim.cluster,
        snapshot=snapshot,
        chosen=[claim.profile_version.profile],
        devices=claim.devices,
        parallel=claim.parallel,
        delivery=claim.delivery,
        usages=usages,
        satisfying=claim.spec,
    )
    if not suggestions:
        return "", ""
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


@dataclass(frozen=True, slots=True)
class OtherClaims:
    """Claims beside a pending one: how many wait for devices of its classes, and how earlier ones ended."""

    requests: int  # that wait for a decision, of all teams
    of_team: int  # of these requests
    pods: int  # approved claims that wait for a pod
    ended: list[str]  # states of the requester's last claims in the team, the latest first


def other_claims(claim: Claim) -> OtherClaims:
    classes = [row.device_class for row in claim.charges.all()]
    values = (claim.pk, claim.cluster_id, claim.team_id, claim.requested_by_id, classes)
    return OtherClaims(*OTHER_CLAIMS.rows(*values)[0])


def _other_claims(claim: UUID, cluster: UUID, team: UUID, person: UUID, device_class: str) -> Statement:
    """Return the row of `OtherClaims`. The classes of a claim are an array: a join reads all charges."""
    charges = ClaimCharge.objects.filter(claim=OuterRef("pk"), device_class=device_class).order_by()
    queued = Claim.objects.filter(cluster=cluster, state__in=QUEUED).exclude(pk=claim).order_by()
    classes = ArraySubquery(charges.values("device_class"))
    text, values = queued.values_list("state", "team", classes).query.sql_with_params()
    ended = Claim.objects.filter(requested_by=person, team=team, state__in=FINAL).order_by("-state_since")
    past, past_values = ended.values_list("state")[:MAX_PAST_CLAIMS].query.sql_with_params()
    sql = """SELECT count(*) FILTER (WHERE state = %s), count(*) FILTER (WHERE state = %s AND team = %s),
             count(*) FILTER (WHERE state = %s), ARRAY({})
             FROM ({}) AS queued(state, team, classes) WHERE classes <> '{{}}'"""
    requested, provisioned = ClaimState.REQUESTED.value, ClaimState.PROVISIONED.value
    return sql.format(past, text), (requested, requested, team, provisioned, *past_values, *values)


OTHER_CLAIMS = Prepared(_other_claims, UUID, UUID, UUID, UUID, str, any_of="device_class")


def queue_sentence(claim: Claim, others: OtherClaims) -> str:
    """Return how many claims wait for the same classes in the same cluster, without names of other teams."""
    sentences = []
    if others.requests:
        count = counted(others.requests, "other request waits", "other requests wait")
        sentences.append(f"{count} for a decision, {others.of_team} of {claim.team}.")
    if others.pods:
        sentences.append(f"{counted(others.pods, 'approved claim waits', 'approved claims wait')} for a pod.")
    return " ".join(sentences) or "No other claim waits for these devices."


def past_claims(claim: Claim, others: OtherClaims) -> str:
    """Return how the last claims of the requester in the team ended."""
    person, states = claim.requested_by, others.ended
    if not states:
        return f"{person.label} has no earlier claim in {claim.team}."
    counts = ", ".join(
        f"{states.count(state)} {ClaimState(state).label.lower()}" for state in dict.fromkeys(states)
    )
    claims = "Last claim" if len(states) == 1 else f"Last {len(states)} claims"
    return f"{claims} of {person.label}: {counts}."
