"""What the browser draws of a series. The table under the graph shows the same points in words."""

from collections.abc import Sequence
from typing import Any

from claims.models import Allocation
from usage.series import Series

GIB = 2**30
LINES = 5  # one colour each; with more devices than this their mean is one line


def chart_of(series: Series, held: Sequence[Allocation]) -> dict[str, Any]:
    """
    Return two plots over the same instants (Unix seconds): activity in per cent, memory in GiB.

    None is a gap that nothing is drawn across. `limit` is the memory of the devices held at once.
    """
    apart = 1 < len(series.devices) <= LINES
    activity = (
        [
            {"label": device, "values": [percent(point.by_device.get(device)) for point in series.points]}
            for device in series.devices
        ]
        if apart
        else [{"label": "activity", "values": [percent(point.activity) for point in series.points]}]
    )
    memory = [
        None if point.memory_bytes is None else round(point.memory_bytes / GIB, 2) for point in series.points
    ]
    return {
        "x": [int(point.at.timestamp()) for point in series.points],
        "step": int(series.step.total_seconds()),
        "activity": activity,
        "memory": memory,
        "limit": memory_limit(held),
    }


def percent(value: float | None) -> float | None:
    return None if value is None else round(value * 100, 1)


def memory_limit(held: Sequence[Allocation]) -> float | None:
    """Return the GiB of what is held now, else of what was held last; None where a device does not tell."""
    now = [one for one in held if one.ended_at is None]
    last = max((one.ended_at for one in held if one.ended_at), default=None)
    counted = now or [one for one in held if one.ended_at == last]
    sizes = {(one.driver, one.pool, one.device): one.memory_bytes for one in counted}
    known = [size for size in sizes.values() if size is not None]
    return round(sum(known) / GIB, 2) if known and len(known) == len(sizes) else None
