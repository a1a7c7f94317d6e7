"""
GPU-hours and money of the whole fleet on a number of days (UTC): what claims used, what they held idle, and
what nobody held. The parts add up to the fleet.

All figures are sums of the stored days (`usage.daily_sums`); the size of the fleet comes from
`inventory.fleet_history`. Money is a sum of ledger entries in whole cents, each divided into used, idle and
no telemetry, so every row adds up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple
from uuid import UUID

from django.db.models import QuerySet, Sum, Value
from django.db.models.functions import Concat, Trim
from django.urls import reverse

from claims.models import Claim, Profile
from core.prepared import Prepared
from inventory.models import Cluster, FleetSpan
from teams.models import Team, User
from usage.claim_rankings import Ranking, stored_ranking
from usage.cost import Cost, Interval, total
from usage.daily import DAY, midnight, utc_day
from usage.daily_sums import ENERGY, MEASURES
from usage.energy import Energy, added, energy_from
from usage.ledger_sums import MODEL, EntryScope, ranking, ranking_of_sums, sums_by
from usage.models import Correction, DailySum
from usage.monthly_sums import whole_months

Dimension = DailySum.Dimension
EVERYTHING = EntryScope()


@dataclass(frozen=True, slots=True)
class Period:
    """Whole days (UTC) from `first` to before `end`."""

    first: date
    end: date

    @property
    def last(self) -> date:
        return self.end - DAY

    @property
    def days(self) -> list[date]:
        return [self.first + number * DAY for number in range((self.end - self.first).days)]

    @property
    def previous(self) -> Period:
        """The same number of days before."""
        return Period(self.first - (self.end - self.first), self.first)

    @property
    def span(self) -> Interval:
        return Interval(midnight(self.first), midnight(self.end))

    def until(self, end: date) -> Period:
        """Return the part before `end`; it has no days if the period begins later."""
        return Period(self.first, max(self.first, min(self.end, end)))


class GroupBy(StrEnum):
    """What the rows of the report are; a day counts for the owner of its entry (`usage.owners`)."""

    TEAM = "team"
    PERSON = "person"
    PROFILE = "profile"
    MODEL = "model"
    CLUSTER = "cluster"
    CAPACITY = "capacity"
    CLAIM = "claim"

    @property
    def label(self) -> str:
        return "Capacity type" if self is GroupBy.CAPACITY else self.name.capitalize()


# Columns of the sums of kinds of devices; the others are found by key.
OF_KIND = {
    GroupBy.MODEL: (Dimension.KIND, ("product", "partition")),
    GroupBy.CLUSTER: (Dimension.KIND, ("cluster",)),
    GroupBy.CAPACITY: (Dimension.CAPACITY, ("partition",)),
}
CAPACITY_TYPES = {"on-demand": "On demand", "spot": "Spot", "reserved": "Reserved", "": "Unknown"}
NO_MODEL, NO_CAPACITY = "unknown product", "unknown"  # "" in an address
OF_MODEL = Trim(Concat("product", Value(" "), "partition"))
ENTRY_KEYS = {  # of the entries that are not summed by day for all teams
    GroupBy.TEAM: "use.team_id",
    GroupBy.PERSON: "use.owner_id",
    GroupBy.PROFILE: "version.profile_id",
    GroupBy.MODEL: MODEL,
    GroupBy.CLUSTER: "claim.cluster_id",
    GroupBy.CAPACITY: "use.capacity_type",
    GroupBy.CLAIM: "use.claim_id",
}


TIMES = tuple(f"{name}{part}" for part in ("", "_measured", "_used") for name in MEASURES)
SUMMED = ("currency", *TIMES, *ENERGY)
TOTALS = {f"total_{name}": Sum(name) for name in (*TIMES, *ENERGY)}
NO_COST = {"corrections", "energy"}  # what is no part of the GPU time


@dataclass(slots=True)
class HeldParts:
    """
    What claims of the portal held: used, idle, and the time without telemetry. `corrections` of
    closed months are booked in the period, and are no part of its hours.
    """

    used: Cost = field(default_factory=Cost)
    idle: Cost = field(default_factory=Cost)
    no_telemetry: Cost = field(default_factory=Cost)
    corrections: Cost = field(default_factory=Cost)
    energy: Energy | None = None  # None: no power was measured

    def add(self, other: HeldParts) -> None:
        for part in fields(other):
            if part.name != "energy":
                getattr(self, part.name).add(getattr(other, part.name))
        self.energy = added([self.energy, other.energy])

    @property
    def allocated(self) -> Cost:
        return total([self.used, self.idle, self.no_telemetry])

    @property
    def billed(self) -> Cost:
        """Return what teams pay for the period, as on their pages."""
        return total([self.allocated, self.corrections])

    @property
    def utilization(self) -> float | None:
        """Return the used share of 0 to 1 of the measured time; None without telemetry."""
        measured = self.used.held + self.idle.held
        return self.used.held / measured if measured else None


@dataclass(slots=True)
class FleetParts(HeldParts):
    """All GPU time of the fleet: what claims held, and the rest."""

    unmanaged: Cost = field(default_factory=Cost)
    out_of_service: Cost = field(default_factory=Cost)
    unallocated: Cost = field(default_factory=Cost)

    @property
    def fleet(self) -> Cost:
        return total(getattr(self, part.name) for part in fields(self) if part.name not in NO_COST)


@dataclass(frozen=True, slots=True)
class GroupRow:
    """The sum of one team, person …; `before` is its allocated cost in the period before."""

    key: str
    label: str
    url: str
    parts: HeldParts
    before: Cost
    drill: str = ""  # names the team, person … in an address; empty for a claim
    goal: int | None = None  # of the efficiency of a team, in percent

    @property
    def misses_goal(self) -> bool:
        used = self.parts.utilization
        return self.goal is not None and used is not None and used * 100 < self.goal

    @property
    def cost(self) -> Cost:
        return self.parts.allocated


@dataclass(frozen=True, slots=True)
class FleetReport:
    """
    `period` ends with the last stored day. Before `known_since` the size of the fleet was not recorded: the
    fleet is then what claims held. None is never recorded. Of some teams, the fleet is what these held.
    `difference` is by how much all rows of the grouping differ from what the days add up to: nothing.
    """

    period: Period
    parts: FleetParts
    by_day: list[tuple[date, FleetParts]]
    rows: list[GroupRow]
    row_count: int  # of all rows
    known_since: datetime | None
    difference: Cost
    is_all: bool = True  # else of a scope

    @property
    def adds_up(self) -> bool:
        return self.difference == Cost()


KNOWN = Prepared(
    lambda: (
        "SELECT stored.until, stored.months_until, (SELECT min(started_at) FROM inventory_fleetspan)"
        " FROM (SELECT 1) one LEFT JOIN usage_storeddays stored ON true",
        (),
    )
)

type DayKind = tuple[date, UUID | str, str]  # day, cluster and product


def fleet_report(
    period: Period,
    group_by: GroupBy,
    *,
    now: datetime,
    most: int | None = None,
    offset: int = 0,
    order: str = "cost",
    scope: EntryScope = EVERYTHING,
) -> FleetReport:
    """
    Return the report of the stored days, with at most so many rows in an order of `ORDERS`, of everything or
    of a scope; in a fixed number of queries.
    """
    corrections = _corrections(period, group_by, scope)
    ((until, months_until, known_since),) = KNOWN.rows()
    period = period.until(min(until or period.first, utc_day(now)))
    by_day = fleet_days(period) if scope.is_all else _held_days(period, scope)
    months = whole_months(period.first, period.end, months_until)
    page = _page(period, months, group_by, scope, order, offset, most)
    by_key = _held_by(period, group_by, scope, page.keys if page else None)
    only_corrected = corrections.keys() - by_key.keys()  # held nothing in the period: on the first page
    if page and offset:
        only_corrected = set()
    elif page and only_corrected:
        only_corrected -= _held_by(period, group_by, scope, only_corrected).keys()
    shown = [*page.keys, *only_corrected] if page else None
    before = _held_by(period.previous, group_by, scope, shown)
    for key, cost in corrections.items():
        if key in by_key or key in only_corrected:
            by_key.setdefault(key, HeldParts()).corrections = cost
    parts = FleetParts()
    for of_day in by_day.values():
        parts.add(of_day)
    parts.corrections = total(corrections.values())
    of_rows = page.total if page else total(row.allocated for row in by_key.values())
    return FleetReport(
        period,
        parts,
        list(by_day.items()),
        _rows(by_key, before, group_by, order),
        page.count if page else len(by_key),
        known_since if scope.is_all else None,
        _difference(of_rows, parts.allocated),
        scope.is_all,
    )


def _difference(one: Cost, other: Cost) -> Cost:
    """Return `one` − `other`, without the currencies in which they are equal."""
    currencies = one.exact.keys() | other.exact.keys()
    exact = {currency: one.exact.get(currency, 0) - other.exact.get(currency, 0) for currency in currencies}
    return Cost(
        one.held - other.held,
        one.unpriced_held - other.unpriced_held,
        {currency: amount for currency, amount in exact.items() if amount},
    )


def rest(whole: Cost, part: Cost) -> Cost:
    """
    Return `whole` without `part`, never below 0.

    Partitions may cost more than their GPU together (4g + 3g of a MIG GPU are 15/14), and a count is seconds
    later than the cluster: then the fleet counts what was held.
    """
    return Cost(
        max(whole.held - part.held, 0),
        max(whole.unpriced_held - part.unpriced_held, 0),
        {currency: max(amount - part.exact.get(currency, 0), 0) for currency, amount in whole.exact.items()},
    )


def fleet_days(period: Period) -> dict[date, FleetParts]:
    """Return the parts of the fleet on each day of a period; two queries."""
    held: dict[DayKind, HeldParts] = defaultdict(HeldParts)
    for row in _sums(period, Dimension.KIND).values_list("day", "cluster", "product", *SUMMED):
        held[row[:3]].add(parts_of(*row[3:]))
    by_day = {day: FleetParts() for day in period.days}
    for (day, _cluster, _product), of_kind in held.items():
        by_day[day].add(of_kind)
    for kind, spans in _fleet(period).items():
        parts = by_day[kind[0]]
        parts.unmanaged.add(spans[FleetSpan.Use.UNMANAGED])
        parts.out_of_service.add(spans[FleetSpan.Use.OUT_OF_SERVICE])
        allocated = held[kind].allocated if kind in held else Cost()
        parts.unallocated.add(rest(spans[FleetSpan.Use.AVAILABLE], allocated))
    return by_day


def _held_days(period: Period, scope: EntryScope) -> dict[date, FleetParts]:
    """Return what the claims of a scope held on each day of a period; one query."""
    by_day = {day: FleetParts() for day in period.days}
    if scope.is_of_all_claims and (scope.model is None or scope.capacity is None):
        kinds = _sums(period, Dimension.KIND if scope.capacity is None else Dimension.CAPACITY)
        if scope.cluster is not None:
            kinds = kinds.filter(cluster=scope.cluster)
        if scope.model is not None:
            kinds = kinds.annotate(model=OF_MODEL).filter(model=scope.model)
        if scope.capacity is not None:
            kinds = kinds.filter(partition=scope.capacity)
        for day, *sums in kinds.values_list("day", "currency").annotate(**TOTALS):
            by_day[day].add(parts_of(*sums))
        return by_day
    for day, sums in sums_by("use.day", scope, period.first, period.end).items():
        by_day[date.fromisoformat(day)].add(_added(sums))
    return by_day


def _added(rows: Iterable[tuple[Any, ...]]) -> HeldParts:
    parts = HeldParts()
    for currency, *numbers in rows:
        parts.add(parts_of(currency, *numbers))
    return parts


def _page(
    period: Period,
    months: tuple[date, date],
    group_by: GroupBy,
    scope: EntryScope,
    order: str,
    offset: int,
    most: int | None,
) -> Ranking | None:
    """
    Return the keys of the rows that are shown, and the sum of all, in two queries at most; None if these are
    all rows, which then are added up.
    """
    if most is None or (group_by in OF_KIND and scope.is_all):
        return None
    page: Any = {"order": order, "offset": offset, "most": most}
    if not scope.is_all or group_by is GroupBy.CLAIM:
        stored = stored_ranking(period.first, period.end, **page) if scope.is_all else None
        return stored or ranking(ENTRY_KEYS[group_by], scope, period.first, period.end, **page)
    return ranking_of_sums(group_by.value, period.first, period.end, months, **page)


def _held_by(
    period: Period, group_by: GroupBy, scope: EntryScope, keys: Collection[str] | None = None
) -> dict[str, HeldParts]:
    """
    Return what claims held by key: the id of a team, person, profile, cluster or claim, a model or a capacity
    type; one query. With `keys`, only of these.
    """
    if not scope.is_all or group_by is GroupBy.CLAIM:
        listed = None if keys is None else list(keys)
        found = sums_by(ENTRY_KEYS[group_by], scope, period.first, period.end, listed)
        return {key: _added(rows) for key, rows in found.items()}
    dimension, columns = OF_KIND.get(group_by) or (Dimension(group_by.value), ("key",))
    parts: dict[str, HeldParts] = defaultdict(HeldParts)
    rows = _sums(period, dimension)
    if keys is not None:
        rows = rows.filter(key__in=keys)
    for row in rows.values_list(*columns, "currency").annotate(**TOTALS):
        key = " ".join(map(str, row[: len(columns)])).strip()
        parts[key].add(parts_of(*row[len(columns) :]))
    return parts


CORRECTED = {
    GroupBy.TEAM: ("team",),
    GroupBy.PERSON: ("owner",),
    GroupBy.PROFILE: ("claim__profile_version__profile",),
    GroupBy.MODEL: ("product", "partition"),
    GroupBy.CLUSTER: ("claim__cluster",),
    GroupBy.CAPACITY: ("capacity_type",),
    GroupBy.CLAIM: ("claim",),
}


def _corrections(period: Period, group_by: GroupBy, scope: EntryScope) -> dict[str, Cost]:
    """Return the corrections of closed months that are booked in the period, by key; one query."""
    columns = CORRECTED[group_by]
    booked = Correction.objects.filter(booked_on__gte=period.first, booked_on__lt=period.end).order_by()
    if scope.teams is not None:
        booked = booked.filter(team__in=scope.teams)
    if scope.person is not None:
        booked = booked.filter(owner=scope.person)
    if scope.profile is not None:
        booked = booked.filter(claim__profile_version__profile=scope.profile)
    if scope.cluster is not None:
        booked = booked.filter(claim__cluster=scope.cluster)
    if scope.model is not None:
        booked = booked.annotate(model=OF_MODEL).filter(model=scope.model)
    if scope.capacity is not None:
        booked = booked.filter(capacity_type=scope.capacity)
    sums = Sum("held"), Sum("amount")
    costs: dict[str, Cost] = defaultdict(Cost)
    for row in booked.values_list(*columns, "currency").annotate(*sums):
        *kind, currency, held, amount = row
        cost = Cost(int(held), 0 if currency else int(held), {currency: int(amount)} if currency else {})
        costs[" ".join(map(str, kind)).strip()].add(cost)
    return costs


def _sums(period: Period, dimension: str) -> QuerySet[DailySum]:
    days = DailySum.objects.filter(dimension=dimension, day__gte=period.first, day__lt=period.end)
    return days.order_by()


def parts_of(currency: str, *numbers: Any) -> HeldParts:
    """Return the parts of nine sums of time and money, and of three of energy if they follow."""
    numbers, energy = numbers[:9], numbers[9:]
    held, measured, used = (
        Cost(int(time), int(unpriced), {currency: int(amount)} if currency else {})
        for time, unpriced, amount in zip(numbers[::3], numbers[1::3], numbers[2::3], strict=True)
    )
    return HeldParts(
        used, rest(measured, used), rest(held, measured), energy=energy_from(*energy) if energy else None
    )


def _fleet(period: Period) -> dict[DayKind, dict[str, Cost]]:
    """Return the time and cost of the GPUs of the fleet by day, cluster and product, and then by use."""
    costs: dict[DayKind, dict[str, Cost]] = defaultdict(lambda: {use: Cost() for use in FleetSpan.Use})
    columns = ("day", "cluster", "product", "partition", "currency", *MEASURES)
    for *kind, use, currency, held, unpriced, amount in _sums(period, Dimension.FLEET).values_list(*columns):
        day, cluster, product = kind
        exact = {currency: int(amount)} if currency else {}
        costs[day, cluster, product][use].add(Cost(int(held), int(unpriced), exact))
    return costs


def _rows(
    by_key: Mapping[str, HeldParts], before: Mapping[str, HeldParts], group_by: GroupBy, order: str
) -> list[GroupRow]:
    """Return a row per key of this period in an order of `ORDERS`, with its name and its page."""
    names = _names(by_key, group_by)
    rows = [
        GroupRow(
            key,
            name.label,
            name.url,
            parts,
            before.get(key, HeldParts()).allocated,
            name.drill,
            name.goal,
        )
        for key, parts in by_key.items()
        for name in [names.get(key) or _Name(key)]
    ]
    by_cost = sorted(rows, key=lambda row: (-sum(row.cost.exact.values()), -row.cost.held, row.label))
    match order:
        case "hours":
            return sorted(by_cost, key=lambda row: -row.cost.held)
        case "idle":
            return sorted(by_cost, key=lambda row: -sum(row.parts.idle.exact.values()))
    return by_cost


class _Name(NamedTuple):
    """The name of a row, its page, what names it in a report, and its goal."""

    label: str
    url: str = ""
    drill: str = ""
    goal: int | None = None


def _names(keys: Iterable[str], group_by: GroupBy) -> dict[str, _Name]:
    """Return the names by key; one query at most."""
    match group_by:
        case GroupBy.TEAM:
            teams = Team.objects.filter(pk__in=keys)
            return {
                str(row.pk): _Name(
                    row.title, reverse("usage:team", args=[row.slug]), row.slug, row.efficiency_goal
                )
                for row in teams
            }
        case GroupBy.PERSON:
            return {
                str(row.pk): _Name(row.label, "", row.username) for row in User.objects.filter(pk__in=keys)
            }
        case GroupBy.PROFILE:
            profiles = Profile.objects.filter(pk__in=keys)
            return {
                str(row.pk): _Name(row.title, reverse("claims:profile", args=[row.slug]), row.slug)
                for row in profiles
            }
        case GroupBy.MODEL:
            return {key: _Name(key or NO_MODEL, "", key or NO_MODEL) for key in keys}
        case GroupBy.CLUSTER:
            clusters = Cluster.objects.filter(pk__in=keys)
            return {
                str(row.pk): _Name(row.name, reverse("inventory:cluster", args=[row.name]), row.name)
                for row in clusters
            }
        case GroupBy.CAPACITY:
            return {key: _Name(label, "", key or NO_CAPACITY) for key, label in CAPACITY_TYPES.items()}
        case GroupBy.CLAIM:
            claims = Claim.objects.filter(pk__in=keys).values_list("pk", "name", "team__slug")
            return {
                str(pk): _Name(f"{name} ({team})", reverse("claims:detail", args=[pk]))
                for pk, name, team in claims
            }
    return {}


def month_of(day: date) -> Period:
    """Return the month (UTC) of a day."""
    first = day.replace(day=1)
    return Period(first, (first + timedelta(days=31)).replace(day=1))
