"""Telling people: once per event, behind the bell, and by email to those who want it."""

import ast
import smtplib
from datetime import timedelta

import pytest
from django.conf import settings as settings_of_project
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.core.mail.backends.locmem import EmailBackend
from django.utils import timezone

from notify import tasks
from notify.models import Mail, Notice, NoticeKind
from notify.preferences import Preference, store_preferences
from notify.services import mark_read, notify, unread_count
from portal.mail_server import mailer
from teams.models import User
from teams.services import remove_member
from tests.factories import make_team

PAGE, READ, API = "/me/notices/", "/me/notices/read/", "/api/v1/notices/"


@pytest.fixture
def mailed(settings):
    """Mail goes to `django.core.mail.outbox`, as with a server."""
    settings.MAIL_URL, settings.PORTAL_URL = "smtp://mail.example.org", "https://gpu.example.org"


def want(person, preference, address="a@example.org"):
    User.objects.filter(pk=person.pk).update(email=address)
    store_preferences(by=person, preferences=dict.fromkeys(NoticeKind, Preference(mail=Mail(preference))))


def test_notifying_twice_adds_one_notice(alice, bob):
    for _ in range(2):
        notify([alice, bob, alice], kind=NoticeKind.CHANGE, key="claim:1:expired", title="It is over")
    assert (unread_count(alice), unread_count(bob)) == (1, 1)


def test_inactive_people_get_no_notice(alice):
    for is_active, told in ((False, 0), (True, 1)):
        alice.is_active = is_active
        notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")
        assert Notice.objects.count() == told


def test_notice_about_a_team_is_for_those_who_see_it(alice, eve, root, vision):
    notify([alice, eve, root], kind=NoticeKind.CHANGE, key="k", title="t", team_id=vision.pk)
    assert {notice.user for notice in Notice.objects.filter(team=vision)} == {alice, root}


@pytest.mark.django_db(transaction=True)
def test_former_member_loses_the_notices_about_the_team(alice, bob, olga, root, vision, browse, api):
    other = make_team("nlp", members=(alice,))
    vision.memberships.create(user=root)
    for key, team_id in (("a", vision.pk), ("b", other.pk), ("c", None)):
        notify([alice, bob, root], kind=NoticeKind.CHANGE, key=key, title=f"notice {key}", team_id=team_id)
    remove_member(by=olga, team=vision, member=vision.memberships.get(user=alice))
    vision.memberships.filter(user=root).delete()
    assert [row["title"] for row in api(alice).get(API).json()["results"]] == ["notice c", "notice b"]
    assert "notice a" not in browse(alice).get(PAGE).text
    assert (unread_count(bob), unread_count(root)) == (2, 3)


def test_every_notice_of_claims_names_its_team():
    calls = [
        (path.name, node.lineno, {keyword.arg for keyword in node.keywords})
        for path in (settings_of_project.BASE_DIR / "claims").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "notify"
    ]
    assert len(calls) > 10
    # For platform admins; for who is not in it any more; with that of the claim, unless it is said.
    of_no_team = {"credential_expiry.py", "leaving.py", "notices.py"}
    assert {call[0] for call in calls if "team_id" not in call[2]} == of_no_team


@pytest.mark.parametrize(
    ("preference", "address", "important", "sent"),
    [
        ("all", "a@example.org", False, 1),
        ("important", "a@example.org", False, 0),
        ("important", "a@example.org", True, 1),
        ("none", "a@example.org", True, 0),
        ("all", "", True, 0),
    ],
)
def test_mail_setting_decides_what_is_mailed(
    alice, mailed, django_capture_on_commit_callbacks, preference, address, important, sent
):
    want(alice, preference, address)
    with django_capture_on_commit_callbacks(execute=True):
        notify(
            [alice],
            kind=NoticeKind.CHANGE,
            key="k",
            title="Two\nlines",
            body="More.",
            url="/claims/",
            important=important,
        )
    tasks.mail_notices()  # once is enough
    assert len(mail.outbox) == sent
    if sent:
        assert mail.outbox[0].subject == "Two lines"
        assert "https://gpu.example.org/claims/" in mail.outbox[0].body
        assert mail.outbox[0].to == [address]


def test_without_mail_server_notices_stay_unsent(alice, settings):
    want(alice, "all")
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")
    tasks.mail_notices()
    assert mail.outbox == []
    assert Notice.objects.get().mailed_at is None


def test_unreachable_server_is_tried_again(alice, mailed, monkeypatch):
    want(alice, "all")
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")

    def refuse(*_):
        raise smtplib.SMTPServerDisconnected("gone")

    with monkeypatch.context() as broken:
        broken.setattr(EmailBackend, "send_messages", refuse)
        tasks.mail_notices()
    assert mail.outbox == []
    tasks.mail_notices()
    assert len(mail.outbox) == 1


def test_notice_older_than_a_day_is_not_mailed(alice, mailed):
    want(alice, "all")
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")
    Notice.objects.update(created_at=timezone.now() - timedelta(hours=25))
    tasks.mail_notices()
    assert mail.outbox == []
    Notice.objects.update(created_at=timezone.now() - timedelta(hours=23))
    tasks.mail_notices()
    assert len(mail.outbox) == 1


def test_bell_and_list_show_unread_notices(browse, alice):
    notify(
        [alice],
        kind=NoticeKind.CHANGE,
        key="k",
        title="sam2 ends <today>",
        body="At 18:00.",
        url="/catalogue/",
        important=True,
    )
    page = browse(alice).get(PAGE).text
    assert "Notices: 1 unread" in page
    assert "sam2 ends &lt;today&gt;" in page
    assert "needs you" in page
    assert "Notices: 1 unread" in browse(alice).get(PAGE + "bell/").text


def test_bell_answers_304_until_another_notice_is_unread(browse, alice, django_assert_max_num_queries):
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="sam2 ends today")
    person = browse(alice)
    headers = {"If-None-Match": person.get(PAGE + "bell/")["ETag"]}
    with django_assert_max_num_queries(3):
        assert person.get(PAGE + "bell/", headers=headers).status_code == 304
    notify([alice], kind=NoticeKind.CHANGE, key="l", title="sam3 ends today")
    changed = person.get(PAGE + "bell/", headers=headers)
    assert changed.status_code == 200
    assert "Notices: 2 unread" in changed.text


def test_opening_a_notice_marks_it_read(browse, alice):
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="t", url="/catalogue/")
    notice = Notice.objects.get()
    assert browse(alice).get(f"{PAGE}{notice.pk}/").headers["Location"] == "/catalogue/"
    assert unread_count(alice) == 0


def test_one_or_all_notices_can_be_marked_read(browse, alice):
    for number in range(3):
        notify([alice], kind=NoticeKind.CHANGE, key=f"k{number}", title="t")
    first = Notice.objects.first()
    assert browse(alice).post(READ, {"id": str(first.pk)}).status_code == 302
    assert unread_count(alice) == 2
    browse(alice).post(READ)
    assert unread_count(alice) == 0


def test_invalid_notice_id_is_refused(browse, alice):
    assert browse(alice).post(READ, {"id": "everything"}).status_code == 422


def test_outsider_cannot_read_or_mark_a_notice(browse, api, alice, eve):
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="secret")
    notice = Notice.objects.get()
    assert "secret" not in browse(eve).get(PAGE).text
    assert browse(eve).get(f"{PAGE}{notice.pk}/").status_code == 404
    browse(eve).post(READ, {"id": str(notice.pk)})
    browse(eve).post(READ)
    assert api(eve).post(API + "read/", {"ids": [str(notice.pk)]}, format="json").data == {"read": 0}
    assert api(eve).get(API).data["results"] == []
    assert unread_count(alice) == 1


def test_anonymous_reader_is_sent_to_sign_in(client, db):
    assert client.get(PAGE).status_code == 302
    assert client.get(PAGE + "bell/").status_code == 302


def test_api_lists_and_marks_notices(api, alice):
    for number in range(2):
        notify([alice], kind=NoticeKind.CHANGE, key=f"k{number}", title=f"t{number}", url="/claims/")
    rows = api(alice).get(API).data["results"]
    assert [row["title"] for row in rows] == ["t1", "t0"]
    assert api(alice).post(API + "read/", {"ids": [rows[0]["id"]]}, format="json").data == {"read": 1}
    assert api(alice).post(API + "read/", {}, format="json").data == {"read": 1}
    assert api(alice).post(API + "read/", {"ids": ["x"]}, format="json").status_code == 422


def test_notice_list_query_count_is_constant(browse, alice, django_assert_max_num_queries):
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="t")
    person = browse(alice)
    with django_assert_max_num_queries(30) as one:
        person.get(PAGE)
    for number in range(40):
        notify([alice], kind=NoticeKind.CHANGE, key=f"k{number}", title="t")
    with django_assert_max_num_queries(len(one)):
        person.get(PAGE)


def test_notice_list_downloads_as_csv(browse, alice):
    notify([alice], kind=NoticeKind.CHANGE, key="k", title="=1+1")
    lines = browse(alice).get(PAGE + "?format=csv").getvalue().decode().splitlines()
    assert lines[1].startswith("'=1+1,")


def test_old_notices_are_deleted(alice):
    for number, (days, is_read) in enumerate([(91, True), (91, False), (89, True), (366, False)]):
        notify([alice], kind=NoticeKind.CHANGE, key=str(number), title="t")
        Notice.objects.filter(key=str(number)).update(
            created_at=timezone.now() - timedelta(days=days), read_at=timezone.now() if is_read else None
        )
    tasks.forget_notices()
    assert sorted(Notice.objects.values_list("key", flat=True)) == ["1", "2"]
    assert mark_read(by=alice) == 1


def test_mail_url_sets_all_mailer_options():
    options = mailer("smtp+tls://gpu%40example.org:s%3Acret@mail.example.org")["OPTIONS"]
    assert (options["host"], options["port"], options["use_tls"]) == ("mail.example.org", 587, True)
    assert (options["username"], options["password"]) == ("gpu@example.org", "s:cret")


@pytest.mark.parametrize("url", ["mail.example.org", "http://mail.example.org", "smtp://"])
def test_invalid_mail_url_stops_the_start(url):
    with pytest.raises(ImproperlyConfigured, match="EMAIL_URL"):
        mailer(url)
