"""Limits of requests to the API: of persons, tokens and addresses; request ids."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, local

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from core import rates
from tests.factories import make_token, make_user

ME = "/api/v1/me/"


@pytest.fixture(autouse=True)
def minute(monkeypatch):
    """A clock that stands 20 s after the begin of a minute, and counts of nobody."""
    cache.clear()
    at = [60 * 29_000_000 + 20.0]
    monkeypatch.setattr("core.rates.time.time", lambda: at[0])
    return at


@pytest.fixture
def alice(db):
    return make_user("alice")


def with_token(person, title="Notebook"):
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {make_token(person, title)[1]}")
    return client


@pytest.mark.security("guessing", "escapes a limit with several tokens")
def test_a_token_has_its_own_limit_within_that_of_its_person(alice, settings, minute):
    settings.API_RATE, settings.API_TOKEN_RATE = "5/min", "3/min"
    first, second = with_token(alice), with_token(alice, "Pipeline")
    assert [first.get(ME).status_code for _ in range(4)] == [200, 200, 200, 429]
    assert [second.get(ME).status_code for _ in range(2)] == [
        200,
        429,
    ]  # five of the person with the refused one
    minute[0] += 40
    assert [first.get(ME).status_code, second.get(ME).status_code] == [200, 200]


def test_each_answer_says_what_is_left(alice, settings):
    settings.API_RATE, settings.API_TOKEN_RATE = "5/min", "3/min"
    answer = with_token(alice).get(ME)
    assert answer.headers["RateLimit-Policy"] == '"person";q=5;w=60, "token";q=3;w=60'
    assert answer.headers["RateLimit"] == '"person";r=4;t=40, "token";r=2;t=40'


def test_429_says_when_to_try_again(alice, settings):
    settings.API_TOKEN_RATE = "1/min"
    client = with_token(alice)
    client.get(ME)
    answer = client.get(ME)
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "40")
    assert answer.headers["RateLimit"].endswith('"token";r=0;t=40')
    assert (answer.json()["code"], answer.json()["retry_after"]) == ("too-often", 40)


@pytest.mark.security("guessing", "guesses tokens of the API")
def test_an_address_that_guesses_tokens_is_limited_and_others_are_not(alice, settings):
    settings.API_ANONYMOUS_RATE = "2/min"
    guesses = APIClient()
    statuses = []
    for number in range(4):
        guesses.credentials(HTTP_AUTHORIZATION=f"Bearer drg_{number}")
        statuses.append(guesses.get(ME).status_code)
    assert statuses == [401, 401, 429, 429]
    assert guesses.get(ME, REMOTE_ADDR="10.0.0.9").status_code == 401
    assert with_token(alice).get(ME).status_code == 200


@pytest.mark.security("guessing", "escapes a limit with a made-up X-Forwarded-For")
def test_an_address_cannot_be_made_up_beyond_the_own_proxies(db, settings):
    settings.API_ANONYMOUS_RATE = "1/min"
    assert APIClient().get(ME, HTTP_X_FORWARDED_FOR="1.2.3.4").status_code == 401
    assert APIClient().get(ME, HTTP_X_FORWARDED_FOR="5.6.7.8").status_code == 429


def test_limits_cost_no_query(alice, settings):
    client = with_token(alice)
    client.get(ME)
    with CaptureQueriesContext(connection) as counted:
        client.get(ME)
    settings.API_RATE = settings.API_TOKEN_RATE = "1/min"
    with CaptureQueriesContext(connection) as refused:
        assert client.get(ME).status_code == 429
    assert len(refused) == 1  # the token with its person
    assert len(counted) <= 3


def test_nothing_is_limited_while_redis_is_away(alice, settings, monkeypatch):
    settings.API_RATE = settings.API_TOKEN_RATE = "1/min"
    settings.CACHES = {"default": {"BACKEND": "core.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
    client = with_token(alice)
    assert [client.get(ME).status_code for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize(("rate", "parsed"), [("600/min", (600, 60)), ("5/s", (5, 1)), ("9/hour", (9, 3600))])
def test_rates_are_spelled_as_in_the_settings(rate, parsed):
    assert rates.parse_rate(rate) == parsed


def test_a_request_id_is_given_back_and_stands_in_problem_documents(db):
    answer = APIClient().get(ME, HTTP_X_REQUEST_ID="build-17.a")
    assert answer.headers["X-Request-ID"] == answer.json()["request_id"] == "build-17.a"


@pytest.mark.security("injection", "lines and markup in the id of a request")
@pytest.mark.parametrize("sent", ["", "two words", "x" * 65, "a\r\nSet-Cookie: b", "<b>"])
def test_an_unsound_request_id_is_replaced(db, sent):
    answer = APIClient().get(ME, HTTP_X_REQUEST_ID=sent)
    assert len(answer.headers["X-Request-ID"]) == 32
    assert answer.headers["X-Request-ID"] != sent


def test_pages_have_request_ids_too(client, db):
    assert client.get("/accounts/login/", HTTP_X_REQUEST_ID="page-1").headers["X-Request-ID"] == "page-1"


@pytest.mark.security("races", "thirty first ones of what is counted, such as wrong codes")
def test_counts_of_thirty_at_once_are_all_different(monkeypatch):
    barrier, seen = Barrier(30, timeout=20), local()

    class Held:
        add = staticmethod(cache.add)

        def incr(self, key):
            try:
                return cache.incr(key)
            finally:
                if not hasattr(seen, "first"):  # nobody adds before all have seen that there is no count
                    seen.first = True
                    barrier.wait()

    monkeypatch.setattr(rates, "cache", Held())
    with ThreadPoolExecutor(30) as threads:
        found = [*threads.map(lambda _number: rates.incremented("thirty", 60), range(30))]
    assert sorted(found) == [*range(1, 31)]
