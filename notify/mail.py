"""Mail: the server from EMAIL_URL, and notices for those who want them. Without a server nothing is sent."""

import smtplib
from datetime import timedelta

import structlog
from django.conf import settings
from django.core.mail import EmailMessage
from django.utils import timezone

from core.times import local_text
from notify.models import Notice
from teams.zones import zone_for

BATCH = 100
MAX_AGE = timedelta(days=1)  # after a longer outage of the email server, readers get no flood

# Faults of one message, not of the server. SMTP errors are OSErrors.
REFUSED = (
    *(smtplib.SMTPRecipientsRefused, smtplib.SMTPDataError, smtplib.SMTPNotSupportedError),
    ValueError,
)

log = structlog.get_logger(__name__)


def send_unsent() -> None:
    """
    Send each unsent notice once, oldest first, up to `BATCH`.

    A notice is marked before it is sent: a worker that dies in between loses one mail and sends none twice.
    If the server is unreachable, the notice is tried again; if it refuses the message for good (unknown
    recipient), it is not.
    """
    if not settings.MAIL_URL:
        return
    unsent = Notice.objects.filter(by_mail=True, mailed_at=None, created_at__gt=timezone.now() - MAX_AGE)
    unsent = unsent.filter(user__is_active=True).exclude(user__email="")
    for notice in unsent.select_related("user").order_by("created_at")[:BATCH]:
        unclaimed = Notice.objects.filter(pk=notice.pk, mailed_at=None)
        if not unclaimed.update(mailed_at=timezone.now()):
            continue
        try:
            message(notice).send()
        except REFUSED as error:
            # Only this message: the next ones have other recipients.
            if is_temporary(error):
                Notice.objects.filter(pk=notice.pk).update(mailed_at=None)
            log.warning("mail_refused", notice=str(notice.pk), error=str(error))
        except OSError as error:
            Notice.objects.filter(pk=notice.pk).update(mailed_at=None)
            log.warning("mail_failed", notice=str(notice.pk), error=str(error))
            return


def send_now(*, to: str, subject: str, body: str) -> str:
    """Send a mail to one address at once; return why that failed, "" if the server took it."""
    if not settings.MAIL_URL:
        return "This portal sends no email: EMAIL_URL is not set."
    footer = settings.PORTAL_URL or "Dragoman"
    mail = EmailMessage(subject=subject, body=f"{body}\n\n—\n\n{footer}", to=[to])
    try:
        mail.send()
    except (*REFUSED, OSError) as error:
        log.warning("mail_failed", error=str(error))
        return f"The email server did not accept it: {error}."
    return ""


class Unsent(Exception):
    """A mail that was not sent; `is_temporary` if it may be tried again."""

    def __init__(self, *, is_temporary: bool) -> None:
        super().__init__("The mail was not sent.")
        self.is_temporary = is_temporary


def send_file(
    *, to: str, subject: str, body: str, link: str, unsubscribe: str, name: str, content: str
) -> None:
    """
    Send a CSV file to one address at once, with links (paths of the portal) to its page and to unsubscribe,
    the latter also for mail programs (RFC 8058). Raises Unsent.
    """
    if not settings.MAIL_URL:
        raise Unsent(is_temporary=True)
    base, headers = settings.PORTAL_URL, {"Auto-Submitted": "auto-generated"}
    footer = "Dragoman"
    if base:
        body, footer = f"{body}\n\n{base}{link}", f"Stop this mail: {base}{unsubscribe}"
        headers |= {
            "List-Unsubscribe": f"<{base}{unsubscribe}>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        }
    mail = EmailMessage(subject=subject, body=f"{body}\n\n—\n\n{footer}", to=[to], headers=headers)
    mail.attach(name, content, "text/csv")
    try:
        mail.send()
    except (*REFUSED, OSError) as error:
        log.warning("mail_failed", error=str(error))
        is_refused = isinstance(error, REFUSED)
        raise Unsent(is_temporary=is_temporary(error) if is_refused else True) from error


def is_temporary(error: Exception) -> bool:
    """Return whether the server refuses a message temporarily: its reply code is 4yz (RFC 5321 §4.2.1)."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return any(400 <= code < 500 for code, _text in error.recipients.values())
    return isinstance(error, smtplib.SMTPResponseException) and 400 <= error.smtp_code < 500


def message(notice: Notice) -> EmailMessage:
    """Return the mail of a notice: plain text, with a link to its page."""
    base = settings.PORTAL_URL
    link = f"{base}{notice.url}" if notice.url and base else ""
    with timezone.override(zone_for(notice.user)):
        title, body = local_text(notice.title), local_text(notice.body)
    footer = f"Notice settings: {base}/me/#notices" if base else "Dragoman"
    return EmailMessage(
        subject=" ".join(title.split()),
        body="\n\n".join(part for part in (title, body, link, "—", footer) if part),
        to=[notice.user.email],
        headers={"Auto-Submitted": "auto-generated"},  # RFC 3834: no answers by machines
    )
