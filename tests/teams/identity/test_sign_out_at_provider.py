"""Who signs out here signs out at the provider too (OpenID Connect RP-Initiated Logout 1.0)."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
from django.core.cache import cache
from django.test import Client

from teams.identity.services import change_provider, set_enabled
from teams.models import Session
from tests.factories import make_user
from tests.teams.identity.conftest import sign_in

NINA: dict[str, Any] = {"sub": "n-1", "preferred_username": "nina", "groups": []}


@pytest.fixture
def browser(root, sso, issuer) -> Client:
    issuer.metadata = {"end_session_endpoint": f"{issuer.url}/end?lang=en"}
    change_provider(by=root, provider=sso, admits_everybody=True)
    client = Client()
    assert sign_in(client, issuer, **NINA).status_code == 302
    return client


def sign_out(client: Client) -> str:
    """Sign out; return where the browser is led, "" if nowhere else."""
    page = client.post("/accounts/logout/")
    assert client.get("/me/").status_code == 302  # whatever the provider does
    if page.status_code == 302:
        assert page.url == "/accounts/login/"
        return ""
    assert page.status_code == 200
    return page.headers["Refresh"].removeprefix("0; url=")


def test_the_browser_is_led_to_the_provider_and_back(browser, issuer, sso):
    address = sign_out(browser)
    parts = urlsplit(address)
    query = {name: value for name, (value,) in parse_qs(parts.query).items()}
    assert f"{parts.scheme}://{parts.netloc}{parts.path}" == f"{issuer.url}/end"
    hint = jwt.decode(query.pop("id_token_hint"), options={"verify_signature": False})
    assert (hint["sub"], hint["aud"]) == ("n-1", sso.client_id)
    assert query == {
        "lang": "en",
        "client_id": sso.client_id,
        "post_logout_redirect_uri": "http://testserver/accounts/login/",
    }


def test_the_page_says_what_happens(browser):
    page = browser.post("/accounts/logout/")
    assert "You are signed out here. SSO signs you out there too." in page.text
    assert page.headers["Clear-Site-Data"] == '"cache", "storage"'


@pytest.mark.security("secrets", "the ID token of a session in the database")
def test_the_id_token_is_stored_encrypted_and_apart_from_the_session(browser):
    row = Session.objects.get(signed_in_with="sso")
    assert bytes(row.sealed_id_token)
    assert b"eyJ" not in bytes(row.sealed_id_token)
    assert "id_token" not in row.get_decoded()
    assert "id_token" not in str(browser.session.items())


def test_a_large_id_token_is_left_out_of_the_address(root, sso, issuer):
    issuer.metadata = {"end_session_endpoint": f"{issuer.url}/end"}
    change_provider(by=root, provider=sso, admits_everybody=True)
    client = Client()
    sign_in(client, issuer, **NINA | {"groups": [f"group-{number}" for number in range(900)]})
    address = sign_out(client)
    assert len(address) < 500
    assert "client_id=" in address


def test_a_lost_key_costs_the_hint_and_not_the_logout(browser):
    Session.objects.update(sealed_id_token=b"sealed with a key that is gone")
    address = sign_out(browser)
    assert "client_id=" in address
    assert "id_token_hint" not in address


def test_the_setting_switches_it_off(root, browser, sso):
    change_provider(by=root, provider=sso, signs_out=False)
    assert sign_out(browser) == ""


@pytest.mark.parametrize("endpoint", [None, 7, "javascript:alert(1)", "ftp://sso.example.org/end"])
def test_a_provider_without_a_sound_endpoint_is_not_visited(browser, issuer, endpoint):
    issuer.metadata = {"end_session_endpoint": endpoint}
    cache.clear()  # of metadata
    assert sign_out(browser) == ""


def test_a_provider_that_is_away_keeps_nobody_signed_in(browser, issuer):
    issuer.status = 503
    cache.clear()  # of metadata
    assert sign_out(browser) == ""


def test_a_session_with_a_password_ends_here_alone(sso, issuer):
    issuer.metadata = {"end_session_endpoint": f"{issuer.url}/end"}
    make_user("alice")
    client = Client()
    client.post("/accounts/login/", {"login": "alice", "password": "alice"})
    assert sign_out(client) == ""


def test_a_provider_that_was_disabled_is_not_visited(root, browser, sso):
    set_enabled(by=root, provider=sso, enabled=False)
    assert browser.post("/accounts/logout/").status_code == 302


def test_a_get_signs_nobody_out(browser):
    assert browser.get("/accounts/logout/").status_code == 200
    assert browser.get("/me/").status_code == 200


@pytest.mark.parametrize(("scope", "stop"), [("openid", True), ("openid offline_access", False)])
def test_the_question_says_whether_api_tokens_stop(browser, issuer, scope, stop):
    issuer.scope = scope
    sign_in(browser, issuer, **NINA)
    page = browser.get("/accounts/logout/").text
    assert ("Your API tokens go on until" in page) is stop
    assert ("your API tokens go on working" in page) is not stop
    assert ("Your API tokens go on until" in browser.post("/accounts/logout/").text) is stop
