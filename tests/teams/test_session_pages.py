"""Where somebody is signed in, on pages and over the API, and signing out there."""

import csv

import pytest
from django.test import Client

from teams.browsers import browser_in_words
from teams.models import AuditEntry, Session
from teams.tokens import create_token
from tests.factories import make_team, make_token

LIST, OTHERS = "/me/sessions/", "/me/sessions/others/"
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/141.0.0.0 "
    "Safari/537.36"
)


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        (FIREFOX, "Firefox on Linux"),
        (CHROME, "Chrome on Windows"),
        (f"{CHROME} Edg/141.0.0.0", "Edge on Windows"),
        (f"{CHROME} OPR/120.0.0.0", "Opera on Windows"),
        (
            "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "Version/18.6 Safari/605.1.15",
            "Safari on macOS",
        ),
        (
            "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
            "CriOS/141.0 Mobile/15E148 Safari/604.1",
            "Chrome on iPhone",
        ),
        (
            "Mozilla/5.0 (Linux; Android 15; SM-S931B) AppleWebKit/537.36 (KHTML, like Gecko) "
            "SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36",
            "Samsung Internet on Android",
        ),
        ("Mozilla/5.0 (X11; CrOS x86_64) Chrome/141.0.0.0 Safari/537.36", "Chrome on ChromeOS"),
        ("curl/8.14.1", "curl"),
        ("python-httpx/0.28", "Python"),
        ("Something (X11; Linux)", "Browser on Linux"),
        ("", "Unknown browser"),
        ("<script>alert(1)</script>", "Unknown browser"),
    ],
)
def test_browser_and_system_in_words(agent, words):
    assert browser_in_words(agent) == words


def sign_in(user, agent=FIREFOX, address="127.0.0.1") -> Client:
    client = Client(headers={"user-agent": agent}, REMOTE_ADDR=address)
    answer = client.post("/accounts/login/", {"login": user.username, "password": user.username})
    assert answer.status_code == 302
    return client


def key(client) -> str:
    return client.cookies["sessionid"].value


def is_signed_in(client) -> bool:
    return client.get("/me/").status_code == 200


def ended() -> list[tuple[str, str, str]]:
    entries = AuditEntry.objects.filter(action="session.ended").order_by("at", "pk")
    return list(entries.values_list("actor", "name", "text"))


def test_page_lists_each_browser_with_this_one_first(alice, bob):
    here = sign_in(alice)
    sign_in(alice, CHROME, "192.0.2.7")
    sign_in(bob, address="192.0.2.8")
    page = here.get(LIST).text
    assert page.index("Firefox on Linux") < page.index("Chrome on Windows")
    assert page.count("This browser") == page.count("Sign out Chrome on Windows") == 1
    assert "Sign out Firefox on Linux" not in page
    assert "from 192.0.2.7" in page
    assert "with a password" in page
    assert "192.0.2.8" not in page


@pytest.mark.security("secrets", "the key of a session on pages and in the API")
def test_no_page_shows_what_the_cookie_has(alice, api):
    here, other = sign_in(alice), sign_in(alice, CHROME)
    answers = [here.get(path).text for path in (LIST, OTHERS)]
    answers += [
        here.get(LIST, {"format": "csv"}).getvalue().decode(),
        api(alice).get("/api/v1/me/sessions/").content.decode(),
    ]
    for answer in answers:
        assert key(here) not in answer
        assert key(other) not in answer


def test_list_has_as_many_queries_for_one_as_for_fifty(alice, django_assert_num_queries):
    here = sign_in(alice)
    with django_assert_num_queries(3) as few:
        here.get(LIST)
    for _number in range(50):
        Client().force_login(alice)
    with django_assert_num_queries(len(few)):
        here.get(LIST)


def test_list_as_csv(alice):
    here = sign_in(alice)
    rows = list(csv.reader(here.get(LIST, {"format": "csv"}).getvalue().decode("utf-8-sig").splitlines()))
    assert rows[0] == ["Browser", "Signed in", "With", "Last seen", "Address"]
    assert (rows[1][0], rows[1][2], rows[1][4]) == ("Firefox on Linux", "a password", "127.0.0.1")


def test_one_is_signed_out_and_the_others_stay(alice):
    here, other, third = sign_in(alice), sign_in(alice, CHROME), sign_in(alice)
    session = Session.objects.get(session_key=key(other))
    for expected in (302, 404):
        assert here.post(f"/me/sessions/{session.id}/end").status_code == expected
    assert [is_signed_in(client) for client in (here, other, third)] == [True, False, True]
    assert ended() == [("alice", "alice", "ended a session: Chrome on Windows")]


def test_this_one_is_signed_out_on_the_page_for_that(alice):
    here = sign_in(alice)
    session = Session.objects.get()
    assert here.post(f"/me/sessions/{session.id}/end").headers["Location"] == "/accounts/logout/"
    assert is_signed_in(here)


@pytest.mark.security("sign-in", "other browsers of a person after they were signed out")
def test_all_others_are_signed_out_after_the_page_has_said_which(alice, bob):
    here, other, bobs = sign_in(alice), sign_in(alice, CHROME), sign_in(bob)
    page = here.get(OTHERS).text
    assert "Chrome on Windows, signed in" in page
    assert "Sign out 1 other<" in page
    assert is_signed_in(other)
    for _twice in range(2):
        assert here.post(OTHERS).headers["Location"] == LIST
    assert [is_signed_in(client) for client in (here, other, bobs)] == [True, False, True]
    assert ended() == [("alice", "alice", "ended 1 other session")]
    assert "You are signed in nowhere else." in here.get(OTHERS).text


@pytest.mark.security("access", "ending the session of somebody else")
def test_sessions_of_others_are_not_found(alice, bob, api):
    mine, theirs = sign_in(alice), sign_in(bob)
    session = Session.objects.get(session_key=key(theirs))
    assert mine.post(f"/me/sessions/{session.id}/end").status_code == 404
    assert api(alice).delete(f"/api/v1/me/sessions/{session.id}/").status_code == 404
    assert is_signed_in(theirs)


@pytest.mark.parametrize("path", [LIST, OTHERS])
def test_visitors_sign_in_first(client, db, path):
    assert client.get(path).status_code == 302
    assert client.post(path).status_code in (302, 405)


def test_api_lists_and_ends_sessions(alice, api):
    here, other = sign_in(alice), sign_in(alice, CHROME, "192.0.2.7")
    _row, text = create_token(by=alice, title="t", scopes=["request"])
    program = api(token=text)
    rows = {row["browser"]: row for row in program.get("/api/v1/me/sessions/").json()["results"]}
    chrome = rows["Chrome on Windows"]
    assert (chrome["address"], chrome["signed_in_with"]) == ("192.0.2.7", "password")
    assert program.delete(f"/api/v1/me/sessions/{chrome['id']}/").status_code == 204
    assert [is_signed_in(client) for client in (here, other)] == [True, False]
    sign_in(alice)
    assert program.post("/api/v1/me/sessions/end-others/").json() == {"ended": 2}
    assert not is_signed_in(here)


def test_api_of_a_browser_keeps_its_session(alice):
    here = sign_in(alice)
    sign_in(alice)
    assert here.post("/api/v1/me/sessions/end-others/").json() == {"ended": 1}
    assert is_signed_in(here)


@pytest.mark.security("scopes", "sessions with a token without the scope, or of one team")
def test_token_needs_the_scope_and_all_teams(alice, api):
    here = sign_in(alice)
    _row, reads = create_token(by=alice, title="t", scopes=["read"])
    assert api(token=reads).post("/api/v1/me/sessions/end-others/").status_code == 403
    _row, limited = make_token(alice, team=make_team("vision", members=(alice,)))
    assert api(token=limited).get("/api/v1/me/sessions/").json()["results"] == []
    assert api(token=limited).post("/api/v1/me/sessions/end-others/").status_code == 403
    assert is_signed_in(here)


@pytest.mark.security("sign-in", "every session of a person after a platform admin has ended them")
def test_platform_admin_signs_a_person_out_everywhere(browse, alice, bob, root, api):
    alices, bobs = sign_in(alice), sign_in(bob)
    _row, text = make_token(alice)
    admin, path = browse(root), f"/people/{alice.pk}/sign-out/"
    page = admin.get(path).text
    assert "signed in with 1 browser and has to sign in again" in page
    assert "in 1 browser" in admin.get(f"/people/{alice.pk}/").text
    for _twice in range(2):
        assert admin.post(path).status_code == 302
    assert [is_signed_in(client) for client in (alices, bobs)] == [False, True]
    assert api(token=text).get("/api/v1/me/").status_code == 200
    assert ended() == [("root", "alice", "ended 1 session")]
    assert "signed in nowhere" in admin.get(path).text
    assert api(root).post(f"/api/v1/people/{bob.pk}/sign-out/").json() == {"ended": 1}
    assert not is_signed_in(bobs)


@pytest.mark.security("access", "signing somebody else out without being platform admin")
def test_others_may_not_sign_people_out(browse, alice, bob, api):
    bobs = sign_in(bob)
    assert browse(alice).post(f"/people/{bob.pk}/sign-out/").status_code == 403
    assert api(alice).post(f"/api/v1/people/{bob.pk}/sign-out/").status_code == 403
    assert is_signed_in(bobs)
