"""What the benchmarks ask for: text claim spec per way of asking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.world import DRIVER, Kind
from dra.objects import Manifest

H100 = f"device.attributes['{DRIVER}'].productName.startsWith('NVIDIA H100')"
LARGE = f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0"
RECENT = f"device.attributes['{DRIVER}'].driverVersion.compareTo(semver('580.0.0')) >= 0"


@dataclass(frozen=True, slots=True)
class Question:
    """A spec, and the kind of cluster that it is asked of."""

    name: str
    kind: Kind
    spec: Manifest


def exactly(count: int = 1, *expressions: str, name: str = "gpu", **more: Any) -> Manifest:
    """Return a request of that many devices."""
    return {"name": name, "exactly": device_request(count, *expressions, **more)}


def device_request(count: int, *expressions: str, **more: Any) -> Manifest:
    """Return what `exactly` or an alternative holds."""
    selectors = [{"cel": {"expression": text}} for text in expressions]
    request = {
        "deviceClassName": more.pop("class_name", DRIVER),
        "allocationMode": "ExactCount",
        "count": count,
    }
    return request | {"selectors": selectors, **more}


def spec(*requests: Manifest, match: str = "", distinct: str = "") -> Manifest:
    """Return a claim spec, with one constraint over all requests if an attribute is given."""
    constraint = {"matchAttribute": match} if match else {"distinctAttribute": distinct}
    constraints = {"constraints": [constraint]} if match or distinct else {}
    return {"devices": {"requests": list(requests), **constraints}}


ROOT, NUMA = "resource.kubernetes.io/pcieRoot", "resource.kubernetes.io/numaNode"
SHARE: Manifest = {"capacity": {"requests": {"memory": "20Gi"}}}
MIG: Manifest = {"deviceClassName": "mig.nvidia.com"}
PREFERENCES = {
    "name": "gpu",
    "firstAvailable": [
        {"name": "four-h100", **device_request(4, H100)},
        {"name": "two-large", **device_request(2, LARGE)},
        {"name": "any", **device_request(1)},
    ],
}


def _profile(name: str) -> str:
    return f"device.attributes['{DRIVER}'].profile == '{name}'"


MATCHED = Question("match", Kind.WHOLE, spec(exactly(1, H100, LARGE, RECENT)))
FUNNEL = Question("funnel", Kind.WHOLE, spec(exactly(1, f"{H100} && {LARGE} && {RECENT}")))
FITS = (
    Question("fits: one device", Kind.WHOLE, spec(exactly(1, H100, LARGE))),
    Question("fits: four devices", Kind.WHOLE, spec(exactly(4, H100, LARGE))),
    Question("fits: two on one PCIe root", Kind.WHOLE, spec(exactly(2, H100), match=ROOT)),
    Question("fits: four on one NUMA node", Kind.WHOLE, spec(exactly(4, LARGE), match=NUMA)),
    Question("fits: two requests", Kind.WHOLE, spec(exactly(2, H100, name="a"), exactly(1, LARGE, name="b"))),
    Question("fits: first available", Kind.WHOLE, spec(PREFERENCES)),
    Question("fits: a share", Kind.SHARED, spec(exactly(1, **SHARE))),
    Question("fits: two shares of different devices", Kind.SHARED, spec(exactly(2, **SHARE), distinct=ROOT)),
    Question("fits: a partition", Kind.PARTITIONED, spec(exactly(1, _profile("3g.40gb"), **MIG))),
    Question("fits: two partitions", Kind.PARTITIONED, spec(exactly(2, _profile("1g.10gb"), **MIG))),
    Question(
        "fits: partitions of two sizes",
        Kind.PARTITIONED,
        spec(
            exactly(1, _profile("3g.40gb"), name="large", **MIG),
            exactly(1, _profile("1g.10gb"), name="small", **MIG),
        ),
    ),
)
