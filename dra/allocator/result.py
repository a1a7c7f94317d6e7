"""What an allocation is, and how it is written into `status.allocation`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dra.nodes import selector_for
from dra.objects import Ask, Json, Manifest
from dra.pools import PoolDevice
from dra.quantity import Quantity


class AllocationError(Exception):
    """
    The claims cannot be tried at all, whatever is free; the message is a sentence.

    Upstream, the pod is unschedulable with an error then, and not merely waiting.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SearchGivenUp(AllocationError):
    """There may be a way, but finding it takes longer than a search may: upstream times out likewise."""


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """One device for one request. `share_id` and `consumed` are set for a share of a device."""

    ask: Ask
    device: PoolDevice
    share_id: str = ""
    consumed: Mapping[str, Quantity] = field(default_factory=dict)

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
        if self.ask.tolerations:
            written["tolerations"] = list(self.ask.tolerations)
        for conditions in ("bindingConditions", "bindingFailureConditions"):
            if device.raw.get(conditions):
                written[conditions] = list(device.raw[conditions])
        if self.share_id:
            written["shareID"] = self.share_id
        if self.consumed:
            written["consumedCapacity"] = {name: str(amount) for name, amount in self.consumed.items()}
        return written


@dataclass(frozen=True, slots=True)
class AllocationResult:
    """All devices of one claim, with the configuration that goes to the drivers."""

    node_name: str
    devices: Sequence[DeviceResult]
    config: Sequence[Json] = ()

    def as_dict(self) -> Manifest:
        """Return `status.allocation`, without the timestamp."""
        devices: Manifest = {"results": [device.as_dict() for device in self.devices]}
        if self.config:
            devices["config"] = list(self.config)
        selector = selector_for((device.device for device in self.devices), self.node_name)
        return {"devices": devices} | ({"nodeSelector": selector} if selector else {})
