"""
A month of finished claims, and earlier times for running ones, so that graphs, costs and lists have content.

The history is invented. Only a simulated cluster accepts a changed allocation time; with a real one, running
claims keep their true times. Telemetry is as an older portal has it: five minutes of the last two weeks
(`usage.partitions`), hours and days of what is older.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.models import F, Min, Q
from django.utils import timezone

from claims.delivery.reconcile import allocation_columns
from claims.models import Allocation, Claim, Consumer, Profile, Transition
from claims.plans.plan import spec_with_count
from claims.states import ClaimState
from cluster.protocol import RESOURCE_CLAIM
from core.origin import Source
from demo.past import DEVICES, ENDED, REASONS, RUNS, FinishedClaim
from demo.people import DECIDERS, people_get, people_patch
from dra.manifests import spec_hash
from inventory import price_bases
from inventory.counts import store_counts
from inventory.models import Device, FleetSpan
from notify.models import Notice
from teams.models import Membership, Team, User
from usage.daily import forget_from, midnight, utc_day
from usage.partitions import KEEP

BUCKET, DAY = timedelta(minutes=5), timedelta(days=1)
READ_BY_NOW = timedelta(hours=20)  # notices older than that have been read
UNMANAGED_SINCE = timedelta(days=2)  # before, others used less without the portal:
UNMANAGED_BEFORE = 2  # one in so many of the devices of now, and no H100, which the portal had all

# Invented telemetry of what claims held: around the mean of each claim a slow wave and some noise, the same
# every time. A claim that does almost nothing stays idle: its wave is small. Power limits are those of the
# physical GPUs; an idle one uses an eighth.
MEASURED = """
SELECT held.*, at,
  least(1, greatest(0, mean + least(1, mean / 0.2) * (
    0.08 * sin(extract(epoch FROM at) / 4200 + hashtext(device || claim_id::text) / 1e9)
    + 0.1 * ((hashtext(device || at::text) & 1023) / 1023.0 - 0.5)))) AS activity
FROM (
  SELECT claim_id, mean, driver, pool, device, product, partition, capacity_type, fraction, started_at,
    coalesce(ended_at, %(now)s) AS until,
    coalesce(memory_bytes, 16 * 2^30)::bigint AS memory,
    CASE WHEN product ~ 'H100' THEN 700 WHEN product ~ 'A100' THEN 400 WHEN product ~ 'L40S' THEN 350
         WHEN product ~ 'L4|T4' THEN 71 WHEN product ~ 'MI300X' THEN 750 ELSE 300 END AS watts
  FROM claims_allocation JOIN unnest(%(claims)s::uuid[], %(means)s::float8[]) AS of (claim_id, mean)
    USING (claim_id)
) held, generate_series(
  greatest(date_bin(%(step)s, started_at, 'epoch'), %(first)s), least(until, %(end)s) - %(step)s, %(step)s
) AS at
"""
COLUMNS = (
    "claim_id, driver, pool, device, bucket, samples, activity, activity_min, activity_max, sm_activity, "
    "tensor_activity, memory_activity, memory_bytes, memory_total, power_watts, energy_joules, temperature, "
    "pcie_bytes, ecc_corrected, ecc_uncorrected"
)
VALUES = """
claim_id, driver, pool, device, at, %(samples)s, activity, 0.85 * activity, least(1, 1.15 * activity),
0.9 * activity, 0.45 * activity, 0.35 * activity, memory * (0.35 + 0.45 * mean), memory,
watts * (0.12 + 0.88 * activity), watts * (0.12 + 0.88 * activity) * extract(epoch FROM %(step)s::interval),
34 + 38 * activity, 6e9 * activity, 0, 0
"""
FIVE_MINUTES = f"""
INSERT INTO usage_rollup ({COLUMNS}, activities)
SELECT {VALUES}, ARRAY[0.85 * activity, activity, activity, least(1, 1.15 * activity)]
FROM ({MEASURED}) measured ON CONFLICT DO NOTHING
"""  # noqa: S608, names of columns
HOURS = f"""
INSERT INTO usage_hourlyrollup ({COLUMNS}, activity_p95, memory_p95)
SELECT {VALUES}, least(1, 1.1 * activity), memory * (0.35 + 0.45 * mean) FROM ({MEASURED}) measured
ON CONFLICT DO NOTHING
"""  # noqa: S608, names of columns
# As `usage.daily_activity` stores them: an hour for each hour that was begun, for no longer than it is held.
DAYS = f"""
INSERT INTO usage_dailyactivity (claim_id, day, driver, product, partition, capacity_type, held, measured,
  used, activity, rollups, joules, joules_estimated)
SELECT claim_id, day, driver, product, partition, capacity_type, sum(held),
  round(sum(seen)), round(sum(seen * mean::numeric)), 12 * sum(activity), 12 * sum(hours),
  sum(joules * fraction), coalesce(sum(joules * fraction) FILTER (WHERE fraction < 1), 0)
FROM (
  SELECT days.*, least(held, held * hours * 3600 / seconds) AS seen
  FROM (
    SELECT claim_id, day, driver, product, partition, capacity_type, fraction, count(*) AS hours,
      sum(activity) AS activity, avg(activity) AS mean,
      sum(watts * (0.12 + 0.88 * activity) * 3600) AS joules, seconds,
      (fraction * seconds * 1000000000000)::numeric(30) AS held
    FROM ({MEASURED}) measured, LATERAL (SELECT (at AT TIME ZONE 'UTC')::date AS day) of_day, LATERAL (
      SELECT extract(epoch FROM least(until, (day + 1)::timestamp AT TIME ZONE 'UTC')
        - greatest(started_at, day::timestamp AT TIME ZONE 'UTC')) AS seconds) held_on_day
    GROUP BY claim_id, driver, pool, device, product, partition, capacity_type, fraction, started_at, day,
      seconds
  ) days WHERE seconds > 0
) parts GROUP BY claim_id, day, driver, product, partition, capacity_type ON CONFLICT DO NOTHING
"""  # noqa: S608, names of columns


def measure(means: dict[UUID, float], now: datetime) -> None:
    """Invent the telemetry of what these claims have held, around their means."""
    kept = midnight(utc_day(now - KEEP) + DAY)
    minutes, hour = timedelta(minutes=5), timedelta(hours=1)
    parameters: dict[str, Any] = {"claims": list(means), "means": list(means.values()), "now": now}
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '5min'")
        for statement, step, first, end in (
            (FIVE_MINUTES, minutes, kept, now),
            (HOURS, hour, now - timedelta(days=60), kept),
            (DAYS, hour, now - timedelta(days=60), kept),
        ):
            span = {"step": step, "samples": step // minutes * 10, "first": first, "end": end}
            cursor.execute(statement, parameters | span)


@transaction.atomic
def load_past() -> None:
    """Write the claims that ended before the demo began."""
    now = timezone.now()
    loaded = set(Claim.objects.filter(key__startswith="demo-").values_list("key", flat=True))
    people = {user.username: user for user in User.objects.filter(is_active=True)}
    teams = {row.user_id: row.team for row in Membership.objects.select_related("team")}
    profiles = {profile.slug: profile for profile in Profile.objects.prefetch_related("versions")}
    free = FreeDevices(now)
    claims: list[Claim] = []
    steps: list[Transition] = []
    allocations: list[Allocation] = []
    means: dict[UUID, float] = {}
    for ended in (*ENDED, *RUNS):
        start = now - timedelta(days=ended.days)
        devices = free.take(ended, start, start + timedelta(hours=ended.hours))
        if f"demo-{ended.name}" in loaded or not devices:
            continue
        owner = people[ended.by]
        claim = _claim(ended, owner, teams[owner.pk], profiles[ended.profile], now)
        claim.cluster = devices[0].cluster
        claim.decided_by = people[_decider(claim)] if ended.decided else None
        claims.append(claim)
        steps.extend(history(claim, start, claim.state_since))
        allocations.extend(hold(claim, device, start, claim.state_since) for device in devices)
        if ended.activity is not None:
            means[claim.pk] = ended.activity
    Claim.objects.bulk_create(claims)
    Transition.objects.bulk_create(steps)
    Allocation.objects.bulk_create(allocations)
    forget_from(min((allocation.started_at for allocation in allocations), default=now), now=now)
    measure(means, now)


class FreeDevices:
    """When the devices of the clusters were held, so that no two claims of the past hold one at a time."""

    def __init__(self, now: datetime) -> None:
        self.held: dict[tuple[str, ...], list[tuple[datetime, datetime]]] = defaultdict(list)
        key = ("claim__cluster_id", "driver", "pool", "device")
        for *device, start, end in Allocation.objects.values_list(*key, "started_at", "ended_at"):
            self.held[tuple(map(str, device))].append((start, end or now))
        self.devices = {models: list(_devices(condition)) for models, condition in DEVICES.items()}
        for device in Device.objects.filter(gone_at=None).exclude(held_by=None):
            self.held[_key(device)].append((now - UNMANAGED_SINCE, now))

    def take(self, ended: FinishedClaim, start: datetime, end: datetime) -> list[Device]:
        """Return as many devices of one cluster that nobody held in this time; none if there are too few."""
        candidates = (device for device in self.devices[ended.models] if self._is_free(device, start, end))
        found = list(islice(candidates, ended.devices))
        if len(found) < ended.devices:
            return []
        for device in found:
            self.held[_key(device)].append((start, end))
        return found

    def _is_free(self, device: Device, start: datetime, end: datetime) -> bool:
        return all(end <= since or until <= start for since, until in self.held[_key(device)])


def _key(device: Device) -> tuple[str, ...]:
    return str(device.cluster_id), device.driver, device.pool, device.name


def backdate_fleet() -> None:
    """
    Let the fleet have the size of now since the first claim of the demo's history. Part of what others use
    without the portal was free until `UNMANAGED_SINCE`.
    """
    store_counts(changed_only=False)
    first = Allocation.objects.aggregate(at=Min("started_at"))["at"]
    if first is None:
        return
    since = timezone.now() - UNMANAGED_SINCE
    now_open = FleetSpan.objects.filter(ended_at=None, started_at__gt=first)
    earlier: dict[tuple[Any, ...], FleetSpan] = {}
    for span in now_open:
        kept = 0 if "H100" in span.product else span.parts // UNMANAGED_BEFORE
        uses = {span.use: span.parts}
        if span.use == FleetSpan.Use.UNMANAGED:
            uses = {FleetSpan.Use.AVAILABLE: span.parts - kept, span.use: kept}
        kind = ("cluster_id", "driver", "product", "basis_id")
        for use, parts in uses.items():
            values = {name: getattr(span, name) for name in kind} | {"use": use}
            of_kind = earlier.setdefault(
                tuple(values.values()), FleetSpan(**values, parts=0, started_at=first, ended_at=since)
            )
            of_kind.parts += parts
    now_open.update(started_at=since)
    FleetSpan.objects.bulk_create(span for span in earlier.values() if span.parts)


def _devices(condition: Q) -> Iterable[Device]:
    """Return whole nodes one after the other."""
    devices = Device.objects.filter(condition, gone_at=None).select_related("cluster")
    return devices.order_by("cluster__name", "pool", "name")


def _claim(ended: FinishedClaim, owner: User, team: Team, profile: Profile, now: datetime) -> Claim:
    start = now - timedelta(days=ended.days)
    decided_at = start - ended.started
    created_at = decided_at - (ended.decided or timedelta(0))
    # Newest first: the version that was current then, or the first.
    versions = list(profile.versions.all())
    version = next((candidate for candidate in versions if candidate.created_at <= created_at), versions[-1])
    spec = spec_with_count(version, ended.devices)
    return Claim(
        name=ended.name,
        key=f"demo-{ended.name}",
        team=team,
        namespace=team.slug,
        profile_version=version,
        requested_by=owner,
        devices=ended.devices,
        duration=timedelta(hours=ended.requested_hours),
        reason=REASONS[ended.name],
        spec=spec,
        spec_hash=spec_hash(spec),
        approved_hash=spec_hash(spec),
        state=ClaimState.RELEASED,
        state_since=start + timedelta(hours=ended.hours),
        created_at=created_at,
        decided_at=decided_at,
        expires_at=decided_at + timedelta(hours=ended.requested_hours),
    )


def _decider(claim: Claim) -> str:
    """Return who decided: the lead of the team, or somebody else on the lead's own request."""
    lead = DECIDERS.get(claim.team.slug, "admin")
    return "admin" if claim.requested_by.username == lead else lead


def history(claim: Claim, start: datetime, end: datetime) -> Iterator[Transition]:
    decided_at = claim.decided_at or claim.created_at
    owner = claim.requested_by
    steps = (
        (ClaimState.REQUESTED, claim.created_at, claim.reason, owner),
        (ClaimState.APPROVED, decided_at, "Approved.", claim.decided_by),
        (ClaimState.PROVISIONED, decided_at + timedelta(seconds=2), "The ResourceClaim was created.", None),
        (ClaimState.ALLOCATED, start, "The scheduler allocated a device.", None),
        (ClaimState.RELEASING, end - timedelta(minutes=1), "Released.", owner),
        (ClaimState.RELEASED, end, "The ResourceClaim was deleted.", None),
    )
    old = ""
    for state, at, why, by in steps:
        source = Source.WEB if by else Source.CLUSTER
        yield Transition(
            claim=claim, team_id=claim.team_id, old=old, new=state, reason=why, at=at, by=by, source=source
        )
        old = state


def hold(claim: Claim, device: Device, start: datetime, end: datetime) -> Allocation:
    price_bases.add([price_bases.basis_of(device)])
    return Allocation(
        claim=claim,
        object_uid=f"sample-{claim.pk}",
        object_name=claim.name,
        request="gpu",
        driver=device.driver,
        pool=device.pool,
        device=device.name,
        started_at=start,
        ended_at=end,
        **allocation_columns(device),
    )


def backdate(claim: Claim, by: timedelta, mean: float | None) -> None:
    """
    Move the start of a running claim into the past, with telemetry for that time.

    A request that a person decided on is moved further back: deciding takes time.
    """
    claim.refresh_from_db()
    decision_time = timedelta(0)
    if claim.decided_by_id is not None:
        decision_time = timedelta(minutes=random.Random(claim.name).randint(6, 150))  # noqa: S311, not for secrets
    Claim.objects.filter(pk=claim.pk).update(
        created_at=F("created_at") - by - decision_time,
        state_since=F("state_since") - by,
        decide_by=F("decide_by") - by - decision_time,
        decided_at=F("decided_at") - by,
        expires_at=F("expires_at") - by,
        version=F("version") + 1,
    )
    claim.history.filter(old="").update(at=F("at") - by - decision_time)
    claim.history.exclude(old="").update(at=F("at") - by)
    for held in (Allocation, Consumer):
        held._default_manager.filter(claim=claim, ended_at=None).update(started_at=F("started_at") - by)
    forget_from(timezone.now() - by - timedelta(days=1), now=timezone.now())
    notices = Notice.objects.filter(url__contains=str(claim.pk))
    notices.update(created_at=F("created_at") - by)
    notices.filter(created_at__lt=timezone.now() - READ_BY_NOW).update(read_at=F("created_at") + BUCKET)
    if mean is None:
        return
    measure({claim.pk: mean}, timezone.now())


def age_in_cluster(claim: Claim, by: timedelta, folder: Path) -> None:
    """Move the allocation of a named claim into the past."""
    address = RESOURCE_CLAIM.path(claim.namespace, claim.name)
    status = people_get(folder, claim.cluster.name, address).get("status", {})
    if "allocation" not in status:
        return
    then = datetime.fromisoformat(status["allocation"]["allocationTimestamp"]) - by
    body = {"status": {"allocation": {"allocationTimestamp": then.strftime("%Y-%m-%dT%H:%M:%SZ")}}}
    people_patch(folder, claim.cluster.name, f"{address}/status", body)
