"""A provider ends sessions with a logout token (OpenID Connect Back-Channel Logout 1.0)."""

import time
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from teams.models import AuditEntry, User
from tests.teams.identity.conftest import configured, sign_in
from tests.teams.identity.issuer import KEYS, LOGOUT, SigningKey, running

NINA = {"sub": "n-1", "preferred_username": "nina"}
URL = "/accounts/oidc/sso/logout/"


@pytest.fixture
def sso(root, issuer):
    return configured(root, issuer, admits_everybody=True)


@pytest.fixture
def nina(sso, issuer) -> Client:
    browser = Client()
    sign_in(browser, issuer, **NINA)
    return browser


def is_signed_in(browser: Client) -> bool:
    return browser.get("/me/").status_code == 200


def log_out(token: str, url: str = URL):
    return Client(enforce_csrf_checks=True).post(url, {"logout_token": token})


@pytest.mark.parametrize("named", [{"sub": "n-1"}, {"sid": "session-1", "sub": None}, {"sid": "session-1"}])
def test_a_logout_ends_the_session_that_it_names(nina, issuer, named):
    answer = log_out(issuer.logout_token(**named))
    assert (answer.status_code, answer.content) == (200, b"")
    assert "no-store" in answer.headers["Cache-Control"]
    assert not is_signed_in(nina)
    assert AuditEntry.objects.filter(action="session.ended").count() == 1


@pytest.mark.parametrize("named", [{"sub": "somebody"}, {"sid": "another", "sub": None}, {"sid": "another"}])
def test_a_logout_of_another_ends_nothing(nina, issuer, named):
    assert log_out(issuer.logout_token(**named)).status_code == 200
    assert is_signed_in(nina)


def test_a_logout_with_sid_leaves_the_other_browsers_of_the_person(nina, issuer):
    other = Client()
    issuer.changes = {"sid": "session-2"}
    sign_in(other, issuer, **NINA)
    log_out(issuer.logout_token(sid="session-2"))
    assert is_signed_in(nina)
    assert not is_signed_in(other)


def test_a_logout_leaves_the_session_with_a_password(nina, issuer):
    local = Client()
    local.force_login(User.objects.get(username="nina"))
    log_out(issuer.logout_token())
    assert is_signed_in(local)


NOW = int(time.time())
BAD: dict[str, Any] = {
    "expired": ({"exp": NOW - 3600}, "expired"),
    "issued long ago": ({"iat": NOW - 4000}, "was issued"),
    "issued in the future": ({"iat": NOW + 400_000}, "not valid yet"),
    "of another issuer": ({"iss": "http://other.example"}, "another issuer"),
    "for another client": ({"aud": "other"}, "another client"),
    "with a nonce, as an ID token": ({"nonce": "1"}, "no nonce"),
    "without events": ({"events": None}, "lacks the claim events"),
    "of another event": ({"events": {"http://other.example": {}}}, "not about a logout"),
    "whose event is no object": ({"events": {LOGOUT: True}}, "not about a logout"),
    "without jti": ({"jti": None}, "lacks the claim jti"),
    "without iat": ({"iat": None}, "lacks the claim iat"),
    "without exp": ({"exp": None}, "lacks the claim exp"),
    "that names nobody": ({"sub": None}, "neither a person nor a session"),
    "whose sub is no text": ({"sub": 7}, ""),
}


@pytest.mark.security(
    "forgery", "logout tokens: old, of others, for others, without event or name, with a nonce"
)
@pytest.mark.parametrize("what", BAD)
def test_a_logout_token_is_refused(nina, issuer, what):
    changes, reason = BAD[what]
    answer = log_out(issuer.logout_token(**changes))
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert reason in answer.json()["error_description"]
    assert is_signed_in(nina)


@pytest.mark.security("forgery", "a token of another kind that is sent as a logout token")
@pytest.mark.parametrize(
    ("kind", "is_taken"),
    [
        ("logout+jwt", True),
        ("application/logout+jwt", True),
        ("JWT", True),  # not every provider names the type
        ("at+jwt", False),
        ("secevent+jwt", False),
    ],
)
def test_a_logout_token_of_another_type_is_refused(nina, issuer, kind, is_taken):
    issuer.type = kind
    answer = log_out(issuer.logout_token())
    assert (answer.status_code == 200) is is_taken
    assert is_signed_in(nina) is not is_taken


@pytest.mark.security("forgery", "a logout token again")
def test_a_logout_token_works_once(nina, issuer):
    token = issuer.logout_token()
    assert log_out(token).status_code == 200
    again = Client()
    sign_in(again, issuer, **NINA)
    answer = log_out(token)
    assert (answer.status_code, answer.json()["error_description"]) == (400, "The token was used already.")
    assert is_signed_in(again)


def test_two_providers_may_use_the_same_id_of_a_token(root, nina, issuer):
    with running() as other:
        configured(root, other, "second", admits_everybody=True)
        other.claims = NINA
        assert log_out(other.logout_token(jti="1"), "/accounts/oidc/second/logout/").status_code == 200
    assert log_out(issuer.logout_token(jti="1")).status_code == 200
    assert not is_signed_in(nina)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.", "x" * 100_000])
def test_what_is_no_token_is_refused(nina, token):
    assert log_out(token).status_code == 400
    assert is_signed_in(nina)


def test_a_forged_signature_is_refused(nina, issuer):
    issuer.signs_with = KEYS["forged"]
    issuer.signed = lambda claims: type(issuer).signed(issuer, claims, kid="first")
    answer = log_out(issuer.logout_token())
    assert "signature" in answer.json()["error_description"]
    assert is_signed_in(nina)


@pytest.mark.security("forgery", "a logout token without signature, and one signed with the client's secret")
def test_a_token_without_signature_or_signed_with_the_secret_of_the_client_is_refused(nina, issuer):
    import jwt

    claims = jwt.decode(issuer.logout_token(), options={"verify_signature": False})
    for token in (
        jwt.encode(claims, None, algorithm="none"),
        jwt.encode(claims, "of-the-client" * 4, algorithm="HS256", headers={"kid": "first"}),
    ):
        assert log_out(token).status_code == 400
    assert is_signed_in(nina)


def test_a_new_key_is_read_for_a_logout_too(nina, issuer):
    issuer.keys, issuer.signs_with = [KEYS["second"]], KEYS["second"]
    assert log_out(issuer.logout_token()).status_code == 200
    assert not is_signed_in(nina)


@pytest.mark.security("bombs", "logout tokens with unknown keys, one after the other")
def test_unknown_keys_do_not_make_the_portal_read_for_ever(nina, issuer):
    issuer.signs_with = KEYS["forged"]
    issuer.asked.clear()
    for _again in range(5):
        assert log_out(issuer.logout_token()).status_code == 400
    assert sum(path == "/keys" for path, _form in issuer.asked) <= 1


@pytest.mark.security("forgery", "a logout token of another provider")
def test_a_token_of_one_provider_ends_nothing_of_another(root, nina, issuer):
    with running() as other:
        configured(root, other, "second", admits_everybody=True)
        other.claims = NINA
        assert log_out(other.logout_token(), "/accounts/oidc/second/logout/").status_code == 200
        assert log_out(other.logout_token()).status_code == 400
    assert is_signed_in(nina)


def test_a_provider_that_is_away_is_told_to_try_again(nina, issuer):
    token = issuer.logout_token()
    cache.clear()
    issuer.status = 503
    assert log_out(token).status_code == 503
    issuer.status = 200
    assert log_out(token).status_code == 200
    assert not is_signed_in(nina)


def test_only_post_and_only_enabled_providers(nina, issuer, sso):
    assert Client().get(URL).status_code == 405
    assert log_out(issuer.logout_token(), "/accounts/oidc/unknown/logout/").status_code == 404
    type(sso).objects.update(enabled=False)
    assert log_out(issuer.logout_token()).status_code == 404


def test_key_replaced_under_the_same_id_counts_at_once(nina, issuer):
    replaced = SigningKey("first")
    issuer.keys, issuer.signs_with, issuer.asked = [replaced], replaced, []
    assert log_out(issuer.logout_token()).status_code == 200
    assert not is_signed_in(nina)
    assert [path for path, _form in issuer.asked].count("/keys") == 1


@pytest.mark.security("sign-in", "many tokens with a known key id and another signature")
def test_wrong_signatures_read_the_keys_once_in_seconds(nina, issuer):
    issuer.signs_with, issuer.asked = SigningKey("first"), []
    for _again in range(5):
        assert log_out(issuer.logout_token()).status_code == 400
    assert is_signed_in(nina)
    assert [path for path, _form in issuer.asked].count("/keys") == 1
