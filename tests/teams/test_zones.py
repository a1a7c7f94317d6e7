"""A moment is shown in the time zone of its reader: the one they chose, else that of their browser."""

from datetime import UTC, datetime

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from claims.lifecycle.services import shorten
from claims.states import ClaimState
from core.times import local_text, utc_moment
from notify import tasks
from notify.models import NoticeKind
from notify.services import notify
from teams.models import User
from tests.factories import make_claim, make_cluster, make_team, want_all_mail

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
END = "sam ends on Fri 20 Nov 2026, "


def send_notices():
    end = f"sam ends on {utc_moment(NOON)}"
    with timezone.override("Asia/Kolkata"):  # of whoever has caused it
        notify(User.objects.all(), kind=NoticeKind.CHANGE, key="k", title=end, body=f"<b>{end}")


@pytest.mark.parametrize(
    ("chosen", "browser", "shown"),
    [
        ("Europe/Berlin", "Asia/Tokyo", "13:00"),
        ("", "America/New_York", "07:00"),
        ("", "", "12:00"),
    ],
)
def test_notices_are_shown_in_the_zone_of_who_reads_them_now(alice, client, chosen, browser, shown):
    send_notices()
    User.objects.update(timezone=chosen)
    client.force_login(alice)
    client.cookies["timezone"] = browser
    page = client.get(reverse("notify:list")).text
    assert page.count(f">Fri 20 Nov 2026, {shown}</time>") == 2
    assert "&lt;b&gt;sam ends on <time" in page


def test_history_is_shown_in_the_zone_of_who_reads_it_now(alice, client):
    team = make_team("vision", members=(alice,))
    cluster = make_cluster("fra-1", teams=(team,))
    end = datetime(2126, 11, 21, 12, tzinfo=UTC)
    claim = make_claim(team, by=alice, cluster=cluster, state=ClaimState.ALLOCATED, expires_at=end)
    with timezone.override("Asia/Kolkata"):
        shorten(claim=claim, by=alice, until=datetime(2126, 11, 20, 12, tzinfo=UTC))
    client.force_login(alice)
    client.cookies["timezone"] = "Europe/Berlin"
    page = client.get(f"/claims/{claim.pk}/").text
    assert ">Wed 20 Nov 2126, 13:00</time>" in page
    assert "17:30" not in page


@pytest.mark.parametrize(
    ("chosen", "seen", "shown"),
    [
        ("Europe/Berlin", "Asia/Tokyo", "13:00 CET"),
        ("", "America/New_York", "07:00 EST"),
        ("", "", "12:00 UTC"),
    ],
)
def test_mail_names_the_zone_of_its_reader(alice, settings, chosen, seen, shown):
    settings.MAIL_URL = "smtp://mail.example.org"
    User.objects.update(timezone=chosen, seen_timezone=seen, email="a@example.org")
    want_all_mail(alice)
    send_notices()
    tasks.mail_notices()
    assert mail.outbox[0].subject == f"{END}{shown}"
    assert f"<b>{END}{shown}" in mail.outbox[0].body


@pytest.mark.parametrize(
    "text", ["Mon 31 Feb 2026, 10:00 UTC", "Xyz 1 Abc 2026, 10:00 UTC", "Mon 1 Jan 0001, 00:00 UTC"]
)
def test_text_that_is_no_moment_stays(text):
    with timezone.override("America/New_York"):
        assert local_text(text) == text


def test_sign_in_stores_the_browser_zone(alice):
    browser = Client()
    browser.cookies["timezone"] = "Europe/Berlin"
    browser.post("/accounts/login/", {"login": "alice", "password": "alice"})
    alice.refresh_from_db()
    assert (alice.seen_timezone, alice.timezone) == ("Europe/Berlin", "")


@pytest.mark.parametrize("name", ["Europe", "../../etc/passwd", "x" * 300, "Atlantis/Capital", '"\\000"'])
def test_unknown_zone_is_none(alice, name):
    browser = Client()
    browser.cookies.load(f"timezone={name}")
    browser.post("/accounts/login/", {"login": "alice", "password": "alice"})
    page = browser.get("/me/")
    assert page.status_code == 200
    assert 'data-zone="UTC"' in page.text
    alice.refresh_from_db()
    assert alice.seen_timezone == ""
