"""
Devices per class that a spec, a pod or a ResourceQuota counts, by the rules of Kubernetes' ResourceQuota.

Pods can request GPUs as an extended resource, without a ResourceClaim. Either a device plugin serves them, or
the class has the name as `extendedResourceName` (KEP 5004), and the scheduler creates the claim.

The API server accepts any key of a ResourceQuota. A key that no evaluator knows stays at "used: 0" and limits
nothing (`pkg/quota/v1/evaluator/core/resource_claims.go`; tests/scheduler shows it on Kubernetes 1.37).

The same file charges the worst case at the time of the request. A share of a device counts as a whole device,
and so does admin access.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from dra.objects import MAX_RESULTS, DeviceRequest, Json, alternatives, requests

RESOURCE_PREFIX = "deviceclass.resource.kubernetes.io/"  # + name of the class
# Extended resources of device plugins, and the DeviceClass of the same vendor's DRA driver: README of
# NVIDIA/k8s-device-plugin 0.20, ROCm/k8s-device-plugin, intel/intel-device-plugins-for-kubernetes.
PLUGIN_CLASSES = (
    (re.compile(r"nvidia\.com/mig-.+"), "mig.nvidia.com"),
    (re.compile(r"nvidia\.com/gpu(\.shared)?"), "gpu.nvidia.com"),
    (re.compile(r"amd\.com/gpu"), "gpu.amd.com"),
    (re.compile(r"gpu\.intel\.com/(i915|xe)"), "gpu.intel.com"),
)


def is_plugin_resource(name: str) -> bool:
    """Return whether it is a GPU, or a part of one, as a device plugin advertises it on a node."""
    return any(pattern.fullmatch(name) for pattern, _class in PLUGIN_CLASSES)


def claimed_extended_resources(pod: Json) -> frozenset[str]:
    """Return the extended resources of the pod for which the scheduler created a claim."""
    status = (pod.get("status") or {}).get("extendedResourceClaimStatus") or {}
    return frozenset(mapping["resourceName"] for mapping in status.get("requestMappings") or ())


def class_of_resource(resource: str, carried: dict[str, str]) -> str:
    """
    Return the DeviceClass of an extended resource, "" if it has none.

    `carried` maps the extended resource names of the cluster to classes, see `extended_resource_names`.
    """
    if resource.startswith(RESOURCE_PREFIX):
        return resource.removeprefix(RESOURCE_PREFIX)
    if resource in carried:
        return carried[resource]
    return next((name for pattern, name in PLUGIN_CLASSES if pattern.fullmatch(resource)), "")


def extended_resource_names(classes: Iterable[tuple[str, str, str]]) -> dict[str, str]:
    """
    Return extended name → class, given (class, extended name, creation time in ISO format).

    If classes share a name, Kubernetes uses the newest, then the first by name.
    """
    by_age = sorted(sorted(classes, reverse=True), key=lambda entry: entry[2])
    return {extended: name for name, extended, _created in by_age if extended}


CLAIMS = "count/resourceclaims.resource.k8s.io"
TEMPLATES = "count/resourceclaimtemplates.resource.k8s.io"
CLASS_KEY_INFIX = ".deviceclass.resource.k8s.io/"
QUOTA_PREFIX = "requests.deviceclass.resource.kubernetes.io/"
COUNTED = ("resourceclaims", "resourceclaimtemplates")
WHOLE_NUMBER = re.compile(r"\d+(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")


def class_quota_key(name: str) -> str:
    """Return the quota key of a DeviceClass."""
    return f"{name}{CLASS_KEY_INFIX}devices"


def implicit_quota_key(name: str) -> str:
    """Return the quota key of the implicit extended resource of a class (since Kubernetes 1.36)."""
    return f"{QUOTA_PREFIX}{name}"


def extended_quota_key(resource: str) -> str:
    return f"requests.{resource}"


def ignored_reason(key: str, value: str = "0") -> str:
    """
    Return why this entry of a ResourceQuota counts nothing, "" if it counts.

    Only keys for devices or claims are checked; "" for all others.
    """
    if problem := _spelling_problem(key):
        return problem
    if _counts_devices(key) and not WHOLE_NUMBER.fullmatch(value):
        return f"{value} is not a whole number: devices are counted, so the quota is refused."
    return ""


def no_class_reason(name: str) -> str:
    """Return why a quota for this name limits nothing, "" if it can be the name of a DeviceClass."""
    if "/" not in name:
        bare = name.removesuffix(".deviceclass.resource.k8s.io").removesuffix(".resource.k8s.io")
        if bare != name:
            return f"{name} is part of a ResourceQuota key; the class is {bare}."
        return ""
    problem = ignored_reason(name)
    if problem:
        return problem
    if CLASS_KEY_INFIX in name:
        return f"{name} is a ResourceQuota key; the class is {name.partition(CLASS_KEY_INFIX)[0]}."
    return f"{name} is not a DeviceClass: names contain no “/”. Use the class with this extendedResourceName."


def _spelling_problem(key: str) -> str:
    prefix, slash, rest = key.partition("/")
    if prefix == "count" and rest in COUNTED:
        return f"{key} counts nothing without its API group: write count/{rest}.resource.k8s.io."
    if key.startswith("limits.") and slash:
        right = "requests." + key.removeprefix("limits.")
        return f"{key} counts nothing: extended resources have no quota on limits; write {right}."
    if slash and prefix.endswith(CLASS_KEY_INFIX[:-1]) and rest != "devices":
        return f"{key} counts nothing: only “devices” can follow the slash; write {prefix}/devices."
    if slash and prefix.endswith(".resource.k8s.io") and prefix != "deviceclass.resource.k8s.io":
        name = prefix.removesuffix(".resource.k8s.io")
        if not name.endswith(".deviceclass"):
            return f"{key} counts nothing: write {class_quota_key(name)}."
    return ""


def _counts_devices(key: str) -> bool:
    return key in (CLAIMS, TEMPLATES) or CLASS_KEY_INFIX in key or key.startswith(QUOTA_PREFIX)


def charge(spec: Json) -> dict[str, int]:
    """
    Return the devices per DeviceClass that one claim of `spec` is charged.

    Alternatives charge each class with the maximum over the alternatives that name it.
    """
    charged: Counter[str] = Counter()
    for request in requests(spec):
        max_per_class: dict[str, int] = {}
        for device_request in alternatives(request):
            max_per_class[device_request.class_name] = max(
                max_per_class.get(device_request.class_name, 0), _device_count(device_request)
            )
        charged.update(max_per_class)
    return dict(sorted(charged.items()))


def keys(spec: Json, classes: Iterable[Json]) -> dict[str, int]:
    """
    Return what one claim of `spec` adds to each ResourceQuota key; `classes` are those of the cluster.

    A class has up to three keys: its own, its implicit extended resource, and its `extendedResourceName`. A
    class that does not exist is charged too.
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
    """Return the maximum number of devices of one claim: one alternative per request."""
    return sum(
        max((_device_count(device_request) for device_request in alternatives(request)), default=0)
        for request in requests(spec)
    )


def _device_count(device_request: DeviceRequest) -> int:
    mode = device_request.raw.get("allocationMode") or "ExactCount"
    if mode == "All":
        return MAX_RESULTS
    return device_request.count if mode == "ExactCount" else 0  # upstream charges nothing for an unknown mode
