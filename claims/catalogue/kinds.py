"""What kinds of devices a specification could get: told apart by what names them and what they cost by."""

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from uuid import UUID

from dra.cel import CelError
from dra.columns import Column
from dra.devices import describe
from dra.match.funnel import funnel
from dra.objects import Json, asks
from dra.picture import Picture
from dra.pools import PoolDevice

# Attributes on which product and partition depend, whoever made the device (dra.devices).
NAMED_BY = ("productName", "model", "type", "profile", "accelerator", "partitionProfile", "computePartition")


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """
    Devices that are alike in one cluster. `fraction` is the part of a whole one that each of them is;
    `memory_bytes` is None where a device does not say.
    """

    cluster_id: UUID
    driver: str
    product: str
    fraction: Fraction
    memory_bytes: int | None = None


def kinds_among(cluster_id: UUID, picture: Picture, devices: Column) -> frozenset[DeviceKind]:
    """Return the kinds among some devices of a picture; each kind is described once, not each device."""
    found = set()
    for device, alike in picture.stock.alike(_look):
        if alike & devices:
            known = describe(device.driver, device.raw)
            found.add(
                DeviceKind(cluster_id, device.driver, known.product, known.fraction, known.memory_bytes)
            )
    return frozenset(found)


def kinds_for(cluster_id: UUID, picture: Picture, spec: Json) -> frozenset[DeviceKind]:
    """
    Return the kinds that match `spec`, free or not; none where a selector cannot be run here.

    Admin access takes no device from anybody (KEP 5018) and is not billed, so it counts for nothing.
    """
    matching: Column = 0
    for ask in asks(spec):
        if ask.admin:
            continue
        try:
            matching |= funnel(picture, ask).accepted
        except KeyError:
            continue  # the cluster has no such class, hence no such device
        except CelError:
            return frozenset()
    return kinds_among(cluster_id, picture, matching)


def _look(device: PoolDevice) -> Hashable:
    attributes = device.raw.get("attributes") or {}
    memory = str((device.raw.get("capacity") or {}).get("memory"))
    return device.driver, memory, tuple(str(attributes.get(name)) for name in NAMED_BY)
