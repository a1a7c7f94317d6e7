"""
What the people of a team used on the stored days, from one query over the rows of `usage.daily`.

A day counts for the owner of its entry (`usage.owners`). Utilization and idle cost are of the time that was
measured (`usage.daily_sums`); time without telemetry is in neither.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from uuid import UUID

from core.prepared import Prepared, Statement
from teams.models import Team
from usage.cost import DEVICE_HOUR, Cost
from usage.daily_sums import ACTIVITY, HELD, IDLE_AMOUNT, UNPRICED, UNPRICED_MEASURED

DAYS = 30
DAY = timedelta(days=1)
HELD_ALL_DAY = 24 * DEVICE_HOUR  # one device, in the unit of `Cost.held`

USE = f"""
SELECT use.owner_id, use.day, use.currency, sum(use.held), sum({UNPRICED}), sum(use.amount),
       sum({HELD[1]}), sum({UNPRICED_MEASURED}), sum({HELD[2]}), sum({IDLE_AMOUNT}), NULL::date
FROM usage_dailyuse use {ACTIVITY}
WHERE use.team_id = %s AND use.day >= %s AND use.day < (SELECT until FROM usage_storeddays)
GROUP BY use.owner_id, use.day, use.currency
UNION ALL SELECT NULL, NULL, '', 0, 0, 0, 0, 0, 0, 0, until FROM usage_storeddays
"""  # noqa: S608


def _use(team: UUID, since: date) -> Statement:
    return USE, (team, since)


ROWS = Prepared(_use, UUID, date)


@dataclass(slots=True)
class Use:
    """
    The use of one person, or of all. `devices` is the mean number held on each of the `DAYS`, oldest first.

    `measured` is the time of `cost` with telemetry; `idle` is what of it was not used, and `busy` the time
    that was, in the unit of `Cost.held`.
    """

    cost: Cost = field(default_factory=Cost)
    measured: Cost = field(default_factory=Cost)
    idle: Cost = field(default_factory=Cost)
    busy: int = 0
    devices: list[float] = field(default_factory=lambda: [0.0] * DAYS)

    @property
    def utilization(self) -> float | None:
        """Return the share of 0 to 1 of the measured time in which devices computed; None without any."""
        return self.busy / self.measured.held if self.measured.held else None

    @property
    def percent(self) -> int | None:
        return None if self.utilization is None else round(self.utilization * 100)

    @property
    def idle_percent(self) -> int | None:
        return None if self.percent is None else 100 - self.percent


@dataclass(frozen=True, slots=True)
class PeopleUse:
    """The stored days from `first` to `last`, both included; both are None while no day is stored."""

    people: Mapping[UUID, Use]
    sum: Use
    first: date | None
    last: date | None


def team_use(team: Team, *, today: date) -> PeopleUse:
    """Return the use of a team on the last `DAYS` before `today`; one query."""
    first = today - DAYS * DAY
    people: dict[UUID, Use] = defaultdict(Use)
    last: date | None = None
    for person, day, currency, *numbers, until in ROWS.rows(team.pk, first):
        held, unpriced, amount, measured, unpriced_measured, busy, idle = map(int, numbers)
        if until is not None:
            last = until - DAY
            continue
        if day >= today:
            continue
        use = people[person]
        use.cost.add(Cost(held, unpriced, {currency: amount} if currency else {}))
        use.busy += busy
        use.devices[(day - first).days] += held / HELD_ALL_DAY
        if measured or idle:
            use.measured.add(Cost(measured, unpriced_measured))
            unused = measured - busy  # rows without a currency have no rate
            use.idle.add(Cost(unused, 0, {currency: idle}) if currency else Cost(unused, unused))
    return PeopleUse(people, summed(people), first if last else None, last)


def summed(people: Mapping[UUID, Use]) -> Use:
    """Return the sum of all people."""
    result = Use()
    for use in people.values():
        result.cost.add(use.cost)
        result.measured.add(use.measured)
        result.idle.add(use.idle)
        result.busy += use.busy
        result.devices = [mine + theirs for mine, theirs in zip(result.devices, use.devices, strict=True)]
    return result
