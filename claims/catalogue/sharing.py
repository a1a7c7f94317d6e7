"""
How much of a GPU a claim spec gives, how the GPU is shared, and which driver features that needs.

Sharing settings are those of the DRA driver for NVIDIA GPUs (`sharing.strategy` of GpuConfig and
MigDeviceConfig); shares of capacity are a feature of Kubernetes (KEP-5075).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fractions import Fraction

from django.db.models import TextChoices

from dra.cel.idioms import comparison, comparisons, conjuncts
from dra.objects import DeviceRequest, Json, constraints, device_requests
from dra.quantity import Quantity, QuantityError

PARTITION_CLASSES = ("mig.", "partition.")
PARTITION_TYPES = ("mig", "partition", "amdgpu-partition")
SHAREABLE = "allowMultipleAllocations"


class Sharing(TextChoices):
    """In the order of the catalogue's filter."""

    EXCLUSIVE = "exclusive", "whole GPU"
    PARTITION = "partition", "partition"
    SHARE = "share", "share of capacity"
    TIME_SLICED = "time-sliced", "time-sliced"
    MPS = "mps", "MPS"


ISOLATION = {
    Sharing.EXCLUSIVE: "No other claim can use the GPU while this claim holds it.",
    Sharing.PARTITION: "A part of a GPU with its own memory and compute. Other claims can hold other parts.",
    Sharing.SHARE: "Other claims can hold the rest of the GPU. The driver decides how they are isolated.",
    Sharing.TIME_SLICED: "The containers of a claim take turns on the GPU. Their memory is not limited.",
    Sharing.MPS: "The containers of a claim use the GPU at once. A crash of one can stop the others.",
}


def sharing_modes(spec: Json, fractions: Iterable[Fraction] = ()) -> list[Sharing]:
    """
    Return how the devices of `spec` are shared, in the order of `Sharing`; several if alternatives differ.

    `fractions` are the parts of a GPU that the matching devices are. If each is below 1, the devices are
    partitions, whatever the name of their class.
    """
    parts = list(fractions)
    partitioned = bool(parts) and all(part < 1 for part in parts)
    modes = {_sharing_mode(request, spec, partitioned=partitioned) for request in device_requests(spec)}
    return [mode for mode in Sharing if mode in modes]


# Modes in which others compute on the same GPU.
SHARED_MODES = frozenset((Sharing.SHARE, Sharing.TIME_SLICED, Sharing.MPS))


def least_memory(spec: Json) -> int:
    """Return the bytes of memory that each device of `spec` has at least by its selectors; 0 if unknown."""
    return min((_memory_bound(request) for request in device_requests(spec)), default=0)


def _memory_bound(request: DeviceRequest) -> int:
    bounds = [0]
    for expression in request.expressions:
        for part in conjuncts(expression):
            read = comparison(part)
            is_memory = read is not None and read.ref is not None and read.ref[::2] == ("capacity", "memory")
            if read is not None and is_memory and read.sign in (">=", ">", "=="):
                with suppress(QuantityError):
                    bounds.append(Quantity.parse(read.expected).bytes)
    return max(bounds)


def isolation_sentences(modes: Iterable[Sharing]) -> list[str]:
    """Return a sentence for each mode: how claims on one GPU are isolated."""
    return [str(ISOLATION[mode]) for mode in modes]


def _sharing_mode(request: DeviceRequest, spec: Json, *, partitioned: bool) -> Sharing:
    strategy = _strategy(request, spec)
    if strategy == "MPS":
        return Sharing.MPS
    if strategy == "TimeSlicing":
        return Sharing.TIME_SLICED
    if _is_share(request):
        return Sharing.SHARE
    return Sharing.PARTITION if partitioned or _is_partition(request) else Sharing.EXCLUSIVE


def _strategy(request: DeviceRequest, spec: Json) -> str:
    """Return the `sharing.strategy` of the last setting for this request, which the driver uses."""
    strategy = ""
    for config in (spec.get("devices") or {}).get("config") or ():
        parameters = (config.get("opaque") or {}).get("parameters") or {}
        named = config.get("requests") or ()
        if not named or request.request in named or request.result_name in named:
            strategy = str((parameters.get("sharing") or {}).get("strategy") or strategy)
    return strategy


def _is_partition(request: DeviceRequest) -> bool:
    if request.class_name.startswith(PARTITION_CLASSES):
        return True
    return any(
        read.ref is not None
        and read.ref[2] == "type"
        and read.sign == "=="
        and read.expected in PARTITION_TYPES
        for text in request.expressions
        for read in comparisons(text)
    )


NVIDIA = "gpu.nvidia.com"
NVIDIA_CLASS = re.compile(r"(.+\.)?nvidia\.com")
MIG_CLASS, VFIO_CLASS = "mig.nvidia.com", "vfio.gpu.nvidia.com"
PARTITION = re.compile(r"gpu\.nvidia\.com/partition\d+")
PARTITION_IN_CEL = re.compile(r"""(gpu\.nvidia\.com['"]\]\.\??|/)partition\d+\b""")


def cautions(spec: Json) -> list[str]:
    """
    Return a sentence for each feature gate that `spec` depends on, without duplicates.

    `spec` is a well-formed ResourceClaim spec, of a profile or of one request.
    """
    return list(
        dict.fromkeys([*_config_cautions(spec), *_request_cautions(spec), *_constraint_cautions(spec)])
    )


def _config_cautions(spec: Json) -> Iterator[str]:
    """Yield sentences on driver settings: `devices.config` with sharing.strategy."""
    for config in (spec.get("devices") or {}).get("config") or ():
        opaque = config.get("opaque") or {}
        parameters = opaque.get("parameters") or {}
        sharing = parameters.get("sharing") or {}
        if opaque.get("driver") != NVIDIA:
            continue
        if sharing.get("strategy") == "MPS":
            yield _pod_may_fail("MPS settings need", "MPSSupport", "sharing.strategy MPS")
        elif sharing.get("strategy") == "TimeSlicing" and parameters.get("kind") == "MigDeviceConfig":
            yield "Time-slicing settings have no effect on MIG devices."
        elif sharing.get("strategy") == "TimeSlicing":
            yield _pod_may_fail(
                "Time-slicing settings need", "TimeSlicingSettings", "sharing.strategy TimeSlicing"
            )


def _request_cautions(spec: Json) -> Iterator[str]:
    """Yield sentences on shares, partitions created on demand, and GPUs in passthrough mode."""
    for request in device_requests(spec):
        if not NVIDIA_CLASS.fullmatch(request.class_name):
            continue
        if _is_share(request):
            yield _none_may_match("A share of a GPU needs", "ConsumableShares", "shares")
        if any(PARTITION_IN_CEL.search(text) for text in request.expressions):
            yield _partition_caution()
        if request.class_name == MIG_CLASS:
            yield (
                "MIG devices exist only if an admin has partitioned GPUs, or if the driver's feature gate "
                "DynamicMIG (alpha, off by default) creates them on demand. A device created on demand has "
                "no UUID before a pod uses it."
            )
        if request.class_name == VFIO_CLASS:
            yield _none_may_match(
                "Passing a whole GPU through to a virtual machine needs",
                "PassthroughSupport",
                "such devices",
            )


def _constraint_cautions(spec: Json) -> Iterator[str]:
    for constraint in constraints(spec):
        if PARTITION.fullmatch(str(constraint.get("matchAttribute") or "")):
            yield _partition_caution()


def _partition_caution() -> str:
    return _none_may_match(
        "NVSwitch partitions need", "FabricManagerPartitioning", "the attributes partition1 to 8"
    )


def _is_share(request: DeviceRequest) -> bool:
    return bool(request.capacity) or any(SHAREABLE in text for text in request.expressions)


def _pod_may_fail(feature: str, gate: str, setting: str) -> str:
    return (
        f"{feature} the driver's feature gate {gate} (alpha, off by default), which the portal "
        f"cannot see. Without it a pod may fail to start, and its events name {setting}."
    )


def _none_may_match(feature: str, gate: str, missing: str) -> str:
    return (
        f"{feature} the driver's feature gate {gate} (alpha, off by default), which the portal "
        f"cannot see. Without it no device has {missing}, so nothing matches."
    )
