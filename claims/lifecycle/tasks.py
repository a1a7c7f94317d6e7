"""What beat starts to end and to remind of ends; each task may run any number of times."""

from celery import shared_task
from django.utils import timezone

from claims.delivery.tasks import remove
from claims.lifecycle import expiry
from claims.lifecycle import expiry as reminders


@shared_task
def expire() -> None:
    """
    End requests that nobody decided in time and claims whose time is over; tell before of those that will.
    """
    now = timezone.now()
    try:
        for claim_id in expiry.end_overdue(now):
            remove.delay(str(claim_id))
    finally:
        reminders.remind(now)
