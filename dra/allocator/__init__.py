"""
Which devices the scheduler would give to claims, on one node.

The rules are those of the upstream allocator (`k8s.io/dynamic-resource-allocation/structured`, 1.37
"incubating"): nothing is scored, the first fit wins. Allocating is a preview; only the scheduler allocates.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra.allocator.config import config_of
from dra.allocator.plan import plan_claim
from dra.allocator.result import AllocationError, AllocationResult, DeviceResult, SearchGivenUp
from dra.allocator.search import Search
from dra.nodes import name_of
from dra.objects import Json
from dra.picture import Picture

__all__ = ["AllocationError", "AllocationResult", "DeviceResult", "SearchGivenUp", "allocate"]


def allocate(picture: Picture, node: Json, claims: Sequence[Json]) -> list[AllocationResult] | None:
    """
    Return one result per claim, all on `node`; None if they do not fit together.

    `node` and `claims` are objects of the API; the claims must not be allocated yet. Raise `AllocationError`
    where waiting would not help: an unknown class, more than 32 devices, a selector that fails.
    """
    places = picture.places_on(node)
    plans = [plan_claim(picture, node, places, claim) for claim in claims]
    search = Search(picture, node, places, plans)
    if not search.run():
        return None
    return [
        AllocationResult(name_of(node), tuple(devices), tuple(config_of(picture, plan.spec, chosen)))
        for plan, devices, chosen in zip(plans, search.results, search.chosen, strict=True)
    ]
