"""
GPUs that pods ask for by the name of an extended resource, without a ResourceClaim.

Either a device plugin gives them, and no claim exists at all; or the class carries the name
(`extendedResourceName`, KEP 5004), and the scheduler makes the claim when it has found a node.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dra.objects import Json

IMPLICIT = "deviceclass.resource.kubernetes.io/"  # + name of the class
# What device plugins call GPUs, and the class that the DRA driver of the same maker has for them: README of
# NVIDIA/k8s-device-plugin 0.20, ROCm/k8s-device-plugin, intel/intel-device-plugins-for-kubernetes.
PLUGIN_CLASSES = (
    (re.compile(r"nvidia\.com/mig-.+"), "mig.nvidia.com"),
    (re.compile(r"nvidia\.com/gpu(\.shared)?"), "gpu.nvidia.com"),
    (re.compile(r"amd\.com/gpu"), "gpu.amd.com"),
    (re.compile(r"gpu\.intel\.com/(i915|xe)"), "gpu.intel.com"),
)


def served_by_claim(pod: Json) -> frozenset[str]:
    """Return the extended resources of the pod that the scheduler has made a claim for."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return frozenset(one["resourceName"] for one in status.get("requestMappings") or ())


def class_of(resource: str, carried: dict[str, str]) -> str:
    """
    Return the DeviceClass whose devices an extended resource stands for, "" if it stands for none.

    `carried` maps the extended names of the cluster's classes to the classes, see `names_of`.
    """
    if resource.startswith(IMPLICIT):
        return resource.removeprefix(IMPLICIT)
    if resource in carried:
        return carried[resource]
    return next((name for pattern, name in PLUGIN_CLASSES if pattern.fullmatch(resource)), "")


def names_of(classes: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """
    Return extended name → class, of (class, extended name, time of creation in ISO format).

    Of classes that share a name Kubernetes takes the newest, of those of one age the first by name.
    """
    by_age = sorted(sorted(classes, reverse=True), key=lambda one: one[2])
    return {extended: name for name, extended, _created in by_age if extended}
