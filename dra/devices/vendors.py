"""
How to read a device of each driver, and which part of a GPU a partition is.

What part of a GPU an AMD partition is, by its compute partition mode.

What part of a GPU a MIG device is.

The price of a part is max(compute slices, memory slices) of the whole: a 3g takes 3 of 7 compute slices but
half of the memory, and what it strands nobody else can use. Slices per profile: NVIDIA MIG user guide,
supported profiles.

How to read a device of each driver. A new driver is a new entry here, or none at all: the usual names are
tried for drivers that are not listed. Nothing else in `dra` knows the name of a vendor.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction

from dra.objects import Json

# Parts of a GPU per compute partition mode (ROCm, MI300 series: 8 XCDs).
MODES = {
    "spx": Fraction(1),
    "dpx": Fraction(1, 2),
    "tpx": Fraction(1, 3),
    "qpx": Fraction(1, 4),
    "cpx": Fraction(1, 8),
}


def amd_fraction(profile: str, product: str, raw: Json) -> Fraction | None:
    """Return the part that "cpx_nps4" or "CPX-NPS4" names, None for a mode that is not known."""
    return MODES.get(profile.partition("_")[0].partition("-")[0].lower())


PROFILE = re.compile(r"(?:(\d+)c\.)?(\d+)g\.(\d+)gb(?:[+-][a-z.]+)*", re.ASCII)
SLICE = re.compile(r"memory-?slice-?\d+", re.ASCII | re.IGNORECASE)
FOUR_SLICES = ("A30", "RTX PRO 6000")  # 4 compute and 4 memory slices; every other MIG GPU has 7 and 8
# GB that the profiles of a product are named after, the more special name first.
WHOLE_GB = (
    ("A100 80GB", 80),
    ("A100-SXM4-80GB", 80),
    ("A800", 80),
    ("A100", 40),
    ("A30", 24),
    ("H100 NVL", 94),
    ("H100 96GB", 96),
    ("H100", 80),
    ("H800", 80),
    ("GH200 144G", 144),
    ("GH200", 96),
    ("H200", 141),
    ("H20", 96),
    ("GB200", 186),
    ("B200", 180),
    ("GB300", 279),
    ("B300", 269),
    ("RTX PRO 6000", 96),
)
USUAL_MEMORY = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}  # memory slices of the usual profile of 7-slice GPUs


def mig_fraction(profile: str, product: str, raw: Json) -> Fraction | None:
    """Return the part of the GPU that a MIG device takes, or None for a profile that is not understood."""
    found = PROFILE.fullmatch(profile)
    if found is None:
        return None
    compute, gigabytes = int(found[2]), int(found[3])
    small = any(name in product for name in FOUR_SLICES)
    whole_compute, whole_memory = (4, 4) if small else (7, 8)
    memory = _published(raw) or _from_product(gigabytes, product, whole_memory)
    memory = memory or (compute if small else USUAL_MEMORY.get(compute, compute))
    part = min(max(Fraction(compute, whole_compute), Fraction(memory, whole_memory)), Fraction(1))
    return part * Fraction(int(found[1]), compute) if found[1] else part


def _published(raw: Json) -> int:
    """
    Count the memory slices that the driver itself publishes: as capacity, or as counters of dynamic MIG.
    """
    named = [name for name in raw.get("capacity") or {} if SLICE.fullmatch(name)]
    for consumed in raw.get("consumesCounters") or ():
        named += [name for name in consumed.get("counters") or {} if SLICE.fullmatch(name)]
    return len(named)


def _from_product(gigabytes: int, product: str, slices: int) -> int:
    whole = next((size for name, size in WHOLE_GB if name in product), 0)
    return round(gigabytes * slices / whole) if whole else 0


# (partition, product, raw device) → the part of the whole that it is, None where that cannot be told
type FractionOf = Callable[[str, str, Json], Fraction | None]


@dataclass(frozen=True, slots=True)
class Vendor:
    """
    Names of attributes, the newest first; a bare name belongs to the driver's domain.

    `kinds` maps the driver's own word for a type to the portal's. `memory` names capacities.
    """

    kind: str = "gpu"  # where the driver does not say
    vendor: str = "other"  # key of the images that suit the device
    kinds: dict[str, str] = field(default_factory=dict)
    product: tuple[str, ...] = ("productName", "model", "accelerator")
    partition: tuple[str, ...] = ("profile", "partitionProfile")
    uuid: tuple[str, ...] = ("uuid", "serial")
    parent: tuple[str, ...] = ("parentUUID",)
    memory: tuple[str, ...] = ("memory", "addressableMemory")
    compute_capability: tuple[str, ...] = ()
    driver_version: tuple[str, ...] = ("driverVersion",)
    fraction: FractionOf = mig_fraction  # its names of partitions are nobody else's


# Sources: the drivers' repositories as of 2026-08; cmd/gpu-kubelet-plugin/deviceinfo.go for NVIDIA.
VENDORS = {
    "gpu.nvidia.com": Vendor(vendor="nvidia", compute_capability=("cudaComputeCapability",)),
    "compute-domain.nvidia.com": Vendor(kind="channel"),
    "gpu.amd.com": Vendor(
        vendor="amd",
        kinds={"amdgpu": "gpu", "amdgpu-partition": "partition"},
        partition=("partitionProfile", "computePartition"),
        uuid=(),  # AMD publishes none: telemetry is joined by node and PCI address
        parent=("parentDeviceID", "parentPciAddr"),
        fraction=amd_fraction,
    ),
    "gpu.intel.com": Vendor(vendor="intel", product=("model",), uuid=("uuid",)),
    "gaudi.intel.com": Vendor(vendor="gaudi", kind="gaudi", product=("model",), uuid=("serial",)),
    "qat.intel.com": Vendor(kind="qat", product=("model",)),
    "tpu.google.com": Vendor(vendor="tpu", kind="tpu", product=("accelerator", "tpuGen")),
    "gpu.example.com": Vendor(product=("model",)),
    "dra.net": Vendor(kind="nic", product=("pciDevice", "ifName")),
}
UNKNOWN = Vendor(kind="device")


def vendor_of(driver: str) -> Vendor:
    return VENDORS.get(driver, UNKNOWN)
