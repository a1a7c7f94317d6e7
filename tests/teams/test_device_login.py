"""A program without a browser gets a token that a person allows in theirs (RFC 8628)."""

import re
from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.core.cache import cache
from django.urls import reverse

from teams import device_login
from teams.models import ApiToken, DeviceLogin
from teams.tokens import find_token
from tests.factories import make_team

START, TOKEN, PAGE = "/api/v1/login/device/", "/api/v1/login/device/token/", "/device/"
NOW = datetime(2026, 11, 22, 9, tzinfo=UTC)


@pytest.fixture
def clock():
    with time_machine.travel(NOW, tick=False) as moved:
        yield moved


def begin(api, **body):
    answer = api().post(START, {"client": "dragoman CLI on mira-01", **body}, format="json")
    assert answer.status_code == 200
    return answer.json()


def ask(api, started):
    return api().post(TOKEN, {"device_code": started["device_code"]}, format="json")


def allow(person, started, **fields):
    person.post("/accounts/reauthenticate/", {"password": "alice"})
    body = {"code": started["user_code"], "decision": "allow", "scopes": ["request"], "days": "30"}
    return person.post(PAGE, body | fields)


def test_a_login_begins_with_two_codes_and_the_address_of_the_page(api, db):
    started = begin(api)
    assert re.fullmatch(r"[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", started["user_code"])
    assert len(started["device_code"]) >= 43
    assert started["verification_uri"] == "http://testserver/device/"
    assert started["verification_uri_complete"] == f"http://testserver/device/?code={started['user_code']}"
    assert (started["expires_in"], started["interval"]) == (600, 5)
    stored = str(DeviceLogin.objects.values().get())
    assert started["device_code"] not in stored
    assert started["user_code"].replace("-", "") not in stored


def test_the_program_gets_its_token_once_after_the_person_allowed_it(api, browse, alice, vision, clock):
    started = begin(api, scopes=["read", "request", "approve"])
    person = browse(alice)
    page = person.get(PAGE, {"code": started["user_code"].lower().replace("-", " ")}).text
    assert "dragoman CLI on mira-01" in page
    assert "127.0.0.1" in page
    assert "Allow this only if you started it yourself" in page
    assert "You can close this page" in allow(person, started, team="vision").text
    answer = ask(api, started)
    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    body = answer.json()
    assert (body["token_type"], body["scopes"]) == ("Bearer", ["read", "request"])
    assert body["expires_at"] == "2026-12-22T09:00:00Z"
    token = find_token(body["access_token"])
    assert token is not None
    assert (token.user, token.limited_to, token.title) == (alice, vision, "dragoman CLI on mira-01")
    again = ask(api, started)
    assert (again.status_code, again.json()["code"]) == (400, "expired_token")
    assert ApiToken.objects.count() == 1


def test_until_then_it_is_told_to_wait_and_to_slow_down(api, clock, db):
    started = begin(api)
    first = ask(api, started)
    assert first.status_code == 400
    assert first.headers["Content-Type"] == "application/problem+json"
    assert (first.json()["code"], first.json()["error"]) == ("authorization_pending", "authorization_pending")
    clock.move_to(NOW + timedelta(seconds=4))
    assert ask(api, started).json()["code"] == "slow_down"
    clock.move_to(NOW + timedelta(seconds=13))
    assert ask(api, started).json()["code"] == "slow_down"  # 10 s by now
    clock.move_to(NOW + timedelta(seconds=28))
    assert ask(api, started).json()["code"] == "authorization_pending"


def test_a_denied_login_gives_no_token(api, browse, alice):
    started = begin(api)
    page = browse(alice).post(PAGE, {"code": started["user_code"], "decision": "deny"})
    assert "The program gets no token" in page.text
    assert ask(api, started).json()["code"] == "access_denied"
    assert not ApiToken.objects.exists()


@pytest.mark.security("sign-in", "uses the code of a device login late")
def test_a_code_ends_after_ten_minutes_for_both(api, browse, alice, clock):
    started = begin(api)
    clock.move_to(NOW + timedelta(minutes=10))
    assert ask(api, started).json()["code"] == "expired_token"
    page = browse(alice).get(PAGE, {"code": started["user_code"]})
    assert page.status_code == 422
    assert "No program waits with this code" in page.text


def test_an_unknown_code_is_as_an_expired_one(api, db):
    answer = api().post(TOKEN, {"device_code": "x" * 43}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (400, "expired_token")


def test_a_decision_is_final(api, browse, alice, bob):
    started = begin(api)
    allow(browse(alice), started)
    assert browse(bob).post(PAGE, {"code": started["user_code"], "decision": "deny"}).status_code == 422
    login = DeviceLogin.objects.get()
    assert (login.allowed, login.decided_by) == (True, alice)


def test_no_more_scopes_are_given_than_were_asked_for(api, browse, alice):
    started = begin(api, scopes=["request"])
    assert allow(browse(alice), started, scopes=["request", "admin"]).status_code == 422
    assert allow(browse(alice), started, scopes=[]).status_code == 200
    assert ask(api, started).json()["scopes"] == ["read"]


def test_a_team_of_others_cannot_be_chosen(api, browse, alice, vision):
    make_team("speech")
    assert allow(browse(alice), begin(api), team="speech").status_code == 422


def test_the_token_of_a_person_who_was_deactivated_meanwhile_is_denied(api, browse, alice):
    started = begin(api)
    allow(browse(alice), started)
    alice.is_active = False
    alice.save(update_fields=["is_active"])
    assert ask(api, started).json()["code"] == "access_denied"


def test_the_page_needs_a_login_and_keeps_the_code_for_after_it(client, db):
    answer = client.get(PAGE, {"code": "BCDF-GHJK"})
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith(reverse("account_login"))
    assert "BCDF-GHJK" in answer.headers["Location"]


@pytest.mark.security("guessing", "guesses the code of a device login")
def test_wrong_codes_are_limited_by_person_and_by_address(api, browse, alice, bob):
    started = begin(api)
    guesser = browse(alice)
    for _ in range(device_login.MAX_WRONG):
        assert guesser.get(PAGE, {"code": "BBBB-BBBB"}).status_code == 422
    answer = guesser.get(PAGE, {"code": started["user_code"]})
    assert answer.status_code == 429
    assert "10 wrong codes are the limit" in answer.text
    assert browse(bob).get(PAGE, {"code": started["user_code"]}).status_code == 429  # from the same address
    elsewhere = browse(bob).get(PAGE, {"code": started["user_code"]}, REMOTE_ADDR="192.0.2.7")
    assert elsewhere.status_code == 200
    assert guesser.get(PAGE, {"code": started["user_code"]}, REMOTE_ADDR="192.0.2.7").status_code == 429


@pytest.mark.security("guessing", "starts device logins without end")
def test_logins_are_limited_by_address(api, db, settings):
    settings.API_ANONYMOUS_RATE = "2/min"
    codes = [api().post(START, {"client": "x"}, format="json").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    answer = api().post(START, {"client": "x"}, format="json", REMOTE_ADDR="192.0.2.7")
    assert answer.status_code == 200
    cache.clear()


@pytest.mark.parametrize(
    "body", [{}, {"client": ""}, {"client": "x", "scopes": ["everything"]}, {"client": "x" * 81}]
)
def test_a_malformed_login_is_422(api, db, body):
    assert api().post(START, body, format="json").status_code == 422


def test_past_logins_are_forgotten(api, clock, db):
    begin(api)
    clock.move_to(NOW + timedelta(days=1, minutes=11))
    begin(api)
    assert DeviceLogin.objects.count() == 1


def test_the_number_of_queries_does_not_grow(api, browse, alice, django_assert_max_num_queries):
    started = begin(api)
    person = browse(alice)
    person.get(PAGE)
    with django_assert_max_num_queries(8):
        person.get(PAGE, {"code": started["user_code"]})
