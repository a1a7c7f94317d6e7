"""
What a claim specification needs of its driver that the portal cannot see: alpha feature gates.

The API takes such a claim and the scheduler allocates it; where the gate is off the driver refuses to prepare
the devices, or publishes none that could match. The gates are those of the DRA driver for NVIDIA GPUs 0.5;
other drivers publish what they can do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from django.utils.translation import gettext as _

from claims.catalogue.sharing import SHAREABLE
from dra.objects import Ask, Json, asks, constraints

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
            yield _pod_may_fail(_("MPS settings need"), "MPSSupport", "sharing.strategy MPS")
        elif sharing.get("strategy") == "TimeSlicing" and parameters.get("kind") == "MigDeviceConfig":
            yield _("Time-slicing settings have no effect on MIG devices.")
        elif sharing.get("strategy") == "TimeSlicing":
            yield _pod_may_fail(
                _("Time-slicing settings need"), "TimeSlicingSettings", "sharing.strategy TimeSlicing"
            )


def _of_requests(spec: Json) -> Iterator[str]:
    """What is asked for: shares, partitions that are cut on demand, GPUs that are passed through."""
    for ask in asks(spec):
        if not NVIDIA_CLASS.fullmatch(ask.class_name):
            continue
        if _is_share(ask):
            yield _none_may_match(_("A share of a GPU needs"), "ConsumableShares", _("shares"))
        if any(PARTITION_IN_CEL.search(text) for text in ask.expressions):
            yield _of_partitions()
        if ask.class_name == MIG_CLASS:
            yield _(
                "MIG devices are there only where somebody has cut GPUs beforehand, or where the driver's "
                "feature gate DynamicMIG (alpha, off by default) cuts them on demand; a device cut on demand "
                "has no UUID before a pod has it."
            )
        if ask.class_name == VFIO_CLASS:
            yield _none_may_match(
                _("Passing a whole GPU through to a virtual machine needs"),
                "PassthroughSupport",
                _("such devices"),
            )


def _of_constraints(spec: Json) -> Iterator[str]:
    for constraint in constraints(spec):
        if PARTITION.fullmatch(str(constraint.get("matchAttribute") or "")):
            yield _of_partitions()


def _of_partitions() -> str:
    return _none_may_match(
        _("NVSwitch partitions need"), "FabricManagerPartitioning", _("the attributes partition1 to 8")
    )


def _is_share(ask: Ask) -> bool:
    return bool(ask.capacity) or any(SHAREABLE in text for text in ask.expressions)


def _pod_may_fail(what: str, gate: str, setting: str) -> str:
    return _(
        "%(what)s the driver's feature gate %(gate)s (alpha, off by default), which the portal cannot see; "
        "without it a pod may fail to start, and its events name %(setting)s."
    ) % {"what": what, "gate": gate, "setting": setting}


def _none_may_match(what: str, gate: str, missing: str) -> str:
    return _(
        "%(what)s the driver's feature gate %(gate)s (alpha, off by default), which the portal cannot see; "
        "without it no device has %(missing)s and nothing matches."
    ) % {"what": what, "gate": gate, "missing": missing}
