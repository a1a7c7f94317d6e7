"""Celery tasks. Beat starts each of them regularly, which also repairs a lost message."""

from datetime import timedelta
from typing import Any

from celery import shared_task
from django.dispatch import receiver
from django.utils import timezone

from core.transactions import after_commit
from notify import mail
from notify.models import Notice
from teams.models import User
from teams.services import address_changed

KEEP_READ, KEEP_UNREAD = timedelta(days=90), timedelta(days=365)


@shared_task
def mail_notices() -> None:
    """Mail the notices that people want by email and that are unsent."""
    mail.send_unsent()


@shared_task
def mail_former_address(to: str, name: str) -> None:
    """Tell the address that an account had that it has another one. A lost message is not repaired."""
    body = (
        f"The account {name} has another email address from now on, which was entered with its password. If "
        "that was not you, tell a platform admin, who can sign the account out and end it."
    )
    mail.send_now(to=to, subject="Your email address was changed", body=body)


@receiver(address_changed, dispatch_uid="notify.former_address")
def tell_former_address(*, person: User, before: str, **_: Any) -> None:
    after_commit(mail_former_address, before, person.username)


@shared_task
def forget_notices() -> None:
    """Delete read notices after 90 days and all others after a year."""
    now = timezone.now()
    Notice.objects.filter(read_at__isnull=False, created_at__lt=now - KEEP_READ).delete()
    Notice.objects.filter(created_at__lt=now - KEEP_UNREAD).delete()
