"""
The panels of Home: free profiles, clusters, spending of the month, and the reader's claims.

Claims that hold devices come first, by the time at which they expire; those that ended in the past week last.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from uuid import UUID

from django.db.models import Case, Count, F, IntegerField, Q, Subquery, TextField, Value, When, Window
from django.utils import timezone

from claims.catalogue.listing import CatalogueEntry, catalogue
from claims.inbox.comments import OPEN_QUESTION
from claims.models import Allocation, Claim, ClaimQuerySet
from claims.states import FINAL, LIVE, ClaimState
from dra.devices import model_name
from inventory.freshness import Age
from teams.models import Team, User
from usage.cost import Cost, total
from usage.models import Collection
from usage.rates import RateCard
from usage.reports import UNREAD, Month, Statement, active_zone, month_lines, statement
from usage.samples import BUCKET, bucket_start
from usage.telemetry import Observation, measurements, observe

FREE_ROWS = 6


@dataclass(frozen=True, slots=True)
class FreeProfiles:
    """The profiles that are shown; `count` is the number of all that are not retired."""

    rows: list[CatalogueEntry]
    count: int


def free_profiles(user: User, mine: Iterable[Claim]) -> FreeProfiles:
    """
    Return the profiles that are of most use to the reader: those that `user` may request, first those of the
    shown claims, then those with free devices.
    """
    used = {claim.profile_version.profile_id for claim in mine}
    offered: list[CatalogueEntry] = []

    def order(entry: CatalogueEntry) -> tuple[bool, bool, bool, str]:
        return not entry.may_request, entry.profile.pk not in used, not entry.free, entry.profile.title

    def first(entries: list[CatalogueEntry]) -> list[CatalogueEntry]:
        offered.extend(entry for entry in entries if entry.profile.retired_at is None)
        return sorted(offered, key=order)[:FREE_ROWS]

    return FreeProfiles(catalogue(user, choose=first), len(offered))


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """The age of a cluster's mirror and its last collection of telemetry, None if there was none."""

    age: Age
    collection: Collection | None

    @property
    def has_source(self) -> bool:
        return bool(self.age.cluster.metrics_url or self.age.cluster.prometheus_url)


def cluster_rows(ages: Iterable[Age]) -> list[ClusterRow]:
    """Return a row for the cluster of each age, in one query."""
    collections = {row.cluster_id: row for row in Collection.objects.all()}
    return [ClusterRow(age, collections.get(age.cluster.pk)) for age in ages]


MIN_FORECAST_SPAN = timedelta(days=3)  # a forecast from fewer days means nothing


@dataclass(frozen=True, slots=True)
class Spend:
    """
    What a team has spent this month, and the reader's part of it (`own`).

    `forecast` per currency is the amount so far ÷ the time so far × the whole month. It is empty in the first
    days of a month and if hours have no rate.
    """

    month: Month
    until: datetime
    total: Cost
    own: Cost | None
    forecast: dict[str, Decimal]


def monthly_spend(team: Team, user: User, card: RateCard, *, now: datetime) -> Spend:
    """Return the spending of this month in the reader's time zone, without reading the team's claims."""
    month = Month.of(timezone.localdate(now), active_zone())
    lines, until = month_lines(team, month, card, now=now), min(now, month.span.end)
    own = set(Claim.objects.filter(team=team, requested_by=user).order_by().values_list("pk", flat=True))
    costs = [line.cost for line in lines if line.claim_id in own]
    spent = total(line.cost for line in lines)
    return Spend(month, until, spent, total(costs) if costs else None, forecast(month, until, spent))


def forecast(month: Month, until: datetime, spent: Cost) -> dict[str, Decimal]:
    elapsed = until - month.span.start
    if elapsed < MIN_FORECAST_SPAN or spent.unpriced_held:
        return {}
    factor = Decimal((month.span.end - month.span.start) / elapsed)
    return {
        currency: (amount * factor).quantize(Decimal(1), ROUND_HALF_UP)
        for currency, amount in spent.amounts.items()
    }


MAX_CLAIMS = 16  # that can need the reader
SHOWN_CLAIMS = 6
SHOWN_AFTER_END = timedelta(days=7)  # how long a closed claim stays on the page
SPARKLINE_SPAN = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """
    `spark` is the utilization of the last two hours in steps of five minutes; None is no telemetry.
    `question` is the text of a question that waits for an answer, else empty.
    """

    claim: Claim
    observation: Observation
    statement: Statement
    held: list[Allocation]
    spark: list[float | None]
    question: str

    @property
    def products(self) -> list[str]:
        """Return the held devices, as "2 × H100"."""
        counts: dict[str, int] = defaultdict(int)
        for allocation in self.held:
            if allocation.ended_at is None:
                name = f"{model_name(allocation.product)} {allocation.partition}".strip()
                counts[name or allocation.device] += 1
        return [f"{count} × {name}" for name, count in counts.items()]

    @property
    def is_measured(self) -> bool:
        return any(value is not None for value in self.spark)


@dataclass(frozen=True, slots=True)
class MyClaims:
    """The first claims of the reader; `count` is the number of all that are live or ended recently."""

    rows: list[ClaimRow]
    count: int
    now: datetime

    @property
    def shown(self) -> list[ClaimRow]:
        return self.rows[:SHOWN_CLAIMS]

    def digest(self, more: Iterable[str]) -> str:
        """Return a text that changes with everything shown but relative times and growing costs."""
        parts: list[object] = [self.count, *more]
        for row in self.rows:
            observation = row.observation
            parts += [
                row.claim.pk,
                row.claim.version,
                row.claim.problem,
                observation.use,
                observation.percent,
                observation.idle_since,
            ]
            parts += [row.products, row.statement.per_hour.amounts, row.claim.expires_at]
        return hashlib.sha256(repr(parts).encode()).hexdigest()[:20]


def shown_claims(user: User, since: datetime) -> ClaimQuerySet:
    """Return the live claims of `user`, and those that ended after `since`."""
    own = Claim.objects.visible_to(user).filter(requested_by=user)
    return own.filter(~Q(state__in=FINAL) | Q(state_since__gte=since))


def my_claims(user: User, card: RateCard, *, now: datetime) -> MyClaims:
    """Return the claims of `user`, in four queries for any number of claims."""
    listed = shown_claims(user, now - SHOWN_AFTER_END)
    # Those that cost money first, closed ones last.
    ranks = [When(state=state, then=Value(rank)) for rank, state in enumerate(reversed(LIVE))]
    question = Subquery(OPEN_QUESTION.order_by("-at").values("text")[:1])
    is_open = When(state=ClaimState.REQUESTED, then=question)
    ordered = listed.annotate(
        rank=Case(*ranks, default=Value(len(LIVE)), output_field=IntegerField()),
        number=Window(Count("pk")),
        question=Case(is_open, default=Value(""), output_field=TextField()),
    ).order_by("rank", F("expires_at").asc(nulls_last=True), "-created_at", "-id")
    shown: list[Any] = list(ordered.for_list().defer(*UNREAD)[:MAX_CLAIMS])
    held: dict[UUID, list[Allocation]] = defaultdict(list)
    ids = [claim.pk for claim in shown]
    for allocation in Allocation.objects.filter(claim__in=ids).order_by("started_at", "device"):
        held[allocation.claim_id].append(allocation)
    holding = {claim_id for claim_id, rows in held.items() if any(row.ended_at is None for row in rows)}
    first = bucket_start(now - SPARKLINE_SPAN)
    buckets = [first + index * BUCKET for index in range(SPARKLINE_SPAN // BUCKET + 1)]
    measured = measurements(shown, now=now, since=first)
    observations = observe(shown, now=now, holding=holding, measured=measured)
    rows = [
        ClaimRow(
            claim,
            observations[claim.pk],
            statement(claim, held[claim.pk], card, now=now),
            held[claim.pk],
            [measured[claim.pk].recent.get(bucket) for bucket in buckets]
            if claim.state == ClaimState.ALLOCATED and claim.pk in measured
            else [],
            claim.question or "",
        )
        for claim in shown
    ]
    return MyClaims(rows, shown[0].number if shown else 0, now)
