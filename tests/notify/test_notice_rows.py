"""Notices and their mails: whole rows, exact moments, failures of the email server."""

import smtplib
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core import mail
from django.db import transaction

from notify import mail as mails
from notify import tasks
from notify.models import Notice, NoticeKind
from notify.services import mark_read, notify, unread_count
from teams.models import User
from tests.factories import want_all_mail

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def row(notice):
    values = dict(Notice.objects.filter(pk=notice.pk).values().get())
    del values["id"]
    return values


def test_notice_row_has_every_field(alice):
    with time_machine.travel(NOW, tick=False):
        notify(
            [alice],
            kind=NoticeKind.CHANGE,
            key="claim:1",
            title="x" * 300,
            body="More.",
            url="/claims/1/",
            important=True,
        )
    assert row(Notice.objects.get()) == {
        "user_id": alice.pk,
        "team_id": None,
        "kind": "change",
        "key": "claim:1",
        "title": "x" * 200,
        "body": "More.",
        "url": "/claims/1/",
        "important": True,
        "in_portal": True,
        "by_mail": True,
        "created_at": NOW,
        "read_at": None,
        "mailed_at": None,
    }


def test_notice_defaults_to_no_body_url_or_importance(alice):
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")
    said = row(Notice.objects.get())
    assert (said["body"], said["url"], said["important"]) == ("", "", False)


def test_second_notify_with_one_key_adds_rows_only_for_new_people(alice, bob):
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="first")
    Notice.objects.update(read_at=NOW, mailed_at=NOW)
    notify([alice, bob], kind=NoticeKind.CHANGE, key="k", title="second", important=True)
    notify([alice], kind=NoticeKind.CHANGE, key="other", title="third")
    told = Notice.objects.order_by("key", "title").values_list("user__username", "key", "title", "read_at")
    assert list(told) == [
        ("alice", "k", "first", NOW),
        ("bob", "k", "second", None),
        ("alice", "other", "third", None),
    ]


@pytest.fixture
def queued(monkeypatch):
    messages = []
    monkeypatch.setattr(tasks.mail_notices, "delay", lambda *args: messages.append(args))
    return messages


def test_mail_task_is_queued_once_after_commit(alice, bob, queued, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        notify([alice, bob], kind=NoticeKind.CHANGE, key="k", title="t", important=True)
        assert queued == []
    assert queued == [()]


def test_rollback_or_no_recipient_queues_no_mail_task(alice, queued, django_capture_on_commit_callbacks):
    want_all_mail(alice)
    with django_capture_on_commit_callbacks(execute=True):
        with transaction.atomic():
            notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")
            transaction.set_rollback(True)
        notify([], kind=NoticeKind.CHANGE, key="k", title="t")
        alice.is_active = False
        notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")
    assert queued == []
    assert not Notice.objects.exists()


def test_unread_count_and_mark_read_cover_own_notices_only(alice, bob):
    for person in (alice, bob):
        for number in range(3):
            notify([person], kind=NoticeKind.CHANGE, key=f"k{number}", title=f"t{number}")
    mine = {notice.key: notice for notice in Notice.objects.filter(user=alice)}
    Notice.objects.filter(pk=mine["k0"].pk).update(read_at=NOW - timedelta(days=1))
    theirs = Notice.objects.filter(user=bob, key="k1").get()
    assert (unread_count(alice), unread_count(bob)) == (2, 3)
    with time_machine.travel(NOW, tick=False):
        assert mark_read(by=alice, ids=[mine["k0"].pk, mine["k1"].pk, theirs.pk]) == 1
        assert mark_read(by=alice, ids=[]) == 0
        assert (unread_count(alice), unread_count(bob)) == (1, 3)
        assert mark_read(by=alice) == 1
    read = dict(Notice.objects.filter(user=alice).values_list("key", "read_at"))
    assert read == {"k0": NOW - timedelta(days=1), "k1": NOW, "k2": NOW}
    assert unread_count(bob) == 3


def test_old_notices_are_deleted_after_90_days_or_a_year(alice):
    read, any_ = timedelta(days=90), timedelta(days=365)
    for key, age, is_read in (
        ("read", read, True),
        ("read too old", read + SECOND, True),
        ("unread", read + SECOND, False),
        ("unread for long", any_, False),
        ("unread too long", any_ + SECOND, False),
    ):
        Notice.objects.create(
            user=alice, key=key, title="t", created_at=NOW - age, read_at=NOW if is_read else None
        )
    with time_machine.travel(NOW, tick=False):
        tasks.forget_notices()
    left = Notice.objects.order_by("key").values_list("key", flat=True)
    assert list(left) == ["read", "unread", "unread for long"]


@pytest.fixture
def mailed(settings):
    settings.MAIL_URL, settings.PORTAL_URL = "smtp://mail.example.org", "https://gpu.example.org"
    User.objects.update(email="a@example.org")


def waiting(person, *ages, **fields):
    """Notices that nobody has mailed, so old each; `title` says which."""
    for number, age in enumerate(ages):
        Notice.objects.create(
            user=person,
            key=f"{person}-{number}",
            by_mail=True,
            title=f"{number}",
            created_at=NOW - age,
            **fields,
        )


def sent():
    with time_machine.travel(NOW, tick=False):
        tasks.mail_notices()
    return [message.subject for message in mail.outbox]


def test_mails_are_sent_oldest_first_and_only_for_one_day(alice, mailed):
    hour = timedelta(hours=1)
    waiting(alice, hour, 3 * hour, 2 * hour, timedelta(days=1), timedelta(days=1) - SECOND)
    assert sent() == ["4", "1", "2", "0"]
    assert dict(Notice.objects.values_list("title", "mailed_at")) == {
        "0": NOW,
        "1": NOW,
        "2": NOW,
        "3": None,
        "4": NOW,
    }
    assert sent() == ["4", "1", "2", "0"]


def test_one_run_sends_at_most_a_batch(alice, mailed, monkeypatch):
    monkeypatch.setattr(mails, "BATCH", 2)
    waiting(alice, *(timedelta(minutes=number) for number in (3, 2, 1)))
    assert sent() == ["0", "1"]
    assert sent() == ["0", "1", "2"]


def test_inactive_people_get_no_mail(alice, bob, mailed):
    waiting(alice, SECOND)
    waiting(bob, SECOND)
    User.objects.filter(username="alice").update(is_active=False)
    assert sent() == ["0"]
    assert list(Notice.objects.filter(mailed_at=None).values_list("user__username", flat=True)) == ["alice"]


def test_notice_claimed_by_another_worker_is_not_sent_twice(alice, mailed, monkeypatch):
    waiting(alice, 3 * SECOND, 2 * SECOND)
    message = mails.message

    def take_the_other(notice):
        Notice.objects.filter(mailed_at=None).update(mailed_at=NOW)
        return message(notice)

    monkeypatch.setattr(mails, "message", take_the_other)
    assert sent() == ["0"]


@pytest.mark.parametrize(
    ("error", "first_tried_again", "second_sent"),
    [
        (smtplib.SMTPRecipientsRefused({"a": (550, b"unknown")}), False, True),
        (smtplib.SMTPRecipientsRefused({"a": (450, b"busy")}), True, True),
        (smtplib.SMTPRecipientsRefused({"a": (399, b""), "b": (500, b"")}), False, True),
        (smtplib.SMTPRecipientsRefused({"a": (550, b""), "b": (499, b"")}), True, True),
        (smtplib.SMTPDataError(451, b"later"), True, True),
        (smtplib.SMTPDataError(500, b"no"), False, True),
        (smtplib.SMTPDataError(400, b"later"), True, True),
        (smtplib.SMTPNotSupportedError("no SMTPUTF8"), False, True),
        (ValueError("a newline"), False, True),
        (smtplib.SMTPServerDisconnected("gone"), True, False),
        (ConnectionRefusedError("nobody there"), True, False),
    ],
)
def test_failed_mail_stops_the_run_only_if_the_server_is_unreachable(
    alice, mailed, monkeypatch, error, first_tried_again, second_sent
):
    waiting(alice, 2 * SECOND, SECOND)
    message = mails.message

    def refuse_the_first(notice):
        if notice.title == "0":
            raise error
        return message(notice)

    monkeypatch.setattr(mails, "message", refuse_the_first)
    assert sent() == ["1"] * second_sent
    assert dict(Notice.objects.values_list("title", "mailed_at")) == {
        "0": None if first_tried_again else NOW,
        "1": NOW if second_sent else None,
    }


@pytest.mark.parametrize(
    ("base", "url", "body", "text"),
    [
        (
            "https://gpu.example.org",
            "/claims/1/",
            "More.",
            "A\nB\n\nMore.\n\nhttps://gpu.example.org/claims/1/\n\n—\n\n"
            "Notice settings: https://gpu.example.org/me/#notices",
        ),
        (
            "https://gpu.example.org",
            "",
            "",
            "A\nB\n\n—\n\nNotice settings: https://gpu.example.org/me/#notices",
        ),
        ("", "/claims/1/", "More.", "A\nB\n\nMore.\n\n—\n\nDragoman"),
    ],
)
def test_text_of_a_mail(alice, settings, base, url, body, text):
    settings.PORTAL_URL = base
    alice.email = "a@example.org"
    made = mails.message(Notice(user=alice, title="A\nB", body=body, url=url))
    assert (made.subject, made.body, made.to) == ("A B", text, ["a@example.org"])
    assert made.extra_headers == {"Auto-Submitted": "auto-generated"}
