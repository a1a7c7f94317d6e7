"""Sessions that somebody else has begun, and codes that are guessed."""

import pytest
from allauth.mfa.recovery_codes.internal.auth import RecoveryCodes
from allauth.mfa.totp.internal.auth import (
    TOTP,
    format_hotp_value,
    generate_totp_secret,
    hotp_value,
    yield_hotp_counters_from_time,
)
from django.conf import settings as django_settings
from django.core.cache import cache
from django.test import Client

from tests.factories import make_user

pytestmark = pytest.mark.django_db

LOGIN = "/accounts/login/"
NAME = django_settings.SESSION_COOKIE_NAME


@pytest.fixture(autouse=True)
def _no_counts():
    cache.clear()


def sign_in(client, password="alice"):
    return client.post(LOGIN, {"login": "alice", "password": password})


@pytest.mark.security("sign-in", "a session whose id somebody has set before the sign-in")
@pytest.mark.parametrize("planted", ["chosen-by-an-attacker", ""])
def test_a_sign_in_begins_a_session_with_another_id(planted):
    make_user("alice")
    client = Client()
    client.get(LOGIN)
    session = client.session
    session["note"] = "of before"
    session.save()
    client.cookies[NAME] = planted or session.session_key
    assert sign_in(client).status_code == 302
    now = client.cookies[NAME].value
    assert now not in (planted, session.session_key)
    before = Client()
    before.cookies[NAME] = planted or session.session_key
    assert before.get("/me/").status_code == 302


@pytest.mark.security("sign-in", "a cookie that was copied before the sign-out or the change of the password")
def test_a_copied_cookie_ends_with_its_session():
    make_user("alice")
    client, copy = Client(), Client()
    sign_in(client)
    copy.cookies[NAME] = client.cookies[NAME].value
    assert copy.get("/me/").status_code == 200
    client.post("/accounts/logout/")
    assert copy.get("/me/").status_code == 302
    sign_in(client)
    copy.cookies[NAME] = client.cookies[NAME].value
    new = "correct horse battery staple"
    client.post("/accounts/password/change/", {"oldpassword": "alice", "password1": new, "password2": new})
    assert client.get("/me/").status_code == 200
    assert copy.get("/me/").status_code == 302


@pytest.mark.security("sign-in", "names of accounts from the answers of sign-in and password reset")
def test_answers_do_not_say_which_accounts_there_are(settings):
    make_user("alice", email="alice@example.org")
    settings.MAIL_URL = "smtp://mail.example.org"
    known, unknown = Client(), Client()
    texts = [
        client.post(LOGIN, {"login": login, "password": "wrong"}).text.replace(login, "…")
        for client, login in ((known, "alice"), (unknown, "nobody"))
    ]
    assert without_tokens(texts[0]) == without_tokens(texts[1])
    for email in ("alice@example.org", "nobody@example.org"):
        answer = Client().post("/accounts/password/reset/", {"email": email})
        assert (answer.status_code, answer["Location"]) == (302, "/accounts/password/reset/done/")


def without_tokens(text):
    import re

    return re.sub(r'(csrfmiddlewaretoken" value|nonce)="[^"]*"', "", text)


def with_second_factor():
    alice = make_user("alice")
    secret = generate_totp_secret()
    TOTP.activate(alice, secret)
    RecoveryCodes.activate(alice)
    client = Client()
    assert sign_in(client)["Location"].startswith("/accounts/2fa/authenticate/")
    return client, secret


def code_of(secret):
    counter = next(iter(yield_hotp_counters_from_time()))
    return format_hotp_value(hotp_value(secret, counter))


@pytest.mark.security("guessing", "codes of the second factor and recovery codes")
@pytest.mark.parametrize("wrong", ["000000", "aaaa-bbbb"])
def test_wrong_codes_of_the_second_factor_are_limited(wrong):
    client, secret = with_second_factor()
    for _ in range(6):
        answer = client.post("/accounts/2fa/authenticate/", {"code": wrong})
    assert "Too many" in answer.text
    answer = client.post("/accounts/2fa/authenticate/", {"code": code_of(secret)})
    assert client.get("/me/").status_code == 302, "the right code is refused too, for a while"


@pytest.mark.security("sign-in", "pages behind the second factor with the password alone")
def test_the_password_alone_opens_nothing_where_there_is_a_second_factor():
    client, secret = with_second_factor()
    assert client.get("/me/").status_code == 302
    assert client.get("/api/v1/me/").status_code in (401, 403)
    code = code_of(secret)
    assert client.post("/accounts/2fa/authenticate/", {"code": code}).status_code == 302
    assert client.get("/me/").status_code == 200
    other = Client()
    sign_in(other)
    other.post("/accounts/2fa/authenticate/", {"code": code})
    assert other.get("/me/").status_code == 302, "a code works once"
