"""Rates of devices, measurements of held devices, alerts, and runs of experiments."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q

from claims.models import Claim, Profile
from core.models import uuid7
from inventory.models import Cluster, PriceBasis, TelemetryAccess
from inventory.models.cluster import validate_certificates, validate_http_url
from teams.access import team_rows_where
from teams.models import Role, Team, User


class Rate(models.Model):
    """
    Price per hour of a whole matching device from an instant on, to before `valid_until` if it is retired.
    The most specific rate wins, then the newest.

    Empty `product`, `driver`, `expression` or null `cluster` match everything; `product` matches by its
    words, short or in full (`dra.devices.names_product`). `expression` is a CEL condition over a price basis
    (`dra.price_condition`), `RateMatch` has where it holds. A partition costs its fraction of the device.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    title = models.CharField("title", max_length=80)
    cluster = models.ForeignKey(
        Cluster, models.CASCADE, null=True, blank=True, related_name="+", verbose_name="cluster"
    )
    driver = models.CharField("driver", max_length=63, blank=True, default="")
    product = models.CharField("product", max_length=120, blank=True, default="")
    expression = models.TextField("expression", blank=True, default="")
    per_hour = models.DecimalField("price per hour", max_digits=12, decimal_places=4)
    currency = models.CharField("currency", max_length=3, default="EUR")
    valid_from = models.DateTimeField("valid from")
    valid_until = models.DateTimeField("valid until", null=True, blank=True)

    class Meta:
        ordering = ("product", "-valid_from")
        constraints = (
            models.CheckConstraint(condition=Q(per_hour__gte=0), name="rate_not_negative"),
            models.CheckConstraint(condition=Q(currency__regex="^[A-Z]{3}$"), name="rate_currency_iso"),
            models.CheckConstraint(
                condition=Q(valid_until=None) | Q(valid_until__gt=F("valid_from")), name="rate_ends_later"
            ),
        )

    def __str__(self) -> str:
        return f"{self.title}: {self.per_hour} {self.currency} / h"


class RateMatch(models.Model):
    """
    The expression of a rate holds for a price basis; no row means that it does not.

    Evaluated once, when the rate is saved or the basis is added, so that what was billed keeps its price.
    `usage.rate_matches` is the only writer.
    """

    rate = models.ForeignKey(Rate, models.CASCADE, related_name="matches", db_index=False)
    basis = models.ForeignKey(PriceBasis, models.CASCADE, related_name="+")

    class Meta:
        constraints = (models.UniqueConstraint(fields=["rate", "basis"], name="ratematch_once"),)

    def __str__(self) -> str:
        return f"{self.rate_id} prices {self.basis_id}"


class RealField(models.FloatField):  # type: ignore[type-arg]
    """A number of four bytes: six digits, more than a sensor has."""

    def db_type(self, connection: Any) -> str:
        return "real"


class DeviceRollup(models.Model):
    """
    What was measured of one device of one claim in a span of time that begins at `bucket`. A span without
    samples has no row, which is "no telemetry"; a value is null if the exporter did not publish it.

    Activities are shares of 0 to 1; `activity` is DCGM_FI_PROF_GR_ENGINE_ACTIVE, else GPU_UTIL / 100. Memory
    is the maximum, temperature (°C) too; other values are means, errors and energy sums of differences.
    Power, energy, temperature and errors are those of the physical GPU. PCIe and NVLink: bytes per second,
    both ways.

    Both tables are partitioned by `bucket` (`usage.partitions`), so that the past is dropped and not deleted.
    """

    pk = models.CompositePrimaryKey("claim_id", "driver", "pool", "device", "bucket")
    # A foreign key would be checked 40,000 times per span, and each new partition would lock the claims.
    claim = models.ForeignKey(
        Claim, models.CASCADE, related_name="%(class)ss", db_constraint=False, db_index=False
    )
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=63)
    bucket = models.DateTimeField()
    samples = models.PositiveIntegerField(db_default=0)
    activity = models.FloatField(null=True)
    activity_min = RealField(null=True)
    activity_max = RealField(null=True)
    sm_activity = RealField(null=True)
    tensor_activity = RealField(null=True)
    memory_activity = RealField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    memory_total = models.BigIntegerField(null=True)
    power_watts = RealField(null=True)
    energy_joules = RealField(null=True)
    temperature = RealField(null=True)
    pcie_bytes = RealField(null=True)
    nvlink_bytes = RealField(null=True)
    ecc_corrected = models.IntegerField(null=True)
    ecc_uncorrected = models.IntegerField(null=True)

    class Meta:
        abstract = True
        ordering = ("bucket",)

    def __str__(self) -> str:
        return f"{self.device} {self.bucket:%H:%M}"


class Rollup(DeviceRollup):
    """
    Five minutes. `activities` are its samples, from which the hour gets its 95th percentile. `slots` has a
    bit for each quarter of a minute that was counted, so that a sample that comes twice counts once.
    """

    slots = models.IntegerField(db_default=0)
    activities = ArrayField(RealField(), db_default=[])


class HourlyRollup(DeviceRollup):
    """
    One hour, made from its `Rollup`s: 95th percentiles of the samples of activity and of the memory of each
    five minutes. `usage.hourly` is the only writer.
    """

    activity_p95 = RealField(null=True)
    memory_p95 = models.BigIntegerField(null=True)


class StoredHour(models.Model):
    """An hour that has its `HourlyRollup`s. It `is_final` once samples for it are not accepted any more."""

    hour = models.DateTimeField(primary_key=True)
    is_final = models.BooleanField(default=False)

    def __str__(self) -> str:
        return f"{self.hour:%Y-%m-%d %H:%M}"


class CounterReading(models.Model):
    """
    What the exporters of a cluster counted when they were read last: by GPU, `usage.counters.Reading` as a
    list. One row per cluster: 40,000 rows would be written every half minute.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="+")
    readings = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"counters of {self.cluster_id}"


class DailyUse(models.Model):
    """
    A ledger entry: what a claim held on one day (UTC) of devices of one product, partition and capacity type
    at one rate. `owner` owned the claim at the end of the day (`usage.owners`); the team of a claim does not
    change.

    `held` is in millionths of a device × microseconds, `amount` in that × ten-thousandths of money (the units
    of `usage.cost`), in whole cents. Without a rate there is no currency and `amount` is 0, which is "no
    rate". `usage.daily` is the only writer.
    """

    team = models.ForeignKey(Team, models.CASCADE, related_name="+", db_index=False)
    owner = models.ForeignKey(User, models.PROTECT, related_name="+", db_index=False)
    claim = models.ForeignKey(Claim, models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    driver = models.CharField(max_length=63, blank=True)
    product = models.CharField(max_length=120, blank=True)
    partition = models.CharField(max_length=64, blank=True)
    capacity_type = models.CharField(max_length=9, blank=True)
    rate = models.ForeignKey(Rate, models.PROTECT, null=True, related_name="+", db_index=False)
    currency = models.CharField(max_length=3, blank=True)
    held = models.DecimalField(max_digits=30, decimal_places=0)
    amount = models.DecimalField(max_digits=40, decimal_places=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["claim", "day", "driver", "product", "partition", "capacity_type", "rate"],
                nulls_distinct=False,
                name="dailyuse_once",
            ),
        )
        indexes = (
            models.Index(fields=["team", "day"], name="dailyuse_team"),
            models.Index(fields=["owner", "day"], name="dailyuse_owner"),
            models.Index(fields=["day"], name="dailyuse_day"),
        )

    def __str__(self) -> str:
        return f"{self.product} on {self.day}"


class DailyActivity(models.Model):
    """
    What was measured of a claim's devices of one driver, product, partition and capacity type on one day
    (UTC).

    `held` is the time that they were held, in the unit of `DailyUse.held`; `measured` is what of it has
    telemetry, and `used` the time in which they computed. `activity` is the sum of
    `Rollup.activity`, and `rollups` of how many. Energy is null without telemetry of power; a part of it is
    estimated. The grams of CO₂ per kWh are those of its cluster, null if none were set (`usage.energy`).
    `usage.daily_activity` is the only writer.
    """

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    driver = models.CharField(max_length=63, blank=True)
    product = models.CharField(max_length=120, blank=True)
    partition = models.CharField(max_length=64, blank=True)
    capacity_type = models.CharField(max_length=9, blank=True)
    held = models.DecimalField(max_digits=30, decimal_places=0)
    measured = models.DecimalField(max_digits=30, decimal_places=0)
    used = models.DecimalField(max_digits=30, decimal_places=0)
    activity = models.FloatField()
    rollups = models.FloatField()
    joules = models.FloatField(null=True)
    joules_estimated = models.FloatField(default=0)
    grams_per_kwh = models.PositiveIntegerField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["claim", "day", "driver", "product", "partition", "capacity_type"],
                name="dailyactivity_once",
            ),
            models.CheckConstraint(
                condition=Q(held__gt=0, measured__lte=F("held"), used__gte=0, used__lte=F("measured")),
                name="dailyactivity_parts",
            ),
        )
        indexes = (models.Index(fields=["day"], name="dailyactivity_day"),)

    def __str__(self) -> str:
        return f"{self.product} of {self.claim_id} on {self.day}"


class DailySum(models.Model):
    """
    What all claims of one team, person, profile, kind of device or capacity type held on one day (UTC), in
    one currency; and what the fleet had of each product.

    `key` is the team, person or profile, null for a kind: devices of one cluster, product and partition. Of
    a capacity type, `partition` is the `dra.placement.CapacityType`, "" where it is not known. The three
    times are those of `DailyUse.held`: all, with telemetry, and computing; so are the three parts of it
    without a rate and the three amounts. The rows of each of these dimensions add up to all claims. Of the
    fleet, `partition` is the `FleetSpan.Use` and only the first of each three is counted. Energy and grams
    of CO₂ are null where nothing is known of them; of an entry they are the part, by time,
    of its devices of the day.
    """

    class Dimension(models.TextChoices):
        TEAM = "team"
        PERSON = "person"
        PROFILE = "profile"
        KIND = "kind"
        CAPACITY = "capacity"
        FLEET = "fleet"

    day = models.DateField()
    dimension = models.CharField(max_length=8, choices=Dimension)
    key = models.UUIDField(null=True)
    cluster = models.UUIDField(null=True)
    product = models.CharField(max_length=120, blank=True)
    partition = models.CharField(max_length=64, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    held = models.DecimalField(max_digits=30, decimal_places=0)
    held_measured = models.DecimalField(max_digits=30, decimal_places=0)
    held_used = models.DecimalField(max_digits=30, decimal_places=0)
    unpriced = models.DecimalField(max_digits=30, decimal_places=0)
    unpriced_measured = models.DecimalField(max_digits=30, decimal_places=0)
    unpriced_used = models.DecimalField(max_digits=30, decimal_places=0)
    amount = models.DecimalField(max_digits=40, decimal_places=0)
    amount_measured = models.DecimalField(max_digits=40, decimal_places=0)
    amount_used = models.DecimalField(max_digits=40, decimal_places=0)
    joules = models.FloatField(null=True)
    joules_estimated = models.FloatField(default=0)
    grams = models.FloatField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["dimension", "day", "key", "cluster", "product", "partition", "currency"],
                include=["held", "unpriced", "amount", "amount_measured", "amount_used"],
                nulls_distinct=False,
                name="dailysum_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.dimension} on {self.day}"


class MonthlySum(models.Model):
    """
    What one team, person or profile held on the stored days of a month (UTC), in one currency.

    `month` is its first day. `held` and `unpriced` are in the unit of `DailyUse.held`, `amount` and what of
    it was `idle` in that of `DailyUse.amount`. `usage.monthly_sums` is the only writer.
    """

    class Dimension(models.TextChoices):
        TEAM = "team"
        PERSON = "person"
        PROFILE = "profile"

    month = models.DateField()
    dimension = models.CharField(max_length=8, choices=Dimension)
    key = models.UUIDField()
    currency = models.CharField(max_length=3, blank=True)
    held = models.DecimalField(max_digits=30, decimal_places=0)
    unpriced = models.DecimalField(max_digits=30, decimal_places=0)
    amount = models.DecimalField(max_digits=40, decimal_places=0)
    idle = models.DecimalField(max_digits=40, decimal_places=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["dimension", "month", "key", "currency"],
                include=["held", "unpriced", "amount", "idle"],
                name="monthlysum_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.dimension} in {self.month:%B %Y}"


class ClaimRanking(models.Model):
    """
    The first claims of the stored days from `first` to before `end` in each order of the report, how many
    claims there are, and what all of them add up to: [held, unpriced, amount] by currency, "" without a rate.

    `usage.claim_rankings` is the only writer.
    """

    first = models.DateField()
    end = models.DateField()
    by_cost = ArrayField(models.UUIDField())
    by_hours = ArrayField(models.UUIDField())
    by_idle = ArrayField(models.UUIDField())
    count = models.PositiveIntegerField()
    totals = models.JSONField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["first", "end"], name="claimranking_once"),)

    def __str__(self) -> str:
        return f"{self.first} to {self.end}"


class StoredDays(models.Model):
    """
    All days (UTC) before `until` have their rows of daily use. At most one row; no row means no day.
    `months_until` is `until` when days were last stored: the sums of its month are of the days before it.

    Days before `closed_until` are of closed months: a trigger refuses to change their rows. Those from
    `check_from` on may differ from allocations meanwhile, and get corrections.
    """

    until = models.DateField()
    months_until = models.DateField(null=True)
    closed_until = models.DateField(null=True)
    check_from = models.DateField(null=True)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(pk=1), name="storeddays_one"),
            models.CheckConstraint(
                condition=Q(closed_until=None) | Q(until__gte=F("closed_until")),
                name="storeddays_closed_is_stored",
            ),
        )

    def __str__(self) -> str:
        return f"before {self.until}"


class ClosedMonth(models.Model):
    """A month (UTC) whose figures do not change any more, by its first day."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    month = models.DateField(unique=True)
    closed_at = models.DateTimeField(auto_now_add=True)
    by = models.ForeignKey(User, models.PROTECT, related_name="+")

    class Meta:
        ordering = ("-month",)

    def __str__(self) -> str:
        return f"{self.month:%B %Y}"


class Correction(models.Model):
    """
    By how much the entry of a closed day differs from what was stored: it counts on `booked_on`, a day (UTC)
    of an open month.

    The columns are those of `DailyUse`; `held` and `amount` may be negative. A trigger refuses to change or
    delete a row. `usage.daily` is the only writer.
    """

    booked_on = models.DateField()
    recorded_at = models.DateTimeField(auto_now_add=True)
    team = models.ForeignKey(Team, models.PROTECT, related_name="+", db_index=False)
    owner = models.ForeignKey(User, models.PROTECT, related_name="+", db_index=False)
    claim = models.ForeignKey(Claim, models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()
    driver = models.CharField(max_length=63, blank=True)
    product = models.CharField(max_length=120, blank=True)
    partition = models.CharField(max_length=64, blank=True)
    capacity_type = models.CharField(max_length=9, blank=True)
    rate = models.ForeignKey(Rate, models.PROTECT, null=True, related_name="+", db_index=False)
    currency = models.CharField(max_length=3, blank=True)
    held = models.DecimalField(max_digits=30, decimal_places=0)
    amount = models.DecimalField(max_digits=40, decimal_places=0)

    class Meta:
        indexes = (
            models.Index(fields=["team", "booked_on"], name="correction_team"),
            models.Index(fields=["booked_on"], name="correction_booked"),
            models.Index(fields=["day"], name="correction_day"),
        )

    def __str__(self) -> str:
        return f"{self.product} on {self.day}, booked on {self.booked_on}"


class Collection(models.Model):
    """
    The result of the last collection of a cluster's telemetry, one row per cluster.

    A run sets `sampled_at` before it reads, so that only one of two concurrent runs counts samples.
    `error` is the message of the last failure, empty after a success. `idle` has the idle devices that claims
    held when `usage.collect.note_uses` looked last, as driver, product, price basis and millionths of a
    device.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="collection")
    sampled_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    devices = models.PositiveIntegerField(default=0)  # measured in the last successful collection
    attributed = models.PositiveIntegerField(default=0)  # of these, held by a claim
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")
    idle = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"telemetry of {self.cluster}"


class CollectedBucket(models.Model):
    """
    What is known of five minutes of a cluster's telemetry, for a day.

    `attributed` are the held devices that were measured, the most of any sample; 0 is a gap. `usage.catch_up`
    asks Prometheus for those, and for buckets that lack some devices. At `tried_at` it looked last, added
    `filled` rows, and `lacking` devices had none.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)
    bucket = models.DateTimeField()
    attributed = models.PositiveIntegerField(default=0)
    tried_at = models.DateTimeField(null=True)
    filled = models.PositiveIntegerField(default=0)
    lacking = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["cluster", "bucket"], name="collectedbucket_once"),)

    def __str__(self) -> str:
        return f"telemetry of {self.cluster} from {self.bucket:%H:%M}"


class InexactTelemetry(models.Model):
    """
    A partition of a claim that no series names by a key of its own, as of a GPU instance without DRA labels
    or of dynamic MIG, whose slice has no UUID. `usage.inexact` is the only writer.
    """

    class Why(models.TextChoices):
        INSTANCE = "instance", "joined by the GPU and the MIG profile"
        TWINS = "twins", "left out beside an equal partition of the same GPU"

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="+", db_index=False)
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=63)
    why = models.CharField(max_length=8, choices=Why)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["claim", "driver", "pool", "device", "why"], name="inexacttelemetry_once"
            ),
        )

    def __str__(self) -> str:
        return f"{self.device}: {self.get_why_display()}"


class IdlePeriodQuerySet(models.QuerySet["IdlePeriod"]):
    def visible_to(self, user: User | AnonymousUser) -> IdlePeriodQuerySet:
        """Return the periods of claims of the user's teams; platform admins see all."""
        if user.is_superuser:
            return self
        return self.filter(team__in=Team.objects.visible_to(user))

    def lasting(self) -> IdlePeriodQuerySet:
        return self.filter(ended_at=None)


class IdlePeriod(models.Model):
    """
    A time in which all devices of a claim were idle; `ended_at` is None while it lasts.

    `devices` cost `per_hour` together; None is no rate, or rates in several currencies. `was_freed` is True
    if it ended because the claim ended. `noticed_at` is when its last device was found idle, which may be
    long after `since`. `usage.idle.periods` writes the times, `usage.idle.escalation` what was done.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    claim = models.ForeignKey(Claim, models.CASCADE, related_name="idle_periods")
    team = models.ForeignKey(Team, models.CASCADE, related_name="+", db_index=False)
    since = models.DateTimeField()
    noticed_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    was_freed = models.BooleanField(default=False)
    devices = models.PositiveIntegerField()
    per_hour = models.DecimalField(max_digits=14, decimal_places=4, null=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    owner_notified_at = models.DateTimeField(null=True)
    snoozed_until = models.DateTimeField(null=True)
    snoozes = models.PositiveSmallIntegerField(default=0)
    lead_notified_at = models.DateTimeField(null=True)

    objects = IdlePeriodQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["claim"], condition=Q(ended_at=None), name="idleperiod_one_open"),
        )
        indexes = (
            models.Index(fields=["team", "since"], condition=Q(ended_at=None), name="idleperiod_open"),
            models.Index(fields=["ended_at"], name="idleperiod_ended"),
        )

    def __str__(self) -> str:
        return f"{self.claim_id} since {self.since:%Y-%m-%d %H:%M}"


class SizeCheckQuerySet(models.QuerySet["SizeCheck"]):
    def visible_to(self, user: User | AnonymousUser) -> SizeCheckQuerySet:
        """Return the checks of claims of the user's teams; platform admins see all."""
        if user.is_superuser:
            return self
        return self.filter(team__in=Team.objects.visible_to(user))

    def oversized(self) -> SizeCheckQuerySet:
        return self.filter(verdict=SizeCheck.Verdict.OVERSIZED)


class SizeCheck(models.Model):
    """
    Whether a cheaper profile would have been enough for a claim that holds devices, one row per claim.

    `activity` (0 to 1) and `memory_bytes` are the 95th percentiles of its busiest device. If it is oversized,
    devices of `profile` would have been enough and cost `saves` less per hour than `per_hour`, all together;
    `caveat` says what could not be compared. `usage.oversized` is the only writer.
    """

    class Verdict(models.TextChoices):
        OVERSIZED = "oversized", "Oversized"
        FITS = "fits", "Already right-sized"
        UNKNOWN = "unknown", "Cannot be judged"  # no rate, several kinds, or programs that reserve all memory
        UNMEASURED = "unmeasured", "Too little telemetry"  # never counted as oversized

    claim = models.OneToOneField(Claim, models.CASCADE, primary_key=True, related_name="size_check")
    team = models.ForeignKey(Team, models.CASCADE, related_name="+", db_index=False)
    checked_at = models.DateTimeField()
    verdict = models.CharField(max_length=10, choices=Verdict)
    measured = models.DurationField(null=True)
    activity = models.FloatField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    devices = models.PositiveIntegerField()
    per_hour = models.DecimalField(max_digits=14, decimal_places=4, null=True)
    currency = models.CharField(max_length=3, blank=True, default="")
    profile = models.ForeignKey(Profile, models.CASCADE, null=True, related_name="+", db_index=False)
    saves = models.DecimalField(max_digits=14, decimal_places=4, null=True)
    caveat = models.CharField(max_length=80, blank=True, default="")

    objects = SizeCheckQuerySet.as_manager()

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=~Q(verdict="oversized") | Q(profile__isnull=False, saves__gt=0),
                name="sizecheck_saves",
            ),
        )
        indexes = (
            models.Index(fields=["team", "-saves"], condition=Q(verdict="oversized"), name="sizecheck_team"),
        )

    def __str__(self) -> str:
        return f"{self.claim_id}: {self.verdict}"


class IdlePolicy(models.Model):
    """
    What is done about idle claims, and after which idle time: in one row, none while it is the default.

    None turns a step off. A claim is released only after its leads were notified, and not while it is
    snoozed.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    notify_owner_after = models.DurationField(null=True, default=timedelta(hours=2))
    snoozes = models.PositiveSmallIntegerField(default=2)
    snooze_for = models.DurationField(default=timedelta(hours=24))
    notify_leads_after = models.DurationField(null=True, default=timedelta(hours=24))
    release_after = models.DurationField(null=True, default=None)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(pk=1), name="idlepolicy_one"),
            models.CheckConstraint(
                condition=Q(release_after=None) | Q(release_after__gt=F("notify_leads_after")),
                name="idlepolicy_releases_last",
            ),
        )

    def __str__(self) -> str:
        return "What is done about idle claims"

    @classmethod
    def load(cls) -> IdlePolicy:
        return cls.objects.first() or cls()


class AlertQuerySet(models.QuerySet["Alert"]):
    def visible_to(self, user: User | AnonymousUser) -> AlertQuerySet:
        """
        Return the alerts that concern the user: of their own claims, and of the teams that they lead or own.

        Those of clusters are for platform admins, who see all.
        """
        if user.is_superuser:
            return self
        own = Q(claim__requested_by=user.pk, team__in=Team.objects.visible_to(user))
        return self.filter(own | Q(team__in=team_rows_where(user, at_least=Role.LEAD)))

    def open(self) -> AlertQuerySet:
        return self.filter(resolved_at=None)


class Alert(models.Model):
    """
    A condition that somebody should look at: of a claim, a team or a cluster, from `since` to `resolved_at`.

    `key` names condition and thing, and at most one alert of a key is open. `text` is a sentence with its
    numbers; `url` is the page that says more. `usage.alerts.services` is the only writer.
    """

    class Condition(models.TextChoices):
        CLAIM_PENDING = "claim-pending", "Claim is pending"
        CLAIM_IDLE = "claim-idle", "Claim is idle"
        DEVICE_TAINTED = "device-tainted", "Held device is tainted"
        QUOTA = "quota-nearly-used", "Quota is nearly or fully used"
        BUDGET = "budget-runs-out", "Budget runs out"
        NO_TELEMETRY = "no-telemetry", "No telemetry"
        SYNC_STALE = "sync-stale", "Mirror is stale"
        DRA_SCHEDULER = "dra-scheduler", "Scheduler fails to allocate"
        DRA_CONTROLLER = "dra-controller", "ResourceClaims are not created"
        DRA_KUBELET = "dra-kubelet", "Devices are not prepared"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    condition = models.CharField(max_length=17, choices=Condition)
    key = models.CharField(max_length=120)
    cluster = models.ForeignKey(Cluster, models.CASCADE, null=True, related_name="+")
    team = models.ForeignKey(Team, models.CASCADE, null=True, related_name="+", db_index=False)
    claim = models.ForeignKey(Claim, models.CASCADE, null=True, related_name="+")
    text = models.TextField()
    url = models.CharField(max_length=400)
    since = models.DateTimeField()
    opened_at = models.DateTimeField()
    notified_at = models.DateTimeField(null=True)
    resolved_at = models.DateTimeField(null=True)

    objects = AlertQuerySet.as_manager()

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["key"], condition=Q(resolved_at=None), name="alert_one_open"),
        )
        indexes = (
            models.Index(fields=["team", "since"], name="alert_of_team"),
            models.Index(fields=["resolved_at", "since"], name="alert_resolved"),
        )

    def __str__(self) -> str:
        return self.text


class SavedReport(models.Model):
    """
    The query of a report that a person has saved under a name. If it is `monthly`, the last month is mailed
    on the first of each month; `mailed_for` is the first day of the month that was mailed last.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(User, models.CASCADE, related_name="saved_reports")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=500, blank=True)
    monthly = models.BooleanField(default=False)
    mailed_for = models.DateField(null=True)

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=["user", "name"], name="savedreport_once"),)
        indexes = (
            models.Index(fields=["mailed_for"], condition=Q(monthly=True), name="savedreport_monthly"),
        )

    def __str__(self) -> str:
        return self.name


class TrackingServer(models.Model):
    """
    An MLflow tracking server: of a team, or of the whole installation if `team` is None.

    `sealed` is an encrypted `inventory.telemetry_access.TelemetrySecret`; it is sent only to `server`, for
    which it was given. `begun_at` is when the last round began, `swept_at` when the last one looked back over
    the open months; `error` is empty after a success.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.OneToOneField(Team, models.CASCADE, null=True, related_name="tracking_server")
    url = models.CharField("address", max_length=200, validators=[validate_http_url])
    # Where people open it; empty: at `url`, which may be an address inside of a cluster.
    page_url = models.CharField(max_length=200, blank=True, default="", validators=[validate_http_url])
    authority = models.TextField(blank=True, default="", validators=[validate_certificates])
    kind = models.CharField(max_length=11, choices=TelemetryAccess.Kind, blank=True, default="")
    server = models.CharField(max_length=200, blank=True, default="", editable=False)
    sealed = models.BinaryField(default=b"", editable=False)
    begun_at = models.DateTimeField(null=True)
    swept_at = models.DateTimeField(null=True)
    succeeded_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.TextField(blank=True, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(
                models.Value(1), condition=Q(team=None), name="trackingserver_one_of_installation"
            ),
        )

    def __str__(self) -> str:
        return f"tracking server of {self.team or 'the installation'}"

    def page_of(self, run: TrackedRun) -> str:
        """Return the page of a run in MLflow."""
        base = (self.page_url or self.url).rstrip("/")
        return f"{base}/#/experiments/{run.experiment_id}/runs/{run.run_id}"


class RunsLink(models.Model):
    """
    Where runs of Weights & Biases are looked at: those of a team, or of the whole installation if `team` is
    None. In `url` the words of `usage.tracking.wandb.PLACES` stand for what they name. The portal sends
    nothing there.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.OneToOneField(Team, models.CASCADE, null=True, related_name="runs_link")
    url = models.CharField("address", max_length=300)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                models.Value(1), condition=Q(team=None), name="runslink_one_of_installation"
            ),
        )

    def __str__(self) -> str:
        return f"Weights & Biases of {self.team or 'the installation'}"


class TrackedRun(models.Model):
    """
    A run of MLflow that names a claim in its tag `dragoman.claim`. `usage.tracking.runs` is the only writer.

    Its cost is not stored: it is computed from the allocations of the claim, like the cost of the claim.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    tracking_server = models.ForeignKey(TrackingServer, models.CASCADE, related_name="runs", db_index=False)
    claim = models.ForeignKey(Claim, models.CASCADE, related_name="+", db_index=False)
    run_id = models.CharField(max_length=64)
    experiment_id = models.CharField(max_length=64)
    experiment = models.CharField(max_length=250, blank=True)
    name = models.CharField(max_length=250, blank=True)
    status = models.CharField(max_length=16)
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-started_at", "-id")
        constraints = (models.UniqueConstraint(fields=["tracking_server", "run_id"], name="trackedrun_once"),)
        indexes = (
            models.Index(fields=["claim", "-started_at", "-id"], name="trackedrun_of_claim"),
            models.Index(fields=["tracking_server", "started_at"], name="trackedrun_started"),
        )

    def __str__(self) -> str:
        return self.name or self.run_id

    @property
    def url(self) -> str:
        return self.tracking_server.page_of(self)

    @property
    def length(self) -> timedelta | None:
        return self.ended_at - self.started_at if self.ended_at else None
