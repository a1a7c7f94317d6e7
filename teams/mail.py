"""Notices by mail, to those who want them. Without a mail server nothing is sent and nothing is lost."""

import smtplib
from datetime import timedelta

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.db.models import Q
from django.utils import timezone

from teams.models import Notice, User

BATCH = 100
TOO_OLD = timedelta(days=1)  # a mail server that was away for longer should not send a flood

# What is wrong with one mail, not with the server. SMTP errors are OSErrors.
REFUSED = (
    *(smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError, smtplib.SMTPNotSupportedError),
    ValueError,
)

log = structlog.get_logger(__name__)


def wanted() -> Q:
    """Return what of the notices their readers want by mail."""
    everything, needed = Q(user__mail=User.Mail.ALL), Q(user__mail=User.Mail.IMPORTANT, important=True)
    return (everything | needed) & ~Q(user__email="") & Q(user__is_active=True)


def send_unsent() -> None:
    """
    Send each unsent notice once, oldest first.

    A notice is marked before it is sent: a worker that dies in between costs one mail, never sends it twice.
    A server that is away is tried again; a mail that it refuses for good, as to an address that nobody has,
    is not.
    """
    if not settings.MAIL_URL:
        return
    waiting = Notice.objects.filter(wanted(), mailed_at=None, created_at__gt=timezone.now() - TOO_OLD)
    for notice in waiting.select_related("user").order_by("created_at")[:BATCH]:
        mine = Notice.objects.filter(pk=notice.pk, mailed_at=None)
        if not mine.update(mailed_at=timezone.now()):
            continue
        try:
            message(notice).send()
        except REFUSED as error:
            # Only this one: those behind it have readers too.
            if is_for_now(error):
                Notice.objects.filter(pk=notice.pk).update(mailed_at=None)
            log.warning("mail_refused", notice=str(notice.pk), error=str(error))
        except OSError as error:
            Notice.objects.filter(pk=notice.pk).update(mailed_at=None)
            log.warning("mail_failed", notice=str(notice.pk), error=str(error))
            return


def is_for_now(error: Exception) -> bool:
    """Tell whether a server refuses a mail only for now: its reply begins with 4 (RFC 5321 §4.2.1)."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return any(400 <= code < 500 for code, _said in error.recipients.values())
    return isinstance(error, smtplib.SMTPResponseException) and 400 <= error.smtp_code < 500


def message(notice: Notice) -> EmailMessage:
    """Return the mail of a notice: plain text, with a link that opens the page and does nothing else."""
    base = settings.PORTAL_URL
    link = f"{base}{notice.url}" if notice.url and base else ""
    foot = f"What is sent by mail: {base}/me/" if base else "Dragoman"
    return EmailMessage(
        subject=" ".join(notice.title.split()),
        body="\n\n".join(part for part in (notice.title, notice.body, link, "—", foot) if part),
        to=[notice.user.email],
        headers={"Auto-Submitted": "auto-generated"},  # RFC 3834: no answers by machines
    )
