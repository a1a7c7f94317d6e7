"""More time for a claim."""

from __future__ import annotations

from datetime import timedelta
from typing import Self

from django.contrib.auth.models import AnonymousUser
from django.db import models
from django.db.models import Q

from claims.models.ask import Answer, Ask
from claims.models.claim import Claim
from teams.models import Team, User


class ExtensionQuerySet(models.QuerySet["Extension"]):
    def visible_to(self, user: User | AnonymousUser) -> Self:
        return self.filter(claim__team__in=Team.objects.visible_to(user))


class Extension(Ask):
    """A wish to keep a claim until `until`; `was` is its end at the time of asking."""

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="extensions")
    was = models.DateTimeField()
    until = models.DateTimeField()

    objects = ExtensionQuerySet.as_manager()

    class Meta:
        ordering = ("asked_at", "pk")
        constraints = (
            models.UniqueConstraint(fields=["asked_by", "key"], name="extension_once_per_key"),
            models.UniqueConstraint(
                fields=["claim"], condition=Q(answer=Answer.WAITING), name="extension_one_waits"
            ),
        )

    def __str__(self) -> str:
        return f"{self.claim} until {self.until:%Y-%m-%d %H:%M}"

    @property
    def span(self) -> timedelta:
        """How much longer than at the time of asking."""
        return self.until - self.was

    @property
    def whole(self) -> timedelta:
        """The whole time of the claim, from its approval on, if it is extended."""
        return self.until - (self.claim.decided_at or self.claim.created_at)

    @property
    def is_beyond(self) -> bool:
        """Tell whether that is longer than the profile allows a request to be."""
        return self.whole > self.claim.profile_version.max_duration
