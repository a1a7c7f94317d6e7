"""Quotas of teams, requests for higher quotas, and the ResourceQuotas that clusters enforce."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from claims.models.budget import Budget
from claims.models.claim import PendingRequest
from claims.models.profile import Profile
from core.models import uuid7
from inventory.models import Cluster
from teams.models import Team, User


class TeamNamespace(models.Model):
    """The namespace in which a team works in one cluster."""

    team = models.ForeignKey(Team, models.CASCADE, related_name="namespaces")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="team_namespaces")
    namespace = models.CharField(max_length=63)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["team", "cluster"], name="teamnamespace_one_per_cluster"),
            models.UniqueConstraint(fields=["cluster", "namespace"], name="teamnamespace_one_team"),
        )

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace}"


class WorkloadIdentity(models.Model):
    """A Kubernetes service account in the namespace of a team, whose pods may act as `account`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    place = models.ForeignKey(TeamNamespace, models.CASCADE, related_name="workload_identities")
    service_account = models.CharField(max_length=253)  # in the cluster
    account = models.ForeignKey(User, models.CASCADE, related_name="workload_identities")

    class Meta:
        ordering = ("place", "service_account")
        constraints = (
            models.UniqueConstraint(fields=["place", "service_account"], name="workloadidentity_one_account"),
        )

    def __str__(self) -> str:
        return f"{self.place}/{self.service_account}"


class QuotaQuerySet(models.QuerySet["Quota"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(team__in=Team.objects.visible_to(user))

    def charged(self, *, team: Team, classes: Iterable[str], profiles: Iterable[Profile]) -> Self:
        """Return the quotas of `team` that a claim with any of `profiles` counts against."""
        return self.filter(team=team).filter(
            Q(device_class__in=list(classes)) | Q(profile__in=list(profiles)) | Q(counts="claims")
        )


class Quota(models.Model):
    """
    The limit of devices that a team may hold or reserve at once, of one class or one profile, over all
    clusters.

    A team without a quota for a device class may hold none of it. A quota for a profile limits further; so
    does a quota that counts claims, in which `devices` is a number of claims. `guaranteed` devices are kept
    free for the team. The rows of a team are locked while its use is counted.
    """

    MOST = 1_000_000  # that a limit may be

    class Counts(models.TextChoices):
        DEVICES = "devices", "devices"
        CLAIMS = "claims", "claims"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="quotas")
    device_class = models.CharField(max_length=253, blank=True, default="")
    profile = models.ForeignKey(Profile, models.CASCADE, null=True, blank=True, related_name="quotas")
    counts = models.CharField(max_length=7, choices=Counts, default=Counts.DEVICES)
    devices = models.PositiveIntegerField()
    guaranteed = models.PositiveIntegerField(default=0)

    objects = QuotaQuerySet.as_manager()

    class Meta:
        ordering = ("team", "device_class", "profile")
        constraints = (
            models.CheckConstraint(
                condition=Q(counts="devices", device_class="", profile__isnull=False)
                | (Q(counts="devices", profile=None) & ~Q(device_class=""))
                | Q(counts="claims", device_class="", profile=None),
                name="quota_of_class_profile_or_claims",
            ),
            models.CheckConstraint(
                condition=Q(guaranteed__lte=F("devices")), name="quota_guaranteed_within_limit"
            ),
            models.UniqueConstraint(
                fields=["team"], condition=Q(counts="claims"), name="quota_of_claims_once"
            ),
            models.UniqueConstraint(
                fields=["team", "device_class"],
                condition=Q(profile=None, counts="devices"),
                name="quota_once_per_class",
            ),
            models.UniqueConstraint(
                fields=["team", "profile"],
                condition=Q(device_class="", counts="devices"),
                name="quota_once_per_profile",
            ),
        )

    def __str__(self) -> str:
        return f"{self.team}: {self.devices} × {self.device_class or self.profile or self.counts}"


class WrittenQuotaQuerySet(models.QuerySet["WrittenQuota"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(team_namespace__team__in=Team.objects.visible_to(user))


class WrittenQuota(models.Model):
    """
    The limits of a namespace's ResourceQuota as the portal wants them (`hard`) and as last observed
    (`observed_hard`, `observed_used`).

    Each maps a key of `spec.hard` to a quantity as text. `drift` is a sentence on the last change that was
    made outside the portal, and `repaired_at` the time of its repair (None before). `problem` is a sentence
    on why it could not be written, empty if there is none.
    """

    team_namespace = models.OneToOneField(TeamNamespace, models.CASCADE, related_name="written_quota")
    hard = models.JSONField(default=dict)
    observed_hard = models.JSONField(default=dict)
    observed_used = models.JSONField(default=dict)
    drift = models.TextField(blank=True, default="")
    problem = models.TextField(blank=True, default="")
    written_at = models.DateTimeField(null=True)
    checked_at = models.DateTimeField(null=True)
    repaired_at = models.DateTimeField(null=True)

    objects = WrittenQuotaQuerySet.as_manager()

    def __str__(self) -> str:
        return str(self.team_namespace)


class QuotaRequestQuerySet(models.QuerySet["QuotaRequest"]):
    def of_quota(self) -> Self:
        """Return requests for quota, without those for extra budget."""
        return self.filter(budget=None)

    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(team__in=Team.objects.visible_to(user))


class QuotaRequest(PendingRequest):
    """
    A request for a limit of `devices` on a device class, a profile, or (`counts`) the number of claims;
    until `until`, or permanently. With `budget` it is for an extra `amount` of money or `hours` of GPUs in
    the period of the budget that begins on `first`; `devices` is then 0.
    """

    team = models.ForeignKey(Team, models.CASCADE, related_name="quota_requests")
    counts = models.CharField(max_length=7, choices=Quota.Counts, default=Quota.Counts.DEVICES)
    device_class = models.CharField(max_length=253, blank=True, default="")
    profile = models.ForeignKey(Profile, models.CASCADE, null=True, related_name="+")
    devices = models.PositiveIntegerField()
    until = models.DateTimeField(null=True)
    budget = models.ForeignKey(Budget, models.CASCADE, null=True, related_name="requests")
    first = models.DateField(null=True)
    amount = models.DecimalField(max_digits=14, decimal_places=2, default=0)
    hours = models.DecimalField(max_digits=14, decimal_places=2, default=0)

    objects = QuotaRequestQuerySet.as_manager()

    class Meta:
        ordering = ("requested_at", "pk")
        constraints = (
            models.UniqueConstraint(fields=["requested_by", "key"], name="quotarequest_once_per_key"),
            models.CheckConstraint(
                condition=Q(budget=None, first=None, amount=0, hours=0)
                | Q(budget__isnull=False, first__isnull=False, device_class="", profile=None, devices=0)
                & (Q(amount__gt=0) | Q(hours__gt=0)),
                name="quotarequest_of_quota_or_budget",
            ),
        )

    def __str__(self) -> str:
        if self.budget_id:
            return f"{self.team}: extra budget"
        return f"{self.team}: {self.devices} × {self.device_class or self.profile or self.counts}"


class QuotaIncrease(models.Model):
    """An addition of `devices` to a quota from `starts_at` to `ends_at`."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    quota = models.ForeignKey(Quota, models.CASCADE, related_name="increases")
    devices = models.PositiveIntegerField()
    starts_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField()
    request = models.ForeignKey(QuotaRequest, models.SET_NULL, null=True, related_name="increases")
    by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ("ends_at", "pk")
        constraints = (
            models.CheckConstraint(
                condition=Q(ends_at__gte=F("starts_at")), name="quotaraise_ends_after_start"
            ),
        )

    def __str__(self) -> str:
        return f"{self.quota} + {self.devices}"
