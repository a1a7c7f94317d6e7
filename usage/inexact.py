"""What is approximate in the telemetry of partitions: noted where series are joined, said of their claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from claims.models import Allocation, Claim
from core.text import counted
from usage.attribution import Joined, JoinKey, NotJoined
from usage.models import InexactTelemetry

Why = InexactTelemetry.Why
KEY = ("claim_id", "driver", "pool", "device", "why")
NAMED = 3


def note_inexact(joined: Iterable[Joined]) -> None:
    """Store which partitions were joined approximately or left out as twins; no query without any."""
    wanted = set()
    for one in joined:
        held = one.allocation
        device = held.claim_id, held.driver, held.pool, held.device
        if one.key is JoinKey.INSTANCE:
            wanted.add((*device, Why.INSTANCE))
        elif one.reason is NotJoined.TWINS:
            wanted.add((*device, Why.TWINS))
    if not wanted:
        return
    claims = {claim for claim, *_device in wanted}
    known = set(InexactTelemetry.objects.filter(claim__in=claims).values_list(*KEY))
    InexactTelemetry.objects.bulk_create(
        (InexactTelemetry(**dict(zip(KEY, row, strict=True))) for row in sorted(wanted - known)),
        ignore_conflicts=True,
    )


def approximations(claim: Claim, allocations: Iterable[Allocation], *, has_power: bool) -> list[str]:
    """
    Return what is approximate in the telemetry of a claim, as sentences; `has_power` says whether power was
    measured. No query without partitions, else one.
    """
    if not any(row.partition for row in allocations):
        return []
    names: dict[str, list[str]] = defaultdict(list)
    rows = InexactTelemetry.objects.filter(claim=claim).order_by("device")
    for why, device in rows.values_list("why", "device"):
        names[why].append(device)
    sentences = []
    if found := names[Why.INSTANCE]:
        sentences.append(
            f"Series of {named(found)} were found by the GPU and the MIG profile, because the exporter names "
            "neither the claim nor a UUID of the partition."
        )
    if found := names[Why.TWINS]:
        sentences.append(
            f"{named(found)} had no telemetry while another partition of the same profile was held on the "
            "same GPU: the exporter does not tell them apart."
        )
    if has_power:
        sentences.append(
            "Power of a partition is that of its whole GPU, because GPUs measure no other; its energy is the "
            "part of a GPU that it is."
        )
    return sentences


def named(devices: Sequence[str]) -> str:
    if len(devices) <= NAMED:
        return ", ".join(devices)
    return f"{', '.join(devices[:NAMED])} and {counted(len(devices) - NAMED, 'more device')}"
