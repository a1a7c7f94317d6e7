"""Who a request of the API comes from: 401 is "who are you", 403 is "you may not"."""

from datetime import timedelta

import pytest
import time_machine
from django.utils import timezone
from rest_framework.test import APIClient

from teams.models import ApiToken
from teams.tokens import create_token

ME = "/api/v1/me/"


@pytest.fixture
def token(alice) -> str:
    return create_token(by=alice, title="Notebook", expires_at=timezone.now() + timedelta(days=1))[1]


def test_missing_login_answers_401_with_the_scheme(api, db):
    answer = api().get(ME)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="Dragoman"'
    assert answer.json()["code"] == "unauthenticated"


@pytest.mark.parametrize("text", ["drg_wrong", "", "drg_" + "x" * 5000, "\u00e9", "other"])
def test_unknown_token_is_401(api, alice, text):
    answer = api(token=text or " ").get(ME)
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"] == 'Bearer realm="Dragoman", error="invalid_token"'
    assert answer.headers["Content-Type"] == "application/problem+json"


def test_expired_token_is_refused(api, token):
    with time_machine.travel(timezone.now() + timedelta(hours=25)):
        assert api(token=token).get(ME).status_code == 401
    assert api(token=token).get(ME).status_code == 200


def test_token_of_an_inactive_user_is_refused(api, token, alice):
    alice.is_active = False
    alice.save(update_fields=["is_active"])
    assert api(token=token).get(ME).status_code == 401


def test_bearer_scheme_is_case_insensitive(client, token):
    assert client.get(ME, headers={"authorization": f"bearer {token}"}).status_code == 200


def test_last_use_is_stored_at_most_once_a_minute(api, token):
    start = timezone.now()
    with time_machine.travel(start, tick=False):
        api(token=token).get(ME)
    with time_machine.travel(start + timedelta(seconds=59), tick=False):
        api(token=token).get(ME)
    assert ApiToken.objects.get().last_used_at == start
    with time_machine.travel(start + timedelta(seconds=60), tick=False):
        api(token=token).get(ME, REMOTE_ADDR="198.51.100.23")
    row = ApiToken.objects.get()
    assert (row.last_used_at, row.last_used_from) == (start + timedelta(seconds=60), "198.51.100.23")


@pytest.mark.security("forgery", "writes to the API with the cookie of a session alone")
def test_session_writes_need_a_csrf_token(alice):
    client = APIClient(enforce_csrf_checks=True)
    client.force_login(alice)
    assert client.get(ME).status_code == 200
    refused = client.post("/api/v1/tokens/", {"title": "By a foreign page"}, format="json")
    assert refused.status_code == 403
    assert not ApiToken.objects.exists()


def test_bearer_token_needs_no_csrf_token(token):
    client = APIClient(enforce_csrf_checks=True)
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
    assert client.post("/api/v1/tokens/", {"title": "Second"}, format="json").status_code == 201
