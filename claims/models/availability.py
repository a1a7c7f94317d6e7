"""What clusters have for profiles and how long claims waited, as of the last computation."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models

from claims.models.profile import Profile, ProfileVersion
from inventory.models import Cluster


class ClusterAvailability(models.Model):
    """
    The last computation for one cluster: the revision of its mirror, the time, and the catalogue check.

    `report` is a `dra.lint.LintReport`; `checked` has the id of the version of each checked profile, by slug.
    `capacity` is how many devices of each class could be held at once, `unmanaged` how many of each class
    the unmanaged claims in the namespaces of teams count for.
    """

    cluster = models.OneToOneField(Cluster, models.CASCADE, primary_key=True, related_name="availability")
    revision = models.BigIntegerField()
    computed_at = models.DateTimeField()
    report = models.JSONField(default=dict)
    checked = models.JSONField(default=dict)
    capacity = models.JSONField(default=dict)
    unmanaged = models.JSONField(default=dict)

    def __str__(self) -> str:
        return f"{self.cluster} at revision {self.revision}"


class ProfileAvailability(models.Model):
    """
    What a cluster has for the current version of a profile; None means unknown, never 0.

    `matching` devices pass class and selectors, `free` of them can be allocated, one claim of the version
    fits on `nodes` nodes, and one claim could get at most `most` devices. `kinds` describes the matching
    devices (`claims.catalogue.listing.DeviceKind`).
    """

    computation = models.ForeignKey(ClusterAvailability, models.CASCADE, related_name="+")
    version = models.ForeignKey(ProfileVersion, models.CASCADE, related_name="availability")
    matching = models.PositiveIntegerField(null=True)
    free = models.PositiveIntegerField(null=True)
    nodes = models.PositiveIntegerField(null=True)
    most = models.PositiveIntegerField(null=True)
    kinds = models.JSONField(default=list)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["version", "computation"], name="profileavailability_once"),
        )

    def __str__(self) -> str:
        return f"{self.version} in {self.computation_id}"


class DailyWaits(models.Model):
    """
    How long the claims of a profile in a cluster waited that were decided on one day (UTC), shortest first.

    `decisions` are from the request to the decision of a person, `devices` from the approval to the first
    device.
    """

    profile = models.ForeignKey(Profile, models.CASCADE, related_name="+")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    day = models.DateField()
    decisions = ArrayField(models.DurationField(), default=list)
    devices = ArrayField(models.DurationField(), default=list)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["profile", "cluster", "day"], name="dailywaits_once"),)

    def __str__(self) -> str:
        return f"{self.profile} in {self.cluster} on {self.day}"


class ProfileWaits(models.Model):
    """
    The number, median and 90th percentile of the waits of a profile in the past 30 days, of its `DailyWaits`.

    Median and percentile are None for too few waits.
    """

    profile = models.OneToOneField(Profile, models.CASCADE, primary_key=True, related_name="waits")
    computed_at = models.DateTimeField()
    decisions = models.PositiveIntegerField(default=0)
    decision_median = models.DurationField(null=True)
    decision_p90 = models.DurationField(null=True)
    devices = models.PositiveIntegerField(default=0)
    device_median = models.DurationField(null=True)
    device_p90 = models.DurationField(null=True)

    def __str__(self) -> str:
        return f"waits of {self.profile}"
