"""
Which pods a named ResourceClaim was reserved for, and from when to when: what its cost is divided by.

`status.reservedFor` says only who may use the claim now, so its changes are stored while the mirror still
shows them. A claim created from a template belongs to one pod, so nothing is stored of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.utils import timezone

from claims.models import Claim, Consumer, Delivery
from claims.observation.observations import Observation, consumer_references
from inventory.models import Pod, ResourceClaim
from inventory.sync.columns import finished_at, instant


@dataclass(frozen=True, slots=True)
class ConsumerChanges:
    """The open rows whose reservation ended, with their end, and rows of new reservations."""

    ended: list[Consumer] = field(default_factory=list)
    begun: list[Consumer] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.ended or self.begun)


def open_consumers(claims: Collection[Claim]) -> dict[UUID, list[Consumer]]:
    """Return the open rows of each claim; one query."""
    found: dict[UUID, list[Consumer]] = defaultdict(list)
    for row in Consumer.objects.filter(claim__in=claims, ended_at=None):
        found[row.claim_id].append(row)
    return found


def sync_consumers(claim: Claim, seen: Observation) -> bool:
    """
    Store whose reservations began and ended; return whether anything changed. Call under the claim's lock,
    with the observation that `sync_allocations` was called with.
    """
    changes = consumer_changes(claim, seen, open_consumers([claim])[claim.pk])
    Consumer.objects.bulk_update(changes.ended, ["ended_at"])
    Consumer.objects.bulk_create(changes.begun, ignore_conflicts=True)
    return bool(changes)


def consumer_changes(claim: Claim, seen: Observation, known: Iterable[Consumer]) -> ConsumerChanges:
    """Compare the open rows of a claim with the mirror."""
    if claim.delivery == Delivery.TEMPLATE:
        return ConsumerChanges()
    pods = {pod.uid: pod for pod in seen.pods}
    reserved = {
        (row.uid, reference.get("uid", "")): (row, reference)
        for row in seen.holders
        for reference in consumer_references(row)
    }
    ended = []
    for consumer in known:
        if reserved.pop((consumer.object_uid, consumer.uid), None) is None:
            at = _end_of_reservation(seen.known.get(consumer.object_uid), pods.get(consumer.uid))
            consumer.ended_at = max(at, consumer.started_at)  # clocks differ
            ended.append(consumer)
    return ConsumerChanges(ended, _begun(claim, seen, pods, reserved.values()))


def _begun(
    claim: Claim,
    seen: Observation,
    pods: dict[str, Pod],
    reserved: Iterable[tuple[ResourceClaim, dict[str, Any]]],
) -> list[Consumer]:
    """
    Return rows of new reservations. The scheduler writes the allocation together with its first reservation,
    so the earliest of a new allocation begins with it.
    """
    begun = [
        Consumer(
            claim=claim,
            object_uid=row.uid,
            resource=str(reference.get("resource", ""))[:63],
            uid=reference.get("uid", ""),
            name=reference.get("name", ""),
            started_at=_begin_of_reservation(row, pods.get(reference.get("uid", ""))),
        )
        for row, reference in reserved
    ]
    held_since = {held.object_uid: held.started_at for held in seen.open}
    for row in seen.holders:
        first = min(
            (consumer for consumer in begun if consumer.object_uid == row.uid),
            key=lambda consumer: consumer.started_at,
            default=None,
        )
        known_since = held_since.get(row.uid)
        if first and row.allocated_at and (known_since is None or known_since < row.allocated_at):
            first.started_at = row.allocated_at
    return begun


def _begin_of_reservation(row: ResourceClaim, pod: Pod | None) -> datetime:
    """Return when a pod was scheduled by the cluster's clock, which is when the claim was reserved for it."""
    at = _scheduled_at(pod) if pod is not None else None
    at = at or row.seen_at
    return max(at, row.allocated_at) if row.allocated_at else at


def _scheduled_at(pod: Pod) -> datetime | None:
    for condition in (pod.raw.get("status") or {}).get("conditions") or []:
        if condition.get("type") == "PodScheduled" and condition.get("status") == "True":
            return instant(condition.get("lastTransitionTime"))
    return None


def _end_of_reservation(row: ResourceClaim | None, pod: Pod | None) -> datetime:
    """
    Return when a reservation ended. The API has no time of it: it is when the mirror saw the claim without
    it, or saw it gone; or the end of the pod's last container, which may have been long before.
    """
    seen_at = timezone.now() if row is None else row.gone_at or row.seen_at
    ended_at = finished_at({**(pod.raw.get("status") or {}), "phase": pod.phase}) if pod else None
    return min(seen_at, ended_at) if ended_at else seen_at
