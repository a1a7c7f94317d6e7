"""
Which devices the scheduler would give to claims, on one node.

The rules are those of Kubernetes 1.37 (`k8s.io/dynamic-resource-allocation/structured`) with the features of
the picture: nothing is scored, the first fit wins. Allocating is a preview; only the scheduler allocates.
`docs/allocator.md` says which rule follows which file.
"""

from __future__ import annotations

from collections.abc import Sequence

from dra.allocator.plan import plan_claim
from dra.allocator.result import AllocationResult, DeviceResult, config_results, device_results
from dra.allocator.search import STEPS, NodeSearch
from dra.allocator.site import AllocationError, NodeFailed, NodeSite, SearchGivenUp
from dra.cluster_snapshot import ClusterSnapshot
from dra.nodes import SelectorError, name_of, selector_for
from dra.objects import Json

__all__ = [
    "AllocationError",
    "AllocationResult",
    "DeviceResult",
    "NodeFailed",
    "SearchGivenUp",
    "allocate",
]


def allocate(
    snapshot: ClusterSnapshot,
    node: Json,
    claims: Sequence[Json],
    *,
    literal: bool = False,
    steps: int = STEPS,
) -> list[AllocationResult] | None:
    """
    Return one result per claim, all on `node`; None if they do not fit together.

    `node` and `claims` are objects of the API; the claims must not be allocated yet. An absent count is 1 and
    an absent mode ExactCount, as the API server fills them in; `literal` takes objects as they are, so that
    they are 0 and an error. Raise `AllocationError` where waiting would not help: an unknown class, more than
    32 devices, a selector that fails; `NodeFailed` if they do not fit and an invalid pool may be the reason;
    `SearchGivenUp` if no answer is found by trying `steps` devices.
    """
    site = NodeSite(snapshot, node)
    plans = [plan_claim(site, claim, literal=literal) for claim in claims]
    search = NodeSearch(site, plans, steps)
    if not search.run():
        invalid = next((pool for pool in site.pools if pool.invalid), None)
        if invalid is not None:
            raise NodeFailed(invalid.problem)
        return None
    stable = snapshot.features.stable
    made = []
    for plan, taken, chosen in zip(plans, search.taken, search.chosen, strict=True):
        devices = device_results(site, plan, taken)
        try:
            selector = selector_for((one.device for one in devices), name_of(node), binding=not stable)
        except SelectorError as error:
            raise AllocationError(str(error)) from None
        config = config_results(snapshot, plan.spec, chosen)
        made.append(AllocationResult(name_of(node), tuple(devices), tuple(config), selector))
    return made
