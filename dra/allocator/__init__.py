"""
Which devices the scheduler would allocate to claims on one node.

The rules are those of Kubernetes 1.37 (`k8s.io/dynamic-resource-allocation/structured`) with the features of
the snapshot: no scoring, the first fit wins. This is a preview; only the scheduler allocates.
`docs/allocator.md` maps rules to upstream files.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra.allocator.node import AllocationError, NodeFailed, NodeSite, SearchGivenUp, TooManyDevices
from dra.allocator.plan import plan_claim
from dra.allocator.result import AllocationResult, DeviceResult, config_results, device_results
from dra.allocator.search import MAX_STEPS, NodeSearch
from dra.cluster_snapshot import ClusterSnapshot
from dra.nodes import SelectorError, name_of_node, selector_for
from dra.objects import Json

__all__ = [
    "AllocationError",
    "AllocationResult",
    "DeviceResult",
    "NodeFailed",
    "SearchGivenUp",
    "TooManyDevices",
    "allocate",
]


def allocate(
    snapshot: ClusterSnapshot,
    node: Json,
    claims: Sequence[Json],
    *,
    literal: bool = False,
    steps: int = MAX_STEPS,
) -> list[AllocationResult] | None:
    """
    Return one result per claim, all on `node`; None if they do not fit together.

    `node` and `claims` are API objects; the claims must not be allocated. An absent count is 1 and an absent
    mode ExactCount, like the API server's defaults; with `literal` they are 0 and an error, and the order of
    the slices counts. Raise
    `AllocationError` if waiting does not help: an unknown class, more than 32 devices, a selector that fails;
    `NodeFailed` if the claims do not fit and an invalid pool can be the reason; `SearchGivenUp` after `steps`
    devices without a result.
    """
    site = NodeSite(snapshot, node, literal=literal)
    plans = [plan_claim(site, claim, literal=literal) for claim in claims]
    search = NodeSearch(site, plans, steps)
    if not search.run():
        invalid = next((pool for pool in site.pools if pool.invalid), None)
        if invalid is not None:
            raise NodeFailed(invalid.problem)
        return None
    stable = snapshot.features.stable
    allocation_results = []
    for plan, device_results_of_claim, chosen in zip(plans, search.taken, search.chosen, strict=True):
        devices = device_results(site, plan, device_results_of_claim)
        try:
            selector = selector_for(
                (result.device for result in devices), name_of_node(node), binding=not stable
            )
        except SelectorError as error:
            raise AllocationError(str(error)) from None
        config = config_results(snapshot, plan.spec, chosen)
        allocation_results.append(
            AllocationResult(name_of_node(node), tuple(devices), tuple(config), selector)
        )
    return allocation_results
