"""What an allocation is, and how it is written into `status.allocation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra.allocator.capacity import Amount
from dra.objects import Ask, Json, Manifest
from dra.pools import PoolDevice

TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """
    One device for one request. `share_id` and `consumed` are set for a share of a device.

    `tolerations` are those of the request, `binding` says whether the device's binding conditions apply, and
    `skipping` whether the cluster knows of node operations that can be left out.
    """

    ask: Ask
    device: PoolDevice
    share_id: str = ""
    consumed: Mapping[str, Amount] = field(default_factory=dict)
    tolerations: Sequence[Json] = ()
    binding: bool = True
    skipping: bool = False

    def as_dict(self) -> Manifest:
        device = self.device
        written: Manifest = {
            "request": self.ask.result_name,
            "driver": device.driver,
            "pool": device.pool,
            "device": device.name,
        }
        if self.ask.admin:
            written["adminAccess"] = True
        if self.tolerations:
            written["tolerations"] = [_toleration(one) for one in self.tolerations]
        for conditions in ("bindingConditions", "bindingFailureConditions") if self.binding else ():
            if device.raw.get(conditions):
                written[conditions] = list(device.raw[conditions])
        if self.share_id:
            written["shareID"] = self.share_id
        if self.skipping and device.skipped:
            written["skipNodeOperations"] = list(device.skipped)
        if self.consumed:
            written["consumedCapacity"] = {name: str(amount) for name, amount in self.consumed.items()}
        return written


@dataclass(frozen=True, slots=True)
class AllocationResult:
    """All devices of one claim, with the configuration that goes to the drivers."""

    node_name: str
    devices: Sequence[DeviceResult]
    config: Sequence[Manifest] = ()
    node_selector: Manifest | None = None  # None: the claim can be used on every node

    def as_dict(self) -> Manifest:
        """Return `status.allocation`, without the timestamp."""
        devices: Manifest = {}
        if self.devices:
            devices["results"] = [device.as_dict() for device in self.devices]
        if self.config:
            devices["config"] = list(self.config)
        selector = self.node_selector
        return {"devices": devices} | ({"nodeSelector": selector} if selector else {})


def _toleration(raw: Json) -> Manifest:
    """Return a toleration as the API writes it, without what is empty."""
    return {name: raw[name] for name in TOLERATION if raw.get(name) not in (None, "")}
