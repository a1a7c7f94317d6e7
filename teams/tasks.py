"""Celery entry points of `teams`. A lost message is repaired by beat, which starts each of them anyway."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from teams import mail
from teams.models import Notice

READ_FOR, KEPT_FOR = timedelta(days=90), timedelta(days=365)


@shared_task
def mail_notices() -> None:
    """Send by mail what people want by mail and have not been sent."""
    mail.send_unsent()


@shared_task
def forget_notices() -> None:
    """Delete what was read and is 90 days old, and what is a year old in any case."""
    now = timezone.now()
    Notice.objects.filter(read_at__isnull=False, created_at__lt=now - READ_FOR).delete()
    Notice.objects.filter(created_at__lt=now - KEPT_FOR).delete()
