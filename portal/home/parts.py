"""
The panels of Home: free profiles, clusters and the reader's claims.

Claims that hold devices come first, by the time at which they expire; those that ended in the past week last.
"""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import (
    Case,
    Count,
    Exists,
    F,
    IntegerField,
    OuterRef,
    Q,
    Subquery,
    TextField,
    Value,
    When,
    Window,
)
from django.urls import reverse

from claims.access import reason_not_to_release
from claims.catalogue.listing import CatalogueEntry, counted_catalogue
from claims.catalogue.waits import waits_of
from claims.inbox.comments import OPEN_QUESTION
from claims.models import Allocation, Alternative, Claim, ClaimQuerySet, Delivery
from claims.states import FINAL, LIVE, RUNNING, USABLE, ClaimState
from core.prepared import PreparedObjects
from dra.devices import model_name
from inventory.models import Pod
from portal.context import Shell
from teams.access import user_of
from teams.models import Role, Team, User
from usage.idle.services import reason_not_to_snooze
from usage.models import IdlePeriod, IdlePolicy
from usage.rates import RateCard
from usage.reports import UNREAD, ClaimCost, claim_cost
from usage.samples import BUCKET, bucket_start
from usage.telemetry import Utilization, current_utilization, recent_utilization

FREE_ROWS = 6


@dataclass(frozen=True, slots=True)
class FreeProfiles:
    """
    The profiles that are shown; `count` is the number of all that are not retired. `reason` says why none may
    be requested, "" if some may.
    """

    rows: list[CatalogueEntry]
    count: int
    reason: str


def free_profiles(user: User, mine: Iterable[Claim]) -> FreeProfiles:
    """
    Return the profiles that are of most use to the reader: those that `user` may request, first those of the
    shown claims, then those with free devices.
    """
    used = {claim.profile_version.profile_id for claim in mine}

    def order(entry: CatalogueEntry) -> tuple[bool, bool, str]:
        return entry.profile.pk not in used, not entry.free, entry.profile.title

    offered = [entry for entry in counted_catalogue(user) if entry.profile.retired_at is None]
    allowed = [entry for entry in offered if entry.may_request]
    reasons = set() if allowed else {entry.reason for entry in offered}
    reason = "Your teams may request none of the profiles." if reasons else ""
    if len(reasons) == 1:
        (reason,) = reasons
    shown = [
        replace(entry, waits=waits_of(entry.profile)) for entry in sorted(allowed, key=order)[:FREE_ROWS]
    ]
    return FreeProfiles(shown, len(offered), reason)


MAX_CLAIMS = 1000  # that can need the reader; nobody has as many, and one more would be read in vain
SHOWN_CLAIMS = 6
SHOWN_AFTER_END = timedelta(days=7)  # how long a closed claim stays on the page
SPARKLINE_SPAN = timedelta(hours=2)


class PendingPod(NamedTuple):
    name: str
    created_at: datetime | None


@dataclass(frozen=True, slots=True)
class OwnClaim:
    """
    `pod` is the oldest pod that waits for the devices of a claim that holds none.
    `spark` is the utilization of the last two hours in steps of five minutes; None is no telemetry.
    `question` is the text of a question that waits for an answer, else empty. `is_snoozed` is whether an idle
    claim is left alone for now, `snooze_for` how long a snooze would last, None if it cannot be snoozed.
    """

    claim: Claim
    utilization: Utilization
    cost: ClaimCost
    held: list[Allocation]
    spark: list[float | None]
    question: str
    is_snoozed: bool = False
    snooze_for: timedelta | None = None
    pod: PendingPod | None = None

    @property
    def products(self) -> list[str]:
        """Return the held devices, as "2 × H100"."""
        counts: dict[str, int] = defaultdict(int)
        for allocation in self.held:
            if allocation.ended_at is None:
                name = f"{model_name(allocation.product)} {allocation.part}".strip()
                counts[name or allocation.device] += 1
        return [f"{count} × {name}" for name, count in counts.items()]

    @property
    def is_measured(self) -> bool:
        return any(value is not None for value in self.spark)


@dataclass(frozen=True, slots=True)
class MyClaims:
    """The first claims of the reader; `count` is the number of all that are live or ended recently."""

    rows: list[OwnClaim]
    count: int
    now: datetime

    @property
    def live(self) -> int:
        """How many of them are live, as the sidebar counts them."""
        return sum(not row.claim.is_final for row in self.rows)

    @property
    def shown(self) -> list[OwnClaim]:
        return self.rows[:SHOWN_CLAIMS]

    def digest(self, more: Iterable[str]) -> str:
        """Return a text that changes with everything shown but relative times and growing costs."""
        parts: list[object] = [self.count, *more]
        for row in self.rows:
            utilization = row.utilization
            parts += [
                row.claim.pk,
                row.claim.version,
                row.claim.problem,
                utilization.use,
                utilization.percent,
                utilization.idle_since,
            ]
            parts += [row.products, row.cost.per_hour.amounts, row.claim.expires_at]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def shown_claims(user: User, since: datetime) -> ClaimQuerySet:
    """Return the live claims of `user`, and those that ended after `since`."""
    own = Claim.objects.visible_to(user).filter(requested_by=user)
    return own.filter(~Q(state__in=FINAL) | Q(state_since__gte=since))


@cache
def _own_claims(*, is_admin: bool) -> PreparedObjects[Claim]:
    """Return the query of the claims that Home shows: first those that cost money, closed ones last."""
    ranks = [When(state=state, then=Value(rank)) for rank, state in enumerate(reversed(LIVE))]
    question = Subquery(OPEN_QUESTION.order_by("-at").values("text")[:1])
    is_open = When(state=ClaimState.REQUESTED, then=question)

    def build(person: UUID, since: datetime) -> ClaimQuerySet:
        shown = shown_claims(User(pk=person, is_superuser=is_admin), since).annotate(
            rank=Case(*ranks, default=Value(len(LIVE)), output_field=IntegerField()),
            number=Window(Count("pk")),
            question=Case(is_open, default=Value(""), output_field=TextField()),
            has_alternatives=Exists(Alternative.objects.filter(claim=OuterRef("pk"))),
        )
        ordered = shown.order_by("rank", F("expires_at").asc(nulls_last=True), "-created_at", "-id")
        return ordered.for_list().defer(*UNREAD)[:MAX_CLAIMS]

    return PreparedObjects(build, UUID, datetime)


@cache
def _team_claims() -> PreparedObjects[Claim]:
    """Return the query of the live claims of a team: first those that hold devices, by expiry."""
    ranks = [When(state=state, then=Value(rank)) for rank, state in enumerate(reversed(LIVE))]

    def build(team: UUID) -> ClaimQuerySet:
        shown = Claim.objects.live().filter(team=team)
        annotated = shown.annotate(
            rank=Case(*ranks, default=Value(len(LIVE)), output_field=IntegerField()),
            number=Window(Count("pk")),
            question=Value(""),
            has_alternatives=Exists(Alternative.objects.filter(claim=OuterRef("pk"))),
        )
        ordered = annotated.order_by("rank", F("expires_at").asc(nulls_last=True), "-created_at", "-id")
        return ordered.for_list().defer(*UNREAD)[:SHOWN_CLAIMS]

    return PreparedObjects(build, UUID)


ALTERNATIVES: PreparedObjects[Alternative] = PreparedObjects(
    lambda claim: (
        Alternative.objects.filter(claim=claim)
        .select_related("profile_version__profile")
        .defer("profile_version__spec")
    ),
    UUID,
    any_of="claim_id",
)
ALLOCATIONS: PreparedObjects[Allocation] = PreparedObjects(
    lambda claim: Allocation.objects.gpus().filter(claim=claim).order_by("started_at", "device"),
    UUID,
    any_of="claim_id",
)

IDLE_PERIODS: PreparedObjects[IdlePeriod] = PreparedObjects(
    lambda claim: IdlePeriod.objects.lasting().filter(claim=claim),
    UUID,
    any_of="claim_id",
)


def my_claims(user: User, card: RateCard, *, now: datetime) -> MyClaims:
    """
    Return the claims of `user`, in four queries for any number of claims, two more if some are idle, and one
    more if some wait for a device.
    """
    shown = _own_claims(is_admin=user.is_superuser).objects(user.pk, now - SHOWN_AFTER_END)
    mine = _summaries(shown, card, now=now)
    return replace(mine, rows=_with_pods(_with_snoozes(mine.rows, now)))


def _with_pods(rows: list[OwnClaim]) -> list[OwnClaim]:
    """Set the pending pod of the claims that wait for a device, and since when it is pending."""
    waiting = {row.claim.pk: row.claim for row in rows if row.claim.state == ClaimState.PROVISIONED}
    if not waiting:
        return rows
    names = Q(pk__in=[])
    for claim in waiting.values():
        uses = "templates" if claim.delivery == Delivery.TEMPLATE else "claims"
        names |= Q(cluster=claim.cluster_id, namespace=claim.namespace, **{f"{uses}__contains": [claim.name]})
    pods: dict[tuple[UUID, str, str], PendingPod] = {}
    pending = Pod.objects.filter(names, gone_at=None, phase="Pending").order_by("-created_at")
    columns = ("cluster", "namespace", "name", "created_at", "claims", "templates")
    for cluster, namespace, name, created_at, claims, templates in pending.values_list(*columns):
        for used in (*claims, *templates):
            pods[cluster, namespace, used] = PendingPod(name, created_at)
    return [
        replace(row, pod=pods.get((row.claim.cluster_id, row.claim.namespace, row.claim.name)))
        if row.claim.pk in waiting
        else row
        for row in rows
    ]


def _with_snoozes(rows: list[OwnClaim], now: datetime) -> list[OwnClaim]:
    idle = [row.claim.pk for row in rows if row.utilization.is_idle]
    periods = {period.claim_id: period for period in IDLE_PERIODS.objects(idle)} if idle else {}
    if not periods:
        return rows
    policy = IdlePolicy.load()

    def with_snooze(row: OwnClaim) -> OwnClaim:
        period = periods.get(row.claim.pk)
        if period is None:
            return row
        is_snoozed = period.snoozed_until is not None and period.snoozed_until > now
        may = not reason_not_to_snooze(period, policy, now)
        return replace(row, is_snoozed=is_snoozed, snooze_for=policy.snooze_for if may else None)

    return [with_snooze(row) for row in rows]


def team_claims(team: Team, card: RateCard, *, now: datetime) -> MyClaims:
    """Return the first live claims of a team that the reader may see, in four queries."""
    return _summaries(_team_claims().objects(team.pk), card, now=now)


def _summaries(shown: list[Any], card: RateCard, *, now: datetime) -> MyClaims:
    alternatives: dict[UUID, list[Alternative]] = defaultdict(list)
    several = [claim.pk for claim in shown if claim.has_alternatives]
    for row in ALTERNATIVES.objects(several) if several else ():
        alternatives[row.claim_id].append(row)
    for claim in shown:
        claim.listed_alternatives = alternatives[claim.pk]
    held: dict[UUID, list[Allocation]] = defaultdict(list)
    ids = [claim.pk for claim in shown]
    for allocation in ALLOCATIONS.objects(ids) if ids else ():
        held[allocation.claim_id].append(allocation)
    holding = {claim_id for claim_id, rows in held.items() if any(row.ended_at is None for row in rows)}
    first = bucket_start(now - SPARKLINE_SPAN)
    buckets = [first + index * BUCKET for index in range(SPARKLINE_SPAN // BUCKET + 1)]
    measured = recent_utilization(shown, now=now, since=first)
    utilization = current_utilization(shown, now=now, holding=holding, measured=measured)
    rows = [
        OwnClaim(
            claim,
            utilization[claim.pk],
            claim_cost(claim, held[claim.pk], card, now=now),
            held[claim.pk],
            [measured[claim.pk].recent.get(bucket) for bucket in buckets]
            if claim.state == ClaimState.ALLOCATED and claim.pk in measured
            else [],
            claim.question or "",
        )
        for claim in shown
    ]
    return MyClaims(rows, shown[0].number if shown else 0, now)


# The menu of each claim: the actions that the page of the claim offers in its state.


class MenuAction(NamedTuple):
    label: str
    icon: str
    url: str


def claims_with_menus(shell: Shell, mine: MyClaims) -> list[tuple[OwnClaim, list[MenuAction]]]:
    """Return the shown claims, each with the actions of the reader; no query."""
    replaced = {row.claim.replaces_id for row in mine.rows if not row.claim.is_final}
    return [(row, claim_actions(shell, row.claim, replaced)) for row in mine.shown]


def claim_actions(shell: Shell, claim: Claim, replaced: Collection[UUID | None]) -> list[MenuAction]:
    """Return what the reader may do; a claim that is being `replaced` cannot be extended."""
    role = Role.OWNER if shell.is_admin else shell.roles.get(claim.team)
    if reason_not_to_release(user_of(shell.request), claim, role):
        return []
    if claim.state == ClaimState.REQUESTED:
        return [_action("Withdraw…", "arrow-back-up", "claims:withdraw", claim)]
    if claim.state not in RUNNING:
        return []
    actions = []
    if claim.state in USABLE:
        manifest = reverse("claims:detail", args=[claim.pk])
        actions.append(MenuAction("Get the manifest", "code", f"{manifest}#snippets"))
    if claim.expires_at and claim.pk not in replaced:
        actions.append(_action("Extend…", "calendar-plus", "claims:extend", claim))
    if claim.expires_at and not claim.is_in_grace:
        actions.append(_action("Shorten…", "clock-pause", "claims:shorten", claim))
    return [
        *actions,
        _action("Transfer…", "user-check", "claims:transfer", claim),
        _action("Release…", "player-eject", "claims:release", claim),
    ]


def _action(label: str, icon: str, name: str, claim: Claim) -> MenuAction:
    return MenuAction(label, icon, reverse(name, args=[claim.pk]))
