"""
The keys of a ResourceQuota that count devices, and those that only look as if they did.

The API server takes any key. What no evaluator knows stays at "used: 0" and limits nothing, and nobody is
told (`pkg/quota/v1/evaluator/core/resource_claims.go`, and seen in tests/scheduler on Kubernetes 1.37).
"""

from __future__ import annotations

import re

CLAIMS = "count/resourceclaims.resource.k8s.io"
TEMPLATES = "count/resourceclaimtemplates.resource.k8s.io"
OF_CLASS = ".deviceclass.resource.k8s.io/"
IMPLICIT = "requests.deviceclass.resource.kubernetes.io/"
COUNTED = ("resourceclaims", "resourceclaimtemplates")
WHOLE = re.compile(r"\d+(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?")


def of_class(name: str) -> str:
    """Return the key that counts the devices which claims ask of a DeviceClass."""
    return f"{name}{OF_CLASS}devices"


def of_implicit(name: str) -> str:
    """Return the key of the extended name that every class has (from Kubernetes 1.36 on)."""
    return f"{IMPLICIT}{name}"


def of_extended(resource: str) -> str:
    return f"requests.{resource}"


def why_ignored(key: str, value: str = "0") -> str:
    """
    Return why Kubernetes would take this line of a ResourceQuota and count nothing, "" if it counts.

    Only keys that mean devices or claims are judged; "" for all others.
    """
    if problem := _spelling(key):
        return problem
    if _means_devices(key) and not WHOLE.fullmatch(value):
        return f"{value} is not a whole number: devices are counted, so the quota is refused."
    return ""


def why_no_class(name: str) -> str:
    """Return why a quota for this name would limit nothing, "" if it may be that of a DeviceClass."""
    if "/" not in name:
        bare = name.removesuffix(".deviceclass.resource.k8s.io").removesuffix(".resource.k8s.io")
        if bare != name:
            return f"{name} is part of a key of a ResourceQuota; the class is {bare}."
        return ""
    said = why_ignored(name)
    if said:
        return said
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
            return f"{key} counts nothing: write {of_class(name)}."
    return ""


def _means_devices(key: str) -> bool:
    return key in (CLAIMS, TEMPLATES) or OF_CLASS in key or key.startswith(IMPLICIT)
