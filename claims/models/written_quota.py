"""The ResourceQuota that the portal keeps in a team's namespace."""

from __future__ import annotations

from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models

from claims.models.quota import TeamNamespace
from teams.models import Team, User


class WrittenQuotaQuerySet(models.QuerySet["WrittenQuota"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(place__team__in=Team.objects.visible_to(user))


class WrittenQuota(models.Model):
    """
    What a namespace's ResourceQuota should say (`hard`), and said when the portal last looked (`seen_hard`,
    `seen_used`).

    Each maps a key of `spec.hard` to a quantity as text. `drift` is a sentence on what somebody else changed
    last, and `repaired_at` says when it was put right (None while it is not). `problem` is a sentence on why
    it could not be written, empty while all is well.
    """

    place = models.OneToOneField(TeamNamespace, models.CASCADE, related_name="written_quota")
    hard = models.JSONField(default=dict)
    seen_hard = models.JSONField(default=dict)
    seen_used = models.JSONField(default=dict)
    drift = models.TextField(blank=True, default="")
    problem = models.TextField(blank=True, default="")
    written_at = models.DateTimeField(null=True)
    checked_at = models.DateTimeField(null=True)
    repaired_at = models.DateTimeField(null=True)

    objects = WrittenQuotaQuerySet.as_manager()

    def __str__(self) -> str:
        return str(self.place)
