"""
What Home shows of the reader's claims, of free profiles, of spending and of clusters.

What of each profile is free now: those that may be asked for first, then by name.

How each cluster is heard: the age of its mirror, and of its telemetry.

What the current team has spent this month, the reader's part of it, and where a straight line leads.

The reader's own claims with what is seen on them and what they cost: the live ones, then those of late.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from uuid import UUID

from django.db.models import Avg, Case, IntegerField, Q, Value, When
from django.utils import timezone

from claims.catalogue.listing import CatalogueEntry, catalogue
from claims.models import Allocation, Claim
from claims.states import FINAL, ClaimState
from dra.devices.vendors import short_name
from inventory.freshness import OF_DEVICES, Age, ages
from teams.models import Team, User
from usage.cost import Cost
from usage.models import Collection, Rollup
from usage.rates import RateCard
from usage.reports import CostReport, Month, Statement, active_zone, report, statement
from usage.rollups import BUCKET, bucket_start
from usage.telemetry import Observation, observe


@dataclass(frozen=True, slots=True)
class FreeRow:
    entry: CatalogueEntry

    @property
    def taken(self) -> int:
        return (self.entry.total or 0) - (self.entry.free or 0)


def free_now(user: User) -> list[FreeRow]:
    """Return a row per profile that is not retired."""
    entries = [entry for entry in catalogue(user) if entry.profile.retired_at is None]
    return [
        FreeRow(entry)
        for entry in sorted(entries, key=lambda entry: (not entry.may_request, entry.profile.title))
    ]


@dataclass(frozen=True, slots=True)
class ClusterRow:
    """`collection` is None where telemetry has never been read."""

    age: Age
    collection: Collection | None

    @property
    def has_source(self) -> bool:
        return bool(self.age.cluster.metrics_url or self.age.cluster.prometheus_url)


def clusters() -> list[ClusterRow]:
    """Return the clusters that are synchronised, by name; three queries."""
    collections = {row.cluster_id: row for row in Collection.objects.all()}
    return [ClusterRow(age, collections.get(age.cluster.pk)) for age in ages(OF_DEVICES)]


ENOUGH = timedelta(days=3)  # a line through less than that says nothing


@dataclass(frozen=True, slots=True)
class Spend:
    """
    `forecast` is spent so far ÷ time so far × the whole month, per currency: a straight line, and said to be.

    It is empty in the first days of a month and where hours have no rate.
    """

    report: CostReport
    own: Cost | None
    forecast: dict[str, Decimal]


def spend(team: Team, user: User, *, now: datetime) -> Spend:
    """Return the figures of this month in the reader's zone, in three queries."""
    found = report(team, Month.of(timezone.localdate(now), active_zone()), now=now)
    own = next((row.cost for row in found.by_person if row.person == user), None)
    return Spend(found, own, forecast(found))


def forecast(found: CostReport) -> dict[str, Decimal]:
    span = found.month.span
    gone = found.until - span.start
    if gone < ENOUGH or found.total.unpriced_held:
        return {}
    factor = Decimal((span.end - span.start) / gone)
    return {
        currency: (amount * factor).quantize(Decimal(1), ROUND_HALF_UP)
        for currency, amount in found.total.amounts.items()
    }


SHOWN = 12
RECENT = timedelta(days=7)  # how long a claim that is over stays on the page
SPARK = timedelta(hours=2)


@dataclass(frozen=True, slots=True)
class ClaimRow:
    """`spark` are the last two hours of activity, five minutes each; None is no telemetry."""

    claim: Claim
    observation: Observation
    statement: Statement
    held: list[Allocation]
    spark: list[float | None]

    @property
    def products(self) -> list[str]:
        """Return "2 × H100" of what is held, else nothing."""
        counts: dict[str, int] = defaultdict(int)
        for one in self.held:
            if one.ended_at is None:
                counts[f"{short_name(one.product)} {one.partition}".strip() or one.device] += 1
        return [f"{count} × {name}" for name, count in counts.items()]

    @property
    def is_measured(self) -> bool:
        return any(value is not None for value in self.spark)


@dataclass(frozen=True, slots=True)
class Mine:
    """`count` are those that live or have ended lately, of which `rows` shows the first."""

    rows: list[ClaimRow]
    count: int
    now: datetime

    def etag(self, more: Iterable[str]) -> str:
        """Return an entity tag that changes when the page would, relative times and growing costs aside."""
        parts: list[object] = [self.count, *more]
        for row in self.rows:
            seen = row.observation
            parts += [
                row.claim.pk,
                row.claim.version,
                row.claim.problem,
                seen.use,
                seen.percent,
                seen.idle_since,
            ]
            parts += [row.products, row.statement.per_hour.amounts, row.claim.expires_at]
        return f'"{hashlib.sha256(repr(parts).encode()).hexdigest()[:20]}"'


def mine(user: User, *, now: datetime) -> Mine:
    """Return the claims of `user` in six queries, however many there are."""
    own = Claim.objects.visible_to(user).filter(requested_by=user)
    over = Case(When(state__in=FINAL, then=Value(1)), default=Value(0), output_field=IntegerField())
    listed = own.filter(~Q(state__in=FINAL) | Q(state_since__gte=now - RECENT))
    shown = list(listed.annotate(over=over).order_by("over", "-created_at", "-id").for_list()[:SHOWN])
    held: dict[UUID, list[Allocation]] = defaultdict(list)
    ids = [claim.pk for claim in shown]
    for one in Allocation.objects.filter(claim__in=ids).order_by("started_at", "device"):
        held[one.claim_id].append(one)
    card = RateCard.load()
    holding = {claim_id for claim_id, all_of in held.items() if any(one.ended_at is None for one in all_of)}
    seen = observe(shown, now=now, holding=holding)
    sparks = recent_activity([claim for claim in shown if claim.state == ClaimState.ALLOCATED], now=now)
    rows = [
        ClaimRow(
            claim,
            seen[claim.pk],
            statement(claim, held[claim.pk], card, now=now),
            held[claim.pk],
            sparks.get(claim.pk, []),
        )
        for claim in shown
    ]
    return Mine(rows, listed.count(), now)


def recent_activity(claims: list[Claim], *, now: datetime) -> dict[UUID, list[float | None]]:
    """Return the last two hours of each claim, None where nothing was measured; one query."""
    first = bucket_start(now - SPARK)
    buckets = [first + index * BUCKET for index in range(SPARK // BUCKET + 1)]
    measured: dict[UUID, dict[datetime, float]] = defaultdict(dict)
    rows = Rollup.objects.filter(claim__in=claims, bucket__gte=first, activity__isnull=False).order_by()
    for claim_id, bucket, activity in rows.values_list("claim_id", "bucket").annotate(Avg("activity")):
        measured[claim_id][bucket] = activity
    return {claim_id: [values.get(bucket) for bucket in buckets] for claim_id, values in measured.items()}
