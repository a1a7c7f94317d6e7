"""
Every figure that pages show after the three days: by page, where it stands, and what it must be.

Figures are computed from `tests.usage.three_days.history` alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial

from tests.usage.three_days import history
from tests.usage.three_days.figures import Figure, euros, hours, share
from tests.usage.three_days.history import (
    ALL,
    FORGOTTEN,
    NOW,
    Claim,
    Sum,
    half_up,
    of_claim,
    of_team,
    works_of,
)

GIB = 2**30


@dataclass(frozen=True)
class Page:
    """
    A page and its figures, but for those of the cards `without`; with `only`, those with one of these signs.

    `address` may name a claim as {train}.
    """

    reader: str
    address: str
    figures: Callable[[], set[Figure]]
    without: tuple[str, ...] = ()
    only: str = ""

    def __str__(self) -> str:
        return f"{self.reader} {self.address}"


def money(of: Sum, amount: Decimal | None = None, digits: int = 2) -> list[str]:
    """Return the figure of a sum of money: none where nothing was held or nothing has a rate."""
    if of.is_unpriced:
        return []
    return [euros(of.amount if amount is None else amount, digits)]


def energy(kilowatt_hours: Fraction | None) -> list[str]:
    """Return the figures of energy and of its CO₂: none where no power was measured."""
    if kilowatt_hours is None:
        return []
    kilograms = kilowatt_hours * history.GRAMS / 1000
    return [hours(kilowatt_hours)[:-1] + "kWh", hours(kilograms)[:-1] + "kg"]


def placed(figures: dict[str, list[str]]) -> set[Figure]:
    return {(place, text) for place, texts in figures.items() for text in texts if text != "—"}


# A claim.


def gib(size: float) -> str:
    return f"{size / GIB:.1f}".removesuffix(".0") + " GiB"


def claim_page(claim: Claim) -> set[Figure]:
    of, is_open = of_claim(claim), any(work.end is None for work in works_of(claim))
    points = history.points_of(claim, history.step_of_life(claim))
    figures = {
        "Utilization and cost: Cost so far": [*money(of), hours(of.hours)],
        "Utilization and cost": [],
    }
    if is_open:
        figures["Utilization and cost: Price"] = [euros(history.price_now(claim))]
        figures["Utilization and cost: Projected"] = money(projected(claim))
    if points:
        samples = sum(point.samples for point in points.values())
        mean = sum(point.activity * point.samples for point in points.values()) / samples
        highest = max(
            value for work in works_of(claim) for one in history.buckets_of(work) for value in one.values
        )
        expected = sum(work_samples(work) for work in works_of(claim))
        figures["Utilization and cost: Utilization"] = [share(mean)]
        figures["Utilization and cost"] = [
            share(mean),
            share(highest),
            gib(max(point.memory for point in points.values())),
            f"{claim.memory * held_last(claim)} GiB",
            share(min(samples / expected, 1)),
        ]
    kilowatt_hours = Fraction(0)
    costs = history.cost_by_device(claim)
    for work in works_of(claim):
        life = history.life_of(work)
        if life is None:
            continue
        kilowatt_hours += life.kilowatt_hours
        held, amount = costs[work.device]
        figures |= {
            f"Use by device: {work.device} / Cost": [*money(of, amount), hours(held)],
            f"Use by device: {work.device} / Utilization": [share(life.activity), share(life.activity_p95)],
            f"Use by device: {work.device} / Memory": [
                gib(life.memory_p95), gib(life.memory_peak), f"{claim.memory} GiB"
            ],
            f"Use by device: {work.device} / Power": [f"{history.POWER} W"],
            f"Use by device: {work.device} / Energy": energy(life.kilowatt_hours),
        }  # fmt: skip
    if kilowatt_hours:
        figures["Use by device"] = ["95 %"]
        consumed, emitted = energy(kilowatt_hours)
        figures |= {"Used and idle: Energy": [consumed], "Used and idle: CO₂": [emitted]}
    if not of.is_unpriced:
        figures |= split(claim)
    for label, part in time_shares(claim).items():
        figures.setdefault(f"Used and idle: {label} / Share", []).append(share(part))
    return placed(figures)


def time_shares(claim: Claim) -> dict[str, float]:
    """Return how the time of all its devices divides."""
    held = measured = used = 0.0
    for work in works_of(claim):
        held += ((work.end or NOW) - work.start) / history.EVERY
        if life := history.life_of(work):
            samples = min(
                sum(bucket.samples for bucket in history.buckets_of(work)),
                ((work.end or NOW) - work.start) / history.EVERY,
            )
            measured += samples
            used += samples * life.activity
    parts = {"Used": used, "Idle": measured - used, "No telemetry": held - measured, "Held": held}
    return {label: part / held for label, part in parts.items()}


def held_last(claim: Claim) -> int:
    """Return how many devices a claim holds, or held last."""
    ends = [work.end or NOW for work in works_of(claim)]
    return ends.count(max(ends))


def work_samples(work: history.Work) -> int:
    return int(((work.end or NOW) - work.start) / history.EVERY)


def projected(claim: Claim) -> Sum:
    return Sum(history.entries(claim.expires_at or NOW)).where(lambda entry: entry.claim is claim)


def split(claim: Claim) -> dict[str, list[str]]:
    """Return the money of a claim until now, divided day by day; today too."""
    of = of_claim(claim).of
    used = sum((entry.used for entry in of), Decimal(0))
    measured = sum((entry.measured_amount for entry in of), Decimal(0))
    whole = sum((entry.amount for entry in of), Decimal(0))
    figures = {
        "Used and idle: Allocated / Cost": [euros(whole)],
        "Used and idle: Allocated / Share": ["100 %"],
    }
    for label, amount in (("Used", used), ("Idle", measured - used), ("No telemetry", whole - measured)):
        figures[f"Used and idle: {label} / Cost"] = [euros(amount)]
        figures[f"Used and idle: {label} / Share"] = [share(float(amount / whole))]
    if any(work.end is None for work in works_of(claim)):
        figures["Used and idle: Projected to expiry / Cost"] = money(projected(claim))
    return figures


def claim_status(claim: Claim) -> set[Figure]:
    of, is_open = of_claim(claim), any(work.end is None for work in works_of(claim))
    figures = {f"Status of the claim: Cost{' so far' * is_open}": [*money(of), hours(of.hours)]}
    if is_open:
        figures["Status of the claim: Price"] = [euros(history.price_now(claim))]
        figures["Status of the claim: Projected"] = money(projected(claim))
    return placed(figures)


# Sums as tables show them.

type Key = Callable[[history.Entry], str]


def profile_title(entry: history.Entry) -> str:
    return entry.claim.profile.replace("-", " ").title()


CAPACITIES = {"on-demand": "On demand", "spot": "Spot", "reserved": "Reserved", "": "Unknown"}
GROUPS: dict[str, Key] = {
    "team": lambda entry: entry.claim.team.title(),
    "person": lambda entry: entry.claim.person,
    "profile": profile_title,
    "model": lambda entry: entry.claim.model,
    "cluster": lambda entry: entry.claim.cluster,
    "capacity": lambda entry: CAPACITIES[entry.claim.capacity],
    "claim": lambda entry: f"{entry.claim.name} ({entry.claim.team})",
}


def used_parts(of: Sum) -> dict[str, tuple[Fraction | float, Decimal]]:
    """Return hours and money of the parts of the stored days."""
    return {
        "Used": (of.used_hours, of.used),
        "Idle": (of.idle_hours, of.idle),
        "No telemetry": (of.no_telemetry.hours, of.no_telemetry.amount),
    }


def part_money(of: Sum, label: str, digits: int = 2) -> list[str]:
    """Return the money of a part: none if it has no hours, or none of these has a rate."""
    _held, amount = used_parts(of)[label]
    part = of.no_telemetry if label == "No telemetry" else of.measured
    return [] if part.is_unpriced else [euros(amount, digits)]


def part_share(of: Sum, label: str) -> list[str]:
    """Return a part's share of the money, or of the hours where some have no rate."""
    held, amount = used_parts(of)[label]
    whole = of.stored
    return [
        share(float(held) / float(whole.hours)) if whole.unpriced else share(float(amount / whole.amount))
    ]


def no_rate(of: Sum) -> list[str]:
    """Return the hours without a rate that stand below the money of others."""
    return [hours(of.unpriced)] if of.unpriced and not of.is_unpriced else []


# The cost of a team.

MONTH_GROUPS: dict[str, Key] = {
    "person": GROUPS["person"],
    "profile": profile_title,
    "product": lambda entry: entry.claim.model.removeprefix("NVIDIA "),
    "claim": lambda entry: entry.claim.name,
}


def team_cost(slug: str, *, in_hours: bool = False) -> set[Figure]:
    of = of_team(slug)
    card = "GPU-hours" if in_hours else "Spend and budget"
    figures = {
        "Totals: So far this month": money(of),
        "Totals: Idle": [*part_money(of, "Idle", 0), *part_share(of, "Idle"), share(of.utilization)],
        "Totals: Energy": energy(of.kilowatt_hours),
        card: [],
    }
    for label, (held, _amount) in used_parts(of).items():
        if held:
            figures[card] += [hours(held)] if in_hours else part_money(of, label)
    if of.today.of:
        figures[card] += [hours(of.today.hours)] if in_hours else money(of.today)
    for day, of_day in of.groups(lambda entry: entry.day.isoformat()).items():
        row = f"{card}: {date.fromisoformat(day):%a %-d %b}"
        figures |= {f"{row} / GPU-hours": [hours(of_day.hours)], f"{row} / Cost": money(of_day)}
        figures |= {f"{row} / {label}": part_money(of_day, label) for label in used_parts(of_day)}
    for name, key in MONTH_GROUPS.items():
        for label, group in {**of.groups(key), "Total": of}.items():
            row = f"By {name}: {label}"
            part = group.hours / of.hours if of.unpriced else Fraction(group.amount) / Fraction(of.amount)
            figures |= {
                f"{row} / GPU-hours": [hours(group.hours)],
                f"{row} / Cost": [*money(group), *no_rate(group)],
                f"{row} / Share": [share(float(part))],
                f"{row} / Utilization": [share(group.utilization)],
                f"{row} / Idle": part_money(group, "Idle"),
            }
    if slug == "vision":
        figures |= vision_budget() | top_waste()
        figures["Totals: So far this month"].append(share(budget_share()))
        figures["Totals: Left"] = [euros(BUDGET - of.amount), euros(BUDGET), "400 h"]
        _spent, rate, ahead = budget_money()
        figures["Totals: Forecast, 30 Nov"] = [euros(ahead, 0), share(float(ahead / BUDGET))]
        figures["Totals: Runs out"] = [euros(rate)]
    else:
        figures["Totals: GPU-hours"] = [hours(of.hours)]
        figures["Totals: Without a rate"] = [hours(of.unpriced)]
    return placed(figures)


BUDGET, BUDGET_HOURS = Decimal(350), Decimal(400)  # used up within a week at its rate


def budget_money() -> tuple[Decimal, Decimal, Decimal]:
    """Return what is spent of the budget, the rate per hour since Monday, and where that leads."""
    spent = of_team("vision").amount
    rate = (of_team("vision").stored.amount / 72).quantize(Decimal("0.0001"))
    return spent, rate, history.forecast(spent, rate)


def budget_hours() -> tuple[Decimal, Decimal, Decimal]:
    held = half_up(of_team("vision").hours)
    rate = half_up(of_team("vision").stored.hours / 72, 4)
    return held, rate, history.forecast(held, rate)


def budget_share() -> float:
    return max(float(budget_money()[0] / BUDGET), float(budget_hours()[0] / BUDGET_HOURS))


def hours_are_scarcer() -> bool:
    return budget_hours()[0] / BUDGET_HOURS > budget_money()[0] / BUDGET


def forecast_share() -> float:
    return max(float(budget_money()[2] / BUDGET), float(budget_hours()[2] / BUDGET_HOURS))


def used_hours() -> str:
    return f"{half_up(Fraction(budget_hours()[0]), 1)}".removesuffix(".0")


def vision_budget() -> dict[str, list[str]]:
    """Return the panel of the budget, and the banner of one that runs out within seven days."""
    spent, _rate, ahead = budget_money()
    used = [share(budget_share()), euros(spent), euros(BUDGET), f"{used_hours()} h", "400 h"]
    return {"Budget of Vision": [*used, euros(ahead), share(forecast_share())], "Cost": [*used, "100 %"]}


def top_waste() -> dict[str, list[str]]:
    """Return what the idle claim costs, and what the team spends per hour with and without it."""
    rate, idle = budget_money()[1], history.price_now(FORGOTTEN)
    return {
        "Top waste": [euros(idle_cost()), euros(idle), euros(rate), euros(max(rate - idle, Decimal(0)))],
    }


IDLE_SINCE = history.at(73)


def idle_cost() -> Decimal:
    """Return what the claim that is idle now has cost since then."""
    return half_up(
        Fraction(history.price_now(FORGOTTEN)) * Fraction((NOW - IDLE_SINCE) // history.MINUTE, 60)
    )


# The report.

REST = {"Unmanaged": "unmanaged", "Out of service": "out", "Unallocated": "unallocated"}  # of the fleet


def whole_of(of: Sum, rest: dict[str, str]) -> tuple[Fraction, Decimal]:
    """Return hours and money of what claims held, and of the rest of the fleet."""
    return (
        of.hours + sum(map(history.fleet_hours, rest.values()), Fraction(0)),
        of.amount + sum(map(history.fleet_money, rest.values()), Decimal(0)),
    )


def unpriced_of(of: Sum, rest: dict[str, str]) -> Fraction:
    return of.unpriced + sum(map(history.fleet_unpriced, rest.values()), Fraction(0))


def parts_of(rest: dict[str, str]) -> dict[str, tuple[Fraction | float, Decimal]]:
    return {label: (history.fleet_hours(use), history.fleet_money(use)) for label, use in rest.items()}


def report(of: Sum, by: str, *, is_fleet: bool) -> set[Figure]:
    """Return the report of the stored days, of the whole fleet or of what some teams held."""
    of, rest = of.stored, REST if is_fleet else {}
    whole_hours, whole_money = whole_of(of, rest)
    whole = "Fleet" if is_fleet else "Total"
    parts, unpriced = used_parts(of) | parts_of(rest), unpriced_of(of, rest)
    shown = ["Used", "Idle", "Unallocated" if is_fleet else "No telemetry"]
    figures = {
        f"Totals: {'Fleet' if is_fleet else 'Allocated'}": [euros(whole_money, 0), hours(whole_hours)],
        "Totals: Utilization of allocated": [share(of.utilization)],
        "Reconciliation": ["0.00 h"],
        f"Reconciliation: GPU-hours / {whole}": [hours(whole_hours)],
        f"Reconciliation: Money / {whole}": [euros(whole_money)],
    }
    for label, (held, amount) in parts.items():
        if held:
            part = small_share(float(held) / float(whole_hours))
            figures[f"Reconciliation: GPU-hours / {label}"] = [hours(held), part]
            figures[f"Reconciliation: Money / {label}"] = [euros(amount)]
            if label in shown:
                of_money = float(held) / float(whole_hours) if unpriced else float(amount / whole_money)
                figures[f"Totals: {label}"] = [euros(amount, 0), share(of_money)]
    if unpriced:
        figures["Reconciliation"].append(hours(unpriced))
    ahead = budget_money()[2]
    figures["Totals: Forecast of budgets"] = [
        euros(ahead, 0), share(float(ahead / BUDGET)), euros(BUDGET, 0)
    ]  # fmt: skip
    figures |= budget_graph("Team budgets", has_notices=False, in_hours=False)
    if by == "team":
        figures["By team: Vision / Forecast of budget"] = [share(forecast_share())]
        label = "Allocated" if is_fleet else "Total"
        figures[f"By team: {label} / Forecast of budget"] = [share(float(ahead / BUDGET))]
    if is_fleet:
        row = f"By {'capacity type' if by == 'capacity' else by}"
        everything = {**parts_of(rest), "Whole fleet": (whole_hours, whole_money)}
        for label, (held, amount) in everything.items():
            if held:
                of_all = float(held) / float(whole_hours) if unpriced else float(amount / whole_money)
                figures |= {
                    f"{row}: {label} / GPU-hours": [hours(held)],
                    f"{row}: {label} / Cost": [euros(amount)],
                    f"{row}: {label} / Of fleet": [share(of_all)],
                }
    shares = (whole_hours, None if unpriced else whole_money)
    return placed(figures | by_day(of, rest, whole) | rows(of, by, shares, is_fleet=is_fleet))


def budget_graph(card: str, *, has_notices: bool, in_hours: bool) -> dict[str, list[str]]:
    """Return the graph of the budget of vision, and the same as a table, from the first of the month on."""
    spent, _rate, ahead = budget_hours() if in_hours else budget_money()
    limit = BUDGET_HOURS if in_hours else BUDGET

    def text(amount: Decimal | Fraction, digits: int = 2) -> str:
        if not in_hours:
            return euros(amount, digits)
        return f"{half_up(Fraction(amount), 1):,}".removesuffix(".0") + " h"

    figures = {card: [text(spent), text(ahead), text(limit, 0)]}
    if has_notices:
        figures[card] += ["50 %", "80 %"]
    so_far, day = Decimal(0), history.DAYS[0].replace(day=1)
    while day <= history.DAYS[-1]:
        of = of_team("vision").stored.where(lambda entry, day=day: entry.day == day)  # type: ignore[misc]
        amount = Decimal(0) if not of.of else half_up(of.hours, 6) if in_hours else of.amount
        so_far += amount
        figures[card] += [text(amount), text(so_far)]
        row = f"{card}: {day:%a %-d %b}"
        figures |= {f"{row} / On the day": [text(amount)], f"{row} / So far": [text(so_far)]}
        day += timedelta(days=1)
    figures[f"{card}: Until / So far"] = [text(spent)]
    figures[f"{card}: Forecast, 30 Nov / So far"] = [text(ahead)]
    return figures


def small_share(value: float) -> str:
    return share(value) if value >= 0.1 else f"{value:.1%}".replace("%", " %")


def by_day(of: Sum, rest: dict[str, str], whole: str) -> dict[str, list[str]]:
    """Return the bars, and the same as a table."""
    figures: dict[str, list[str]] = {"GPU-hours by day": []}
    for day in history.DAYS:
        of_day = of.where(lambda entry, day=day: entry.day == day)  # type: ignore[misc]
        parts = {label: held for label, (held, _amount) in used_parts(of_day).items()}
        parts |= {label: history.fleet_hours(use, day) for label, use in rest.items()}
        parts[whole] = of_day.hours + sum(
            (history.fleet_hours(use, day) for use in rest.values()), Fraction(0)
        )
        for label, held in parts.items():
            if held:
                figures[f"GPU-hours by day: {day:%a %-d %b} / {label}"] = [hours(held)]
                figures["GPU-hours by day"].append(hours(held))
    return figures


def rows(of: Sum, by: str, whole: tuple[Fraction, Decimal | None], *, is_fleet: bool) -> dict[str, list[str]]:
    whole_hours, whole_money = whole  # shares are of money, where all of it has a rate
    figures: dict[str, list[str]] = {}
    label_of_all = "Allocated" if is_fleet else "Total"
    for label, group in {**of.groups(GROUPS[by]), label_of_all: of}.items():
        row = f"By {'capacity type' if by == 'capacity' else by}: {label}"
        part = "Of fleet" if label == label_of_all else "Share"
        of_all = group.amount / whole_money if whole_money else group.hours / whole_hours
        figures |= {
            f"{row} / GPU-hours": [hours(group.hours)],
            f"{row} / Allocated": money(group),
            f"{row} / Utilization": [share(group.utilization)],
            f"{row} / Energy": energy(group.kilowatt_hours),
            f"{row} / {part}": [share(float(of_all))],
        }
        figures |= {f"{row} / {name}": part_money(group, name) for name in used_parts(group)}
    return figures


# Home.


def home(person: str) -> set[Figure]:
    """Return Home of an engineer: the month of the team, and own claims."""
    slug = "nlp" if person == "dan" else "vision"
    of, mine = of_team(slug), ALL.where(lambda entry: entry.claim.person == person)
    card = "Spend in November"
    figures = {
        card: [euros(of.amount, 0)],
        f"{card}: GPU-hours": [hours(of.hours)],
        f"{card}: Hours without a rate": [hours(of.unpriced)] if of.unpriced else [],
        f"{card}: Mine": money(mine) if mine.of else [],
        f"{card}: Mine, idle": [euros(mine.idle)] if mine.of and mine.measured.amount else [],
    }
    if slug == "vision":
        ahead = budget_money()[2]
        figures[card] += [euros(ahead, 0), share(float(ahead / BUDGET)), euros(BUDGET, 0)]
    for claim in history.CLAIMS:
        if claim.person == person:
            figures |= own_claim(claim, "My claims")
    if person == "carol":
        figures["Needs you"] = [euros(history.price_now(FORGOTTEN)), "2 %"]
    return placed(figures)


def own_claim(claim: Claim, card: str) -> dict[str, list[str]]:
    of, is_open = of_claim(claim), any(work.end is None for work in works_of(claim))
    shown = money(of) or [hours(of.hours)]
    return {f"{card}: {claim.name} / Cost so far": [*shown, *([euros(history.price_now(claim))] * is_open)]}


def home_of_admins() -> set[Figure]:
    """Return Home of a platform admin: the month of the fleet in parts, and the devices that are idle now."""
    of, card = ALL.stored, "November so far"
    whole_hours, whole_money = whole_of(of, REST)
    figures = {
        "Needs attention": [euros(history.price_now(FORGOTTEN))],
        f"{card}: Whole fleet / Cost": [euros(whole_money, 0)],
        f"{card}: Whole fleet / Share": ["100 %"],
        card: [
            *money_by_day(of),
            *[euros(of.amount, 0), share(float(of.hours / whole_hours)), hours(of.hours)],
            *[share(of.utilization), euros(of.idle * 30 / 18, 0), hours(unpriced_of(of, REST))],
        ],
    }
    for label, (part, amount) in (used_parts(of) | parts_of(REST)).items():
        row = f"{card}: {'Idle while held' if label == 'Idle' else label}"
        figures[f"{row} / Cost"] = [euros(amount, 0)]
        figures[f"{row} / Share"] = [share(float(part) / float(whole_hours))]  # some hours have no rate
    gpus = sum(number for number, _out, _unmanaged in history.FLEET.values())
    held = sum(unmanaged for _number, _out, unmanaged in history.FLEET.values())
    out = sum(number for _number, number, _unmanaged in history.FLEET.values())
    states = {
        "U In use": held,
        "I Idle": 1,
        "F Free": gpus - held - out - 1,
        "T Tainted": 0,
        "! Unhealthy": out,
    }
    for label, number in states.items():
        figures[f"Fleet: {label}"] = [share(number / gpus)]
    return placed(figures)


def money_by_day(of: Sum) -> Iterator[str]:
    """Yield the bars of the fleet's money."""
    for day in history.DAYS:
        of_day = of.where(lambda entry, day=day: entry.day == day)  # type: ignore[misc]
        amounts = [amount for _held, amount in used_parts(of_day).values()]
        amounts += [history.fleet_day(day).amounts[use] for use in REST.values()]
        yield from (euros(amount) for amount in [*amounts, sum(amounts)] if amount)


# Waste, budgets and the page of a team.


def waste(of: Sum) -> set[Figure]:
    of, idle = of.stored, euros(history.price_now(FORGOTTEN))
    return placed(
        {
            "Totals: Idle now": [idle],
            "Totals: Cost since they went idle": [euros(idle_cost())],
            "Totals: Idle in November": [euros(of.idle), share(float(of.idle / of.amount))],
            "Idle claims: forgotten / Idle cost": [euros(idle_cost()), idle],
            "By team: Vision / Idle per hour": [idle],
            "By profile: Train 80 / Idle per hour": [idle],
            "Escalation": ["10 %"],
        }
    )


def budgets() -> set[Figure]:
    spent, rate, ahead = budget_money()
    card = "Monthly budgets of money"
    return placed(
        {
            f"{card}: Monthly budgets, November": [euros(BUDGET, 0)],
            f"{card}: Used": [euros(spent, 0)],
            f"{card}: Forecast": [euros(ahead, 0)],
            f"{card}: Exhausted": ["100 %"],
            "Budgets: vision / Amount": [euros(BUDGET)],
            "Budgets: vision / Used": [euros(spent)],
            "Budgets: vision / Share used": [share(budget_share())],
            "Budgets: vision / Forecast": [euros(ahead), share(forecast_share())],
            "Budgets: vision / Run rate, 7 d": [euros(rate)],
            "What happens at 100 %": ["100 %"],
        }
        | budget_graph("vision: monthly budget", has_notices=True, in_hours=hours_are_scarcer())
    )


def budget() -> set[Figure]:
    spent, rate, ahead = budget_money()
    return placed(
        {
            "Use: Used": [share(budget_share()), euros(spent), euros(BUDGET), f"{used_hours()} h", "400 h"],
            "Use: Left": [euros(BUDGET - spent)],
            "Use: Forecast": [euros(ahead), share(forecast_share())],
            "Use: Run rate, 7 days": [euros(rate)],
            "Terms: Limit": [euros(BUDGET), "400 h"],
            "Terms": ["100 %"],
        }
        | budget_graph("Spend and budget", has_notices=True, in_hours=hours_are_scarcer())
    )


def team(slug: str) -> set[Figure]:
    """Return the page of a team: its people on the stored days, live claims, and its budget."""
    of = of_team(slug).stored
    figures = {
        "The last 30 days: GPU-hours": [hours(of.hours)],
        "The last 30 days: Cost": [euros(of.amount, 0), *no_rate(of)],
        "The last 30 days: Utilization": [share(of.utilization)],
        "The last 30 days: Idle cost": [*part_money(of, "Idle", 0), *part_share(of, "Idle")],
        "Cost in November": [euros(of_team(slug).amount, 0), hours(of_team(slug).hours)],
    }
    for label, group in {**of.groups(GROUPS["person"]), slug.title(): of}.items():
        row = f"Members: {label}"
        figures |= {
            f"{row} / GPU-hours": [hours(group.hours)],
            f"{row} / Cost": money(group),
            f"{row} / Utilization": [share(group.utilization)],
            f"{row} / Idle cost": part_money(group, "Idle"),
            f"{row} / ": [hours(group.hours), *part_money(group, "Idle")],  # of a phone
        }
    figures[f"Members: {slug.title()} / "].append(share(of.utilization))
    if slug == "vision":
        figures |= vision_budget() | own_claim(FORGOTTEN, "Live claims")
        figures |= {key: ["0.00 h"] for key in ("Members: lena / GPU-hours", "Members: lena / ")}
        del figures["Cost"]  # the banner of the page of costs
    return placed(figures)


def pages() -> Iterator[Page]:
    """Yield every page that shows money or GPU-hours of these days, as its readers see it."""
    measurements = ("Measurements as a table",)  # compared with the API
    for claim in history.CLAIMS:
        address = f"/claims/{{{claim.name}}}/"
        yield Page("root", f"{address}usage/?range=life", partial(claim_page, claim), measurements)
        yield Page("root", address, partial(claim_status, claim), ("Connect your workload",), "€h")
    for person in ("carol", "alice", "lena", "dan"):
        yield Page(person, "/", partial(home, person))
    yield Page("root", "/", home_of_admins)
    for reader, slug in (("lena", "vision"), ("dan", "nlp")):
        yield Page(reader, f"/teams/{slug}/cost/?month=2026-11", partial(team_cost, slug))
        hourly = partial(team_cost, slug, in_hours=True)
        yield Page(reader, f"/teams/{slug}/cost/?month=2026-11&unit=hours", hourly)
        yield Page(reader, f"/teams/{slug}/", partial(team, slug))
    vision = of_team("vision")
    for by in GROUPS:
        address = f"/report/?month=2026-11&by={by}"
        yield Page("root", address, partial(report, ALL, by, is_fleet=True))
        yield Page("lena", address, partial(report, vision, by, is_fleet=False))
        yield Page("root", f"{address}&team=vision", partial(report, vision, by, is_fleet=False))
    yield Page("lena", "/waste/", partial(waste, vision))
    yield Page("root", "/waste/", partial(waste, ALL))
    yield Page("root", "/budgets/", budgets)
    yield Page("lena", "/budgets/{budget}/", budget)
