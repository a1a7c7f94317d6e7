"""
What a spec costs under quota, by the rules of Kubernetes' own ResourceQuota.

From `pkg/quota/v1/evaluator/core/resource_claims.go`: worst case, at the time of the request, whatever is
free. A share of a device costs the whole device; admin access costs like any other.
"""

from __future__ import annotations

from collections import Counter

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
