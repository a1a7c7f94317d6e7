"""
Who may see which claim holds a device.

The mirror knows ResourceClaims, not teams, so `settings.DEVICE_HOLDERS` names the function that returns the
holders that a person may see. Other holders are "another team", and platform admins see namespace and name.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.utils.module_loading import import_string

from dra import devices
from dra.quantity import QuantityError
from inventory.models import Device, Pod, ResourceClaim
from inventory.states import Holder

type Person = AbstractUser | AnonymousUser

HIDDEN = Holder("another team", masked=True)


class HeldClaim(NamedTuple):
    """The columns that identify a ResourceClaim as a holder."""

    pk: int
    owner: str
    cluster_id: UUID
    namespace: str
    name: str


def holders_for(person: Person, claims: Iterable[ResourceClaim | HeldClaim]) -> dict[int, Holder]:
    """Return the holder of each claim by primary key; the number of queries does not grow with the claims."""
    by_pk = {claim.pk: claim for claim in claims}
    if not by_pk:
        return {}
    visible: Mapping[int, Holder] = import_string(settings.DEVICE_HOLDERS)(person, by_pk.values())
    if person.is_superuser:
        return {pk: visible.get(pk) or Holder(f"{one.namespace}/{one.name}") for pk, one in by_pk.items()}
    return {pk: visible.get(pk) or HIDDEN for pk in by_pk}


def name_holders(person: Person, devices: Iterable[Device]) -> None:
    """Set `holder` of each device, None where nobody holds it. `held_by` must have been loaded."""
    devices = list(devices)
    holders = holders_for(person, {device.held_by for device in devices if device.held_by})
    for device in devices:
        device.holder = holders[device.held_by.pk] if device.held_by else None


class HeldShare(NamedTuple):
    """A claim's part of a shared device; `memory_bytes` is None where the allocation names none."""

    holder: Holder
    since: datetime
    memory_bytes: int | None


def shares_of(person: Person, device: Device) -> list[HeldShare]:
    """
    Return all claims that hold a share of this device, oldest first, in three queries.

    They are found by the pods on its node, so that a page does not read all claims of a cluster. A claim
    without a pod there is found only if it is the device's `held_by`.
    """
    here = {"cluster": device.cluster_id, "gone_at": None}
    names: dict[str, set[str]] = {}
    pods = Pod.objects.filter(**here, node_name=device.node_name) if device.node_name else Pod.objects.none()
    for namespace, claims in pods.values_list("namespace", "claims"):
        names.setdefault(namespace, set()).update(claims)
    rows = ResourceClaim.objects.filter(**here, pk__in=[device.held_by_id])
    for namespace, used in names.items():
        rows |= ResourceClaim.objects.filter(**here, namespace=namespace, name__in=used)
    found = [(row, result) for row in rows for result in _results_on(row, device)]
    found.sort(key=lambda pair: (pair[0].allocated_at or pair[0].seen_at, pair[0].name))
    holders = holders_for(person, [row for row, _result in found])
    return [
        HeldShare(holders[row.pk], row.allocated_at or row.seen_at, _memory_of_share(device, result))
        for row, result in found
    ]


def _results_on(row: ResourceClaim, device: Device) -> Iterator[Mapping[str, Any]]:
    allocation = (row.raw.get("status") or {}).get("allocation") or {}
    for result in (allocation.get("devices") or {}).get("results") or []:
        place = (result.get("driver"), result.get("pool"), result.get("device"))
        if place == (device.driver, device.pool, device.name) and not result.get("adminAccess"):
            yield result


def _memory_of_share(device: Device, result: Mapping[str, Any]) -> int | None:
    try:
        return devices.memory_share(device.driver, result.get("consumedCapacity") or {})
    except QuantityError:
        return None
