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
from dra.allocator.plan import Candidate, ClaimPlan
from dra.allocator.site import NodeSite
from dra.cluster_snapshot import ClusterSnapshot
from dra.features import Implementation
from dra.objects import DeviceRequest, Json, Manifest, alternatives, requests
from dra.pools import PoolDevice

TOLERATION = ("key", "operator", "value", "effect", "tolerationSeconds")


@dataclass(frozen=True, slots=True)
class DeviceResult:
    """
    One device for one request. `share_id` and `consumed` are set for a share of a device.

    `tolerations` are those of the request, `binding` says whether the device's binding conditions apply, and
    `skipping` whether the cluster knows of node operations that can be left out.
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


class Taken(NamedTuple):
    """A device that a search has taken, as a whole or `shared`."""

    wish: Candidate
    spot: int
    consumed: dict[str, CapacityAmount]
    shared: bool


def device_results(site: NodeSite, plan: ClaimPlan, taken: Iterable[Taken]) -> list[DeviceResult]:
    """Return one result per device, in the order in which they were taken."""
    return [
        DeviceResult(
            request=one.wish.request,
            device=site.devices[one.spot],
            share_id=str(uuid4()) if one.shared else "",
            consumed=one.consumed,
            tolerations=_tolerations(plan, one.wish),
            binding=site.features.device_binding_and_status,
            skipping=site.features.implementation is Implementation.EXPERIMENTAL,
        )
        for one in taken
    ]


def _tolerations(plan: ClaimPlan, wish: Candidate) -> list[Json]:
    """Return the tolerations of the first request of that name, which is where upstream looks them up."""
    for request in requests(plan.spec):
        for ask in alternatives(request):
            if ask.result_name == wish.request.result_name:
                return ask.tolerations
    return wish.request.tolerations


def config_results(snapshot: ClusterSnapshot, spec: Json, chosen: Sequence[Candidate]) -> list[Manifest]:
    """
    Return `status.allocation.devices.config`.

    The configuration of a class is given once, for all its requests.
    """
    by_class: dict[str, list[str]] = {}
    for wish in chosen:
        by_class.setdefault(wish.request.class_name, []).append(wish.request.result_name)
    made = [
        _entry("FromClass", names, config, chosen)
        for name, names in by_class.items()
        for config in (snapshot.class_by_name[name].get("spec") or {}).get("config") or ()
    ]
    for config in (spec.get("devices") or {}).get("config") or ():
        names = list(config.get("requests") or ())
        if not names or any(_named(wish, names) for wish in chosen):
            made.append(_entry("FromClaim", names, config, chosen))
    return made


def _named(wish: Candidate, names: Sequence[str]) -> bool:
    return wish.request.request in names or wish.request.result_name in names


def _entry(source: str, names: Sequence[str], config: Json, chosen: Sequence[Candidate]) -> Manifest:
    written: Manifest = {"source": source}
    if names and not all(_named(wish, names) for wish in chosen):
        written["requests"] = list(names)  # left out where it is for all of them
    opaque: Json | None = config.get("opaque")
    if opaque is not None:
        parameters = opaque.get("parameters")
        written["opaque"] = {"driver": opaque.get("driver") or "", "parameters": parameters}
    return written
