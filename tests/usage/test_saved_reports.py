"""Saved reports: for one person, mailed once a month if wanted, as far as the reader may still see them."""

import re
from datetime import UTC, date, datetime, timedelta

import pytest
import time_machine
from django.core import mail

from tests.usage.conftest import hold, measure, price
from tests.usage.test_fleet_report import had
from usage.daily import store_days
from usage.models import SavedReport
from usage.saved_reports import mail_reports, save_report
from usage.tasks import mail_reports as task

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
FIRST = datetime(2026, 12, 1, 2, tzinfo=UTC)
SAVE, SAVED = "/report/save/", "/report/saved/"


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def month(claim, fra):
    """November, of which all days are stored."""
    price("2")
    had(fra, 4, NOW)
    measure(hold(claim, NOW, NOW + timedelta(hours=10)), NOW, [0.5] * 120)
    store_days(now=FIRST)


@pytest.fixture
def monthly(month, root, settings):
    settings.MAIL_URL, settings.PORTAL_URL = "smtp://mail", "https://gpus.example"
    root.email = "root@example.org"
    root.save(update_fields=["email"])
    return save_report(by=root, name="By team", query="by=team&range=7d", monthly=True, now=NOW)


def test_a_report_is_saved_with_its_choice_and_appears_on_the_page(client, root):
    client.force_login(root)
    answer = client.post(
        SAVE, {"name": "Fleet", "query": "by=person&range=7d&page=3&format=csv"}, follow=True
    )
    assert "Saved as “Fleet”." in answer.text
    saved = SavedReport.objects.get()
    assert (saved.query, saved.monthly, saved.user) == ("by=person&range=7d", False, root)
    assert 'href="?by=person&amp;range=7d" aria-current="true">Fleet' in answer.text
    client.post(SAVE, {"name": "Fleet", "query": "by=team", "monthly": "1"})
    assert [(one.query, one.monthly) for one in SavedReport.objects.all()] == [("by=team", True)]


@pytest.mark.parametrize(
    "sent", [{"name": ""}, {"name": "x" * 61}, {"query": "by=colour"}, {"query": "team=none-such"}]
)
def test_what_cannot_be_shown_cannot_be_saved(client, root, sent):
    client.force_login(root)
    assert client.post(SAVE, {"name": "One", "query": "by=team"} | sent).status_code == 422
    assert not SavedReport.objects.exists()


def test_saving_is_for_those_who_may_read_the_report(client, alice, lena, vision):
    client.force_login(alice)
    assert client.post(SAVE, {"name": "One", "query": "by=team"}).status_code == 403
    client.force_login(lena)
    assert client.post(SAVE, {"name": "One", "query": "by=claim"}).status_code == 302


def test_one_sees_and_changes_only_ones_own(client, monthly, root, lena, vision):
    address = f"{SAVED}{monthly.pk}/"
    client.force_login(lena)
    assert "By team" not in client.get(SAVED).text
    assert client.post(address, {"do": "delete"}).status_code == 404
    client.force_login(root)
    assert "By team" in client.get(SAVED).text
    assert client.post(address, {"do": "other"}).status_code == 422
    client.post(address, {"do": "no-mail"})
    assert not SavedReport.objects.get().monthly
    client.post(address, {"do": "mail"})
    assert SavedReport.objects.get().monthly
    client.post(address, {"do": "delete"})
    assert not SavedReport.objects.exists()


def test_the_last_month_is_mailed_once_with_its_csv(monthly):
    mail_reports(NOW)
    assert not mail.outbox  # the month is not over
    for _ in range(2):
        mail_reports(FIRST)
    (sent,) = mail.outbox
    assert (sent.subject, sent.to) == ("By team, November 2026", ["root@example.org"])
    assert "Allocated: €20.00, 10.00 GPU-hours" in sent.body
    assert "Used: €10.00" in sent.body
    name, content, kind = sent.attachments[0]
    assert (name, kind) == ("by-team-2026-11.csv", "text/csv")
    assert content.splitlines()[1].startswith("team,Vision,2026-11-01,2026-11-30,EUR,10.000000")
    assert SavedReport.objects.get().mailed_for == date(2026, 11, 1)


def test_nothing_is_mailed_before_the_last_day_of_the_month_is_stored(monthly):
    mail_reports(datetime(2027, 1, 1, 0, 30, tzinfo=UTC))
    assert not mail.outbox


def test_only_monthly_reports_of_people_who_may_see_them_are_mailed(monthly, root, lena, vision, settings):
    lena.email = "lena@example.org"
    lena.save(update_fields=["email"])
    save_report(by=lena, name="Mine", query="by=claim", monthly=True, now=NOW)
    save_report(by=root, name="Silent", query="by=claim", monthly=False, now=NOW)
    vision.memberships.filter(user=lena).update(role="member")
    with time_machine.travel(FIRST):
        task()
    assert [one.subject for one in mail.outbox] == ["By team, November 2026"]
    assert not SavedReport.objects.get(name="Mine").monthly


@pytest.mark.parametrize("changes", [{"is_active": False}, {"email": ""}], ids=["deactivated", "no address"])
def test_who_cannot_read_it_gets_no_mail(monthly, root, changes):
    type(root).objects.filter(pk=root.pk).update(**changes)
    mail_reports(FIRST)
    assert not mail.outbox


def test_a_mail_that_failed_for_a_while_is_sent_later(monthly, monkeypatch):
    def refuse(_self):
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr("django.core.mail.EmailMessage.send", refuse)
        mail_reports(FIRST)
    assert not mail.outbox
    mail_reports(FIRST)
    assert len(mail.outbox) == 1


def test_without_a_mail_server_nothing_is_marked(monthly, settings):
    settings.MAIL_URL = ""
    mail_reports(FIRST)
    assert SavedReport.objects.get().mailed_for == date(2026, 10, 1)


def test_the_link_in_the_mail_stops_it_without_signing_in(client, monthly):
    mail_reports(FIRST)
    (sent,) = mail.outbox
    link = re.search(r"Stop this mail: https://gpus.example(\S+)", str(sent.body))[1]
    assert sent.extra_headers["List-Unsubscribe"] == f"<https://gpus.example{link}>"
    assert "Stop the email of “By team”?" in client.get(link).text
    assert SavedReport.objects.get().monthly  # a GET changes nothing
    assert "is not emailed any more" in client.post(link).text
    assert not SavedReport.objects.get().monthly
    assert client.get(f"{link[:-2]}x/").status_code == 404
    SavedReport.objects.all().delete()
    assert client.post(link).status_code == 404


API = "/api/v1/costs/saved-reports/"


def test_api_saves_lists_changes_and_deletes_ones_own_reports(client, monthly, root, lena, vision):
    client.force_login(lena)
    assert client.get(API).json()["results"] == []
    made = client.post(API, {"name": "Mine", "query": "by=claim&range=30d"}, "application/json")
    assert made.status_code == 201
    one = f"{API}{made.json()['id']}/"
    assert client.get(one).json() == {**made.json(), "query": "by=claim&range=30d", "monthly": False}
    changed = client.patch(one, {"monthly": True}, "application/json").json()
    assert (changed["monthly"], SavedReport.objects.get(name="Mine").monthly) == (True, True)
    for method in (client.get, client.delete):
        assert method(f"{API}{monthly.pk}/").status_code == 404
    assert client.patch(f"{API}{monthly.pk}/", {"monthly": False}, "application/json").status_code == 404
    assert client.delete(one).status_code == 204
    assert list(SavedReport.objects.values_list("name", flat=True)) == ["By team"]


def test_api_refuses_what_the_page_refuses(client, root, alice):
    client.force_login(root)
    for sent in ({"name": ""}, {"name": "x", "query": "by=nothing"}, {"name": "a\tb"}, {}):
        assert client.post(API, sent, "application/json").status_code == 422
    client.force_login(alice)
    assert client.post(API, {"name": "Mine"}, "application/json").status_code == 403
    client.logout()
    assert client.get(API).status_code == 401
