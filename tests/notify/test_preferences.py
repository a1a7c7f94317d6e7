"""Which notices a person wants, by kind and channel."""

import ast

import pytest
from django.conf import settings as settings_of_project
from django.core import mail

from notify import tasks
from notify.models import Mail, Notice, NoticeKind, NoticePreference
from notify.preferences import ABOUT, ALWAYS, REQUIRED, Preference, preferences_of, store_preferences
from notify.services import notify, unread_count

ACCOUNT, PAGE, CHOOSE, API = (
    "/me/",
    "/me/notices/",
    "/me/notices/preferences/",
    "/api/v1/notices/preferences/",
)


@pytest.fixture
def mailed(settings):
    settings.MAIL_URL, settings.PORTAL_URL = "smtp://mail.example.org", "https://gpu.example.org"


def form(**chosen):
    """The form of the account page as the browser sends it, with the defaults where nothing is chosen."""
    fields = {f"mail-{kind}": "important" for kind in NoticeKind if kind not in REQUIRED}
    return fields | {f"portal-{kind}": "on" for kind in NoticeKind if kind not in REQUIRED} | chosen


def optional(person):
    return [(kind, wanted) for kind, wanted in preferences_of(person).items() if kind not in REQUIRED]


@pytest.mark.parametrize(
    ("wanted", "important", "portal", "by_mail"),
    [
        (None, False, 1, 0),
        (None, True, 1, 1),
        (Preference(mail=Mail.ALL), False, 1, 1),
        (Preference(mail=Mail.NONE), True, 1, 0),
        (Preference(in_portal=False, mail=Mail.ALL), False, 0, 1),
        (Preference(in_portal=False, mail=Mail.IMPORTANT), False, 0, 0),
        (Preference(in_portal=False, mail=Mail.NONE), True, 0, 0),
    ],
)
def test_each_channel_has_what_the_person_wants_of_the_kind(
    alice, browse, api, mailed, wanted, important, portal, by_mail
):
    type(alice).objects.update(email="alice@example.org")
    if wanted:
        store_preferences(by=alice, preferences={NoticeKind.END: wanted})
    notify([alice], kind=NoticeKind.END, key="k", title="sam2 ends", important=important)
    notify([alice], kind=NoticeKind.DECISION, key="other", title="sam3 approved")
    tasks.mail_notices()
    assert [message.subject for message in mail.outbox] == ["sam2 ends"] * by_mail
    assert unread_count(alice) == 1 + portal
    assert ("sam2 ends" in browse(alice).get(PAGE).text) == bool(portal)
    titles = [row["title"] for row in api(alice).get("/api/v1/notices/").json()["results"]]
    assert titles == ["sam3 approved", "sam2 ends"][: 1 + portal]


def test_event_that_nobody_wants_to_hear_of_is_still_known_to_be_dealt_with(alice):
    store_preferences(by=alice, preferences={NoticeKind.END: Preference(in_portal=False, mail=Mail.NONE)})
    notify([alice], kind=NoticeKind.END, key="k", title="sam2 ends")
    store_preferences(by=alice, preferences={NoticeKind.END: Preference()})
    notify([alice], kind=NoticeKind.END, key="k", title="sam2 ends", important=True)
    notice = Notice.objects.get()
    assert (notice.in_portal, notice.by_mail) == (False, False)


def test_preferences_are_of_one_person(alice, bob):
    store_preferences(by=alice, preferences={NoticeKind.END: Preference(in_portal=False)})
    notify([alice, bob], kind=NoticeKind.END, key="k", title="t")
    assert (unread_count(alice), unread_count(bob)) == (0, 1)


def test_preferences_of_many_people_are_read_with_one_query(alice, bob, olga, django_assert_num_queries):
    with django_assert_num_queries(2):  # preferences, notices
        notify([alice, bob, olga], kind=NoticeKind.END, key="k", title="t")


def test_notice_of_lost_pods_cannot_be_switched_off(alice, browse, api, mailed):
    off = Preference(in_portal=False, mail=Mail.NONE)
    store_preferences(by=alice, preferences={NoticeKind.PODS: off})
    NoticePreference.objects.create(user=alice, kind=NoticeKind.PODS, in_portal=False, mail=Mail.NONE)
    notify([alice], kind=NoticeKind.PODS, key="k", title="Pods of sam2 are evicted", important=True)
    notice = Notice.objects.get()
    assert (notice.in_portal, notice.by_mail) == (True, True)
    assert preferences_of(alice)[NoticeKind.PODS] == ALWAYS
    page = browse(alice).get(ACCOUNT).text
    assert "Always on: work is lost if nobody reacts in time." in page
    answer = api(alice).post(API, {"kind": "pods", "in_portal": False, "mail": "none"}, format="json")
    assert answer.status_code == 422
    assert "Always on" in answer.json()["detail"]


def test_account_page_stores_what_was_chosen(alice, browse):
    person = browse(alice)
    chosen = form(**{"mail-end": "all", "mail-comment": "none"})
    del chosen["portal-unused"]
    answer = person.post(CHOOSE, chosen | {"portal-pods": "", "mail-pods": "none"})
    assert answer.headers["Location"] == f"{ACCOUNT}#notices"
    changed = {kind: wanted for kind, wanted in optional(alice) if wanted != Preference()}
    assert changed == {
        NoticeKind.END: Preference(mail=Mail.ALL),
        NoticeKind.COMMENT: Preference(mail=Mail.NONE),
        NoticeKind.UNUSED: Preference(in_portal=False),
    }
    page = person.get(ACCOUNT).text
    assert '<option value="all" selected>' in page
    person.post(CHOOSE, form())
    assert {wanted for _kind, wanted in optional(alice)} == {Preference()}


def test_unknown_channel_is_422_and_stores_nothing(alice, browse, api):
    assert browse(alice).post(CHOOSE, form(**{"mail-end": "pigeon"})).status_code == 422
    for body in (
        {"kind": "end", "in_portal": True, "mail": "pigeon"},
        {"kind": "x", "in_portal": True, "mail": "all"},
    ):
        assert api(alice).post(API, body, format="json").status_code == 422
    assert not NoticePreference.objects.exists()


def test_preferences_need_a_session(alice, browse, client):
    assert client.post(CHOOSE, form()).status_code == 302
    assert client.get(API).status_code == 401


def test_api_lists_and_changes_one_kind(alice, api):
    person = api(alice)
    assert [row["kind"] for row in person.get(API).json()["results"]] == [
        k for k in NoticeKind if k != NoticeKind.PLATFORM
    ]
    answer = person.post(API, {"kind": "end", "in_portal": False, "mail": "all"}, format="json")
    assert answer.status_code == 200
    assert {**answer.json()}.items() >= {"kind": "end", "in_portal": False, "mail": "all"}.items()
    assert preferences_of(alice)[NoticeKind.END] == Preference(in_portal=False, mail=Mail.ALL)
    assert [row["kind"] for row in person.get(API).json()["results"] if row["required_because"]] == ["pods"]


def test_kind_of_the_platform_is_for_platform_admins(alice, root, browse, api):
    wish = {"kind": "platform", "in_portal": True, "mail": "all"}
    assert api(alice).post(API, wish, format="json").status_code == 422
    assert api(root).post(API, wish, format="json").status_code == 200
    assert "mail-platform" not in browse(alice).get(ACCOUNT).text
    assert "mail-platform" in browse(root).get(ACCOUNT).text


def test_each_kind_is_explained_and_sent_by_somebody():
    sent = {
        node.attr
        for app in ("claims", "usage", "inventory", "portal")
        for path in (settings_of_project.BASE_DIR / app).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "NoticeKind"
    }
    assert set(ABOUT) == set(NoticeKind)
    assert {kind.name for kind in NoticeKind} <= sent


def test_page_without_a_mail_server_says_so(alice, browse, settings):
    settings.MAIL_URL = ""
    assert "This portal sends no email" in browse(alice).get(ACCOUNT).text
    settings.MAIL_URL = "smtp://mail.example.org"
    assert "You have no email address" in browse(alice).get(ACCOUNT).text
    type(alice).objects.update(email="alice@example.org")
    assert "Emails go to alice@example.org." in browse(alice).get(ACCOUNT).text
