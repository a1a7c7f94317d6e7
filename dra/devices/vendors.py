"""
Under which names each driver publishes what the portal shows. A new driver is a new entry here, or none at
all: the usual names are tried for drivers that are not listed.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Vendor:
    """
    Names of attributes, the newest first; a bare name belongs to the driver's domain.

    `kinds` maps the driver's own word for a type to the portal's.
    """

    kind: str = "gpu"  # where the driver does not say
    kinds: dict[str, str] = field(default_factory=dict)
    product: tuple[str, ...] = ("productName", "model", "accelerator")
    partition: tuple[str, ...] = ("profile", "partitionProfile")
    uuid: tuple[str, ...] = ("uuid", "serial")
    parent: tuple[str, ...] = ("parentUUID",)
    memory: tuple[str, ...] = ("memory", "addressableMemory")
    compute_capability: tuple[str, ...] = ("cudaComputeCapability",)
    driver_version: tuple[str, ...] = ("driverVersion",)


# Sources: the drivers' repositories as of 2026-08; cmd/gpu-kubelet-plugin/deviceinfo.go for NVIDIA.
VENDORS = {
    "gpu.nvidia.com": Vendor(),
    "compute-domain.nvidia.com": Vendor(kind="channel"),
    "gpu.amd.com": Vendor(
        kinds={"amdgpu": "gpu", "amdgpu-partition": "partition"},
        partition=("partitionProfile", "computePartition"),
        uuid=(),  # AMD publishes none: telemetry is joined by node and PCI address
        parent=("parentDeviceID", "parentPciAddr"),
        compute_capability=(),
    ),
    "gpu.intel.com": Vendor(product=("model",), uuid=("uuid",), compute_capability=()),
    "gaudi.intel.com": Vendor(kind="gaudi", product=("model",), uuid=("serial",), compute_capability=()),
    "qat.intel.com": Vendor(kind="qat", product=("model",), compute_capability=()),
    "tpu.google.com": Vendor(kind="tpu", product=("accelerator", "tpuGen"), compute_capability=()),
    "gpu.example.com": Vendor(product=("model",)),
}
UNKNOWN = Vendor(kind="device")


def vendor_of(driver: str) -> Vendor:
    return VENDORS.get(driver, UNKNOWN)
