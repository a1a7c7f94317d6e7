"""How the time that a claim held its devices divides: used, idle, and not measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from claims.models import Allocation
from usage.claim_use import DeviceKey, DeviceLife

NOTHING = timedelta(0)


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Time of devices. Used is measured time × utilization of the device, idle the rest of it."""

    used: timedelta = NOTHING
    idle: timedelta = NOTHING
    none: timedelta = NOTHING

    def __add__(self, other: TimeSplit) -> TimeSplit:
        return TimeSplit(self.used + other.used, self.idle + other.idle, self.none + other.none)

    @property
    def whole(self) -> timedelta:
        return self.used + self.idle + self.none

    @property
    def parts(self) -> list[tuple[str, str, timedelta, float]]:
        """Return segment, label, time and share of each part; what was never measured is not used 0 %."""
        whole = self.whole or timedelta.resolution
        named = (
            ("used", "Used", self.used),
            ("idle", "Idle", self.idle),
            ("none", "No telemetry", self.none),
        )
        shown = named if self.used or self.idle else named[2:]
        return [(key, label, time, time / whole) for key, label, time in shown]


def split_time(
    devices: Iterable[DeviceLife], allocations: Sequence[Allocation], *, now: datetime
) -> dict[DeviceKey, TimeSplit]:
    """Return the split of each device that a claim has held until now, also of those without telemetry."""
    lives = {device.key: device for device in devices}
    return {key: _split(held, lives.get(key)) for key, held in _held(allocations, now).items()}


def _split(held: timedelta, life: DeviceLife | None) -> TimeSplit:
    if life is None or life.activity is None:
        return TimeSplit(none=held)
    measured = min(life.measured, held)
    return TimeSplit(measured * life.activity, measured * (1 - life.activity), held - measured)


def _held(allocations: Sequence[Allocation], now: datetime) -> dict[DeviceKey, timedelta]:
    """Return how long each device was held; shares of it at the same time count once."""
    times: dict[DeviceKey, timedelta] = defaultdict(timedelta)
    ends: dict[DeviceKey, datetime] = {}
    for row in sorted(allocations, key=lambda row: row.started_at):
        key, end = (row.driver, row.pool, row.device), row.ended_at or now
        begin = max(row.started_at, ends.get(key, row.started_at))
        times[key] += max(end - begin, NOTHING)
        ends[key] = max(end, ends.get(key, end))
    return times
