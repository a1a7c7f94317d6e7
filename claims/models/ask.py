"""What all wishes that somebody has to decide on have in common, save requests for claims."""

from __future__ import annotations

from django.db import models
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from core.ids import uuid7
from teams.models import User


class Answer(models.TextChoices):
    WAITING = "waiting", _("waiting")
    APPROVED = "approved", _("approved")
    DENIED = "denied", _("denied")
    WITHDRAWN = "withdrawn", _("withdrawn")
    EXPIRED = "expired", _("expired")


class Ask(models.Model):
    """
    A wish with its answer. Waiting is the only state that can be left: `decide` is its one writer.

    `key` is the Idempotency-Key of the asker. Nobody is asked (`decided_by` is None) where a rule approves.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    key = models.CharField(max_length=80)
    asked_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    asked_at = models.DateTimeField(default=timezone.now)
    reason = models.TextField(blank=True, default="")
    answer = models.CharField(max_length=9, choices=Answer, default=Answer.WAITING)
    decide_by = models.DateTimeField(null=True)  # unanswered, it expires then
    decided_by = models.ForeignKey(User, models.SET_NULL, null=True, related_name="+")
    decided_at = models.DateTimeField(null=True)
    decision_note = models.TextField(blank=True, default="")

    class Meta:
        abstract = True

    def decide(self, answer: Answer, *, by: User | None, note: str = "") -> bool:
        """Answer a waiting wish; return False if somebody else was first. Safe to race and to repeat."""
        fields = {"answer": answer, "decided_by": by, "decided_at": timezone.now(), "decision_note": note}
        unmoved = type(self)._default_manager.filter(pk=self.pk, answer=Answer.WAITING)
        moved = unmoved.update(**fields) == 1
        self.refresh_from_db(fields=list(fields))
        return moved
