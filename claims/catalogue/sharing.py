"""
How much of a GPU a profile gives, with whom it is shared, and which driver features it depends on.

How much of a GPU a profile gives, and whom it is shared with, read off its claim specification.

The settings are those of the DRA driver for NVIDIA GPUs (`sharing.strategy` of GpuConfig and of
MigDeviceConfig); shares of capacity are of Kubernetes (KEP-5075).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

from django.db.models import TextChoices

from dra.cel.idioms import comparisons
from dra.objects import DeviceRequest, Json, constraints, device_requests

PARTITION_CLASSES = ("mig.", "partition.")
PARTITION_TYPES = ("mig", "partition", "amdgpu-partition")
SHAREABLE = "allowMultipleAllocations"


class Sharing(TextChoices):
    """In the order in which the catalogue offers them."""

    EXCLUSIVE = "exclusive", "whole GPU"
    PARTITION = "partition", "partition"
    SHARE = "share", "share of capacity"
    TIME_SLICED = "time-sliced", "time-sliced"
    MPS = "mps", "MPS"


ISOLATION = {
    Sharing.EXCLUSIVE: "Nobody else computes on the GPU while the claim holds it.",
    Sharing.PARTITION: "A part of a GPU with memory and compute of its own; others have the other parts.",
    Sharing.SHARE: "Others may hold the rest of the same GPU; the driver says what keeps them apart.",
    Sharing.TIME_SLICED: "The containers of a claim take turns; nothing limits how much of its memory each "
    "takes.",
    Sharing.MPS: "The containers of a claim compute side by side; one that fails may end the others.",
}


def sharing_of(spec: Json, fractions: Iterable[Fraction] = ()) -> list[Sharing]:
    """
    Return how devices of `spec` are had, in the order of `Sharing`; several where its alternatives differ.

    `fractions` are the parts of whole GPUs that its matching devices make up: where each is less than 1, the
    devices are partitions whatever their class is called.
    """
    parts = list(fractions)
    cut = bool(parts) and all(part < 1 for part in parts)
    found = {_of(ask, spec, cut=cut) for ask in device_requests(spec)}
    return [one for one in Sharing if one in found]


def isolation_of(modes: Iterable[Sharing]) -> list[str]:
    """Return a sentence on each: what keeps others out."""
    return [str(ISOLATION[mode]) for mode in modes]


def _of(ask: DeviceRequest, spec: Json, *, cut: bool) -> Sharing:
    strategy = _strategy(ask, spec)
    if strategy == "MPS":
        return Sharing.MPS
    if strategy == "TimeSlicing":
        return Sharing.TIME_SLICED
    if ask.capacity or any(SHAREABLE in text for text in ask.expressions):
        return Sharing.SHARE
    return Sharing.PARTITION if cut or _is_partition(ask) else Sharing.EXCLUSIVE


def _strategy(ask: DeviceRequest, spec: Json) -> str:
    """Return the `sharing.strategy` of the last setting for this request; the driver takes the last."""
    found = ""
    for config in (spec.get("devices") or {}).get("config") or ():
        parameters = (config.get("opaque") or {}).get("parameters") or {}
        named = config.get("requests") or ()
        if not named or ask.request in named or ask.result_name in named:
            found = str((parameters.get("sharing") or {}).get("strategy") or found)
    return found


def _is_partition(ask: DeviceRequest) -> bool:
    if ask.class_name.startswith(PARTITION_CLASSES):
        return True
    return any(
        read.ref is not None
        and read.ref[2] == "type"
        and read.sign == "=="
        and read.wanted in PARTITION_TYPES
        for text in ask.expressions
        for read in comparisons(text)
    )


NVIDIA = "gpu.nvidia.com"
NVIDIA_CLASS = re.compile(r"(.+\.)?nvidia\.com")
MIG_CLASS, VFIO_CLASS = "mig.nvidia.com", "vfio.gpu.nvidia.com"
PARTITION = re.compile(r"gpu\.nvidia\.com/partition\d+")
PARTITION_IN_CEL = re.compile(r"""(gpu\.nvidia\.com['"]\]\.\??|/)partition\d+\b""")


def cautions(spec: Json) -> list[str]:
    """
    Return a sentence for each feature gate that `spec` depends on; none twice.

    `spec` is a well-formed ResourceClaim spec, of a profile or of one request.
    """
    return list(dict.fromkeys([*_of_settings(spec), *_of_requests(spec), *_of_constraints(spec)]))


def _of_settings(spec: Json) -> Iterator[str]:
    """Settings of the driver: `devices.config` with sharing.strategy."""
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


def _of_requests(spec: Json) -> Iterator[str]:
    """What is asked for: shares, partitions that are cut on demand, GPUs that are passed through."""
    for ask in device_requests(spec):
        if not NVIDIA_CLASS.fullmatch(ask.class_name):
            continue
        if _is_share(ask):
            yield _none_may_match("A share of a GPU needs", "ConsumableShares", "shares")
        if any(PARTITION_IN_CEL.search(text) for text in ask.expressions):
            yield _of_partitions()
        if ask.class_name == MIG_CLASS:
            yield (
                "MIG devices are there only where somebody has cut GPUs beforehand, or where the driver's "
                "feature gate DynamicMIG (alpha, off by default) cuts them on demand; a device cut on demand "
                "has no UUID before a pod has it."
            )
        if ask.class_name == VFIO_CLASS:
            yield _none_may_match(
                "Passing a whole GPU through to a virtual machine needs",
                "PassthroughSupport",
                "such devices",
            )


def _of_constraints(spec: Json) -> Iterator[str]:
    for constraint in constraints(spec):
        if PARTITION.fullmatch(str(constraint.get("matchAttribute") or "")):
            yield _of_partitions()


def _of_partitions() -> str:
    return _none_may_match(
        "NVSwitch partitions need", "FabricManagerPartitioning", "the attributes partition1 to 8"
    )


def _is_share(ask: DeviceRequest) -> bool:
    return bool(ask.capacity) or any(SHAREABLE in text for text in ask.expressions)


def _pod_may_fail(what: str, gate: str, setting: str) -> str:
    return (
        f"{what} the driver's feature gate {gate} (alpha, off by default), which the portal "
        f"cannot see; without it a pod may fail to start, and its events name {setting}."
    )


def _none_may_match(what: str, gate: str, missing: str) -> str:
    return (
        f"{what} the driver's feature gate {gate} (alpha, off by default), which the portal "
        f"cannot see; without it no device has {missing} and nothing matches."
    )
