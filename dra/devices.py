"""
What a device is, in words that do not depend on its vendor, and the table of vendors.

The table has how to read the devices of each driver, what their products are called for short, and which part
of a GPU a partition is: the fleet, rates, prices and lists read it. A driver without an entry is read by the
usual names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from dra.attributes import Malformed, attribute, capacity, lookup, qualified
from dra.objects import Json
from dra.quantity import Quantity, QuantityError

# Parts of a GPU per compute partition mode (ROCm, MI300 series: 8 XCDs).
AMD_MODES = {
    "spx": Fraction(1),
    "dpx": Fraction(1, 2),
    "tpx": Fraction(1, 3),
    "qpx": Fraction(1, 4),
    "cpx": Fraction(1, 8),
}

MIG_PROFILE = re.compile(r"(?:(\d+)c\.)?(\d+)g\.(\d+)gb(?:[+-][a-z.]+)*", re.ASCII)
MEMORY_SLICE = re.compile(r"memory-?slice-?\d+", re.ASCII | re.IGNORECASE)
FOUR_SLICES = ("A30", "RTX PRO 6000")  # 4 compute and 4 memory slices; every other MIG GPU has 7 and 8
# GB after which the profiles of a product are named, the more specific name first.
PROFILE_GB = (
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
MEMORY_SLICES = {1: 1, 2: 2, 3: 4, 4: 4, 7: 8}  # per compute slices, in the usual profile of a 7-slice GPU


def amd_fraction(partition: str, product: str, raw_device: Json) -> Fraction | None:
    """Return the part of the GPU that "cpx_nps4" or "CPX-NPS4" is; None for an unknown mode."""
    return AMD_MODES.get(partition.partition("_")[0].partition("-")[0].lower())


def mig_fraction(partition: str, product: str, raw_device: Json) -> Fraction | None:
    """
    Return the part of the GPU that a MIG device is; None for an unknown profile.

    It is max(compute slices, memory slices) of the whole: a 3g takes 3 of 7 compute slices but half of the
    memory, and nobody else can use what it strands. Slices per profile: NVIDIA MIG user guide, supported
    profiles.
    """
    profile = MIG_PROFILE.fullmatch(partition)
    if profile is None:
        return None
    compute, gigabytes = int(profile[2]), int(profile[3])
    has_four = any(name in product for name in FOUR_SLICES)
    gpu_compute, gpu_memory = (4, 4) if has_four else (7, 8)
    memory = _published_slices(raw_device) or _slices_of_product(gigabytes, product, gpu_memory)
    memory = memory or (compute if has_four else MEMORY_SLICES.get(compute, compute))
    part = min(max(Fraction(compute, gpu_compute), Fraction(memory, gpu_memory)), Fraction(1))
    return part * Fraction(int(profile[1]), compute) if profile[1] else part


def mig_compute(partition: str, product: str) -> Fraction | None:
    """Return the part of the GPU's compute slices that a MIG device has; None for anything else."""
    profile = MIG_PROFILE.fullmatch(partition)
    if profile is None:
        return None
    slices = 4 if any(name in product for name in FOUR_SLICES) else 7
    return min(Fraction(int(profile[1] or profile[2]), slices), Fraction(1))


def partition_width(partition: str) -> int:
    """Return how wide a partition is drawn: the compute slices of a MIG profile, 1 for any other."""
    profile = MIG_PROFILE.fullmatch(partition)
    return int(profile[2]) if profile and 1 <= int(profile[2]) <= 8 else 1


def _published_slices(raw_device: Json) -> int:
    """Count the memory slices that the driver publishes: as capacity, or as counters of dynamic MIG."""
    names = [name for name in raw_device.get("capacity") or {} if MEMORY_SLICE.fullmatch(name)]
    for counter_set in raw_device.get("consumesCounters") or ():
        names += [name for name in counter_set.get("counters") or {} if MEMORY_SLICE.fullmatch(name)]
    return len(names)


def _slices_of_product(gigabytes: int, product: str, gpu_slices: int) -> int:
    gpu_gigabytes = next((size for name, size in PROFILE_GB if name in product), 0)
    return round(gigabytes * gpu_slices / gpu_gigabytes) if gpu_gigabytes else 0


# (partition, product, raw device) → the part of the whole device, None where it is unknown
type FractionOf = Callable[[str, str, Json], Fraction | None]


@dataclass(frozen=True, slots=True)
class Vendor:
    """
    How to read the devices of one driver.

    Attributes are tried in order, the newest name first; a bare name belongs to the driver's domain. `kinds`
    maps the driver's own types to the portal's. `brands` are words in front of a product's short name.
    `memory` names capacities.
    """

    gpus: bool = True  # whether its devices are GPUs, TPUs or the like, or parts of them
    name: str = "other"  # key of the images that suit the device (dra.workload_parts)
    brands: tuple[str, ...] = ()
    kind: str = "gpu"  # where the driver publishes no type
    kinds: dict[str, str] = field(default_factory=dict)
    product: tuple[str, ...] = ("productName", "model", "accelerator")
    partition: tuple[str, ...] = ("profile", "partitionProfile")
    uuid: tuple[str, ...] = ("uuid", "serial")
    parent: tuple[str, ...] = ("parentUUID",)
    memory: tuple[str, ...] = ("memory", "addressableMemory")
    compute_capability: tuple[str, ...] = ()
    driver_version: tuple[str, ...] = ("driverVersion",)
    fraction: FractionOf = mig_fraction  # MIG profiles are the only partitions with these names


# By driver. Sources: the drivers' repositories as of 2026-08, cmd/gpu-kubelet-plugin/deviceinfo.go of NVIDIA.
VENDORS = {
    "gpu.nvidia.com": Vendor(
        name="nvidia", brands=("NVIDIA", "Tesla"), compute_capability=("cudaComputeCapability",)
    ),
    "compute-domain.nvidia.com": Vendor(gpus=False, kind="channel"),
    "gpu.amd.com": Vendor(
        name="amd",
        brands=("AMD", "Instinct"),
        kinds={"amdgpu": "gpu", "amdgpu-partition": "partition"},
        partition=("partitionProfile", "computePartition"),
        uuid=(),  # AMD publishes none: telemetry is joined by node and PCI address
        parent=("parentDeviceID", "parentPciAddr"),
        fraction=amd_fraction,
    ),
    "gpu.intel.com": Vendor(
        name="intel", brands=("Intel", "Data Center GPU"), product=("model",), uuid=("uuid",)
    ),
    "gaudi.intel.com": Vendor(
        name="gaudi", brands=("Intel", "Habana"), kind="gaudi", product=("model",), uuid=("serial",)
    ),
    "qat.intel.com": Vendor(gpus=False, kind="qat", product=("model",)),
    "tpu.google.com": Vendor(
        name="tpu", brands=("Google", "Cloud TPU", "TPU"), kind="tpu", product=("accelerator", "tpuGen")
    ),
    "gpu.example.com": Vendor(product=("model",)),
    "dra.net": Vendor(gpus=False, kind="nic", product=("pciDevice", "ifName")),
}
UNKNOWN_VENDOR = Vendor(kind="device")
GPU_DRIVERS = frozenset(driver for driver, vendor in VENDORS.items() if vendor.gpus)
# Attributes of all drivers that say what a device is: its product, partition and type.
NAMING_ATTRIBUTES = tuple(
    dict.fromkeys(
        name
        for vendor in (UNKNOWN_VENDOR, *VENDORS.values())
        for name in ("type", *vendor.product, *vendor.partition)
    )
)


def vendor_by_driver(driver: str) -> Vendor:
    return VENDORS.get(driver, UNKNOWN_VENDOR)


def _brand_pattern() -> re.Pattern[str]:
    brands = {brand for vendor in VENDORS.values() for brand in vendor.brands}
    names = "|".join(re.escape(brand).replace(r"\ ", r"[\s-]+") for brand in sorted(brands))
    return re.compile(rf"^\s*(?:(?:{names})(?:®|™|\(R\)|\(TM\))?(?:[\s-]+|$))+", re.IGNORECASE)


BRANDS = _brand_pattern()


def short_name(product: str) -> str:
    """Return the product without its vendor's brands: "NVIDIA H100 80GB HBM3" is "H100 80GB HBM3"."""
    return BRANDS.sub("", product) or product


FORM = re.compile(r"[\s-]+(?:SXM\d*|PCIe|OAM|NVL\d*|HBM\w*|\d+\s?GB)\b.*$", re.IGNORECASE)


def model_name(product: str) -> str:
    """Return the short name without memory and form factor: "NVIDIA A100-SXM4-80GB" is "A100"."""
    return FORM.sub("", short_name(product))


def product_words(product: str) -> list[str]:
    """Return the lower-case words of the short name, which all spellings share; none for a brand alone."""
    return _words(BRANDS.sub("", product))


def names_product(name: str, product: str) -> bool:
    """
    Tell whether `name`, short or in full, means `product`: both begin with the same word, and the other words
    of `name` follow in the same order. "A100 80GB" means "NVIDIA A100-SXM4-80GB"; "L4" does not mean an L40S.

    A brand means every product that is written with it, an empty name every product.
    """
    wanted, words = product_words(name), product_words(product)
    if not wanted:
        brands = _words(name)
        return _words(product)[: len(brands)] == brands
    rest = iter(words)
    return wanted[:1] == words[:1] and all(word in rest for word in wanted)


def _words(text: str) -> list[str]:
    return [word for word in re.split(r"[\s-]+", text.casefold()) if word]


@dataclass(frozen=True, slots=True)
class Description:
    """
    A device as the portal shows it. What is unknown is empty or None, never 0.

    `kind` is gpu, mig, vfio, partition, tpu, gaudi … `fraction` is the part of a whole device for the price;
    `driver_version` is as published, which NVIDIA strips of leading zeros (595.58.03 → 595.58.3).
    """

    product: str
    kind: str
    partition: str
    uuid: str
    parent_uuid: str
    memory_bytes: int | None
    compute_capability: str
    driver_version: str
    fraction: Fraction


def is_gpu(driver: str, name: str, product: str, memory_bytes: int | None) -> bool:
    """
    Tell whether a device is a GPU or a part of one; a network interface or an IMEX channel is none.

    A device of a driver without an entry is one if it publishes a product and memory; `product` is `name`
    where it publishes none.
    """
    if driver in VENDORS:
        return driver in GPU_DRIVERS
    return memory_bytes is not None and product not in {"", name}


def describe(driver: str, raw_device: Json) -> Description:
    """Describe one entry of `spec.devices`. A value that is malformed counts as unknown."""
    vendor = vendor_by_driver(driver)
    attributes: Json = raw_device.get("attributes") or {}

    def text(names: tuple[str, ...]) -> str:
        for spellings in _spellings(driver, names):
            value = _attribute(attributes, spellings)
            if value is not None:
                return str(value)
        return ""

    own = text(("type",))
    product = (
        text(vendor.product)
        or text(("productName", "model", "accelerator"))
        or str(raw_device.get("name") or "")
    )
    partition = text(vendor.partition)
    return Description(
        product=product,
        kind=vendor.kinds.get(own, own) or vendor.kind,
        partition=partition,
        uuid=text(vendor.uuid),
        parent_uuid=text(vendor.parent),
        memory_bytes=_memory(raw_device.get("capacity") or {}, driver, vendor.memory),
        compute_capability=text(vendor.compute_capability),
        driver_version=text(vendor.driver_version),
        fraction=vendor.fraction(partition, product, raw_device) or Fraction(1),
    )


def share(raw_device: Json, consumed: Json) -> Fraction:
    """
    Return the part of a shareable device that `results[].consumedCapacity` takes: the largest over its
    capacities.

    Raise `QuantityError` for a malformed amount. Nothing consumed is the whole device, which nobody else may
    price.
    """
    parts = [Fraction(0)]
    for name, amount in consumed.items():
        whole = _capacity(raw_device.get("capacity") or {}, "", name)
        if whole:
            parts.append(Fraction(Quantity.parse(amount).nano, whole.nano))
    return min(max(parts), Fraction(1)) or Fraction(1)


def memory_share(driver: str, consumed: Json) -> int | None:
    """Return the bytes of memory in `results[].consumedCapacity`, None if it has none."""
    amounts = {name: {"value": amount} for name, amount in consumed.items()}
    return _memory(amounts, driver, vendor_by_driver(driver).memory)


@lru_cache(maxsize=1024)
def _spellings(driver: str, names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Return for each attribute the names under which a slice may have it, as in `dra.attributes.lookup`."""
    places = [qualified(driver, name) for name in names]
    return [
        (f"{domain}/{bare}", bare) if domain == driver else (f"{domain}/{bare}",) for domain, bare in places
    ]


def _attribute(attributes: Json, spellings: tuple[str, ...]) -> Any:
    for name in spellings:
        published = attributes.get(name)
        if published is not None:
            try:
                return attribute(published)
            except Malformed:
                return None
    return None


def _capacity(capacities: Json, driver: str, name: str) -> Quantity | None:
    raw_capacity = lookup(capacities, driver, *qualified(driver, name))
    try:
        return None if raw_capacity is None else capacity(raw_capacity)
    except (Malformed, QuantityError):
        return None


def _memory(capacities: Json, driver: str, names: Iterable[str]) -> int | None:
    amounts = (_capacity(capacities, driver, name) for name in names)
    return next((amount.bytes for amount in amounts if amount and amount.nano > 0), None)
