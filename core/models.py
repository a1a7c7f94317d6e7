"""
Primary keys of all models, differences of computed rows, settings of the installation, responses of the API
to repeat, saved filters of lists.
"""

from __future__ import annotations

import os
import time
import uuid
from dataclasses import dataclass

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from core.text import DEFAULT_CURRENCY


def uuid7() -> uuid.UUID:
    """
    Return a UUIDv7 (RFC 9562 §5.7): 48 bits of Unix milliseconds, 74 random bits.

    As a public id it sorts by creation time, and nobody can guess or count it.
    """
    value = int.from_bytes((time.time_ns() // 1_000_000).to_bytes(6, "big") + os.urandom(10), "big")
    value = (value & ~(0xF000 << 64)) | (0x7000 << 64)
    value = (value & ~(0xC000 << 48)) | (0x8000 << 48)
    return uuid.UUID(int=value)


@dataclass(frozen=True, slots=True)
class RowDifferences:
    """How many stored rows differ from a new computation: rows that are missing, altered, or not needed."""

    missing: int = 0
    altered: int = 0
    obsolete: int = 0

    def __add__(self, other: RowDifferences) -> RowDifferences:
        return RowDifferences(
            self.missing + other.missing, self.altered + other.altered, self.obsolete + other.obsolete
        )

    @property
    def total(self) -> int:
        return self.missing + self.altered + self.obsolete

    def __str__(self) -> str:
        """Return "2 missing, 1 altered"."""
        kinds = {"missing": self.missing, "altered": self.altered, "obsolete": self.obsolete}
        return ", ".join(f"{number} {kind}" for kind, number in kinds.items() if number)


class SecondFactor(models.TextChoices):
    """Who has to have a second factor, of those who sign in with a password of the portal."""

    NOBODY = "", "Nobody"
    ADMINS = "admins", "Platform admins"
    ALL = "all", "Everybody"


class Installation(models.Model):
    """
    What platform admins choose for the whole portal, in one row; none while everything is as it comes.

    `timezone` is a name of the IANA database, "" for TIME_ZONE. `logo` is a PNG and `logo_digest` the start
    of its SHA-256 in hex, both empty without one. `skipped_steps` are the steps of setup that are left out.
    Without `password_sign_in` only platform admins sign in with a password.
    """

    id = models.PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    name = models.CharField(max_length=40, default="Dragoman")
    currency = models.CharField(max_length=3, default=DEFAULT_CURRENCY)
    timezone = models.CharField(max_length=64, blank=True, default="")
    logo = models.BinaryField(blank=True, default=b"")
    logo_digest = models.CharField(max_length=16, blank=True, default="")
    second_factor = models.CharField(max_length=8, choices=SecondFactor, blank=True, default="")
    skipped_steps = ArrayField(models.CharField(max_length=16), default=list, blank=True)
    password_sign_in = models.BooleanField(default=True, editable=False)

    class Meta:
        constraints = (
            models.CheckConstraint(condition=Q(pk=1), name="installation_one"),
            models.CheckConstraint(condition=Q(currency__regex="^[A-Z]{3}$"), name="installation_currency"),
        )

    def __str__(self) -> str:
        return self.name

    @classmethod
    def load(cls) -> Installation:
        """Return the row without its logo, or one with the defaults; one query."""
        return cls.objects.defer("logo").first() or cls()


class StoredResponse(models.Model):
    """
    The response to a write with an Idempotency-Key, returned again for the same request.

    Without `status` the request is in progress since `at`. `address` is the hex SHA-256 of its path, `digest`
    that of the request, `body` JSON.
    """

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+")
    key = models.CharField(max_length=80)
    address = models.CharField(max_length=64)
    digest = models.CharField(max_length=64)
    at = models.DateTimeField(default=timezone.now)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.TextField(blank=True, default="")

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["user", "key", "address"], name="storedresponse_once"),
        )

    def __str__(self) -> str:
        return f"{self.key}: {self.status or 'in progress'}"


class SavedFilter(models.Model):
    """
    Filters, columns and order of the list at `path` that a person saved: the query of its address.

    The one with the latest `default_since` is the default of the list.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="+", db_index=False)
    path = models.CharField(max_length=200)
    title = models.CharField(max_length=60)
    name = models.CharField(max_length=60)
    query = models.TextField()
    default_since = models.DateTimeField(null=True)

    class Meta:
        constraints = (models.UniqueConstraint(fields=["user", "path", "name"], name="savedfilter_once"),)

    def __str__(self) -> str:
        return self.name

    @property
    def url(self) -> str:
        return f"{self.path}?{self.query}"
