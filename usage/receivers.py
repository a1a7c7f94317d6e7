"""What `usage` does when the past changes, and when there are new rates or devices to price."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone

from claims.signals import allocations_changed
from inventory.signals import price_bases_added, secrets_resealed
from usage.daily import forget_from
from usage.models import Rate
from usage.rate_matches import match_bases, match_rate
from usage.tracking.servers import reseal_servers


@receiver(allocations_changed, dispatch_uid="usage.daily.allocations")
def forget_days_of_allocations(*, since: datetime, **_: Any) -> None:
    """An allocation began or ended earlier than today: its claim was not seen for a while."""
    forget_from(since, now=timezone.now())


@receiver([post_save, post_delete], sender=Rate, dispatch_uid="usage.daily.rates")
def forget_days_of_rate(*, instance: Rate, **_: Any) -> None:
    """A rate that begins in the past prices days that are stored."""
    forget_from(instance.valid_from, now=timezone.now())


@receiver(post_save, sender=Rate, dispatch_uid="usage.rate_matches.rates")
def match_saved_rate(*, instance: Rate, **_: Any) -> None:
    match_rate(instance)


@receiver(price_bases_added, dispatch_uid="usage.rate_matches.bases")
def match_added_bases(*, bases: list[UUID], **_: Any) -> None:
    match_bases(bases)


@receiver(secrets_resealed, dispatch_uid="usage.tracking.servers")
def reseal_tracking_servers(**_: Any) -> int:
    return reseal_servers()
