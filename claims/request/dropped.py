"""Rows of the mirror behind devices that a match drops, with their holders as one reader may know them."""

from collections.abc import Sequence

from dra.match import Drop
from inventory.masking import Person, name_holders
from inventory.models import Cluster, Device

PER_PAGE = 50


def devices_of(person: Person, cluster: Cluster, drops: Sequence[Drop]) -> dict[tuple[str, str, str], Device]:
    """Return the rows of these devices by their key, each with its holder."""
    keys = {drop.device.key for drop in drops}
    rows = Device.objects.present().filter(
        cluster=cluster, pool__in={pool for _driver, pool, _name in keys}, name__in={key[2] for key in keys}
    )
    listed = rows.select_related("held_by").defer("attributes", "capacity", "counters", "held_by__raw")
    found = {(row.driver, row.pool, row.name): row for row in listed}
    wanted = {key: row for key, row in found.items() if key in keys}
    name_holders(person, wanted.values())
    return wanted
