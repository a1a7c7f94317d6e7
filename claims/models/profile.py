"""The catalogue: profiles and their immutable versions."""

from __future__ import annotations

from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from claims.models.limits import LIMITS, Approval, ProfileEndPolicy, ProfileLimits
from core.limits import limiting_team
from core.models import uuid7
from inventory.models import Cluster
from inventory.states import EndPolicy
from teams.models import Team, User


class Purpose(models.TextChoices):
    """What a profile is for; cards of the catalogue and of the request form are grouped in this order."""

    TRAINING = "training", "Training and fine-tuning"
    INFERENCE = "inference", "Inference and batch"
    NOTEBOOKS = "notebooks", "Notebooks"
    TESTS = "tests", "Tests and CI"
    OTHER = "other", "Other"


class ProfileQuerySet(models.QuerySet["Profile"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        """Profiles open to everybody or to a team of `user`; a platform admin sees retired ones too."""
        if not user.is_authenticated:
            return self.none()
        if user.is_superuser:
            return self
        team = limiting_team()
        own = Q(teams__members=user) if team is None else Q(teams__members=user, teams=team)
        return self.filter(retired_at=None).filter(Q(teams=None) | own).distinct()

    def open_to(self, team: Team) -> Self:
        return self.filter(retired_at=None).filter(Q(teams=None) | Q(teams=team)).distinct()


class Profile(models.Model):
    """A catalogue entry. Its spec and limits are in its `current` version."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.SlugField(max_length=40, unique=True)
    title = models.CharField(max_length=80)
    use = models.TextField(blank=True, default="")  # plain language: "Fine-tune 7B models"
    purpose = models.CharField(max_length=9, choices=Purpose, default=Purpose.OTHER)
    teams = models.ManyToManyField(Team, blank=True, related_name="profiles")  # empty: everybody
    current = models.ForeignKey("ProfileVersion", models.PROTECT, null=True, related_name="+")
    retired_at = models.DateTimeField(null=True, blank=True)

    objects = ProfileQuerySet.as_manager()

    class Meta:
        ordering = ("title",)
        indexes = (models.Index(fields=["title"], name="profile_title"),)  # claims are sorted by it

    def __str__(self) -> str:
        return self.slug


class ProfileVersion(models.Model):
    """
    An immutable version, identified by the hash of its canonical claim specification.

    `spec` is a ResourceClaim spec (resource.k8s.io/v1) with the count for one portion. `limits` are defined
    in `claims.models.limits`. If `scalable` names a request of the spec, the requested number of devices
    replaces that request's count.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    profile = models.ForeignKey(Profile, models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    spec = models.JSONField()
    spec_hash = models.CharField(max_length=64)  # hex SHA-256 of dra.manifests
    scalable = models.CharField(max_length=63, blank=True, default=ProfileLimits.scalable)
    max_devices = models.PositiveIntegerField(default=ProfileLimits.max_devices)
    max_duration = models.DurationField(default=ProfileLimits.max_duration)
    default_duration = models.DurationField(default=ProfileLimits.default_duration)
    grace = models.DurationField(default=ProfileLimits.grace)
    extension = models.DurationField(default=ProfileLimits.extension)
    end_policy = models.CharField(max_length=7, choices=ProfileEndPolicy, default=ProfileLimits.end_policy)
    idle_percent = models.PositiveSmallIntegerField(null=True, default=ProfileLimits.idle_percent)
    idle_after = models.DurationField(null=True, default=ProfileLimits.idle_after)
    deliveries = models.JSONField(default=list)  # of Delivery
    approval = models.CharField(max_length=9, choices=Approval, default=ProfileLimits.approval)
    automatic_devices = models.PositiveIntegerField(default=ProfileLimits.automatic_devices)
    automatic_duration = models.DurationField(null=True, blank=True)  # None: any
    restores = models.BooleanField(default=False)  # the profile was retired, and this version restored it
    created_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ("profile", "-number")
        constraints = (
            models.UniqueConstraint(fields=["profile", "number"], name="profileversion_once"),
            models.CheckConstraint(
                condition=Q(max_devices__gt=0), name="profileversion_max_devices_positive"
            ),
            models.CheckConstraint(
                condition=Q(default_duration__lte=F("max_duration")), name="profileversion_default_within_max"
            ),
        )

    def __str__(self) -> str:
        return f"{self.profile} v{self.number}"

    def end_policy_in(self, cluster: Cluster) -> EndPolicy:
        """Return what happens to pods at the end of a claim there: as this says, or else the cluster."""
        as_cluster = self.end_policy == ProfileEndPolicy.CLUSTER
        return EndPolicy(cluster.end_policy if as_cluster else self.end_policy)

    @property
    def limits(self) -> ProfileLimits:
        return ProfileLimits(**{limit.name: getattr(self, limit.name) for limit in LIMITS})
