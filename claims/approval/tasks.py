"""What beat starts where leads have had their time."""

from celery import shared_task
from django.utils import timezone

from claims.approval import escalation


@shared_task
def escalate() -> None:
    """Ask platform admins where leads have had their time. A lost one is made good by the next."""
    escalation.escalate_overdue(timezone.now())
