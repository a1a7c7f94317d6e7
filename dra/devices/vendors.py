"""
How to read a device of each driver. A new driver is a new entry here, or none at all: the usual names are
tried for drivers that are not listed. Nothing else in `dra` knows the name of a maker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from dra.devices import amd, mig
from dra.objects import Json

# (partition, product, raw device) → the part of the whole that it is, None where that cannot be told
type FractionOf = Callable[[str, str, Json], Fraction | None]


@dataclass(frozen=True, slots=True)
class Vendor:
    """
    Names of attributes, the newest first; a bare name belongs to the driver's domain.

    `kinds` maps the driver's own word for a type to the portal's. `memory` names capacities.
    """

    kind: str = "gpu"  # where the driver does not say
    maker: str = "other"  # key of the images that suit the device
    kinds: dict[str, str] = field(default_factory=dict)
    product: tuple[str, ...] = ("productName", "model", "accelerator")
    partition: tuple[str, ...] = ("profile", "partitionProfile")
    uuid: tuple[str, ...] = ("uuid", "serial")
    parent: tuple[str, ...] = ("parentUUID",)
    memory: tuple[str, ...] = ("memory", "addressableMemory")
    compute_capability: tuple[str, ...] = ()
    driver_version: tuple[str, ...] = ("driverVersion",)
    fraction: FractionOf = mig.fraction  # its names of partitions are nobody else's


# Sources: the drivers' repositories as of 2026-08; cmd/gpu-kubelet-plugin/deviceinfo.go for NVIDIA.
VENDORS = {
    "gpu.nvidia.com": Vendor(maker="nvidia", compute_capability=("cudaComputeCapability",)),
    "compute-domain.nvidia.com": Vendor(kind="channel"),
    "gpu.amd.com": Vendor(
        maker="amd",
        kinds={"amdgpu": "gpu", "amdgpu-partition": "partition"},
        partition=("partitionProfile", "computePartition"),
        uuid=(),  # AMD publishes none: telemetry is joined by node and PCI address
        parent=("parentDeviceID", "parentPciAddr"),
        fraction=amd.fraction,
    ),
    "gpu.intel.com": Vendor(maker="intel", product=("model",), uuid=("uuid",)),
    "gaudi.intel.com": Vendor(maker="gaudi", kind="gaudi", product=("model",), uuid=("serial",)),
    "qat.intel.com": Vendor(kind="qat", product=("model",)),
    "tpu.google.com": Vendor(maker="tpu", kind="tpu", product=("accelerator", "tpuGen")),
    "gpu.example.com": Vendor(product=("model",)),
    "dra.net": Vendor(kind="nic", product=("pciDevice", "ifName")),
}
UNKNOWN = Vendor(kind="device")


def vendor_of(driver: str) -> Vendor:
    return VENDORS.get(driver, UNKNOWN)
