"""Notices, mails, tokens and kept answers: whole rows, exact moments, and what belongs to other people."""

import hashlib
import smtplib
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core import mail
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from rest_framework.test import APIClient

from core import idempotency as keyed
from core.errors import Invalid
from core.models import StoredResponse
from teams import mail as mails
from teams import tasks
from teams.models import ApiToken, Notice, User
from teams.notices import mark_read, tell, unread
from teams.tokens import create_token, revoke_token, token_of
from teams.zones import remember_zone, zone_of
from tests.factories import make_user

NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def row(notice):
    values = dict(Notice.objects.filter(pk=notice.pk).values().get())
    del values["id"]
    return values


def test_a_notice_is_kept_with_all_that_was_said(alice):
    with time_machine.travel(NOW, tick=False):
        tell([alice], key="claim:1", title="x" * 300, body="More.", url="/claims/1/", important=True)
    assert row(Notice.objects.get()) == {
        "user_id": alice.pk,
        "key": "claim:1",
        "title": "x" * 200,
        "body": "More.",
        "url": "/claims/1/",
        "important": True,
        "created_at": NOW,
        "read_at": None,
        "mailed_at": None,
    }


def test_a_notice_asks_for_nothing_unless_it_says_so(alice):
    tell([alice], key="k", title="t")
    said = row(Notice.objects.get())
    assert (said["body"], said["url"], said["important"]) == ("", "", False)


def test_a_notice_that_is_told_again_stays_as_it_was_and_those_who_missed_it_get_it(alice, bob):
    tell([alice], key="k", title="first")
    Notice.objects.update(read_at=NOW, mailed_at=NOW)
    tell([alice, bob], key="k", title="second", important=True)
    tell([alice], key="other", title="third")
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


def test_the_mail_of_a_notice_is_queued_once_and_only_after_the_commit(
    alice, bob, queued, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        tell([alice, bob], key="k", title="t")
        assert queued == []
    assert queued == [()]


def test_what_is_rolled_back_or_told_to_nobody_queues_no_mail(
    alice, queued, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        with transaction.atomic():
            tell([alice], key="k", title="t")
            transaction.set_rollback(True)
        tell([], key="k", title="t")
        alice.is_active = False
        tell([alice], key="k", title="t")
    assert queued == []
    assert not Notice.objects.exists()


def test_only_ones_own_unread_notices_are_counted_and_marked(alice, bob):
    for person in (alice, bob):
        for number in range(3):
            tell([person], key=f"k{number}", title=f"t{number}")
    mine = {notice.key: notice for notice in Notice.objects.filter(user=alice)}
    Notice.objects.filter(pk=mine["k0"].pk).update(read_at=NOW - timedelta(days=1))
    theirs = Notice.objects.filter(user=bob, key="k1").get()
    assert (unread(alice), unread(bob)) == (2, 3)
    with time_machine.travel(NOW, tick=False):
        assert mark_read(by=alice, ids=[mine["k0"].pk, mine["k1"].pk, theirs.pk]) == 1
        assert mark_read(by=alice, ids=[]) == 0
        assert (unread(alice), unread(bob)) == (1, 3)
        assert mark_read(by=alice) == 1
    read = dict(Notice.objects.filter(user=alice).values_list("key", "read_at"))
    assert read == {"k0": NOW - timedelta(days=1), "k1": NOW, "k2": NOW}
    assert unread(bob) == 3


def test_old_notices_are_forgotten_to_the_second(alice):
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
    User.objects.update(mail="all", email="a@example.org")


def waiting(person, *ages, **fields):
    """Notices that nobody has mailed, so old each; `title` says which."""
    for number, age in enumerate(ages):
        Notice.objects.create(
            user=person, key=f"{person}-{number}", title=f"{number}", created_at=NOW - age, **fields
        )


def sent():
    with time_machine.travel(NOW, tick=False):
        tasks.mail_notices()
    return [message.subject for message in mail.outbox]


def test_mails_go_oldest_first_up_to_a_day_old_and_say_when(alice, mailed):
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


def test_no_more_than_a_batch_is_sent_in_one_go_and_the_rest_in_the_next(alice, mailed, monkeypatch):
    monkeypatch.setattr(mails, "BATCH", 2)
    waiting(alice, *(timedelta(minutes=number) for number in (3, 2, 1)))
    assert sent() == ["0", "1"]
    assert sent() == ["0", "1", "2"]


def test_nothing_is_mailed_to_those_who_left(alice, bob, mailed):
    waiting(alice, SECOND)
    waiting(bob, SECOND)
    User.objects.filter(username="alice").update(is_active=False)
    assert sent() == ["0"]
    assert list(Notice.objects.filter(mailed_at=None).values_list("user__username", flat=True)) == ["alice"]


def test_a_notice_that_another_worker_took_meanwhile_is_not_sent_again(alice, mailed, monkeypatch):
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
def test_a_mail_that_fails_holds_up_others_only_where_the_server_is_away(
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
            "What is sent by mail: https://gpu.example.org/me/",
        ),
        (
            "https://gpu.example.org",
            "",
            "",
            "A\nB\n\n—\n\nWhat is sent by mail: https://gpu.example.org/me/",
        ),
        ("", "/claims/1/", "More.", "A\nB\n\nMore.\n\n—\n\nDragoman"),
    ],
)
def test_the_text_of_a_mail(alice, settings, base, url, body, text):
    settings.PORTAL_URL = base
    alice.email = "a@example.org"
    made = mails.message(Notice(user=alice, title="A\nB", body=body, url=url))
    assert (made.subject, made.body, made.to) == ("A B", text, ["a@example.org"])
    assert made.extra_headers == {"Auto-Submitted": "auto-generated"}


def test_a_token_is_kept_as_a_digest_with_its_beginning_and_its_end(alice):
    with time_machine.travel(NOW, tick=False):
        token, text = create_token(by=alice, title="Notebook", expires_at=NOW + SECOND)
    values = dict(ApiToken.objects.values().get())
    assert values.pop("created_at")
    assert values == {
        "id": token.pk,
        "user_id": alice.pk,
        "title": "Notebook",
        "digest": hashlib.sha256(text.encode()).hexdigest(),
        "start": text[:10],
        "expires_at": NOW + SECOND,
        "last_used_at": None,
        "revoked_at": None,
    }
    assert text.startswith("drg_")
    assert len(text) == 47
    assert create_token(by=alice, title="Other", expires_at=None)[1] != text


@pytest.mark.parametrize("expires_at", [NOW, NOW - SECOND])
def test_a_token_cannot_end_before_it_begins(alice, expires_at):
    with time_machine.travel(NOW, tick=False), pytest.raises(Invalid) as refusal:
        create_token(by=alice, title="Notebook", expires_at=expires_at)
    assert refusal.value.message == "A token that expires in the past is of no use."
    assert refusal.value.extra == {"field": "expires_at"}
    assert not ApiToken.objects.exists()


def test_a_token_cannot_end_in_a_year_that_nobody_means(alice):
    with pytest.raises(Invalid, match="the year 2201 was sent"):
        create_token(by=alice, title="Notebook", expires_at=datetime(2201, 1, 1, tzinfo=UTC))


def test_a_token_works_until_the_moment_it_expires(alice):
    with time_machine.travel(NOW, tick=False) as clock:
        token, text = create_token(by=alice, title="Notebook", expires_at=NOW + timedelta(hours=1))
        create_token(by=alice, title="Other", expires_at=None)
        clock.move_to(NOW + timedelta(hours=1) - SECOND)
        assert token_of(text) == token
        used = dict(ApiToken.objects.values_list("title", "last_used_at"))
        assert used == {"Notebook": NOW + timedelta(hours=1) - SECOND, "Other": None}
        clock.move_to(NOW + timedelta(hours=1))
        assert token_of(text) is None


def test_a_token_without_its_prefix_is_none(alice):
    text = "other_" + "x" * 43
    ApiToken.objects.create(
        user=alice, title="t", digest=hashlib.sha256(text.encode()).hexdigest(), start="other_"
    )
    assert token_of(text) is None


def test_revoking_ends_one_token_of_its_owner_and_keeps_when(alice, eve):
    mine, text = create_token(by=alice, title="mine", expires_at=None)
    create_token(by=alice, title="other", expires_at=None)
    revoke_token(by=eve, token=mine)
    assert token_of(text) == mine
    with time_machine.travel(NOW, tick=False):
        revoke_token(by=alice, token=mine)
    revoke_token(by=alice, token=mine)
    assert dict(ApiToken.objects.values_list("title", "revoked_at")) == {"mine": NOW, "other": None}
    assert token_of(text) is None


RATES = "/api/v1/rates/"
RATE = {"title": "H100", "per_hour": "2.5", "currency": "EUR", "valid_from": "2026-12-01T00:00:00Z"}


def send(person, *, key="k", body=RATE, address=RATES):
    api = APIClient()
    api.force_login(person)
    return api.post(address, body, format="json", headers={"Idempotency-Key": key})


def test_a_kept_answer_is_of_a_person_a_key_and_an_address(root):
    with time_machine.travel(NOW, tick=False):
        made = send(root)
    kept = dict(StoredResponse.objects.values().get())
    del kept["id"], kept["digest"]
    answer = str(kept.pop("answer"))
    assert kept == {
        "user_id": root.pk,
        "key": "k",
        "address": hashlib.sha256(RATES.encode()).hexdigest(),
        "at": NOW,
        "status": 201,
    }
    assert made.json()["id"] in answer


def test_the_query_of_an_address_belongs_to_what_was_sent(root):
    assert send(root).status_code == 201
    assert send(root, address=f"{RATES}?x=1").status_code == 422


def test_the_order_of_fields_makes_no_other_request(root):
    first = send(root)
    assert send(root, body=dict(reversed(RATE.items()))).json() == first.json()


def test_keys_of_others_are_not_forgotten_with_ones_own(root):
    second = make_user("second", admin=True)
    for person in (root, second):
        send(person, key="old")
        send(person, key="kept")
    with time_machine.travel(NOW, tick=False):
        StoredResponse.objects.filter(key="kept").update(at=NOW - keyed.KEPT)
        StoredResponse.objects.filter(key="old").update(at=NOW - keyed.KEPT - SECOND)
        send(root, key="new")
    left = StoredResponse.objects.order_by("user__username", "key").values_list("user__username", "key")
    assert list(left) == [("root", "kept"), ("root", "new"), ("second", "kept"), ("second", "old")]


@pytest.mark.parametrize(
    ("ago", "status"), [(timedelta(minutes=1), 409), (timedelta(minutes=1) + SECOND, 201)]
)
def test_what_is_worked_on_is_taken_over_after_a_minute(root, ago, status):
    send(root)
    StoredResponse.objects.update(status=None, answer="")
    with time_machine.travel(NOW, tick=False):
        StoredResponse.objects.update(at=NOW - ago)
        answer = send(root)
        assert answer.status_code == status
        kept = StoredResponse.objects.get()
        assert (kept.at, kept.status) == ((NOW, 201) if status == 201 else (NOW - ago, None))
    if status == 409:
        assert answer.json()["detail"] == "The same is being worked on already; ask again in a moment."


def test_a_write_that_breaks_leaves_its_key_free(root, monkeypatch):
    def break_down(*args, **kwargs):
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("rest_framework.serializers.BaseSerializer.is_valid", break_down)
        with pytest.raises(ZeroDivisionError):
            send(root)
    assert not StoredResponse.objects.exists()
    assert send(root).status_code == 201


@pytest.mark.parametrize(
    ("chosen", "seen", "zone"),
    [
        ("Europe/Berlin", "Asia/Tokyo", "Europe/Berlin"),
        ("", "Asia/Tokyo", "Asia/Tokyo"),
        ("Nowhere", "Asia/Tokyo", "Asia/Tokyo"),
        ("", "", "UTC"),
    ],
)
def test_the_zone_of_a_reader(chosen, seen, zone):
    assert str(zone_of(User(timezone=chosen, seen_timezone=seen))) == zone


def test_signing_in_keeps_the_zone_of_one_person_only_and_no_empty_one(alice, bob):
    request = HttpRequest()
    request.COOKIES["timezone"] = "Europe/Berlin"
    remember_zone(None, request, alice)
    assert dict(User.objects.values_list("username", "seen_timezone")) == {
        "alice": "Europe/Berlin",
        "bob": "",
    }
    alice.refresh_from_db()
    request.COOKIES.clear()
    remember_zone(None, request, alice)
    assert User.objects.get(username="alice").seen_timezone == "Europe/Berlin"


@pytest.mark.parametrize(
    ("chosen", "cookie", "hour"),
    [
        ("", "", "09:00"),
        ("", "Asia/Tokyo", "18:00"),
        ("Europe/Berlin", "Asia/Tokyo", "10:00"),
        ("Nowhere", "Asia/Tokyo", "18:00"),
    ],
)
def test_a_page_shows_moments_in_the_zone_that_was_chosen_else_that_of_the_browser(
    browse, alice, chosen, cookie, hour
):
    User.objects.update(timezone=chosen)
    Notice.objects.create(user=alice, key="k", title="t", created_at=NOW)
    person = browse(alice)
    if cookie:
        person.cookies["timezone"] = cookie
    assert hour in person.get("/me/notices/").text
    assert timezone.get_current_timezone_name() == "UTC"
