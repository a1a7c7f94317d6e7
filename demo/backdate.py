"""
A month of finished claims, and earlier times for running ones, so that graphs, costs and lists have content.

The history is invented. Only a simulated cluster accepts a changed allocation time; with a real one, running
claims keep their true times.
"""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from django.db.models import F, Min, Q, QuerySet
from django.utils import timezone

from claims.delivery.reconcile import allocation_columns
from claims.models import Allocation, Claim, Profile, Transition
from claims.states import ClaimState
from cluster.protocol import RESOURCE_CLAIM
from core.origin import Source
from demo.people import DECIDERS, people_get, people_patch
from inventory import price_bases
from inventory.counts import store_counts
from inventory.models import Device, FleetSpan
from notify.models import Notice
from teams.models import Membership, Team, User
from usage.daily import forget_from
from usage.models import Rollup


@dataclass(frozen=True, slots=True)
class FinishedClaim:
    """
    One claim of one device: began `days` ago, lasted `hours` of `requested_hours`, with mean `activity`.

    A person decided after `decided`, None for automatic; its pod got the device `started` after that.
    """

    name: str
    profile: str
    by: str
    days: float
    hours: float
    requested_hours: float
    activity: float | None
    decided: timedelta | None
    started: timedelta


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


ENDED = (
    FinishedClaim("bev-train", "train-80g", "engineer", 17, 61, 72, 0.83, minutes(95), minutes(12)),
    FinishedClaim("panoptic-v2", "train-80g", "jonas", 9, 44, 72, 0.77, minutes(38), minutes(7)),
    FinishedClaim("mt-adapters", "train-80g", "ines", 13, 72, 96, 0.69, minutes(310), minutes(55)),
    FinishedClaim("asr-tune", "train-80g", "sofia", 20, 14, 24, 0.74, minutes(22), minutes(190)),
    FinishedClaim("occ-probe", "train-80g", "jonas", 24, 12, 24, 0.52, minutes(17), minutes(4)),
    FinishedClaim("pose-base", "train-80g", "engineer", 27, 19, 24, 0.88, minutes(1270), minutes(31)),
    FinishedClaim("lidar-voxels", "train-48g", "jonas", 15, 30, 96, 0.64, minutes(47), minutes(9)),
    FinishedClaim("gan-restore", "train-48g", "engineer", 6, 19, 24, 0.58, None, minutes(3)),
    FinishedClaim("asr-small", "train-48g", "sofia", 8, 36, 48, 0.71, None, minutes(15)),
    FinishedClaim("speaker-id", "train-48g", "sofia", 11, 22, 96, 0.62, minutes(26), minutes(6)),
    FinishedClaim("map-tiles", "train-48g", "engineer", 19, 28, 120, 0.79, minutes(180), minutes(21)),
    FinishedClaim("night-gan", "train-48g", "jonas", 22, 16, 96, 0.35, minutes(64), minutes(2)),
    FinishedClaim("grasp-net", "train-48g", "kenji", 26, 11, 96, 0.67, minutes(540), minutes(48)),
    FinishedClaim("clip-probe", "notebook-24g", "engineer", 12, 9, 12, 0.22, None, minutes(4)),
    FinishedClaim("label-notebook", "notebook-24g", "noor", 4, 26, 36, None, None, minutes(2)),
    FinishedClaim("loss-curves", "notebook-24g", "jonas", 7, 5, 8, 0.18, None, minutes(11)),
    FinishedClaim("mt-probe", "notebook-24g", "outsider", 10, 7, 24, 0.26, None, minutes(1)),
    FinishedClaim("phone-corpus", "notebook-24g", "sofia", 18, 8, 12, 0.14, None, minutes(6)),
    FinishedClaim("grasp-look", "notebook-24g", "kenji", 23, 4, 8, 0.31, None, minutes(35)),
    FinishedClaim("svm-baseline", "small-16g", "jonas", 5, 3, 8, 0.44, None, minutes(3)),
    FinishedClaim("ci-weekly", "small-16g", "engineer", 9, 2, 4, 0.51, None, minutes(1)),
    FinishedClaim("grasp-unit", "small-16g", "kenji", 14, 5, 8, 0.37, None, minutes(8)),
    FinishedClaim("teach-week-1", "small-16g", "ravi", 16, 6, 8, 0.2, None, minutes(2)),
    FinishedClaim("teach-week-2", "small-16g", "ravi", 21, 6, 8, 0.25, None, minutes(19)),
    FinishedClaim("seed-sweep", "slice-20g", "engineer", 8, 13, 24, 0.72, None, minutes(5)),
    FinishedClaim("aug-sweep", "slice-20g", "jonas", 11, 9, 96, 0.69, minutes(33), minutes(14)),
    FinishedClaim("token-grid", "slice-20g", "outsider", 15, 17, 24, 0.81, None, minutes(2)),
    FinishedClaim("vocoder-grid", "slice-20g", "sofia", 19, 12, 24, 0.66, None, minutes(27)),
    FinishedClaim("depth-grid", "slice-20g", "engineer", 25, 8, 24, 0.59, None, minutes(4)),
    FinishedClaim("slides-demo", "slice-10g", "noor", 3, 2, 4, 0.08, None, minutes(1)),
    FinishedClaim("mt-scratch", "slice-10g", "outsider", 6, 7, 24, 0.12, None, minutes(3)),
    FinishedClaim("asr-scratch", "slice-10g", "sofia", 13, 5, 8, 0.17, None, minutes(2)),
    FinishedClaim("onboarding", "slice-10g", "jonas", 20, 3, 8, 0.06, None, minutes(9)),
    FinishedClaim("reading-group", "slice-10g", "engineer", 28, 4, 8, 0.11, None, minutes(5)),
    FinishedClaim("vae-half", "slice-40g", "engineer", 7, 11, 24, 0.63, None, minutes(6)),
    FinishedClaim("mt-half", "slice-40g", "outsider", 10, 15, 24, 0.71, None, minutes(18)),
    FinishedClaim("tts-half", "slice-40g", "sofia", 14, 9, 24, 0.55, None, minutes(3)),
    FinishedClaim("seg-half", "slice-40g", "jonas", 18, 8, 24, 0.6, None, minutes(72)),
    FinishedClaim("pose-half", "slice-40g", "engineer", 26, 6, 24, 0.48, None, minutes(4)),
)

REASONS = {
    "bev-train": "Train the BEV encoder for the October release.",
    "panoptic-v2": "Panoptic segmentation, second version.",
    "mt-adapters": "Adapters for the 7B translation model.",
    "asr-tune": "Fine-tune speech recognition on the call recordings.",
    "occ-probe": "Does the occupancy network fit on one device?",
    "pose-base": "Baseline of the pose network.",
    "lidar-voxels": "Voxel size of the lidar network.",
    "gan-restore": "Restore the old camera images.",
    "asr-small": "Small model for the phone.",
    "speaker-id": "Speaker identification for the meeting notes.",
    "map-tiles": "Rasterize the map tiles again.",
    "night-gan": "Night images from day images.",
    "grasp-net": "Grasp network on the new gripper.",
    "clip-probe": "Linear probes on CLIP features.",
    "label-notebook": "Check the labels of the night drives.",
    "loss-curves": "Plot the losses of last week's runs.",
    "mt-probe": "Look at the attention of the translation model.",
    "phone-corpus": "Listen through the phone corpus.",
    "grasp-look": "Look at failed grasps.",
    "svm-baseline": "Baseline without a network.",
    "ci-weekly": "Weekly test run on a GPU.",
    "grasp-unit": "Unit tests of the grasp kernels.",
    "teach-week-1": "Exercises of the first week.",
    "teach-week-2": "Exercises of the second week.",
    "seed-sweep": "Ten seeds of the small detector.",
    "aug-sweep": "Which augmentation helps?",
    "token-grid": "Vocabulary sizes of the tokenizer.",
    "vocoder-grid": "Grid over vocoder settings.",
    "depth-grid": "Grid over depth losses.",
    "slides-demo": "Live demo for the quarterly talk.",
    "mt-scratch": "Try the new tokenizer.",
    "asr-scratch": "Try the new front end.",
    "onboarding": "First steps of a new colleague.",
    "reading-group": "Reproduce the paper of the reading group.",
    "vae-half": "Train a small VAE.",
    "mt-half": "Distil the translation model.",
    "tts-half": "Train a small voice.",
    "seg-half": "Segmentation at half resolution.",
    "pose-half": "Pose network at half resolution.",
}


BUCKET = timedelta(minutes=5)
READ_BY_NOW = timedelta(hours=20)  # notices older than that have been read

# Power limits of the physical GPUs, in watts.
WATTS = {"H100": 700, "A100": 400, "L40S": 350, "L4": 72, "T4": 70, "MI300X": 750}
IDLE = 0.12  # the fraction that an idle GPU uses
SPREAD = 0.15  # by how much the samples of five minutes differ from their mean
SAMPLE_PARTS = (-1.0, -0.5, -0.5, 0.0, 0.0, 0.0, 0.0, 0.5, 0.5, 1.0)

# What the clusters have of each profile, so that the past is plausible.
DEVICES = {
    "train-80g": Q(product__startswith="NVIDIA H100", partition=""),
    "train-48g": Q(product="NVIDIA L40S"),
    "notebook-24g": Q(product="NVIDIA L4"),
    "small-16g": Q(product="Tesla T4"),
    "slice-40g": Q(product__startswith="NVIDIA A100", partition="3g.40gb"),
    "slice-20g": Q(product__startswith="NVIDIA A100", partition="1g.20gb"),
    "slice-10g": Q(product__startswith="NVIDIA A100", partition="1g.10gb"),
}


def curve(seed: str, start: datetime, end: datetime, mean: float) -> Iterator[tuple[datetime, float]]:
    """
    Five-minute means around `mean` with a slow wave and some noise; the same every time for one seed.

    A claim that does almost nothing stays idle: its wave is small.
    """
    noise = random.Random(seed)  # noqa: S311, not for secrets
    phase = noise.random() * math.tau
    at = start - timedelta(minutes=start.minute % 5, seconds=start.second, microseconds=start.microsecond)
    step, size = 0, min(1.0, mean / 0.2)
    while at < end:
        wave = 0.08 * math.sin(step / 14 + phase)
        yield at, min(1.0, max(0.0, mean + size * (wave + noise.uniform(-0.05, 0.05))))
        at, step = at + BUCKET, step + 1


def rollups(claim: Claim, allocation: Allocation, end: datetime, mean: float) -> list[Rollup]:
    memory = allocation.memory_bytes or 16 * 2**30
    words = allocation.product.replace("-", " ").split()
    watts = next((WATTS[word] for word in words if word in WATTS), 300)
    return [
        Rollup(
            claim=claim,
            driver=allocation.driver,
            pool=allocation.pool,
            device=allocation.device,
            bucket=at,
            samples=10,
            activity=activity,
            activity_min=max(activity - SPREAD * activity, 0.0),
            activity_max=min(activity + SPREAD * activity, 1.0),
            activities=[min(activity * (1 + SPREAD * part), 1.0) for part in SAMPLE_PARTS],
            sm_activity=0.9 * activity,
            tensor_activity=0.45 * activity,
            memory_activity=0.35 * activity,
            memory_bytes=int(memory * (0.35 + 0.45 * mean)),
            memory_total=memory,
            power_watts=watts * (IDLE + (1 - IDLE) * activity),
            energy_joules=watts * (IDLE + (1 - IDLE) * activity) * BUCKET.total_seconds(),
            temperature=34 + 38 * activity,
            pcie_bytes=6e9 * activity,
            ecc_corrected=0,
            ecc_uncorrected=0,
        )
        for at, activity in curve(f"{claim.name}/{allocation.device}", allocation.started_at, end, mean)
    ]


def load_past() -> None:
    """Write the claims that ended before the demo began."""
    now = timezone.now()
    loaded = set(Claim.objects.filter(key__startswith="demo-").values_list("key", flat=True))
    people = {user.username: user for user in User.objects.filter(is_active=True)}
    teams = {row.user_id: row.team for row in Membership.objects.select_related("team")}
    profiles = {profile.slug: profile for profile in Profile.objects.prefetch_related("versions")}
    devices = {slug: list(_devices(condition)) for slug, condition in DEVICES.items()}
    claims: list[Claim] = []
    steps: list[Transition] = []
    allocations: list[tuple[Allocation, float | None]] = []
    for number, ended in enumerate(ENDED):
        candidates = devices[ended.profile]
        if f"demo-{ended.name}" in loaded or not candidates:
            continue
        owner = people[ended.by]
        claim = _claim(ended, owner, teams[owner.pk], profiles[ended.profile], now)
        device = candidates[number % len(candidates)]
        claim.cluster = device.cluster
        claim.decided_by = people[_decider(claim)] if ended.decided else None
        start = now - timedelta(days=ended.days)
        claims.append(claim)
        steps.extend(history(claim, start, claim.state_since))
        allocations.append((hold(claim, device, start, claim.state_since), ended.activity))
    Claim.objects.bulk_create(claims)
    Transition.objects.bulk_create(steps)
    Allocation.objects.bulk_create(allocation for allocation, _mean in allocations)
    forget_from(min((allocation.started_at for allocation, _mean in allocations), default=now), now=now)
    all_rollups = [
        rollup
        for allocation, mean in allocations
        if mean is not None and allocation.ended_at is not None
        for rollup in rollups(allocation.claim, allocation, allocation.ended_at, mean)
    ]
    Rollup.objects.bulk_create(all_rollups, batch_size=2000)


def backdate_fleet() -> None:
    """Let the fleet have the size of now since the first claim of the demo's history."""
    store_counts(changed_only=False)
    first = Allocation.objects.aggregate(at=Min("started_at"))["at"]
    if first is not None:
        FleetSpan.objects.filter(ended_at=None, started_at__gt=first).update(started_at=first)


def _devices(condition: Q) -> QuerySet[Device]:
    return Device.objects.filter(condition, gone_at=None).select_related("cluster")


def _claim(ended: FinishedClaim, owner: User, team: Team, profile: Profile, now: datetime) -> Claim:
    start = now - timedelta(days=ended.days)
    decided_at = start - ended.started
    created_at = decided_at - (ended.decided or timedelta(0))
    # Newest first: the version that was current then, or the first.
    versions = list(profile.versions.all())
    version = next((candidate for candidate in versions if candidate.created_at <= created_at), versions[-1])
    return Claim(
        name=ended.name,
        key=f"demo-{ended.name}",
        team=team,
        namespace=team.slug,
        profile_version=version,
        requested_by=owner,
        devices=1,
        duration=timedelta(hours=ended.requested_hours),
        reason=REASONS[ended.name],
        spec=version.spec,
        spec_hash=version.spec_hash,
        approved_hash=version.spec_hash,
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
    Allocation.objects.filter(claim=claim, ended_at=None).update(started_at=F("started_at") - by)
    forget_from(timezone.now() - by - timedelta(days=1), now=timezone.now())
    notices = Notice.objects.filter(url__contains=str(claim.pk))
    notices.update(created_at=F("created_at") - by)
    notices.filter(created_at__lt=timezone.now() - READ_BY_NOW).update(read_at=F("created_at") + BUCKET)
    if mean is None:
        return
    for allocation in Allocation.objects.filter(claim=claim, ended_at=None):
        new_rollups = rollups(claim, allocation, timezone.now() - BUCKET, mean)
        Rollup.objects.bulk_create(new_rollups, batch_size=2000, ignore_conflicts=True)


def age_in_cluster(claim: Claim, by: timedelta, folder: Path) -> None:
    """Move the allocation of a named claim into the past."""
    address = RESOURCE_CLAIM.path(claim.namespace, claim.name)
    status = people_get(folder, claim.cluster.name, address).get("status", {})
    if "allocation" not in status:
        return
    then = datetime.fromisoformat(status["allocation"]["allocationTimestamp"]) - by
    body = {"status": {"allocation": {"allocationTimestamp": then.strftime("%Y-%m-%dT%H:%M:%SZ")}}}
    people_patch(folder, claim.cluster.name, f"{address}/status", body)
