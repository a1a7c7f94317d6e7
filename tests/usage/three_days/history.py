"""
Three days as they were, and what they cost: when claims held devices, what Prometheus measured, and sums.

Nothing here calls the portal. Hours are fractions, money is rounded half up to cents once per claim,
product, price and day (UTC). A bucket of five minutes measures a device for as long as it was held; of what
was measured, the mean of its buckets is used and the rest idle, and what was not measured is neither.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import cache

HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)
EVERY, BUCKET = timedelta(seconds=30), timedelta(minutes=5)
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
END = MONDAY + 3 * DAY
NOW = END + 4 * HOUR + MINUTE  # when everything is read
MONTH_END = datetime(2026, 12, 1, tzinfo=UTC)


def at(hours: float) -> datetime:
    """Return an instant by its hours since Monday, 00:00."""
    return MONDAY + timedelta(seconds=round(hours * 3600))


# What went wrong.
NO_SCRAPES = at(26), at(27)  # by Prometheus, which repeats the last sample for five minutes
WORKER_KILLED, WORKER_BACK = at(36), at(44)
DATABASE_CRASHED, DATABASE_CRASHED_AGAIN = at(24), at(28)
PROMETHEUS_KILLED, PROMETHEUS_BACK = at(48), at(52)
WORKER_KILLED_AGAIN = at(72)

# When the portal measured live, by bucket: once in each round, and oftener before NOW. A live measurement
# that fails is repeated a minute later.
ROUNDS = [at(hours) for hours in range(0, 76, 4)]
LIVE: dict[datetime, list[datetime]] = {
    start: [start + (2 * MINUTE if start in (PROMETHEUS_BACK, DATABASE_CRASHED) else MINUTE)]
    for start in ROUNDS
    if not WORKER_KILLED <= start < WORKER_BACK
}
# The same if nothing is killed: every round measures at its time.
UNDISTURBED = {start: [start + MINUTE] for start in ROUNDS}
for measured_live in (LIVE, UNDISTURBED):
    measured_live[NOW - 6 * MINUTE] = [NOW - 6 * MINUTE + number * EVERY for number in range(10)]
    measured_live[NOW - MINUTE] = [NOW - MINUTE, NOW - MINUTE + timedelta(seconds=20)]


@dataclass(frozen=True)
class Rate:
    product: str
    per_hour: Decimal
    since: datetime


H100, A100, L4 = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB", "NVIDIA L4"
RATES = (
    Rate("H100", Decimal("2.4999"), datetime(2026, 1, 1, tzinfo=UTC)),
    Rate("H100", Decimal("2.7501"), at(39) + 10 * MINUTE),
    Rate("A100", Decimal("1.1133"), datetime(2026, 1, 1, tzinfo=UTC)),
)


def rate_of(product: str, instant: datetime) -> Rate | None:
    begun = [rate for rate in RATES if rate.product in product and rate.since <= instant]
    return max(begun, key=lambda rate: rate.since, default=None)


@dataclass(frozen=True)
class Claim:
    name: str
    person: str
    team: str
    profile: str
    cluster: str
    product: str
    capacity: str = ""
    partition: str = ""
    fraction: Decimal = Decimal(1)
    memory: int = 80  # GiB of each device
    expires_at: datetime | None = None

    @property
    def model(self) -> str:
        return f"{self.product} {self.partition}".strip()


TRAIN = Claim("train", "alice", "vision", "train-80", "fra-1", H100, "on-demand")
SMALL = Claim(
    "small", "alice", "vision", "small-10", "fra-1", H100, "spot", "1g.10gb", Decimal("0.142857"), 10
)
NOTEBOOK = Claim("notebook", "carol", "vision", "train-80", "fra-1", H100, "on-demand")
FORGOTTEN = Claim("forgotten", "carol", "vision", "train-80", "fra-1", H100, "spot", expires_at=at(106))
EVAL = Claim("eval", "dan", "nlp", "train-80", "ber-1", A100, "reserved")
PROBE = Claim("probe", "dan", "nlp", "small-10", "fra-1", L4, memory=24)
CLAIMS = (TRAIN, SMALL, NOTEBOOK, FORGOTTEN, EVAL, PROBE)

type Curve = Callable[[datetime], float]


def by_step(period: float) -> Curve:
    """Return a curve that changes from bucket to bucket."""
    return lambda instant: round(0.5 + 0.45 * math.sin(bucket_of(instant).timestamp() / period), 6)


def wave(instant: datetime) -> float:
    """Return a value that changes from sample to sample."""
    return round(0.5 + 0.45 * math.sin(instant.timestamp() / 900), 6)


def until_wednesday_night(instant: datetime) -> float:
    return by_step(4000)(instant) / 2 + 0.3 if instant < at(73) else 0.02


@dataclass(frozen=True)
class Work:
    """One device that a claim holds for a time, and what Prometheus has of it: labels, and a curve."""

    claim: Claim
    device: str
    start: datetime
    end: datetime | None
    labels: str = ""
    curve: Curve | None = None
    pool: str = "fra1-h100-03"

    def is_held(self, instant: datetime) -> bool:
        return self.start <= instant < (self.end or NOW)

    def overlaps(self, start: datetime, end: datetime) -> bool:
        return self.start < end and (self.end or NOW) > start

    def memory(self, instant: datetime) -> int:
        """Return MiB in use."""
        return 2000 + int(bucket_of(instant).timestamp()) // 300 % 900


def bucket_of(instant: datetime) -> datetime:
    return MONDAY + (instant - MONDAY) // BUCKET * BUCKET


def dra(claim: str, device: str) -> str:
    return (
        f'UUID="GPU-{device}",hostname="n",dra_claim_name="{claim}",dra_claim_namespace="vision",'
        f'dra_driver_name="gpu.nvidia.com",dra_pool_name="fra1-h100-03",dra_device_name="{device}"'
    )


NOTEBOOK_START = at(31) + 3 * MINUTE + timedelta(seconds=20)
WORKS = (
    # by their DRA labels; another device after a break, over the next midnight
    Work(TRAIN, "gpu-0", at(22), at(38), dra("train", "gpu-0"), by_step(5000)),
    Work(TRAIN, "gpu-1", at(22), at(38), dra("train", "gpu-1"), by_step(7000)),
    Work(TRAIN, "gpu-6", at(46), at(50), dra("train", "gpu-6"), by_step(6000)),
    # a partition of a GPU, by GPU and profile
    Work(
        SMALL,
        "gpu-3-mig-0",
        at(23),
        at(33),
        'UUID="GPU-gpu-3",GPU_I_ID="7",GPU_I_PROFILE="1g.10gb",Hostname="n"',
        by_step(3000),
    ),
    # by its UUID, from within a bucket, and it ends while no worker runs
    Work(NOTEBOOK, "gpu-2", NOTEBOOK_START, at(36) + 17 * MINUTE, 'UUID="GPU-gpu-2",Hostname="n"', wave),
    Work(FORGOTTEN, "gpu-4", at(70), None, dra("forgotten", "gpu-4"), until_wednesday_night),
    # in a cluster without telemetry, and one that has no rate
    Work(EVAL, "gpu-0", at(6.5), at(42.75), pool="ber1-a100-01"),
    Work(PROBE, "gpu-5", at(25), at(29), 'UUID="GPU-gpu-5",Hostname="n"', by_step(1000)),
)
POWER = 300  # W
GRAMS = 381  # of CO₂ per kWh, of the cluster whose devices are measured

# The fleet: how many whole GPUs of a product a cluster has had since Monday, and how many of them were out of
# service or held outside the portal.
FLEET = {("fra-1", H100): (7, 1, 0), ("fra-1", L4): (1, 0, 0), ("ber-1", A100): (2, 0, 1)}


def works_of(claim: Claim) -> list[Work]:
    return [work for work in WORKS if work.claim is claim]


def exposition() -> Iterator[str]:
    """Yield what Prometheus has scraped of each device while it was held, and an hour before and after."""
    metrics: tuple[tuple[str, Callable[[Work, datetime], float]], ...] = (
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", lambda work, instant: work.curve(instant) if work.curve else 0),
        ("DCGM_FI_DEV_FB_USED", Work.memory),
        ("DCGM_FI_DEV_POWER_USAGE", lambda _work, _instant: POWER),
    )
    for metric, value in metrics:
        yield f"# TYPE {metric} gauge"
        for work in WORKS:
            if work.curve is None:
                continue
            every = EVERY if work.curve is wave else BUCKET / 2
            instant = bucket_of(max(work.start - HOUR, MONDAY))
            while instant < min((work.end or NOW) + HOUR, NOW):
                if not NO_SCRAPES[0] <= instant < NO_SCRAPES[1]:
                    yield f"{metric}{{{work.labels}}} {value(work, instant)} {int(instant.timestamp())}"
                instant += every


# Utilization.


@dataclass(frozen=True)
class Bucket:
    """What is known of five minutes of a device."""

    start: datetime
    values: tuple[float, ...]  # the activity of each sample
    memory: int  # bytes

    @property
    def samples(self) -> int:
        return len(self.values)

    @property
    def activity(self) -> float:
        return sum(self.values) / len(self.values)


@cache
def buckets_of(work: Work, *, disturbed: bool = True) -> list[Bucket]:
    """
    Return what can be known: of buckets measured live their instants, else those of the history; of a run in
    which nothing is killed if it is not `disturbed`.
    """
    found, live = [], LIVE if disturbed else UNDISTURBED
    start = bucket_of(work.start)
    while work.curve is not None and start < (work.end or NOW):
        instants = live.get(start) or [start + number * EVERY for number in range(10)]
        scraped = [as_scraped(instant) for instant in instants if work.is_held(instant)]
        seen = [instant for instant in scraped if instant is not None]
        values = [work.curve(instant) for instant in seen]
        if values:
            memory = max(work.memory(instant) for instant in seen) * 2**20
            found.append(Bucket(start, tuple(values), memory))
        start += BUCKET
    return found


def as_scraped(instant: datetime) -> datetime | None:
    """Return the time of the sample that stands for an instant, which is not older than five minutes."""
    if not NO_SCRAPES[0] <= instant < NO_SCRAPES[1]:
        return instant
    last = NO_SCRAPES[0] - BUCKET / 2
    return last if instant - last <= BUCKET else None


def percentile(values: Iterable[float]) -> float:
    """Return the 95th percentile, between the two values next to it."""
    found = sorted(values)
    place = 0.95 * (len(found) - 1)
    low = found[int(place)]
    return low + (found[min(int(place) + 1, len(found) - 1)] - low) * (place % 1)


@dataclass(frozen=True)
class Life:
    """What is known of a device over the life of a claim."""

    activity: float
    activity_p95: float
    memory_p95: float
    memory_peak: int
    kilowatt_hours: Fraction


def life_of(work: Work) -> Life | None:
    """Return means weighted by samples, and 95th percentiles of those of the hours."""
    buckets = buckets_of(work)
    if not buckets:
        return None
    by_hour: dict[datetime, list[Bucket]] = defaultdict(list)
    for bucket in buckets:
        by_hour[bucket.start.replace(minute=0)].append(bucket)
    samples = sum(bucket.samples for bucket in buckets)
    return Life(
        weighted(buckets),
        percentile(
            percentile(value for bucket in hour for value in bucket.values) for hour in by_hour.values()
        ),
        percentile(percentile(bucket.memory for bucket in hour) for hour in by_hour.values()),
        max(bucket.memory for bucket in buckets),
        kilowatt_hours(samples, work.claim),
    )


@dataclass(frozen=True)
class Point:
    """What is known of all devices of a claim in a span of time."""

    samples: int
    activity: float
    memory: int
    by_device: dict[str, float]


def points_of(claim: Claim, step: timedelta) -> dict[datetime, Point]:
    """Return the measured spans of a claim: means weighted by samples, then the mean over its devices."""
    spans: dict[datetime, dict[str, list[Bucket]]] = defaultdict(lambda: defaultdict(list))
    for work in works_of(claim):
        for bucket in buckets_of(work):
            spans[MONDAY + (bucket.start - MONDAY) // step * step][work.device].append(bucket)
    return {
        start: Point(
            sum(bucket.samples for buckets in devices.values() for bucket in buckets),
            sum(map(weighted, devices.values())) / len(devices),
            sum(max(bucket.memory for bucket in buckets) for buckets in devices.values()),
            {device: weighted(buckets) for device, buckets in devices.items()},
        )
        for start, devices in spans.items()
    }


def weighted(buckets: Iterable[Bucket]) -> float:
    found = list(buckets)
    return sum(bucket.activity * bucket.samples for bucket in found) / sum(bucket.samples for bucket in found)


def step_of_life(claim: Claim) -> timedelta:
    """Return how wide spans are in which the whole life of a claim is shown, which are at most 400."""
    start = min(work.start for work in works_of(claim))
    end = max(work.end or NOW for work in works_of(claim))
    return next(step for step in (BUCKET, 2 * BUCKET, 3 * BUCKET) if (end - start) / step <= 400)


# Money.


def half_up(value: Fraction | float, digits: int = 2) -> Decimal:
    exact = (
        Decimal(value.numerator) / Decimal(value.denominator)
        if isinstance(value, Fraction)
        else Decimal(value)
    )
    return exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)


@dataclass(frozen=True)
class Entry:
    """
    What a claim held on a day at one rate. `measured` and `computing` are the shares of the time of its
    devices on this day that were measured and used, `kilowatt_hours` are its part, by hours, of those of
    the claim on this day; None is not measured.
    """

    claim: Claim
    day: date
    rate: Rate | None
    hours: Fraction
    measured: Fraction
    computing: Fraction
    kilowatt_hours: Fraction | None

    @property
    def amount(self) -> Decimal:
        return half_up(self.hours * Fraction(self.rate.per_hour)) if self.rate else Decimal(0)

    @property
    def measured_amount(self) -> Decimal:
        return half_up(Fraction(self.amount) * self.measured)

    @property
    def used(self) -> Decimal:
        return half_up(Fraction(self.amount) * self.computing)


type Kind = tuple[Claim, date, Rate | None]


def held_by(work: Work, until: datetime = NOW) -> dict[Kind, Fraction]:
    """Return the hours that a device was held, by day and rate; of a partition its fraction of them."""
    end = min(work.end or until, until)
    edges = {
        work.start,
        end,
        *(MONDAY + number * DAY for number in range(1, 5)),
        *(rate.since for rate in RATES),
    }
    hours: dict[Kind, Fraction] = defaultdict(Fraction)
    for since, before in itertools.pairwise(sorted(edge for edge in edges if work.start <= edge <= end)):
        seconds = Fraction((before - since) // timedelta(seconds=1))
        key = (work.claim, since.date(), rate_of(work.claim.product, since))
        hours[key] += seconds / 3600 * Fraction(work.claim.fraction)
    return hours


def entries(until: datetime = NOW) -> list[Entry]:
    hours: dict[Kind, Fraction] = defaultdict(Fraction)
    that_day: dict[tuple[Claim, date], Fraction] = defaultdict(Fraction)
    for work in WORKS:
        for (claim, day, rate), held in held_by(work, until).items():
            hours[claim, day, rate] += held
            that_day[claim, day] += held
    found = []
    for (claim, day, rate), held in hours.items():
        energy = energy_of(claim, day)
        part = None if energy is None else energy * held / that_day[claim, day]
        found.append(Entry(claim, day, rate, held, *shares(claim, day), part))
    return found


def energy_of(claim: Claim, day: date) -> Fraction | None:
    """Return the kilowatt-hours of a claim on a day: power × 30 s per sample, of a partition its fraction."""
    samples = sum(
        bucket.samples
        for work in works_of(claim)
        for bucket in buckets_of(work)
        if bucket.start.date() == day
    )
    return kilowatt_hours(samples, claim) if samples else None


def kilowatt_hours(samples: int, claim: Claim) -> Fraction:
    return POWER * samples * EVERY.seconds * Fraction(claim.fraction) / 3_600_000


def cost_by_device(claim: Claim) -> dict[str, tuple[Fraction, Decimal]]:
    """
    Return hours and money of each device until now: of each entry its part by hours, rounded down to cents.
    The cents that are left go to those that lost most, so that all add up to the claim.
    """
    of = of_claim(claim).of
    held: dict[str, Fraction] = defaultdict(Fraction)
    exact: dict[str, Fraction] = defaultdict(Fraction)  # cents
    for work in works_of(claim):
        for (_claim, day, rate), hours in held_by(work).items():
            (entry,) = [entry for entry in of if (entry.day, entry.rate) == (day, rate)]
            held[work.device] += hours
            exact[work.device] += 100 * Fraction(entry.amount) * hours / entry.hours
    cents = {device: math.floor(amount) for device, amount in exact.items()}
    left = int(sum(exact.values())) - sum(cents.values())
    for device in sorted(exact, key=lambda device: (cents[device] - exact[device], device))[:left]:
        cents[device] += 1
    return {device: (held[device], Decimal(cents[device]) / 100) for device in exact}


def shares(claim: Claim, day: date, *, disturbed: bool = True) -> tuple[Fraction, Fraction]:
    """Return which shares of the time of a claim's devices on a day were measured and used."""
    held = measured = computing = Fraction(0)
    for work in works_of(claim):
        since = max(work.start, midnight(day))
        until = min(work.end or NOW, midnight(day) + DAY)
        time = Fraction(max(until - since, timedelta(0)) // timedelta(seconds=1))
        known = buckets_of(work, disturbed=disturbed)
        found = [Fraction(bucket.activity) for bucket in known if bucket.start.date() == day]
        seen = min(time, Fraction(len(found) * 300))
        held += time
        measured += seen
        computing += seen * sum(found) / len(found) if found else 0
    return (measured / held, computing / held) if held else (Fraction(0), Fraction(0))


def midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)


TODAY = END.date()


@dataclass(frozen=True)
class Part:
    """A part of the stored days."""

    hours: Fraction
    amount: Decimal
    is_unpriced: bool


@dataclass
class Sum:
    """A sum of entries: the parts of stored days, and `today`, which is not split yet."""

    of: list[Entry] = field(default_factory=list)

    def _hours(self, which: Callable[[Entry], bool]) -> Fraction:
        return sum((entry.hours for entry in self.of if which(entry)), Fraction(0))

    def _money(self, which: Callable[[Entry], bool]) -> Decimal:
        return sum((entry.amount for entry in self.of if which(entry)), Decimal(0))

    @property
    def hours(self) -> Fraction:
        return self._hours(lambda _entry: True)

    @property
    def unpriced(self) -> Fraction:
        return self._hours(lambda entry: entry.rate is None)

    @property
    def amount(self) -> Decimal:
        return self._money(lambda _entry: True)

    @property
    def is_unpriced(self) -> bool:
        return all(entry.rate is None for entry in self.of)

    def where(self, which: Callable[[Entry], bool]) -> Sum:
        return Sum([entry for entry in self.of if which(entry)])

    @property
    def stored(self) -> Sum:
        return self.where(lambda entry: entry.day < TODAY)

    @property
    def today(self) -> Sum:
        return self.where(lambda entry: entry.day == TODAY)

    @property
    def measured(self) -> Part:
        of = self.stored.where(lambda entry: entry.measured > 0)
        hours = sum((entry.hours * entry.measured for entry in of.of), Fraction(0))
        return Part(hours, sum((entry.measured_amount for entry in of.of), Decimal(0)), of.is_unpriced)

    @property
    def no_telemetry(self) -> Part:
        of = self.stored.where(lambda entry: entry.measured < 1)
        hours = sum((entry.hours * (1 - entry.measured) for entry in of.of), Fraction(0))
        amount = sum((entry.amount - entry.measured_amount for entry in of.of), Decimal(0))
        return Part(hours, amount, of.is_unpriced)

    @property
    def used(self) -> Decimal:
        return sum((entry.used for entry in self.stored.of), Decimal(0))

    @property
    def idle(self) -> Decimal:
        return self.measured.amount - self.used

    @property
    def used_hours(self) -> float:
        return float(sum((entry.hours * entry.computing for entry in self.stored.of), Fraction(0)))

    @property
    def idle_hours(self) -> float:
        return float(self.measured.hours) - self.used_hours

    @property
    def utilization(self) -> float | None:
        measured = self.measured.hours
        return self.used_hours / float(measured) if measured else None

    @property
    def kilowatt_hours(self) -> Fraction | None:
        """Return the energy of the stored days; None if none was measured."""
        known = [entry.kilowatt_hours for entry in self.stored.of if entry.kilowatt_hours is not None]
        return sum(known, Fraction(0)) if known else None

    def groups(self, key: Callable[[Entry], str]) -> dict[str, Sum]:
        found: dict[str, Sum] = defaultdict(Sum)
        for entry in self.of:
            found[key(entry)].of.append(entry)
        return dict(found)


ALL = Sum(entries())


def of_team(slug: str) -> Sum:
    return ALL.where(lambda entry: entry.claim.team == slug)


def of_claim(claim: Claim) -> Sum:
    return ALL.where(lambda entry: entry.claim is claim)


@dataclass(frozen=True)
class FleetDay:
    """GPU-hours that no claim of the portal held on a day, by use, those without a rate, and their money."""

    hours: dict[str, Fraction]
    unpriced: dict[str, Fraction]
    amounts: dict[str, Decimal]


@cache
def fleet_day(day: date) -> FleetDay:
    start = midnight(day)
    edges = sorted({start, start + DAY, *(rate.since for rate in RATES if start < rate.since < start + DAY)})
    found = FleetDay(defaultdict(Fraction), defaultdict(Fraction), defaultdict(Decimal))
    for (cluster, product), (gpus, out, unmanaged) in FLEET.items():
        mine = of_kind(day, cluster, product)
        for use, number in (("unallocated", gpus - out - unmanaged), ("out", out), ("unmanaged", unmanaged)):
            by_rate: dict[Rate | None, Fraction] = defaultdict(Fraction)
            for since, until in itertools.pairwise(edges):
                by_rate[rate_of(product, since)] += number * Fraction((until - since) // MINUTE, 60)
            hours = sum(by_rate.values(), Fraction(0))
            money = sum(
                (half_up(time * Fraction(rate.per_hour)) for rate, time in by_rate.items() if rate),
                Decimal(0),
            )
            if use == "unallocated":
                hours, money = max(hours - mine.hours, Fraction(0)), max(money - mine.amount, Decimal(0))
            found.hours[use] += hours
            found.amounts[use] += money
            found.unpriced[use] += hours if None in by_rate else 0
    return found


def of_kind(day: date, cluster: str, product: str) -> Sum:
    """Return what claims held on a day of one product in one cluster."""
    return ALL.where(
        lambda entry: (entry.day, entry.claim.cluster, entry.claim.product) == (day, cluster, product)
    )


DAYS = [MONDAY.date() + timedelta(days=number) for number in range(3)]


def fleet_hours(use: str, *days: date) -> Fraction:
    return sum((fleet_day(day).hours[use] for day in days or DAYS), Fraction(0))


def fleet_unpriced(use: str) -> Fraction:
    return sum((fleet_day(day).unpriced[use] for day in DAYS), Fraction(0))


def fleet_money(use: str) -> Decimal:
    return sum((fleet_day(day).amounts[use] for day in DAYS), Decimal(0))


def forecast(spent: Decimal, per_hour: Decimal) -> Decimal:
    left = Decimal((MONTH_END - NOW) // timedelta(seconds=1)) / 3600
    return (spent + per_hour * left).quantize(Decimal("0.01"), ROUND_HALF_UP)


def price_of(claim: Claim, start: datetime, end: datetime) -> float:
    """Return what a claim cost per hour in a span, or in what of it is over before the claim ended."""
    end = min(end, max(work.end or NOW for work in works_of(claim)))
    cost = 0.0
    for work in works_of(claim):
        edges = {start, end, *(edge for edge in (work.start, work.end or NOW) if start < edge < end)}
        edges |= {rate.since for rate in RATES if start < rate.since < end}
        for since, until in itertools.pairwise(sorted(edges)):
            rate = rate_of(claim.product, since)
            if work.is_held(since) and rate:
                cost += float(rate.per_hour * claim.fraction) * ((until - since) / HOUR)
    return cost / ((end - start) / HOUR)


def price_now(claim: Claim) -> Decimal:
    """Return what a claim costs per hour, not rounded."""
    rate = rate_of(claim.product, NOW)
    held = sum(work.end is None for work in works_of(claim))
    return held * claim.fraction * rate.per_hour if rate else Decimal(0)
