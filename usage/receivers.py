"""What `usage` does when the past changes: the affected days are stored again."""

from datetime import datetime
from typing import Any

from django.db.models.signals import post_delete, post_save
from django.dispatch import receiver
from django.utils import timezone

from claims.signals import allocations_changed
from usage.daily import forget_from
from usage.models import Rate


@receiver(allocations_changed, dispatch_uid="usage.daily.allocations")
def forget_days_of_allocations(*, since: datetime, **_: Any) -> None:
    """An allocation began or ended earlier than today: its claim was not seen for a while."""
    forget_from(since, now=timezone.now())


@receiver([post_save, post_delete], sender=Rate, dispatch_uid="usage.daily.rates")
def forget_days_of_rate(*, instance: Rate, **_: Any) -> None:
    """A rate that begins in the past prices days that are stored."""
    forget_from(instance.valid_from, now=timezone.now())
