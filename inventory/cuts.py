"""What can still be cut from GPUs whose partitions share counters, for pages."""

from dra.fragmentation import Board, boards_of
from inventory.models import Cluster
from inventory.models.device import DeviceQuerySet
from inventory.picture import picture_of


def boards_for(cluster: Cluster, devices: DeviceQuerySet) -> list[Board]:
    """Return the cut GPUs that these devices of a cluster belong to; one query if none of them is cut."""
    cut = devices.exclude(counters=[]).order_by().values_list("driver", "pool", "counters")
    wanted = {
        (driver, pool, str(one.get("counterSet"))) for driver, pool, counters in cut for one in counters
    }
    if not wanted:
        return []
    picture = picture_of(cluster)
    return [
        board
        for driver, pool in sorted({key[:2] for key in wanted})
        for board in boards_of(picture, driver, pool)
        if (driver, pool, board.counter_set) in wanted
    ]
