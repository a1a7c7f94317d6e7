"""Telling people: once per event, behind the bell, and by mail to those who want it."""

import smtplib
from datetime import timedelta

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.mail.backends.locmem import EmailBackend
from django.utils import timezone

from portal.mailers import mailer
from teams import tasks
from teams.models import Notice, User
from teams.notices import mark_read, tell, unread

PAGE, READ, API = "/me/notices/", "/me/notices/read/", "/api/v1/notices/"


@pytest.fixture
def mailed(settings):
    """Mail goes to `django.core.mail.outbox`, as with a server."""
    settings.MAIL_URL, settings.PORTAL_URL = "smtp://mail.example.org", "https://gpu.example.org"


def want(person, wish, address="a@example.org"):
    User.objects.filter(pk=person.pk).update(mail=wish, email=address)
    person.refresh_from_db()


def test_telling_twice_tells_once(alice, bob):
    for _ in range(2):
        tell([alice, bob, alice], key="claim:1:expired", title="It is over")
    assert (unread(alice), unread(bob)) == (1, 1)


def test_nobody_is_told_who_cannot_sign_in(alice):
    for is_active, told in ((False, 0), (True, 1)):
        alice.is_active = is_active
        tell([alice], key="k", title="t")
        assert Notice.objects.count() == told


@pytest.mark.parametrize(
    ("wish", "address", "important", "sent"),
    [
        ("all", "a@example.org", False, 1),
        ("important", "a@example.org", False, 0),
        ("important", "a@example.org", True, 1),
        ("none", "a@example.org", True, 0),
        ("all", "", True, 0),
    ],
)
def test_by_mail_goes_what_its_reader_wants(
    alice, mailed, django_capture_on_commit_callbacks, wish, address, important, sent
):
    want(alice, wish, address)
    with django_capture_on_commit_callbacks(execute=True):
        tell([alice], key="k", title="Two\nlines", body="More.", url="/claims/", important=important)
    tasks.mail_notices()  # once is enough
    assert len(mail.outbox) == sent
    if sent:
        assert mail.outbox[0].subject == "Two lines"
        assert "https://gpu.example.org/claims/" in mail.outbox[0].body
        assert mail.outbox[0].to == [address]


def test_without_a_mail_server_nothing_is_sent_and_nothing_is_lost(alice, settings):
    want(alice, "all")
    tell([alice], key="k", title="t")
    tasks.mail_notices()
    assert mail.outbox == []
    assert Notice.objects.get().mailed_at is None


def test_a_server_that_refuses_is_tried_again(alice, mailed, monkeypatch):
    want(alice, "all")
    tell([alice], key="k", title="t")

    def refuse(*_):
        raise smtplib.SMTPServerDisconnected("gone")

    with monkeypatch.context() as broken:
        broken.setattr(EmailBackend, "send_messages", refuse)
        tasks.mail_notices()
    assert mail.outbox == []
    tasks.mail_notices()
    assert len(mail.outbox) == 1


def test_what_is_more_than_a_day_old_is_not_sent_any_more(alice, mailed):
    want(alice, "all")
    tell([alice], key="k", title="t")
    Notice.objects.update(created_at=timezone.now() - timedelta(hours=25))
    tasks.mail_notices()
    assert mail.outbox == []
    Notice.objects.update(created_at=timezone.now() - timedelta(hours=23))
    tasks.mail_notices()
    assert len(mail.outbox) == 1


def test_the_bell_counts_and_the_list_shows_what_is_unread(browse, alice):
    tell([alice], key="k", title="sam2 ends <today>", body="At 18:00.", url="/catalogue/", important=True)
    page = browse(alice).get(PAGE).text
    assert "Notices: 1 unread" in page
    assert "sam2 ends &lt;today&gt;" in page
    assert "needs you" in page
    assert "Notices: 1 unread" in browse(alice).get(PAGE + "bell/").text


def test_following_a_notice_reads_it(browse, alice):
    tell([alice], key="k", title="t", url="/catalogue/")
    notice = Notice.objects.get()
    assert browse(alice).get(f"{PAGE}{notice.pk}/").headers["Location"] == "/catalogue/"
    assert unread(alice) == 0


def test_all_or_one_can_be_marked_as_read(browse, alice):
    for number in range(3):
        tell([alice], key=f"k{number}", title="t")
    first = Notice.objects.first()
    assert browse(alice).post(READ, {"id": str(first.pk)}).status_code == 302
    assert unread(alice) == 2
    browse(alice).post(READ)
    assert unread(alice) == 0


def test_an_id_that_is_none_is_refused(browse, alice):
    assert browse(alice).post(READ, {"id": "everything"}).status_code == 422


def test_nobody_reads_or_marks_the_notices_of_others(browse, api, alice, eve):
    tell([alice], key="k", title="secret")
    notice = Notice.objects.get()
    assert "secret" not in browse(eve).get(PAGE).text
    assert browse(eve).get(f"{PAGE}{notice.pk}/").status_code == 404
    browse(eve).post(READ, {"id": str(notice.pk)})
    browse(eve).post(READ)
    assert api(eve).post(API + "read/", {"ids": [str(notice.pk)]}, format="json").data == {"read": 0}
    assert api(eve).get(API).data["results"] == []
    assert unread(alice) == 1


def test_reading_is_a_post(browse, alice):
    assert browse(alice).get(READ).status_code == 405
    assert browse(alice).post(PAGE).status_code == 405


def test_a_stranger_is_sent_to_the_sign_in(client, db):
    assert client.get(PAGE).status_code == 302
    assert client.get(PAGE + "bell/").status_code == 302


def test_the_api_lists_and_marks(api, alice):
    for number in range(2):
        tell([alice], key=f"k{number}", title=f"t{number}", url="/claims/")
    rows = api(alice).get(API).data["results"]
    assert [row["title"] for row in rows] == ["t1", "t0"]
    assert api(alice).post(API + "read/", {"ids": [rows[0]["id"]]}, format="json").data == {"read": 1}
    assert api(alice).post(API + "read/", {}, format="json").data == {"read": 1}
    assert api(alice).post(API + "read/", {"ids": ["x"]}, format="json").status_code == 422


def test_the_list_costs_the_same_for_one_and_for_forty(browse, alice, django_assert_max_num_queries):
    tell([alice], key="k", title="t")
    person = browse(alice)
    with django_assert_max_num_queries(30) as one:
        person.get(PAGE)
    for number in range(40):
        tell([alice], key=f"k{number}", title="t")
    with django_assert_max_num_queries(len(one)):
        person.get(PAGE)


def test_the_list_can_be_downloaded(browse, alice):
    tell([alice], key="k", title="=1+1")
    lines = browse(alice).get(PAGE + "?format=csv").text.splitlines()
    assert lines[1].startswith("'=1+1,")


def test_old_notices_are_forgotten(alice):
    for number, (days, is_read) in enumerate([(91, True), (91, False), (89, True), (366, False)]):
        tell([alice], key=str(number), title="t")
        Notice.objects.filter(key=str(number)).update(
            created_at=timezone.now() - timedelta(days=days), read_at=timezone.now() if is_read else None
        )
    tasks.forget_notices()
    assert sorted(Notice.objects.values_list("key", flat=True)) == ["1", "2"]
    assert mark_read(by=alice) == 1


def test_the_address_of_a_mail_server_is_read_whole():
    options = mailer("smtp+tls://gpu%40example.org:s%3Acret@mail.example.org")["OPTIONS"]
    assert (options["host"], options["port"], options["use_tls"]) == ("mail.example.org", 587, True)
    assert (options["username"], options["password"]) == ("gpu@example.org", "s:cret")


@pytest.mark.parametrize("url", ["mail.example.org", "http://mail.example.org", "smtp://"])
def test_an_address_that_is_none_stops_the_start(url):
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL"):
        mailer(url)
