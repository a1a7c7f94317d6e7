"""The pool of a device, in one sentence: which generation, how many slices, and what is wrong with it."""

from dataclasses import dataclass

from dra.pools import pools_of
from inventory.models import Device, ResourceSlice


@dataclass(frozen=True, slots=True)
class PoolFacts:
    name: str
    generation: int
    slices: int  # seen
    expected: int
    problem: str  # a sentence, empty while Kubernetes allocates from the pool


def pool_facts(device: Device) -> PoolFacts | None:
    """Return None where no slice of the pool is left."""
    slices = ResourceSlice.objects.filter(
        cluster=device.cluster_id, driver=device.driver, pool=device.pool, gone_at=None
    )
    pools = pools_of(list(slices.values_list("raw", flat=True)))
    if not pools:
        return None
    pool = pools[0]
    return PoolFacts(pool.name, pool.generation, len(pool.slices), pool.expected, pool.problem)
