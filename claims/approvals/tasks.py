"""What beat starts where leads have had their time."""

from celery import shared_task
from django.utils import timezone

from claims.approvals import notices


@shared_task
def escalate() -> None:
    """Ask platform admins where leads have had their time. A lost one is made good by the next."""
    notices.escalate_overdue(timezone.now())
