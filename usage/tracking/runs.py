"""
Runs of MLflow that name a claim: found on the tracking servers, with what the claim's devices cost meanwhile.

A round per server and five minutes searches the runs that began lately or still run, stores them, and writes
GPU-hours and cost back as tags, where these differ. Once a day it looks back over the months that may still
change. So a repeated round writes nothing, and a lost one is made up by the next.

A run costs what all devices of its claim cost from its begin to its end, by the ledger. Runs of one claim at
the same time count the same devices, so runs do not add up to claims.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import batched
from uuid import UUID

from django.db import transaction
from django.db.models import Min, Q

from claims.models import Allocation, Claim
from core.inputs import valid_ids
from usage.cost import Cost, Interval, Ledger, UsageInterval, total
from usage.models import TrackedRun, TrackingServer
from usage.rates import RateCard
from usage.tracking.mlflow import (
    COST_TAG,
    CURRENCY_TAG,
    HOURS_TAG,
    OWN_TAGS,
    PAGE,
    FoundRun,
    Mlflow,
    TrackingUnavailable,
)
from usage.tracking.servers import source_of

EVERY = timedelta(minutes=5)
LATELY = timedelta(days=2)  # a tag may be set late
OPEN = timedelta(days=62)  # this month and the last, which rates and late ends may still change
DAILY = timedelta(days=1)
BUDGET = 240.0  # seconds of a round
COLUMNS = ("claim", "experiment_id", "experiment", "name", "status", "started_at", "ended_at")


def run_costs(runs: Sequence[TrackedRun], *, now: datetime) -> dict[UUID, Cost]:
    """Return what the devices of their claims cost during these runs, by id of the run; two queries."""
    if not runs:
        return {}
    card, intervals = RateCard.load(), defaultdict[UUID, list[UsageInterval]](list)
    first, last = min(run.started_at for run in runs), max(run.ended_at or now for run in runs)
    held = Allocation.objects.filter(
        Q(ended_at=None) | Q(ended_at__gt=first),
        claim__in={run.claim_id for run in runs},
        started_at__lt=last,
    )
    for allocation in held.select_related("claim").only(*ALLOCATION):
        cluster = allocation.claim.cluster_id
        intervals[allocation.claim_id].append(UsageInterval.from_allocation(allocation, cluster))
    return {run.pk: cost_of(run, intervals[run.claim_id], card, now=now) for run in runs}


ALLOCATION = (
    *("claim__cluster_id", "driver", "product", "basis_id", "partition", "fraction"),
    *("started_at", "ended_at", "capacity_type"),
)


def cost_of(run: TrackedRun, held: Iterable[UsageInterval], card: RateCard, *, now: datetime) -> Cost:
    span = Interval(run.started_at, min(run.ended_at or now, now))
    ledger = Ledger()
    for interval in held:
        ledger.add(interval, card, until=now, within=span)
    return total(ledger.costs().values())


def tags_of(cost: Cost) -> dict[str, str]:
    """Return the tags of a run; one without a rate, or with rates in several currencies, has no cost."""
    tags = {HOURS_TAG: str(cost.hours)}
    if len(cost.amounts) == 1 and not cost.unpriced_held:
        ((currency, amount),) = cost.amounts.items()
        tags |= {COST_TAG: str(amount), CURRENCY_TAG: currency}
    return tags


def servers() -> list[UUID]:
    return list(TrackingServer.objects.values_list("pk", flat=True))


def follow(server_id: UUID, *, now: datetime) -> int:
    """
    Search one server, store its runs and write their cost back; return the number of runs found.

    The failure of a server is stored for pages to show and not raised: the next round tries again.
    """
    free = Q(begun_at=None) | Q(begun_at__lt=now - EVERY / 2)
    if not TrackingServer.objects.filter(free, pk=server_id).update(begun_at=now):
        return 0
    server = TrackingServer.objects.get(pk=server_id)
    sweeps = server.swept_at is None or server.swept_at < now - DAILY
    since = now - OPEN if sweeps else search_start(server, now)
    row = TrackingServer.objects.filter(pk=server_id)
    try:
        mlflow = Mlflow(source_of(server), budget=BUDGET)
        number = search(server, mlflow, since, now)
    except TrackingUnavailable as failure:
        row.update(failed_at=now, error=failure.message)
        return 0
    row.update(succeeded_at=now, failed_at=None, error="", **({"swept_at": now} if sweeps else {}))
    return number


def search_start(server: TrackingServer, now: datetime) -> datetime:
    """Return since when runs are searched: those that run began earlier, but not before the open months."""
    running = TrackedRun.objects.filter(tracking_server=server, ended_at=None)
    first = running.aggregate(at=Min("started_at"))["at"]
    return max(min(first or now, now - LATELY), now - OPEN)


def search(server: TrackingServer, mlflow: Mlflow, since: datetime, now: datetime) -> int:
    """Store what the server has since then, page by page; forget what it has no more."""
    names = mlflow.experiments()
    seen: set[str] = set()
    for page in batched(mlflow.runs(list(names), since=since), PAGE):
        stored = store(server, page, names)
        seen |= {run.run_id for run in stored}
        costs = run_costs(stored, now=now)
        known = {run.run_id: run.tags for run in page}
        for run in stored:
            write_back(mlflow, run.run_id, known[run.run_id], tags_of(costs[run.pk]))
    lost = TrackedRun.objects.filter(tracking_server=server, started_at__gte=since)
    lost.exclude(run_id__in=seen).delete()
    return len(seen)


def store(server: TrackingServer, found: Sequence[FoundRun], names: dict[str, str]) -> list[TrackedRun]:
    """
    Write the rows of these runs and return them, without those that name no claim that the server may name: a
    server of a team has runs of the team's claims only.
    """
    claims = Claim.objects.filter(pk__in=valid_ids(run.claim for run in found))
    if server.team_id:
        claims = claims.filter(team=server.team_id)
    keys = {str(key): key for key in claims.values_list("pk", flat=True)}
    rows = {
        run.run_id: TrackedRun(
            tracking_server=server, claim_id=keys[run.claim.lower()], run_id=run.run_id,
            experiment_id=run.experiment_id, experiment=names.get(run.experiment_id, ""), name=run.name,
            status=run.status, started_at=run.started_at, ended_at=run.ended_at,
        )
        for run in found
        if run.claim.lower() in keys
    }  # fmt: skip
    with transaction.atomic():
        TrackedRun.objects.bulk_create(
            sorted(rows.values(), key=lambda row: row.run_id),
            update_conflicts=True,
            unique_fields=("tracking_server", "run_id"),
            update_fields=COLUMNS,
        )
    return list(TrackedRun.objects.filter(tracking_server=server, run_id__in=rows))


def write_back(mlflow: Mlflow, run_id: str, known: dict[str, str], tags: dict[str, str]) -> None:
    """Write the tags of a run that differ from those that it has."""
    changed = {key: value for key, value in tags.items() if known.get(key) != value}
    if changed:
        mlflow.write_tags(run_id, changed)
    for key in OWN_TAGS:
        if key in known and key not in tags:
            mlflow.delete_tag(run_id, key)
