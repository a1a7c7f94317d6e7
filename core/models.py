"""What the portal keeps of its own conversations: answers to writes that may be sent again."""

from django.conf import settings
from django.db import models
from django.utils import timezone


class StoredResponse(models.Model):
    """
    What a write of the API was answered that came with an Idempotency-Key, so that the same again is answered
    the same; without `status` it is being worked on since `at`.

    `address` is the hex SHA-256 of its path, `digest` that of all that was sent, `answer` JSON.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    key = models.CharField(max_length=80)
    address = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)
    status = models.PositiveSmallIntegerField(null=True)
    answer = models.TextField(blank=True, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "key", "address"], name="storedresponse_once"),
        )

    def __str__(self) -> str:
        return f"{self.key}: {self.status or 'being worked on'}"
