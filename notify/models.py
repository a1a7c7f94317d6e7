"""A notice: something that a person should know."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from core.models import uuid7
from teams.models import Team


class Notice(models.Model):
    """
    One event for one person: listed behind the bell, and sent by mail to those who want that.

    `key` names the event, so that notifying twice adds one row. `important` asks the reader to act.
    `url` is a path of the portal. Who may no longer see `team` loses the notices about it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notices")
    team = models.ForeignKey(Team, models.CASCADE, null=True, related_name="+")
    key = models.CharField(max_length=200)
    title = models.CharField(max_length=200)
    body = models.TextField(blank=True, default="")
    url = models.CharField(max_length=400, blank=True, default="")
    important = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    read_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (models.UniqueConstraint(fields=["user", "key"], name="notice_once"),)
        indexes = (
            models.Index(fields=["user"], condition=models.Q(read_at=None), name="notice_unread"),
            models.Index(fields=["created_at"], condition=models.Q(mailed_at=None), name="notice_unmailed"),
        )

    def __str__(self) -> str:
        return self.title
