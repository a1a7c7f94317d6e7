"""More quota: asked for, and given for a time."""

from __future__ import annotations

from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from claims.models.ask import Ask
from claims.models.profile import Profile
from claims.models.quota import Quota
from core.ids import uuid7
from teams.models import Team, User


class QuotaRequestQuerySet(models.QuerySet["QuotaRequest"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(team__in=Team.objects.visible_to(user))


class QuotaRequest(Ask):
    """
    A wish for a limit of `devices` on a device class, a profile, or (`counts`) the number of claims; until
    `until`, or for good.
    """

    team = models.ForeignKey(Team, models.CASCADE, related_name="quota_requests")
    counts = models.CharField(max_length=7, choices=Quota.Counts, default=Quota.Counts.DEVICES)
    device_class = models.CharField(max_length=253, blank=True, default="")
    profile = models.ForeignKey(Profile, models.CASCADE, null=True, related_name="+")
    devices = models.PositiveIntegerField()
    until = models.DateTimeField(null=True)

    objects = QuotaRequestQuerySet.as_manager()

    class Meta:
        ordering = ("asked_at", "pk")
        constraints = (models.UniqueConstraint(fields=["asked_by", "key"], name="quotarequest_once_per_key"),)

    def __str__(self) -> str:
        return f"{self.team}: {self.devices} × {self.device_class or self.profile or self.counts}"


class QuotaRaise(models.Model):
    """So many devices more than the quota says, from an instant to an instant."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    quota = models.ForeignKey(Quota, models.CASCADE, related_name="raises")
    devices = models.PositiveIntegerField()
    starts_at = models.DateTimeField(default=timezone.now)
    ends_at = models.DateTimeField()
    request = models.ForeignKey(QuotaRequest, models.SET_NULL, null=True, related_name="raises")
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
