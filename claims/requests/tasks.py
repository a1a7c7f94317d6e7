"""What beat starts to forget drafts that nobody has touched."""

from celery import shared_task
from django.utils import timezone

from claims.requests import services


@shared_task
def forget_drafts() -> None:
    """Forget drafts that nobody has touched for 30 days. A lost one is made good by the next."""
    services.forget_drafts(timezone.now())
