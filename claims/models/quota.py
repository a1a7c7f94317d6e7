"""What a team may hold at once, and where its namespaces are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q

from claims.models.profile import Profile
from core.ids import uuid7
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


class QuotaQuerySet(models.QuerySet["Quota"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(team__in=Team.objects.visible_to(user))

    def charged(self, *, team: Team, classes: Iterable[str], profiles: Iterable[Profile]) -> Self:
        """Return the rows of `team` that a claim of one or the other of `profiles` counts against."""
        return self.filter(team=team).filter(
            Q(device_class__in=list(classes)) | Q(profile__in=list(profiles))
        )


class Quota(models.Model):
    """
    The most devices that a team may hold or reserve at once over all clusters, of one device class or one
    profile.

    A team without a quota row for a device class may hold none of it. A profile's row limits further, if
    there is one. The rows of a team are the lock under which its use is counted.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, related_name="quotas")
    device_class = models.CharField(max_length=253, blank=True, default="")
    profile = models.ForeignKey(Profile, models.CASCADE, null=True, blank=True, related_name="quotas")
    devices = models.PositiveIntegerField()
    self_approval = models.BooleanField(
        default=False
    )  # a lead may approve their own requests under this quota

    objects = QuotaQuerySet.as_manager()

    class Meta:
        ordering = ("team", "device_class", "profile")
        constraints = (
            models.CheckConstraint(
                condition=Q(device_class="", profile__isnull=False) | (~Q(device_class="") & Q(profile=None)),
                name="quota_of_class_or_profile",
            ),
            models.UniqueConstraint(
                fields=["team", "device_class"], condition=Q(profile=None), name="quota_once_per_class"
            ),
            models.UniqueConstraint(
                fields=["team", "profile"], condition=Q(device_class=""), name="quota_once_per_profile"
            ),
        )

    def __str__(self) -> str:
        return f"{self.team}: {self.devices} × {self.device_class or self.profile}"
