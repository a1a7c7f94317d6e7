"""
What claims cost (so far, per hour, at expiry), and monthly reports of teams.

Months are those of UTC, as in the report of the fleet and in exports. All totals are sums of entries.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from uuid import UUID

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef

from claims.models import Allocation, Alternative, Claim, join_profiles
from claims.states import RUNNING
from core.errors import Invalid
from core.prepared import PreparedObjects, by_keys, partial_object
from teams.models import Team, User
from usage.cost import Cost, CostLine, Interval, UsageInterval, lines, per_hour, total
from usage.daily import midnight, team_costs, utc_day
from usage.energy import Energy, team_energy
from usage.models import ClosedMonth
from usage.rates import RateCard


@dataclass(frozen=True, slots=True)
class ClaimCost:
    """
    Costs of one claim.

    `projected` is its cost at `expires_at` if it keeps its devices, at the rates entered so far; None if it
    holds none, does not expire, or is being released: its pods may hold devices for any time then.
    """

    lines: list[CostLine]
    so_far: Cost
    per_hour: Cost
    projected: Cost | None
    is_held: bool
    was_held: bool


def claim_cost(
    claim: Claim, allocations: Sequence[Allocation], card: RateCard, *, now: datetime
) -> ClaimCost:
    """Return the costs of a claim from all its allocations. Makes no query."""
    intervals = [UsageInterval.from_allocation(allocation, claim.cluster_id) for allocation in allocations]
    open_intervals = [interval for interval in intervals if interval.end is None]
    billed = list(lines(intervals, card, until=now))
    projected = None
    runs_until = claim.expires_at if claim.state in RUNNING else None
    if open_intervals and runs_until is not None and runs_until > now:
        projected = total(line.cost for line in lines(intervals, card, until=runs_until))
    return ClaimCost(
        lines=billed,
        so_far=total(line.cost for line in billed),
        per_hour=per_hour(open_intervals, card, at=now),
        projected=projected,
        is_held=bool(open_intervals),
        was_held=bool(allocations),
    )


def claim_allocations(claim: Claim) -> list[Allocation]:
    """Return the allocations of GPUs of a claim."""
    return ALLOCATIONS.objects(claim.pk)


ALLOCATIONS: PreparedObjects[Allocation] = PreparedObjects(
    lambda claim: Allocation.objects.gpus().filter(claim=claim).order_by("started_at", "device"), UUID
)


@dataclass(frozen=True, slots=True)
class Month:
    """A billing period: a calendar month in UTC."""

    first: date

    @classmethod
    def of(cls, day: date) -> "Month":
        return cls(day.replace(day=1))

    @classmethod
    def current(cls, now: datetime) -> "Month":
        return cls.of(utc_day(now))

    @classmethod
    def parse(cls, text: str) -> "Month":
        """Read "2026-11"; raise Invalid for anything else."""
        try:
            day = datetime.strptime(text, "%Y-%m").date()  # noqa: DTZ007 - a month has no zone of its own
        except ValueError as failure:
            raise Invalid(f"A month is written like 2026-11; “{text[:20]}” was sent.") from failure
        if not 1970 < day.year < 9999:
            raise Invalid(f"There are no costs in the year {day.year}.")
        return cls(day)

    @property
    def next(self) -> "Month":
        return Month.of(self.first + timedelta(days=31))

    @property
    def previous(self) -> "Month":
        return Month.of(self.first - timedelta(days=1))

    @property
    def start(self) -> datetime:
        return midnight(self.first)

    @property
    def span(self) -> Interval:
        return Interval(self.start, self.next.start)

    @property
    def title(self) -> str:
        return f"{self.first:%B %Y}"

    def __str__(self) -> str:
        return f"{self.first:%Y-%m}"


@dataclass(frozen=True, slots=True)
class BilledClaim:
    """What a report shows of a claim; `slugs` and `titles` are those of `Claim`, `cluster` is a name."""

    pk: UUID
    name: str
    cluster: str
    slugs: str
    titles: str


@dataclass(frozen=True, slots=True)
class BilledLine:
    """A cost line with its claim, and with the person who owned that on its days."""

    claim: BilledClaim
    owner: User
    product: str
    partition: str
    cost: Cost
    corrects: date | None = None


@dataclass(slots=True)
class CostRow:
    """
    The sum of some lines. `claim` or `person` is set if it is the sum of that claim or person; corrections of
    a claim are a row of their own for each month that they correct.
    """

    key: str
    label: str
    cost: Cost = field(default_factory=Cost)
    claim: BilledClaim | None = None
    person: User | None = None
    claims: set[UUID] = field(default_factory=set)
    corrects: date | None = None


@dataclass(frozen=True, slots=True)
class CostReport:
    """The month of a team. `corrections` is the part of `total` that corrects closed months."""

    team: Team
    month: Month
    until: datetime
    lines: list[BilledLine]
    by_claim: list[CostRow]
    by_person: list[CostRow]
    by_product: list[CostRow]
    total: Cost
    corrections: Cost
    closed: ClosedMonth | None
    energy: Energy | None = None  # of the stored days

    @property
    def is_running(self) -> bool:
        """Return whether the month is not over, so that costs still grow."""
        return self.until < self.month.span.end


# Columns that no report shows; they are most of the bytes of a claim.
UNREAD = (
    "spec",
    "original_request",
    "reason",
    "decision_note",
    "profile_version__spec",
    "cluster__discovery",
)


ALTERNATIVES = Alternative.objects.filter(claim=OuterRef("pk")).order_by("position")
# What reports and their CSV show of a claim: many claims, and few clusters and profiles.
CLAIMS = by_keys(
    lambda key: Claim.objects.filter(pk=key).values_list(
        *("pk", "name", "cluster__name"),
        *("profile_version__profile__slug", "profile_version__profile__title"),
        ArraySubquery(ALTERNATIVES.values("profile_version__profile__slug")),
        ArraySubquery(ALTERNATIVES.values("profile_version__profile__title")),
        Exists(ALTERNATIVES.filter(together=True).order_by()),
    )
)
PERSON = ("id", "username", "first_name", "last_name")
PEOPLE = by_keys(lambda key: User.objects.filter(pk=key).values_list(*PERSON))


def billed_lines(cost_lines: Sequence[CostLine]) -> list[BilledLine]:
    """Return the lines with their claims, each with its name and cluster, and their owners; two queries."""
    if not cost_lines:
        return []
    claims: dict[UUID, BilledClaim] = {}
    for pk, name, cluster, *row in CLAIMS.rows(list({line.claim_id for line in cost_lines})):
        slug, title, slugs, titles, together = row
        if slugs:
            slug, title = join_profiles(slugs, together=together), join_profiles(titles, together=together)
        claims[pk] = BilledClaim(pk, name, cluster, slug, title)
    rows = PEOPLE.rows(list({line.owner for line in cost_lines}))
    people = {row[0]: partial_object(User, dict(zip(PERSON, row, strict=True))) for row in rows}
    return [
        BilledLine(
            claims[line.claim_id],
            people[line.owner],
            line.product,
            line.partition,
            line.cost,
            line.corrects,
        )
        for line in cost_lines
    ]


def report(team: Team, month: Month, *, now: datetime) -> CostReport:
    """Return the report of a team's month, in a fixed number of queries for any number of claims and days."""
    billed = billed_lines(month_lines(team, month, RateCard.load(), now=now))
    return CostReport(
        team=team,
        month=month,
        until=min(now, month.span.end),
        lines=billed,
        by_claim=grouped(billed, claim_row),
        by_person=grouped(billed, person_row),
        by_product=grouped(billed, product_row),
        total=total(line.cost for line in billed),
        corrections=total(line.cost for line in billed if line.corrects),
        closed=closed_month(month.first),
        energy=team_energy(team, month.first, month.next.first),
    )


def closed_month(day: date) -> ClosedMonth | None:
    """Return the closing of the month of a day, with the person; None while it is open."""
    closed = ClosedMonth.objects.filter(month__gte=day.replace(day=1)).select_related("by")
    return closed.order_by("month").first()  # closing a month closes all before it


def month_lines(team: Team, month: Month, card: RateCard, *, now: datetime) -> list[CostLine]:
    """
    Return the lines of a team's month in the order of claims, products, partitions and owners, then the
    corrections of closed months that are booked in it.
    """
    costs = team_costs(team, month.span, card, now=now)
    return [
        CostLine(line.claim_id, line.product, line.partition, cost, corrects, line.owner)
        for (line, corrects), cost in sorted(
            costs.items(), key=lambda entry: (entry[0][1] or date.min, entry[0][0])
        )
        if cost.held or cost.unpriced_held or any(cost.exact.values())
    ]


def claim_row(line: BilledLine) -> CostRow:
    label = line.claim.name
    if line.corrects:
        label = f"{label}, correction of {line.corrects:%B %Y}"
    return CostRow(str(line.claim.pk), label, claim=line.claim, corrects=line.corrects)


def person_row(line: BilledLine) -> CostRow:
    return CostRow(str(line.owner.pk), line.owner.label, person=line.owner)


def product_row(line: BilledLine) -> CostRow:
    label = f"{line.product or 'unknown product'} {line.partition}".strip()
    return CostRow(label, label)


def grouped(billed: Iterable[BilledLine], new_row: Callable[[BilledLine], CostRow]) -> list[CostRow]:
    """Return the sums of the lines by row, highest cost first."""
    rows: dict[tuple[str, date | None], CostRow] = {}
    for line in billed:
        row = new_row(line)
        row = rows.setdefault((row.key, row.corrects), row)
        row.cost.add(line.cost)
        row.claims.add(line.claim.pk)
    return sorted(rows.values(), key=lambda row: (-sum(row.cost.exact.values()), -row.cost.held, row.label))


# What the current month costs, and will have cost at its end.
