"""
Costs in the shape of OpenCost's `/allocation/compute`, for dashboards that read it.

Names and units are those of OpenCost (`core/pkg/opencost/allocation_json.go`): hours, minutes and one
currency. Figures are sums of stored days, like the report of the fleet, so they have the same cents. Days
that are not stored yet, today until now among them, and windows of hours are computed from allocations. Of a
claim, only its GPUs are charged: costs of CPU, memory, volumes and network are 0, and quantities that the
portal does not know are null.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection
from django.utils.dateparse import parse_datetime

from core.errors import Invalid
from core.models import Installation
from usage.cost import CURRENCY_UNIT, Cost, Interval, LedgerEntry, rounded, six_digits, total
from usage.daily import DAY, midnight, stored_until, utc_day
from usage.daily_sums import ACTIVITY, HELD
from usage.fleet_report import GroupBy, Period, fleet_report, month_of
from usage.focus import ChargedClaim, entries_since
from usage.rates import RateCard

MOST = 5_000  # allocations in one answer
LONGEST = 366  # days
LONGEST_OF_HOURS = timedelta(days=7)  # of a window that is computed from allocations
UNSUPPORTED = "filter", "shareIdle", "idleByNode", "shareLB", "includeProportionalAssetResourceCosts"
IDLE, UNALLOCATED = "__idle__", "__unallocated__"  # names of OpenCost
KIND = "resourceclaim"
# What `aggregate` may name, with its column; a claim is the controller of its devices.
AGGREGATES = {
    "cluster": "cluster.name",
    "namespace": "claim.namespace",
    "controller": f"'{KIND}:' || claim.name",
    "controllerKind": f"'{KIND}'",
    "label:team": "team.slug",
    "label:owner": "person.username",
    "label:profile": "profile.slug",
    "label:product": "use.product",
    "label:capacity_type": "use.capacity_type",
}
ONE_CLAIM = ("cluster", "namespace", "controller")
# What the columns need beside the claim, by alias.
JOINS = {
    "cluster": "JOIN inventory_cluster cluster ON cluster.id = claim.cluster_id",
    "team": "JOIN teams_team team ON team.id = claim.team_id",
    "person": "JOIN teams_user person ON person.id = use.owner_id",
    "profile": "JOIN claims_profileversion version ON version.id = claim.profile_version_id "
    "JOIN claims_profile profile ON profile.id = version.profile_id",
}
# Sums of a name in a step: %(step)s days from %(first)s on.
ENTRIES = f"""
SELECT ARRAY[{{columns}}], (use.day - %(first)s) / %(step)s, use.currency, sum(use.held), sum(use.amount),
    sum({HELD[1]}), sum({HELD[2]}), array_agg(DISTINCT use.product)
FROM usage_dailyuse use JOIN claims_claim claim ON claim.id = use.claim_id {{joins}} {ACTIVITY}
WHERE use.day >= %(first)s AND use.day < %(end)s
GROUP BY {{columns}}, 2, use.currency
"""  # noqa: S608
CORRECTED = """
SELECT ARRAY[{columns}], (use.booked_on - %(first)s) / %(step)s, use.currency, sum(use.amount)
FROM usage_correction use JOIN claims_claim claim ON claim.id = use.claim_id {joins}
WHERE use.booked_on >= %(first)s AND use.booked_on < %(end)s
GROUP BY {columns}, 2, use.currency
"""
NO_COST = (
    *("cpuCost", "cpuCostAdjustment", "cpuCostIdle", "ramCost", "ramCostAdjustment", "ramCostIdle"),
    *("pvCost", "pvCostAdjustment", "networkCost", "networkCrossZoneCost", "networkCrossRegionCost"),
    *("networkInternetCost", "networkCostAdjustment", "loadBalancerCost", "loadBalancerCostAdjustment"),
    *("sharedCost", "externalCost"),
)
NOT_KNOWN = (
    *("cpuCores", "cpuCoreRequestAverage", "cpuCoreLimitAverage", "cpuCoreUsageAverage", "cpuCoreHours"),
    *("cpuEfficiency", "ramBytes", "ramByteRequestAverage", "ramByteLimitAverage", "ramByteUsageAverage"),
    *("ramByteHours", "ramEfficiency", "pvBytes", "pvByteHours", "pvs", "networkTransferBytes"),
    *("networkReceiveBytes", "lbAllocations"),
)


# The question.


def parse_window(text: str, *, now: datetime) -> Interval:
    """
    Return the time of `today`, `yesterday`, `week`, `lastweek`, `month`, `lastmonth`, `7d`, `1w`, `24h`,
    `30m`, or a pair of dates, times or seconds since 1970 such as
    `2026-11-01T00:00:00Z,2026-11-08T00:00:00Z`.

    As in OpenCost, weeks begin on Sunday, days are today and those before it, and hours and minutes end now.
    Raises Invalid for anything else.
    """
    today = utc_day(now)
    tomorrow = today + DAY
    sunday = today - (today.isoweekday() % 7) * DAY
    month = month_of(today)
    words = {
        "today": Period(today, tomorrow),
        "yesterday": Period(today - DAY, today),
        "week": Period(sunday, tomorrow),
        "lastweek": Period(sunday - 7 * DAY, sunday),
        "month": Period(month.first, tomorrow),
        "lastmonth": month_of(month.first - DAY),
    }
    if text in words:
        return words[text].span
    if days := _days(text):
        return Period(tomorrow - days * DAY, tomorrow).span
    if hours := re.fullmatch(r"([1-9]\d{0,4})([hm])", text):
        length = timedelta(minutes=int(hours[1]) * (60 if hours[2] == "h" else 1))
        span: Interval | None = Interval(now - length, now)
    else:
        first, comma, end = text.partition(",")
        span = Interval(_moment(first), _moment(end)) if comma else None
    if span is None:
        raise Invalid(
            f"A window is one of {', '.join(words)}, a time such as 7d, 1w, 24h or 30m, or two times such as "
            f"2026-11-01T00:00:00Z,2026-11-08T00:00:00Z; “{text[:60]}” was sent.",
            field="window",
        )
    if not timedelta(0) < span.end - span.start <= timedelta(days=LONGEST):
        raise Invalid(f"A window has at most {LONGEST} days, and ends after it begins.", field="window")
    if not is_days(span) and span.end - span.start > LONGEST_OF_HOURS:
        raise Invalid(
            "A window of more than 7 days begins and ends at 00:00 UTC: costs are kept per day. Ask for "
            "days, such as 30d.",
            field="window",
        )
    return span


def is_days(span: Interval) -> bool:
    """Return whether a span begins and ends at midnight (UTC)."""
    return all(moment == midnight(utc_day(moment)) for moment in (span.start, span.end))


def _days(text: str) -> int:
    """Return the number of days of “7d” or “1w”; 0 for anything else."""
    found = re.fullmatch(r"([1-9]\d{0,3})([dw])", text)
    days = int(found[1]) * (7 if found[2] == "w" else 1) if found else 0
    return days if days <= LONGEST else 0


def _moment(text: str) -> datetime:
    """Return a time in UTC; a date is its midnight. Raises Invalid."""
    try:
        if re.fullmatch(r"\d{1,11}", text):
            moment: datetime | None = datetime.fromtimestamp(int(text), UTC)
        else:
            moment = parse_datetime(text.replace(" ", "+") if "T" in text else f"{text}T00:00:00Z")
        moment = moment.astimezone(UTC) if moment and moment.tzinfo else None
    except (ValueError, OverflowError):
        moment = None
    if moment is None:
        raise Invalid(f"“{text[:40]}” is not a time such as 2026-11-01T00:00:00Z.", field="window")
    if not 1971 <= moment.year <= 9990:
        raise Invalid(f"There are no costs in the year {moment.year}.", field="window")
    return moment


def require_ignorable(asked: Mapping[str, str]) -> None:
    """Raise Invalid for a parameter of OpenCost that would change the answer; empty or false does not."""
    for name in UNSUPPORTED:
        if asked.get(name, "").lower() not in ("", "false"):
            raise Invalid(
                f"{name} is not supported: leave it out. Each cost is of one claim, and what nobody held "
                "stays __idle__; window, aggregate, step, accumulate and includeIdle choose the answer.",
                field=name,
            )


def parse_aggregate(text: str) -> tuple[str, ...]:
    """Return the properties of `namespace` or `cluster,label:team`; without any, those of one claim."""
    names = tuple(name for name in text.split(",") if name) or ONE_CLAIM
    if unknown := [name for name in names if name not in AGGREGATES]:
        raise Invalid(
            f"“{unknown[0][:40]}” is not known here: a claim is charged, not its pods, containers or node. "
            f"Aggregate by {', '.join(AGGREGATES)}.",
            field="aggregate",
        )
    return tuple(dict.fromkeys(names))


def parse_step(text: str, span: Interval) -> int:
    """Return the days of each set; without a step, all days of the window."""
    days = (
        int(text[:-1]) // 24
        if re.fullmatch(r"[1-9]\d{0,3}h", text) and not int(text[:-1]) % 24
        else _days(text)
    )
    if text and not days:
        raise Invalid(f"A step is a number of days such as 1d; “{text[:20]}” was sent.", field="step")
    return days or -((span.start - span.end) // DAY)


# The answer.


@dataclass(slots=True)
class Aggregated:
    """What one name held in one set: costs, its measured and used time, corrections, and its products."""

    cost: Cost = field(default_factory=Cost)
    measured: int = 0
    used: int = 0
    corrections: Cost = field(default_factory=Cost)
    products: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class AllocationQuery:
    """`step` is in days; `idle` adds what nobody held, and what unmanaged claims did, on stored days."""

    span: Interval
    aggregate: tuple[str, ...]
    step: int
    idle: bool = False


def allocation_sets(asked: AllocationQuery, *, now: datetime) -> list[dict[str, dict[str, Any]]]:
    """
    Return a set per step up to now, each with its allocations by name: two queries for the stored days, two
    for each step that is not stored, and those of the report per step with idle costs. Raises Invalid for
    more than MOST allocations.
    """
    currency = Installation.load().currency
    first = utc_day(asked.span.start)
    period = Period(first, first)
    if is_days(asked.span):
        stored = min(stored_until() or first, utc_day(now), utc_day(asked.span.end))
        period = Period(first, max(first, stored))
    elif asked.idle:
        raise Invalid(
            "What nobody held is known per day: ask for days, such as 7d, or leave includeIdle out.",
            field="includeIdle",
        )
    steps = list(_steps(Interval(asked.span.start, min(asked.span.end, now)), asked.step))
    if not steps:
        return [{}]
    found: list[dict[tuple[str, ...], Aggregated]] = [defaultdict(Aggregated) for _ in steps]
    for names, step, money, held, amount, measured, used, products in _rows(ENTRIES, asked, period):
        one = found[step][tuple(names)]
        require_few(sum(map(len, found)))
        exact = {money: int(amount)} if money else {}
        one.cost.add(Cost(int(held), 0 if money else int(held), exact))
        one.measured += int(measured)
        one.used += int(used)
        one.products.update(products)
    booked = Period(first, utc_day(steps[-1].end - timedelta.resolution) + DAY)
    for names, step, money, amount in _rows(CORRECTED, asked, booked) if is_days(asked.span) else ():
        if money:
            found[step][tuple(names)].corrections.add(Cost(exact={money: int(amount)}))
            require_few(sum(map(len, found)))
    sets = []
    for span, of_step in zip(steps, found, strict=True):
        _add_unstored(of_step, asked, Interval(max(span.start, period.span.end), span.end))
        require_few(sum(map(len, found)))
        named = {
            "/".join(names): _document(names, one, asked, span, currency)
            for names, one in sorted(of_step.items())
        }
        days = Period(utc_day(span.start), min(period.end, utc_day(span.end)))
        sets.append(named | (_rest(asked, days, currency, now) if asked.idle and days.days else {}))
    return sets


def _add_unstored(of_step: dict[tuple[str, ...], Aggregated], asked: AllocationQuery, span: Interval) -> None:
    """Add the entries that FOCUS has of a time that is not stored. Nothing is known yet of its efficiency."""
    if span.start >= span.end:
        return
    for claim, entry, owner, *_ in entries_since(span, RateCard.load()):
        one = of_step[tuple(OF_ENTRY[name](claim, entry, owner) for name in asked.aggregate)]
        one.cost.add(entry.cost)
        one.products.add(entry.line.product)


# The values of `AGGREGATES` of an entry that is not stored.
OF_ENTRY: dict[str, Callable[[ChargedClaim, LedgerEntry, str], str]] = {
    "cluster": lambda claim, _entry, _owner: claim.cluster,
    "namespace": lambda claim, _entry, _owner: claim.namespace,
    "controller": lambda claim, _entry, _owner: f"{KIND}:{claim.name}",
    "controllerKind": lambda _claim, _entry, _owner: KIND,
    "label:team": lambda claim, _entry, _owner: claim.team,
    "label:owner": lambda _claim, _entry, owner: owner,
    "label:profile": lambda claim, _entry, _owner: claim.profile,
    "label:product": lambda _claim, entry, _owner: entry.line.product,
    "label:capacity_type": lambda _claim, entry, _owner: entry.capacity_type,
}


def require_few(number: int) -> None:
    if number > MOST:
        raise Invalid(
            f"These are more than {MOST:,} allocations, which is the most that is sent at once. Choose a "
            "shorter window, a longer step, or aggregate by namespace.",
            field="aggregate",
        )


def _steps(span: Interval, days: int) -> Iterator[Interval]:
    start = span.start
    while start < span.end:
        yield Interval(start, min(start + days * DAY, span.end))
        start += days * DAY


def _rows(sql: str, asked: AllocationQuery, period: Period) -> Iterator[Sequence[Any]]:
    columns = ", ".join(f"({AGGREGATES[name]})::text" for name in asked.aggregate)
    joins = " ".join(join for alias, join in JOINS.items() if f"{alias}." in columns)
    parameters: dict[str, Any] = {"first": period.first, "end": period.end, "step": asked.step}
    with connection.cursor() as cursor:
        cursor.execute(sql.format(columns=columns, joins=joins), parameters)
        yield from cursor


def _rest(asked: AllocationQuery, step: Period, currency: str, now: datetime) -> dict[str, dict[str, Any]]:
    """Return what the fleet cost beside the claims of the portal, as OpenCost names it."""
    parts = fleet_report(step, GroupBy.TEAM, now=now).parts
    idle = total([parts.unallocated, parts.out_of_service])
    rest = {IDLE: Aggregated(idle), UNALLOCATED: Aggregated(parts.unmanaged)}
    return {
        name: _document((name,), one, asked, step.span, currency)
        for name, one in rest.items()
        if one.cost.held or one.cost.exact
    }


def _document(
    names: tuple[str, ...], one: Aggregated, asked: AllocationQuery, span: Interval, currency: str
) -> dict[str, Any]:
    start, end = (moment.strftime("%Y-%m-%dT%H:%M:%SZ") for moment in (span.start, span.end))
    minutes = (span.end - span.start) / timedelta(minutes=1)
    hours = float(six_digits(one.cost.held))
    efficiency = round(one.used / one.measured, 5) if one.measured else None
    cost, corrected = (_amount(part, currency) for part in (one.cost, one.corrections))
    count = round(hours * 60 / minutes, 5)
    model = next(iter(one.products)) if len(one.products) == 1 else ""
    return {
        "name": "/".join(names),
        "properties": _properties(names, asked),
        "window": {"start": start, "end": end},
        "start": start,
        "end": end,
        "minutes": minutes,
        "gpuCount": count,
        "gpuHours": hours,
        "gpuCost": cost,
        "gpuCostAdjustment": corrected or 0.0,
        "gpuCostIdle": 0.0,
        "gpuEfficiency": efficiency,
        "totalCost": None if cost is None and not corrected else round((cost or 0) + (corrected or 0), 2),
        "totalEfficiency": efficiency,
        "gpuAllocation": {
            "gpuDevice": "", "gpuModel": model, "gpuUUID": "", "isGPUShared": False,
            "gpuUsageAverage": efficiency, "gpuRequestAverage": count,
        },
        **dict.fromkeys(NO_COST, 0.0),
        **dict.fromkeys(NOT_KNOWN),
        "x_hoursWithoutRate": float(six_digits(one.cost.unpriced_held)),
        "x_amounts": {
            name: str(amount) for name, amount in total([one.cost, one.corrections]).amounts.items()
        },
    }  # fmt: skip


def _amount(cost: Cost, currency: str) -> float | None:
    """Return the amount in a currency; None where something was held and nothing of it is priced so."""
    if currency in cost.exact:
        return float(rounded(cost.exact[currency], CURRENCY_UNIT))
    return None if cost.held else 0.0


def _properties(names: tuple[str, ...], asked: AllocationQuery) -> dict[str, Any]:
    """Return what is known of the name, as OpenCost has it: properties, and labels among them."""
    if names[0].startswith("__"):
        return {}
    known = dict(zip(asked.aggregate, names, strict=True))
    labels = {
        name.removeprefix("label:"): value for name, value in known.items() if name.startswith("label:")
    }
    properties: dict[str, Any] = {
        name: value for name, value in known.items() if not name.startswith("label:")
    }
    if "controller" in properties:
        kind, _colon, properties["controller"] = properties["controller"].partition(":")
        properties["controllerKind"] = kind
    return properties | ({"labels": labels} if labels else {})
