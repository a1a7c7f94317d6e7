"""Invented history, so that graphs, costs and lists of a fresh demo have something to show."""

import math
import random
from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db.models import F
from django.utils import timezone

from claims.models import Allocation, Claim, Profile, Transition
from claims.states import ClaimState
from inventory.models import Device
from teams.models import Team, User
from usage.models import Rollup

BUCKET = timedelta(minutes=5)

# name, profile, owner, began days ago, lasted hours, mean activity (None: no telemetry)
ENDED = (
    ("bev-train", "train-80g", "engineer", 17, 61, 0.83),
    ("lidar-voxels", "train-48g", "jonas", 15, 30, 0.64),
    ("clip-probe", "notebook-24g", "engineer", 12, 9, 0.22),
    ("panoptic-v2", "train-80g", "jonas", 9, 44, 0.77),
    ("gan-restore", "train-48g", "engineer", 6, 19, 0.58),
    ("label-notebook", "notebook-24g", "noor", 4, 26, None),
    ("mt-adapters", "train-80g", "ines", 13, 72, 0.69),
    ("asr-small", "train-48g", "sofia", 8, 36, 0.71),
)


def curve(seed: str, start: datetime, end: datetime, mean: float) -> Iterator[tuple[datetime, float]]:
    """Five-minute means around `mean` with a slow wave and some noise; the same every time for one seed."""
    noise = random.Random(seed)  # noqa: S311, not for secrets
    phase = noise.random() * math.tau
    at = start - timedelta(minutes=start.minute % 5, seconds=start.second, microseconds=start.microsecond)
    step = 0
    while at < end:
        wave = 0.08 * math.sin(step / 14 + phase)
        yield at, min(1.0, max(0.0, mean + wave + noise.uniform(-0.05, 0.05)))
        at, step = at + BUCKET, step + 1


def rollups(claim: Claim, allocation: Allocation, end: datetime, mean: float) -> list[Rollup]:
    memory = allocation.memory_bytes or 16 * 2**30
    return [
        Rollup(
            claim=claim,
            driver=allocation.driver,
            pool=allocation.pool,
            device=allocation.device,
            bucket=at,
            samples=10,
            activity=activity,
            memory_bytes=int(memory * (0.35 + 0.45 * mean)),
            power_watts=80 + 520 * activity,
        )
        for at, activity in curve(f"{claim.name}/{allocation.device}", allocation.started_at, end, mean)
    ]


def load_past() -> None:
    """Claims that ended before the demo began."""
    now = timezone.now()
    for name, slug, username, days, hours, mean in ENDED:
        owner = User.objects.get(username=username)
        if Claim.objects.filter(requested_by=owner, key=f"demo-{name}").exists():
            continue
        profile = Profile.objects.select_related("current").get(slug=slug)
        device = device_for(slug)
        if profile.current is None or device is None:
            continue
        start = now - timedelta(days=days)
        end = start + timedelta(hours=hours)
        claim = Claim.objects.create(
            name=name,
            key=f"demo-{name}",
            team=Team.objects.get(memberships__user=owner),
            cluster=device.cluster,
            namespace=Team.objects.get(memberships__user=owner).slug,
            profile_version=profile.current,
            requested_by=owner,
            devices=1,
            duration=timedelta(hours=hours + 12),
            reason="Sample of a claim that ended before this demo began.",
            spec=profile.current.spec,
            spec_hash=profile.current.spec_hash,
            state=ClaimState.RELEASED,
            state_since=end,
            created_at=start - timedelta(minutes=9),
        )
        tell_history(claim, start, end)
        allocation = hold(claim, device, start, end)
        if mean is not None:
            Rollup.objects.bulk_create(rollups(claim, allocation, end, mean), batch_size=2000)


def device_for(slug: str) -> Device | None:
    starts = {"train-80g": "NVIDIA H100", "train-48g": "NVIDIA L40S", "notebook-24g": "NVIDIA L4"}
    devices = Device.objects.filter(product__startswith=starts[slug], gone_at=None).select_related("cluster")
    return devices.exclude(product="NVIDIA L40S").first() if slug == "notebook-24g" else devices.first()


def tell_history(claim: Claim, start: datetime, end: datetime) -> None:
    steps = (
        (ClaimState.REQUESTED, start - timedelta(minutes=9), "requested"),
        (ClaimState.APPROVED, start - timedelta(minutes=4), "approved"),
        (ClaimState.PROVISIONED, start - timedelta(minutes=3), "written to the cluster"),
        (ClaimState.ALLOCATED, start, "the scheduler has allocated devices"),
        (ClaimState.RELEASING, end - timedelta(minutes=1), "released"),
        (ClaimState.RELEASED, end, "gone from the cluster"),
    )
    old = ""
    for state, at, why in steps:
        Transition.objects.create(claim=claim, old=old, new=state, why=why, at=at)
        old = state


def hold(claim: Claim, device: Device, start: datetime, end: datetime) -> Allocation:
    return Allocation.objects.create(
        claim=claim,
        object_uid=f"sample-{claim.pk}",
        object_name=claim.name,
        request="gpu",
        driver=device.driver,
        pool=device.pool,
        device=device.name,
        node_name=device.node_name,
        product=device.product,
        partition=device.partition,
        uuid=device.uuid,
        memory_bytes=device.memory_bytes,
        started_at=start,
        ended_at=end,
    )


def backdate(claim: Claim, by: timedelta, mean: float | None) -> None:
    """Let a living claim have begun earlier than it did, with the telemetry of that time."""
    Claim.objects.filter(pk=claim.pk).update(
        created_at=F("created_at") - by,
        state_since=F("state_since") - by,
        expires_at=F("expires_at") - by / 2,
        version=F("version") + 1,
    )
    claim.history.update(at=F("at") - by)
    Allocation.objects.filter(claim=claim, ended_at=None).update(started_at=F("started_at") - by)
    if mean is None:
        return
    for allocation in Allocation.objects.filter(claim=claim, ended_at=None):
        made = rollups(claim, allocation, timezone.now() - BUCKET, mean)
        Rollup.objects.bulk_create(made, batch_size=2000, ignore_conflicts=True)
