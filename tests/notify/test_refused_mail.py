"""One mail that a server will not take keeps nobody else's back."""

import smtplib

import pytest
from django.core import mail
from django.core.mail.backends.locmem import EmailBackend

from notify import tasks
from notify.models import Notice, NoticeKind
from notify.services import notify
from teams.models import User
from tests.factories import want_all_mail


@pytest.fixture
def send(alice, bob, settings, monkeypatch):
    """Tell both, the mail of alice first; `error` is what comes of hers."""
    settings.MAIL_URL = "smtp://mail.example.org"
    for person in (alice, bob):
        User.objects.filter(pk=person.pk).update(email=f"{person.username}@example.org")
        want_all_mail(person)
    taken = EmailBackend.send_messages

    def send(error):
        def refuse(backend, messages):
            if messages[0].to == ["alice@example.org"]:
                raise error
            return taken(backend, messages)

        for person in (alice, bob):
            notify([person], kind=NoticeKind.CHANGE, key="k", title="t")
        with monkeypatch.context() as refusing:
            refusing.setattr(EmailBackend, "send_messages", refuse)
            tasks.mail_notices()
        return [one.to[0] for one in mail.outbox]

    return send


def nobody(code):
    return smtplib.SMTPRecipientsRefused({"alice@example.org": (code, b"no")})


@pytest.mark.parametrize("error", [nobody(550), smtplib.SMTPDataError(554, b"spam"), ValueError("header")])
def test_permanently_refused_mail_is_not_sent_again(send, error):
    assert send(error) == ["bob@example.org"]
    assert not Notice.objects.filter(mailed_at=None).exists()


@pytest.mark.parametrize("error", [nobody(450), smtplib.SMTPDataError(451, b"later")])
def test_temporarily_refused_mail_is_sent_again(send, error):
    assert send(error) == ["bob@example.org"]
    tasks.mail_notices()
    assert [one.to[0] for one in mail.outbox] == ["bob@example.org", "alice@example.org"]
