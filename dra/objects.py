"""Shared types: API objects as plain JSON, and the device requests of a claim spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

type Json = Mapping[str, Any]
type Manifest = dict[str, Any]

MAX_RESULTS = 32  # devices in one claim (resource/v1 `AllocationResultsMaxSize`)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """
    A device request or sub-request: `exactly` of a request, or one alternative of `firstAvailable`.

    `result_name` is its name in `status.allocation`: "gpu" or "gpu/h100".
    """

    request: str
    alternative: str  # "" under `exactly`
    path: str  # in the spec
    raw: Json

    @property
    def result_name(self) -> str:
        return f"{self.request}/{self.alternative}" if self.alternative else self.request

    @property
    def class_name(self) -> str:
        return str(self.raw.get("deviceClassName") or "")

    @property
    def all(self) -> bool:
        return self.raw.get("allocationMode") == "All"

    @property
    def count(self) -> int:
        """Number of devices in mode ExactCount; the API defaults 0 and an absent count to 1."""
        return int(self.raw.get("count") or 1)

    @property
    def admin(self) -> bool:
        return self.raw.get("adminAccess") is True

    @property
    def tolerations(self) -> list[Json]:
        return list(self.raw.get("tolerations") or ())

    @property
    def expressions(self) -> list[str]:
        return expressions(self.raw)

    @property
    def derived(self) -> list[Json]:
        return list(self.raw.get("derivedAttributes") or ())

    @property
    def capacity(self) -> Json:
        capacity_requests: Json = (self.raw.get("capacity") or {}).get("requests") or {}
        return capacity_requests


def expressions(holder: Json) -> list[str]:
    """Return the CEL expressions of a DeviceClass spec or of a request, in order."""
    return [
        str((selector.get("cel") or {}).get("expression") or "") for selector in holder.get("selectors") or ()
    ]


def requests(spec: Json) -> list[Json]:
    return list((spec.get("devices") or {}).get("requests") or ())


def constraints(spec: Json) -> list[Json]:
    return list((spec.get("devices") or {}).get("constraints") or ())


def alternatives(request: Json, path: str = "") -> list[DeviceRequest]:
    """Return the sub-requests of one request, the preferred one first."""
    name = str(request.get("name") or "")
    if first_available := request.get("firstAvailable"):
        return [
            DeviceRequest(name, str(option.get("name") or ""), f"{path}.firstAvailable[{index}]", option)
            for index, option in enumerate(first_available)
        ]
    exactly = request.get("exactly")
    return [] if exactly is None else [DeviceRequest(name, "", f"{path}.exactly", exactly)]


def device_requests(spec: Json) -> Iterator[DeviceRequest]:
    """Yield all device requests of the spec, alternatives included."""
    for index, request in enumerate(requests(spec)):
        yield from alternatives(request, f"devices.requests[{index}]")
