"""A moment is told in the time zone of its reader: the one they chose, else that of their browser."""

from datetime import UTC, datetime

import pytest
from django.core import mail
from django.test import Client
from django.utils import timezone

from core.times import moment_with_zone
from notify import tasks
from notify.models import Notice
from notify.services import notify
from teams.models import User

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
END = "sam ends on Fri 20 Nov 2026, "


def told(*people):
    notify(people, key="k", title=lambda: f"sam ends on {moment_with_zone(NOON)}", body="Save your work.")
    return {notice.user.username: notice.title for notice in Notice.objects.select_related("user")}


def test_notice_times_use_the_readers_zone(alice, bob, eve):
    User.objects.filter(pk=alice.pk).update(timezone="Europe/Berlin", seen_timezone="Asia/Tokyo")
    User.objects.filter(pk=bob.pk).update(seen_timezone="America/New_York")
    with timezone.override("Asia/Kolkata"):  # of whoever has caused it
        said = told(*User.objects.all())
    assert said == {"alice": f"{END}13:00 CET", "bob": f"{END}07:00 EST", "eve": f"{END}12:00 UTC"}


def test_mail_and_bell_show_the_same_text(alice, settings):
    settings.MAIL_URL = "smtp://mail.example.org"
    User.objects.update(timezone="Europe/Berlin", mail="all", email="a@example.org")
    told(*User.objects.all())
    tasks.mail_notices()
    assert mail.outbox[0].subject == f"{END}13:00 CET"


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
