"""The token of an identity provider, and which person is which of its users."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower
from django.utils import timezone

from core.models import uuid7


class ScimToken(models.Model):
    """
    The bearer token with which a provider writes, stored as its SHA-256; its text is shown once.

    After a rotation the text before it, of `previous_digest`, works until `previous_ends_at`.
    """

    provider = models.OneToOneField(
        "teams.IdentityProvider", models.CASCADE, primary_key=True, related_name="scim_token"
    )
    digest = models.CharField(max_length=64, unique=True)
    start = models.CharField(max_length=12)  # shown to recognize it
    created_at = models.DateTimeField(default=timezone.now)
    last_used_at = models.DateTimeField(null=True)
    last_used_from = models.GenericIPAddressField(null=True)
    previous_digest = models.CharField(max_length=64, null=True, unique=True)  # noqa: DJ001
    previous_ends_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.start}…"


class ScimUser(models.Model):
    """
    A person whom a provider keeps; `id` is what it knows them by, `user_name` and `external_id` what it says,
    and so does `emails`: rows with value, type and primary.

    After its DELETE the row stays, with `deleted_at`. `deactivated` says that the provider ended the account:
    one that a platform admin ended stays ended.
    """

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.ForeignKey("teams.IdentityProvider", models.CASCADE, related_name="scim_users")
    user = models.OneToOneField("teams.User", models.CASCADE, related_name="scim_user")
    user_name = models.CharField(max_length=500)
    external_id = models.CharField(max_length=200, blank=True, default="")
    emails = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(default=timezone.now)
    deactivated = models.BooleanField(default=False)
    deleted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ("id",)
        constraints = (
            models.UniqueConstraint(
                "provider", Lower("user_name"), condition=Q(deleted_at=None), name="scimuser_name_once"
            ),
            models.UniqueConstraint(
                fields=["provider", "external_id"],
                condition=Q(deleted_at=None) & ~Q(external_id=""),
                name="scimuser_external_id_once",
            ),
        )

    def __str__(self) -> str:
        return self.user_name
