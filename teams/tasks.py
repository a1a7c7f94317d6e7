"""Celery entry points of `teams`. A lost message is repaired by beat, which starts each of them anyway."""

from celery import shared_task

from teams import mail


@shared_task
def mail_notices() -> None:
    """Send by mail what people want by mail and have not been sent."""
    mail.send_unsent()
