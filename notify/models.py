"""Notices, and which of them each person wants behind the bell and by email."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from core.models import uuid7
from notify.webhooks.models import Webhook, WebhookDelivery, WebhookEvent  # models of this app
from teams.models import Team

__all__ = ("Mail", "Notice", "NoticeKind", "NoticePreference", "Webhook", "WebhookDelivery", "WebhookEvent")


class NoticeKind(models.TextChoices):
    """What a notice is about. Each person chooses the channels of each kind (`notify.preferences`)."""

    DECIDE = "decide", "Requests to decide"
    DECISION = "decision", "Decisions on my requests"
    COMMENT = "comment", "Questions and comments"
    END = "end", "End of my claims"
    UNUSED = "unused", "Unused and idle claims"
    PODS = "pods", "Pods that lose their devices"
    CHANGE = "change", "Changes by others"
    QUOTA = "quota", "Quota and budget of my teams"
    ALERT = "alert", "Alerts"
    TOKEN = "token", "API tokens"
    PLATFORM = "platform", "Clusters"


class Mail(models.TextChoices):
    """Which notices of a kind a person wants by email."""

    ALL = "all", "All"
    IMPORTANT = "important", "Needs my action"
    NONE = "none", "Off"


class Notice(models.Model):
    """
    One event for one person: listed behind the bell, sent by email, or both, as the person chose.

    `key` names the event, so that notifying twice adds one row, even for a person who wants neither;
    the first part of it is the kind, then comes the id of what it is about. `important` asks the reader to
    act, until it is read or `notify.services.resolve` says that it is done. `url` is a path of the portal.
    Who may no longer see `team` loses the notices about it.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notices")
    team = models.ForeignKey(Team, models.CASCADE, null=True, related_name="+")
    kind = models.CharField(max_length=8, choices=NoticeKind)
    key = models.CharField(max_length=200)
    title = models.CharField(max_length=200)
    body = models.TextField(blank=True, default="")
    url = models.CharField(max_length=400, blank=True, default="")
    important = models.BooleanField(default=False)
    in_portal = models.BooleanField(default=True)
    by_mail = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)
    read_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("-created_at", "-id")
        constraints = (models.UniqueConstraint(fields=["user", "key"], name="notice_once"),)
        indexes = (
            models.Index(
                fields=["user"], condition=models.Q(read_at=None, in_portal=True), name="notice_unread"
            ),
            models.Index(
                fields=["created_at"],
                condition=models.Q(mailed_at=None, by_mail=True),
                name="notice_unmailed",
            ),
            models.Index(  # `notify.services.resolve` looks for beginnings of keys
                fields=["key"],
                condition=models.Q(read_at=None, important=True),
                opclasses=["varchar_pattern_ops"],
                name="notice_needed",
            ),
        )

    def __str__(self) -> str:
        return self.title


class NoticePreference(models.Model):
    """The channels that a person chose for one kind of notice. Without a row the defaults hold."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=8, choices=NoticeKind)
    in_portal = models.BooleanField()
    mail = models.CharField(max_length=9, choices=Mail)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "kind"], name="notice_preference_once"),
            models.CheckConstraint(condition=models.Q(kind__in=NoticeKind.values), name="notice_kind_known"),
            models.CheckConstraint(condition=models.Q(mail__in=Mail.values), name="notice_mail_known"),
        )

    def __str__(self) -> str:
        return f"{self.user}: {self.kind}"
