"""
What a spec costs under quota, by the rules of Kubernetes' own ResourceQuota.

From `pkg/quota/v1/evaluator/core/resource_claims.go`: worst case, at the time of the request, whatever is
free. A share of a device costs the whole device; admin access costs like any other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from dra.objects import MAX_RESULTS, Ask, Json, alternatives, requests


def charge(spec: Json) -> dict[str, int]:
    """
    Return devices per DeviceClass that one claim of `spec` is charged with.

    Alternatives charge every class that they name, each with the most that one of them takes.
    """
    charged: Counter[str] = Counter()
    for request in requests(spec):
        dearest: dict[str, int] = {}
        for ask in alternatives(request):
            dearest[ask.class_name] = max(dearest.get(ask.class_name, 0), _cost(ask))
        charged.update(dearest)
    return dict(sorted(charged.items()))


def keys(spec: Json, classes: Iterable[Json]) -> dict[str, int]:
    """
    Return what one claim of `spec` adds to each key of a ResourceQuota; `classes` are those of the cluster.

    A class has up to three keys: its own, and those of the extended resources under which pods may ask for
    its devices, one of which is implicit. A class that does not exist is charged too.
    """
    extended = {
        one["metadata"]["name"]: (one.get("spec") or {}).get("extendedResourceName") for one in classes
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
    return sum(max((_cost(ask) for ask in alternatives(request)), default=0) for request in requests(spec))


def _cost(ask: Ask) -> int:
    mode = ask.raw.get("allocationMode") or "ExactCount"
    if mode == "All":
        return MAX_RESULTS
    return (
        ask.count if mode == "ExactCount" else 0
    )  # upstream charges nothing for a mode that it does not know
