"""Celery tasks. Beat starts each of them regularly, which also repairs a lost message."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from notify import mail
from notify.models import Notice

KEEP_READ, KEEP_UNREAD = timedelta(days=90), timedelta(days=365)


@shared_task
def mail_notices() -> None:
    """Mail the notices that people want by mail and that are unsent."""
    mail.send_unsent()


@shared_task
def forget_notices() -> None:
    """Delete read notices after 90 days and all others after a year."""
    now = timezone.now()
    Notice.objects.filter(read_at__isnull=False, created_at__lt=now - KEEP_READ).delete()
    Notice.objects.filter(created_at__lt=now - KEEP_UNREAD).delete()
