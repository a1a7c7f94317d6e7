"""
What an allocation is, what it takes, and how it is written into `status.allocation`.

What an allocation is, and how it is written into `status.allocation`.

What a search has taken for a claim, as the results of an allocation.

Which opaque configuration goes with an allocation: that of the classes first, then that of the claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import uuid4

from dra.allocator.capacity import CapacityAmount
from dra.allocator.node import NodeSite
from dra.allocator.plan import Candidate, ClaimPlan
from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Implementation
from dra.objects import DeviceRequest, Json, Manifest, alternatives, requests
from dra.pools import PoolDevice

TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """
    One device of one request. `share_id` and `consumed` are set for a share of a device.

    `tolerations` are those of the request; `binding` and `skipping` are True if the cluster supports binding
    conditions and optional node operations.
    """

    request: DeviceRequest
    device: PoolDevice
    share_id: str = ""
    consumed: Mapping[str, CapacityAmount] = field(default_factory=dict)
    tolerations: Sequence[Json] = ()
    binding: bool = True
    skipping: bool = False

    def as_dict(self) -> Manifest:
        device = self.device
        written: Manifest = {
            "request": self.request.result_name,
            "driver": device.driver,
            "pool": device.pool,
            "device": device.name,
        }
        if self.request.admin:
            written["adminAccess"] = True
        if self.tolerations:
            written["tolerations"] = [_toleration(toleration) for toleration in self.tolerations]
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
    """All devices of one claim, with the configuration for the drivers."""

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
    """Return a toleration without empty fields."""
    return {name: raw[name] for name in TOLERATION if raw.get(name) not in (None, "")}


class InternalDeviceResult(NamedTuple):
    """A device that a search has allocated, as a whole or `shared`."""

    candidate: Candidate
    device_index: int
    consumed: dict[str, CapacityAmount]
    shared: bool


def device_results(
    site: NodeSite, plan: ClaimPlan, internal_results: Iterable[InternalDeviceResult]
) -> list[DeviceResult]:
    """Return one result per device, in allocation order."""
    return [
        DeviceResult(
            request=result.candidate.request,
            device=site.devices[result.device_index],
            share_id=str(uuid4()) if result.shared else "",
            consumed=result.consumed,
            tolerations=_tolerations(plan, result.candidate),
            binding=site.features.device_binding_and_status,
            skipping=site.features.implementation is Implementation.EXPERIMENTAL,
        )
        for result in internal_results
    ]


def _tolerations(plan: ClaimPlan, candidate: Candidate) -> list[Json]:
    """Return the tolerations of the first request of that name, like upstream."""
    for request in requests(plan.spec):
        for device_request in alternatives(request):
            if device_request.result_name == candidate.request.result_name:
                return device_request.tolerations
    return candidate.request.tolerations


def config_results(snapshot: ClusterSnapshot, spec: Json, chosen: Sequence[Candidate]) -> list[Manifest]:
    """
    Return `status.allocation.devices.config`.

    The configuration of a class is written once for all its requests.
    """
    by_class: dict[str, list[str]] = {}
    for candidate in chosen:
        by_class.setdefault(candidate.request.class_name, []).append(candidate.request.result_name)
    configs = [
        _entry("FromClass", names, config, chosen)
        for name, names in by_class.items()
        for config in (snapshot.class_by_name[name].get("spec") or {}).get("config") or ()
    ]
    for config in (spec.get("devices") or {}).get("config") or ():
        names = list(config.get("requests") or ())
        if not names or any(_named(candidate, names) for candidate in chosen):
            configs.append(_entry("FromClaim", names, config, chosen))
    return configs


def _named(candidate: Candidate, names: Sequence[str]) -> bool:
    return candidate.request.request in names or candidate.request.result_name in names


def _entry(source: str, names: Sequence[str], config: Json, chosen: Sequence[Candidate]) -> Manifest:
    written: Manifest = {"source": source}
    if names and not all(_named(candidate, names) for candidate in chosen):
        written["requests"] = list(names)  # omitted if it applies to all requests
    opaque: Json | None = config.get("opaque")
    if opaque is not None:
        parameters = opaque.get("parameters")
        written["opaque"] = {"driver": opaque.get("driver") or "", "parameters": parameters}
    return written
