"""A request that somebody began to write."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from core.ids import uuid7
from teams.models import User


class Draft(models.Model):
    """
    The fields of the request form as they were typed, each name with its list of texts. Private to `by`.

    `key` is that of the form: the request that is made of it has the same, and takes the draft with it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    by = models.ForeignKey(User, models.CASCADE, related_name="drafts")
    key = models.CharField(max_length=80)
    fields = models.JSONField(default=dict)
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-updated_at", "pk")
        constraints = (models.UniqueConstraint(fields=["by", "key"], name="draft_once_per_key"),)

    def __str__(self) -> str:
        return self.key
