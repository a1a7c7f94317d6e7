"""Rates of devices, measurements of held devices, and alerts."""

from __future__ import annotations

from datetime import timedelta

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import F, Q

from claims.models import Claim
from core.models import uuid7
from inventory.models import Cluster
from teams.access import team_rows_where
from teams.models import Role, Team, User


class Rate(models.Model):
    """
    Price per hour of a whole matching device from an instant on, to before `valid_until` if it is retired.
    The most specific rate wins, then the newest.

    Empty `product`, `driver` or null `cluster` match everything; `product` matches by its words, short or in
    full (`dra.devices.names_product`). A partition costs its fraction of the device.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    title = models.CharField("title", max_length=80)
    cluster = models.ForeignKey(
        Cluster, models.CASCADE, null=True, blank=True, related_name="+", verbose_name="cluster"
    )
    driver = models.CharField("driver", max_length=63, blank=True, default="")
    product = models.CharField("product", max_length=120, blank=True, default="")
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


class Rollup(models.Model):
    """
    Five minutes of one device of one claim. A bucket without samples has no row, which is "no telemetry".

    `activity` is the mean of 0 to 1 (DCGM_FI_PROF_GR_ENGINE_ACTIVE, else GPU_UTIL / 100), `memory_bytes` the
    maximum, `power_watts` the mean of the physical GPU. Each is null if the exporter did not publish it.
    """

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="rollups")
    driver = models.CharField(max_length=63)
    pool = models.CharField(max_length=253)
    device = models.CharField(max_length=63)
    bucket = models.DateTimeField()  # its start, a multiple of 5 minutes
    samples = models.PositiveIntegerField(default=0)
    activity = models.FloatField(null=True)
    memory_bytes = models.BigIntegerField(null=True)
    power_watts = models.FloatField(null=True)

    class Meta:
        ordering = ("bucket",)
        constraints = (
            models.UniqueConstraint(
                fields=["claim", "driver", "pool", "device", "bucket"], name="rollup_once"
            ),
        )
        indexes = (models.Index(fields=["bucket"], name="rollup_bucket"),)

    def __str__(self) -> str:
        return f"{self.device} {self.bucket:%H:%M}"


class DailyUse(models.Model):
    """
    A ledger entry: what a claim held on one day (UTC) of devices of one product and partition at one rate.

    `held` is in millionths of a device × microseconds, `amount` in that × ten-thousandths of money (the units
    of `usage.cost`), in whole cents. Without a rate there is no currency and `amount` is 0, which is "no
    rate". `usage.daily` is the only writer.
    """

    team = models.ForeignKey(Team, models.CASCADE, related_name="+", db_index=False)
    claim = models.ForeignKey(Claim, models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    driver = models.CharField(max_length=63, blank=True)
    product = models.CharField(max_length=120, blank=True)
    partition = models.CharField(max_length=64, blank=True)
    rate = models.ForeignKey(Rate, models.PROTECT, null=True, related_name="+", db_index=False)
    currency = models.CharField(max_length=3, blank=True)
    held = models.DecimalField(max_digits=30, decimal_places=0)
    amount = models.DecimalField(max_digits=40, decimal_places=0)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["claim", "day", "driver", "product", "partition", "rate"],
                nulls_distinct=False,
                name="dailyuse_once",
            ),
        )
        indexes = (
            models.Index(fields=["team", "day"], name="dailyuse_team"),
            models.Index(fields=["day"], name="dailyuse_day"),
        )

    def __str__(self) -> str:
        return f"{self.product} on {self.day}"


class DailyActivity(models.Model):
    """The utilization of a claim on one day (UTC): the sum of `Rollup.activity`, and of how many rollups."""

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="+", db_index=False)
    day = models.DateField()
    activity = models.FloatField()
    rollups = models.PositiveIntegerField()

    class Meta:
        constraints = (models.UniqueConstraint(fields=["claim", "day"], name="dailyactivity_once"),)
        indexes = (models.Index(fields=["day"], name="dailyactivity_day"),)

    def __str__(self) -> str:
        return f"{self.claim_id} on {self.day}"


class DailySum(models.Model):
    """
    What all claims of one team, person, profile or kind of device held on one day (UTC), in one currency; and
    what the fleet had of each product.

    `key` is the team, person or profile, null for a kind: devices of one cluster, product and partition. The
    three times are those of `DailyUse.held`: all, on claim-days with telemetry, and × utilization; so are the
    three parts of it without a rate and the three amounts. The rows of each of these dimensions add up to all
    claims. Of the fleet, `partition` is the `FleetSpan.Use` and only the first of each three is counted.
    """

    class Dimension(models.TextChoices):
        TEAM = "team"
        PERSON = "person"
        PROFILE = "profile"
        KIND = "kind"
        FLEET = "fleet"

    day = models.DateField()
    dimension = models.CharField(max_length=7, choices=Dimension)
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

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["dimension", "day", "key", "cluster", "product", "partition", "currency"],
                nulls_distinct=False,
                name="dailysum_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.dimension} on {self.day}"


class StoredDays(models.Model):
    """
    All days (UTC) before `until` have their rows of daily use. At most one row; no row means no day.

    Days before `closed_until` are of closed months: a trigger refuses to change their rows. Those from
    `check_from` on may differ from allocations meanwhile, and get corrections.
    """

    until = models.DateField()
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
    claim = models.ForeignKey(Claim, models.PROTECT, related_name="+", db_index=False)
    day = models.DateField()
    driver = models.CharField(max_length=63, blank=True)
    product = models.CharField(max_length=120, blank=True)
    partition = models.CharField(max_length=64, blank=True)
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
    held when `usage.collect.note_uses` looked last, as driver, product and millionths of a device.
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
        QUOTA = "quota-nearly-used", "Quota is nearly used"
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
