"""What people say to each other about a wish before it is decided."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from claims.models.claim import Claim
from claims.models.quota_request import QuotaRequest
from core.ids import uuid7
from teams.models import User


class Comment(models.Model):
    """One line of the thread of a claim or of a request for quota; `question` asks for an answer."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    claim = models.ForeignKey(Claim, models.CASCADE, null=True, related_name="comments")
    quota_request = models.ForeignKey(QuotaRequest, models.CASCADE, null=True, related_name="comments")
    by = models.ForeignKey(User, models.PROTECT, related_name="+")
    at = models.DateTimeField(default=timezone.now)
    text = models.TextField()
    question = models.BooleanField(default=False)
    key = models.CharField(max_length=80)  # Idempotency-Key: sent twice, said once

    class Meta:
        ordering = ("at", "pk")
        constraints = (
            models.UniqueConstraint(fields=["by", "key"], name="comment_once_per_key"),
            models.CheckConstraint(
                condition=Q(claim=None, quota_request__isnull=False)
                | Q(claim__isnull=False, quota_request=None),
                name="comment_on_one_thing",
            ),
        )

    def __str__(self) -> str:
        return self.text[:40]
