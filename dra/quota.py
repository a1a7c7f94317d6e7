"""
With how many devices per class a spec, a pod or a ResourceQuota counts.

GPUs that pods ask for by the name of an extended resource, without a ResourceClaim.

Either a device plugin gives them, and no claim exists at all; or the class carries the name
(`extendedResourceName`, KEP 5004), and the scheduler makes the claim when it has found a node.

The keys of a ResourceQuota that count devices, and those that only look as if they did.

The API server takes any key. What no evaluator knows stays at "used: 0" and limits nothing, and nobody is
told (`pkg/quota/v1/evaluator/core/resource_claims.go`, and seen in tests/scheduler on Kubernetes 1.37).

What a spec costs under quota, by the rules of Kubernetes' own ResourceQuota.

From `pkg/quota/v1/evaluator/core/resource_claims.go`: worst case, at the time of the request, whatever is
free. A share of a device costs the whole device; admin access costs like any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from dra.objects import MAX_RESULTS, DeviceRequest, Json, alternatives, requests

RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"  # + name of the class
# What device plugins call GPUs, and the class that the DRA driver of the same vendor has for them: README of
# NVIDIA/k8s-device-plugin 0.20, ROCm/k8s-device-plugin, intel/intel-device-plugins-for-kubernetes.
PLUGIN_CLASSES = (
    (re.compile(r"nvidia\.com/mig-.+"), "mig.nvidia.com"),
    (re.compile(r"nvidia\.com/gpu(\.shared)?"), "gpu.nvidia.com"),
    (re.compile(r"amd\.com/gpu"), "gpu.amd.com"),
    (re.compile(r"gpu\.intel\.com/(i915|xe)"), "gpu.intel.com"),
)


def claimed_extended_resources(pod: Json) -> frozenset[str]:
    """Return the extended resources of the pod that the scheduler has made a claim for."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return frozenset(mapping["resourceName"] for mapping in status.get("requestMappings") or ())


def class_of_resource(resource: str, carried: dict[str, str]) -> str:
    """
    Return the DeviceClass whose devices an extended resource stands for, "" if it stands for none.

    `carried` maps the extended names of the cluster's classes to the classes, see `names_of`.
    """
    if resource.startswith(RESOURCE_PREFIX):
        return resource.removeprefix(RESOURCE_PREFIX)
    if resource in carried:
        return carried[resource]
    return next((name for pattern, name in PLUGIN_CLASSES if pattern.fullmatch(resource)), "")


def extended_resource_names(classes: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """
    Return extended name → class, of (class, extended name, time of creation in ISO format).

    Of classes that share a name Kubernetes takes the newest, of those of one age the first by name.
    """
    by_age = sorted(sorted(classes, reverse=True), key=lambda entry: entry[2])
    return {extended: name for name, extended, _created in by_age if extended}


CLAIMS = "count/resourceclaims.resource.k8s.io"
TEMPLATES = "count/resourceclaimtemplates.resource.k8s.io"
OF_CLASS = ".deviceclass.resource.k8s.io/"
QUOTA_PREFIX = "requests.deviceclass.resource.kubernetes.io/"
COUNTED = ("resourceclaims", "resourceclaimtemplates")
WHOLE = re.compile(r"\d+(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")


def class_quota_key(name: str) -> str:
    """Return the key that counts the devices which claims ask of a DeviceClass."""
    return f"{name}{OF_CLASS}devices"


def implicit_quota_key(name: str) -> str:
    """Return the key of the extended name that every class has (from Kubernetes 1.36 on)."""
    return f"{QUOTA_PREFIX}{name}"


def extended_quota_key(resource: str) -> str:
    return f"requests.{resource}"


def ignored_reason(key: str, value: str = "0") -> str:
    """
    Return why Kubernetes would take this line of a ResourceQuota and count nothing, "" if it counts.

    Only keys that mean devices or claims are judged; "" for all others.
    """
    if problem := _spelling(key):
        return problem
    if _means_devices(key) and not WHOLE.fullmatch(value):
        return f"{value} is not a whole number: devices are counted, so the quota is refused."
    return ""


def no_class_reason(name: str) -> str:
    """Return why a quota for this name would limit nothing, "" if it may be that of a DeviceClass."""
    if "/" not in name:
        bare = name.removesuffix(".deviceclass.resource.k8s.io").removesuffix(".resource.k8s.io")
        if bare != name:
            return f"{name} is part of a key of a ResourceQuota; the class is {bare}."
        return ""
    problem = ignored_reason(name)
    if problem:
        return problem
    if OF_CLASS in name:
        return f"{name} is a key of a ResourceQuota; the class is {name.partition(OF_CLASS)[0]}."
    return f"{name} is not a DeviceClass: their names have no “/”. A quota names the class that carries it."


def _spelling(key: str) -> str:
    prefix, slash, rest = key.partition("/")
    if prefix == "count" and rest in COUNTED:
        return f"{key} counts nothing without its API group: write count/{rest}.resource.k8s.io."
    if key.startswith("limits.") and slash:
        right = "requests." + key.removeprefix("limits.")
        return f"{key} counts nothing: extended resources have no quota on limits; write {right}."
    if slash and prefix.endswith(OF_CLASS[:-1]) and rest != "devices":
        return f"{key} counts nothing: after the slash only “devices” is known; write {prefix}/devices."
    if slash and prefix.endswith(".resource.k8s.io") and prefix != "deviceclass.resource.k8s.io":
        name = prefix.removesuffix(".resource.k8s.io")
        if not name.endswith(".deviceclass"):
            return f"{key} counts nothing: write {class_quota_key(name)}."
    return ""


def _means_devices(key: str) -> bool:
    return key in (CLAIMS, TEMPLATES) or OF_CLASS in key or key.startswith(QUOTA_PREFIX)


def charge(spec: Json) -> dict[str, int]:
    """
    Return devices per DeviceClass that one claim of `spec` is charged with.

    Alternatives charge every class that they name, each with the most that one of them takes.
    """
    charged: Counter[str] = Counter()
    for request in requests(spec):
        max_per_class: dict[str, int] = {}
        for device_request in alternatives(request):
            max_per_class[device_request.class_name] = max(
                max_per_class.get(device_request.class_name, 0), _cost(device_request)
            )
        charged.update(max_per_class)
    return dict(sorted(charged.items()))


def keys(spec: Json, classes: Iterable[Json]) -> dict[str, int]:
    """
    Return what one claim of `spec` adds to each key of a ResourceQuota; `classes` are those of the cluster.

    A class has up to three keys: its own, and those of the extended resources under which pods may ask for
    its devices, one of which is implicit. A class that does not exist is charged too.
    """
    extended = {
        device_class["metadata"]["name"]: (device_class.get("spec") or {}).get("extendedResourceName")
        for device_class in classes
    }
    counted = {"count/resourceclaims.resource.k8s.io": 1}
    for name, count in charge(spec).items():
        counted[f"{name}.deviceclass.resource.k8s.io/devices"] = count
        counted[f"requests.deviceclass.resource.kubernetes.io/{name}"] = count
        if extended.get(name):
            counted[f"requests.{extended[name]}"] = count
    return counted


def devices(spec: Json) -> int:
    """Return how many devices one claim can hold at most: of alternatives only one is taken."""
    return sum(
        max((_cost(device_request) for device_request in alternatives(request)), default=0)
        for request in requests(spec)
    )


def _cost(device_request: DeviceRequest) -> int:
    mode = device_request.raw.get("allocationMode") or "ExactCount"
    if mode == "All":
        return MAX_RESULTS
    return (
        device_request.count if mode == "ExactCount" else 0
    )  # upstream charges nothing for a mode that it does not know
