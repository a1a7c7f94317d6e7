"""
Allocation rows: opened and closed by the times of the cluster, so that cost stands on what was really held.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.db.models import Q
from django.utils import timezone

from claims.models import Allocation, Claim
from claims.observed.sightings import Held, Sighting
from dra.devices import describe, share
from dra.quantity import QuantityError
from inventory.models import Device

PLACES = 6  # as in the column
SMALLEST = Decimal("0.000001")


def follow(claim: Claim, seen: Sighting) -> bool:
    """
    Close what is not held any more and open what is; return whether anything changed. Call under the claim's
    lock.

    Admin access takes no device from anybody (KEP 5018), so it opens no row.
    """
    held = {each.key: each for each in seen.held if not each.admin_access}
    closed = []
    for row in seen.open:
        key = (row.object_uid, row.driver, row.pool, row.device, row.share_id)
        ended_at = _end(row, held.get(key), seen)
        if ended_at is None:
            held.pop(key, None)
        else:
            row.ended_at = max(ended_at, row.started_at)  # clocks differ
            closed.append(row)
    Allocation.objects.bulk_update(closed, ["ended_at"])
    opened = Allocation.objects.bulk_create(_open(claim, held.values()), ignore_conflicts=True)
    return bool(closed or opened)


def _end(row: Allocation, held: Held | None, seen: Sighting) -> datetime | None:
    """
    Return when the device of an open row was given back, None while it is held.

    The API keeps no time of deallocation: it is when the mirror saw the object without it, or saw it gone. A
    device that was given back and taken again while nobody looked has a newer time of allocation.
    """
    if held is not None:
        return held.since if held.since > row.started_at else None
    known = seen.known.get(row.object_uid)
    if known is None:
        return timezone.now()
    return known.gone_at or known.seen_at


def _open(claim: Claim, held: Iterable[Held]) -> list[Allocation]:
    wanted = list(held)
    if not wanted:
        return []
    names = Q(driver__in={each.driver for each in wanted}, pool__in={each.pool for each in wanted})
    devices = {
        (device.driver, device.pool, device.name): device
        for device in Device.objects.filter(
            names, cluster=claim.cluster_id, name__in={each.device for each in wanted}
        )
    }
    return [
        Allocation(
            claim=claim,
            object_uid=each.object_uid,
            object_name=each.object_name,
            request=each.request,
            driver=each.driver,
            pool=each.pool,
            device=each.device,
            share_id=each.share_id,
            started_at=each.since,
            **copied(devices.get((each.driver, each.pool, each.device)), each.consumed),
        )
        for each in wanted
    ]


def copied(device: Device | None, consumed: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Return the columns of an Allocation that are kept of a device, which may change or vanish later."""
    if device is None:
        return {}
    raw = {"name": device.name, "attributes": device.attributes, "capacity": device.capacity}
    return {
        "node_name": device.node_name,
        "product": device.product,
        "partition": device.partition,
        "uuid": device.uuid,
        "memory_bytes": device.memory_bytes,
        "fraction": _fraction(device.driver, raw, consumed),
    }


def _fraction(driver: str, raw: dict[str, Any], consumed: Mapping[str, str] | None) -> Decimal:
    part = describe(driver, raw).fraction
    if consumed:
        with suppress(QuantityError):
            part *= share(raw, consumed)
    return max(round(Decimal(part.numerator) / part.denominator, PLACES), SMALLEST)
