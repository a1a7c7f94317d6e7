"""Celery tasks of webhooks."""

from datetime import timedelta

from celery import shared_task
from django.utils import timezone

from notify.webhooks import delivery
from notify.webhooks.models import WebhookEvent

KEEP = timedelta(days=30)


@shared_task
def deliver_webhooks() -> None:
    """Deliver what is due. Queued with each event; beat repairs a lost message, and starts later attempts."""
    delivery.deliver_due()


@shared_task
def forget_webhook_events() -> None:
    """Delete events with their deliveries after 30 days."""
    WebhookEvent.objects.filter(at__lt=timezone.now() - KEEP).delete()
