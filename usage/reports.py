"""
What a claim has cost so far, and what a team has cost in a month.

What one claim has cost, costs per hour, and will have cost when it expires.

The month of a team: hours and cost by claim, person and product. All totals are sums of the same lines.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

from django.db.models import Q
from django.utils import timezone

from claims.models import Allocation, Claim
from core.errors import Invalid
from teams.models import Team, User
from usage.cost import Cost, CostLine, Interval, UsageInterval, lines, millionths, per_hour, total
from usage.rates import PriceGroup, RateCard


@dataclass(frozen=True, slots=True)
class Statement:
    """
    `projected` is what the claim will have cost at `expires_at` if it keeps what it holds now, at the prices
    that are known; None where it holds nothing or does not expire.
    """

    lines: list[CostLine]
    so_far: Cost
    per_hour: Cost
    projected: Cost | None
    is_held: bool
    was_held: bool


def statement(claim: Claim, held: Sequence[Allocation], card: RateCard, *, now: datetime) -> Statement:
    """Add up `held`, all allocations of `claim`. Makes no query."""
    intervals = [UsageInterval.of(one, claim.cluster_id) for one in held]
    open_now = [interval for interval in intervals if interval.end is None]
    billed = list(lines(intervals, card, until=now))
    projected = None
    if open_now and claim.expires_at is not None and claim.expires_at > now:
        projected = total(line.cost for line in lines(intervals, card, until=claim.expires_at))
    return Statement(
        lines=billed,
        so_far=total(line.cost for line in billed),
        per_hour=per_hour(open_now, card, at=now),
        projected=projected,
        is_held=bool(open_now),
        was_held=bool(held),
    )


def claim_allocations(claim: Claim) -> list[Allocation]:
    """Return every allocation of `claim`, in one query."""
    return list(Allocation.objects.filter(claim=claim).order_by("started_at", "device"))


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month in a time zone: that of the reader, whose wall calendar it is."""

    first: date
    zone: ZoneInfo

    @classmethod
    def of(cls, day: date, zone: ZoneInfo) -> "Month":
        return cls(day.replace(day=1), zone)

    @classmethod
    def parse(cls, text: str, zone: ZoneInfo) -> "Month":
        """Read "2026-11"; raise Invalid for anything else."""
        try:
            day = datetime.strptime(text, "%Y-%m").date()  # noqa: DTZ007 - a month has no zone of its own
        except ValueError as failure:
            raise Invalid(f"A month is written like 2026-11; “{text[:20]}” was sent.") from failure
        if not 1970 < day.year < 9999:
            raise Invalid(f"There are no costs in the year {day.year}.")
        return cls(day, zone)

    @property
    def next(self) -> "Month":
        return Month.of(self.first + timedelta(days=31), self.zone)

    @property
    def previous(self) -> "Month":
        return Month.of(self.first - timedelta(days=1), self.zone)

    @property
    def start(self) -> datetime:
        """Return its first instant, in UTC: times of one zone are subtracted by the wall clock."""
        return datetime(self.first.year, self.first.month, 1, tzinfo=self.zone).astimezone(UTC)

    @property
    def span(self) -> Interval:
        return Interval(self.start, self.next.start)

    def __str__(self) -> str:
        return f"{self.first:%Y-%m}"


def zone_of_reader() -> ZoneInfo:
    """Return the time zone that is active for this request."""
    return ZoneInfo(timezone.get_current_timezone_name())


@dataclass(frozen=True, slots=True)
class Billed:
    """A line with the claim that it belongs to."""

    claim: Claim
    product: str
    partition: str
    cost: Cost


@dataclass(slots=True)
class CostRow:
    """A group of lines. `claim` is set where the group is one claim, `person` where it is one person."""

    key: str
    label: str
    cost: Cost = field(default_factory=Cost)
    claim: Claim | None = None
    person: User | None = None
    claims: set[UUID] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class CostReport:
    team: Team
    month: Month
    until: datetime
    lines: list[Billed]
    by_claim: list[CostRow]
    by_person: list[CostRow]
    by_product: list[CostRow]
    total: Cost

    @property
    def is_running(self) -> bool:
        """Say whether the month is not over, so that the figures still grow."""
        return self.until < self.month.span.end


def report(team: Team, month: Month, *, now: datetime) -> CostReport:
    """Add up a team's month in four queries: what was held, the prices, the claims, their profiles."""
    span = month.span
    found = list(lines(held_by(team, span), RateCard.load(), until=now, within=span))
    claims = Claim.objects.filter(pk__in={line.claim_id for line in found})
    related = ("requested_by", "profile_version__profile", "cluster")
    named = claims.select_related(*related).with_profiles().in_bulk()
    billed = [Billed(named[line.claim_id], line.product, line.partition, line.cost) for line in found]
    return CostReport(
        team=team,
        month=month,
        until=min(now, span.end),
        lines=billed,
        by_claim=grouped(billed, of_claim),
        by_person=grouped(billed, of_person),
        by_product=grouped(billed, of_product),
        total=total(line.cost for line in billed),
    )


def held_by(team: Team, span: Interval) -> Iterator[UsageInterval]:
    """Yield what the team held in a span, without making objects of the rows: a month may have many."""
    rows = (
        Allocation.objects.filter(claim__team=team, started_at__lt=span.end)
        .filter(Q(ended_at=None) | Q(ended_at__gt=span.start))
        .order_by("started_at", "device")
    )
    columns = ("claim_id", "claim__cluster_id", "driver", "product", "partition", "fraction")
    for claim, cluster, driver, product, partition, fraction, start, end in rows.values_list(
        *columns, "started_at", "ended_at"
    ):
        yield UsageInterval(
            claim, PriceGroup(cluster, driver, product), partition, millionths(fraction), start, end
        )


def of_claim(line: Billed) -> CostRow:
    return CostRow(str(line.claim.pk), line.claim.name, claim=line.claim)


def of_person(line: Billed) -> CostRow:
    person = line.claim.requested_by
    return CostRow(str(person.pk), person.label, person=person)


def of_product(line: Billed) -> CostRow:
    label = f"{line.product or 'unknown product'} {line.partition}".strip()
    return CostRow(label, label)


def grouped(billed: Iterable[Billed], row_of: Callable[[Billed], CostRow]) -> list[CostRow]:
    """Add lines up by the row they belong to; dearest first."""
    rows: dict[str, CostRow] = {}
    for line in billed:
        row = row_of(line)
        row = rows.setdefault(row.key, row)
        row.cost.add(line.cost)
        row.claims.add(line.claim.pk)
    return sorted(rows.values(), key=lambda row: (-sum(row.cost.exact.values()), -row.cost.held, row.label))
