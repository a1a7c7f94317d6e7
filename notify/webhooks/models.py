"""Where events are sent, the events themselves, and what became of each at each address."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from core.models import uuid7
from teams.models import Team, User


class WebhookQuerySet(models.QuerySet["Webhook"]):
    def managed_by(self, user: User | AnonymousUser, teams: object) -> Self:
        """Return those that a person may see and change: all for a platform admin, else of `teams`."""
        if not user.is_authenticated:
            return self.none()
        return self if user.is_superuser else self.filter(team__in=teams)

    def enabled(self) -> Self:
        return self.filter(disabled_at=None)


class Webhook(models.Model):
    """
    An address that gets events of one team, or of all with `team` null.

    `sealed` is the encrypted secret that signs; `earlier`, the one before, signs too until `earlier_until`.
    `is_internal` lets a platform admin name a private address, or one without TLS. `failing_since` is the
    first failure since the last success.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey(Team, models.CASCADE, null=True, related_name="webhooks")
    url = models.CharField(max_length=500)
    title = models.CharField(max_length=80, blank=True, default="")
    kinds = ArrayField(models.CharField(max_length=24))
    is_internal = models.BooleanField(default=False)
    sealed = models.BinaryField()
    earlier = models.BinaryField(default=b"")
    earlier_until = models.DateTimeField(null=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    created_at = models.DateTimeField(default=timezone.now)
    failing_since = models.DateTimeField(null=True)
    disabled_at = models.DateTimeField(null=True)
    disabled_because = models.CharField(max_length=300, blank=True, default="")

    objects = WebhookQuerySet.as_manager()

    class Meta:
        ordering = ("id",)

    def __str__(self) -> str:
        return self.title or self.host

    @property
    def host(self) -> str:
        """The name of the server; the rest of an address may be a secret of the receiver."""
        return urlsplit(self.url).hostname or ""


class WebhookEvent(models.Model):
    """Something that happened, written in the transaction in which it did. `id` is that of the message."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=24)  # an EventKind
    team = models.ForeignKey(Team, models.CASCADE, null=True, related_name="+")
    at = models.DateTimeField(default=timezone.now, db_index=True)
    data = models.JSONField()

    def __str__(self) -> str:
        return f"{self.kind} {self.pk}"


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "Waiting"
    DELIVERED = "delivered", "Delivered"
    FAILED = "failed", "Failed"


class WebhookDelivery(models.Model):
    """
    One event for one webhook; `attempts` has what each attempt met: `at`, `status`, `ms`, `error`, `answer`.

    It is due at `due_at`, null once it is over. Whoever attempts it sets `taken_until`, so that nobody else
    does meanwhile; one that a worker has left without a result is taken again after that.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    webhook = models.ForeignKey(Webhook, models.CASCADE, related_name="deliveries")
    event = models.ForeignKey(WebhookEvent, models.CASCADE, related_name="deliveries")
    state = models.CharField(max_length=9, choices=DeliveryState, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)  # since it was sent or replayed
    due_at = models.DateTimeField(null=True, default=timezone.now)
    taken_until = models.DateTimeField(null=True)
    slot = models.PositiveSmallIntegerField(
        null=True
    )  # of those in flight at one webhook; null: not in flight
    attempts = models.JSONField(default=list)

    class Meta:
        ordering = ("-id",)
        constraints = (
            models.UniqueConstraint(fields=["webhook", "event"], name="webhook_event_once"),
            models.UniqueConstraint(fields=["webhook", "slot"], name="webhook_slot_once"),
            models.CheckConstraint(
                condition=Q(state=DeliveryState.WAITING, due_at__isnull=False)
                | Q(state__in=(DeliveryState.DELIVERED, DeliveryState.FAILED), due_at=None),
                name="webhook_waiting_is_due",
            ),
        )
        indexes = (
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="webhook_due"),
            models.Index(fields=["webhook", "-id"], name="webhook_log"),
        )

    def __str__(self) -> str:
        return f"{self.event_id} to {self.webhook_id}: {self.state}"

    @property
    def last(self) -> dict[str, object]:
        """The last attempt, {} before the first."""
        return self.attempts[-1] if self.attempts else {}
