from functools import partial

import pytest
from allauth.core.ratelimit import respond_429
from django.contrib.auth.models import AnonymousUser
from django.http import HttpResponse
from django.test import RequestFactory
from django.views import defaults

from core.errors import QuotaExceeded
from core.middleware import PortalErrorMiddleware


def test_an_unknown_address_is_a_page_with_the_frame_for_members_and_without_for_strangers(
    browse, alice, client
):
    page = browse(alice).get("/nothing/")
    assert page.status_code == 404
    assert "Page not found" in page.text
    assert 'id="menu"' in page.text
    assert 'id="menu"' not in client.get("/nothing/").text


def test_an_unknown_address_of_the_api_is_a_problem_document(look, client, db):
    answer = client.get("/api/v1/nothing")
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/problem+json")
    assert answer.json()["instance"] == "/api/v1/nothing"


@pytest.mark.security("secrets", "reads the reason of an internal error")
def test_internal_error_is_a_page_or_a_problem_document(look, browse, alice):
    page = browse(alice).get("/look/fail/")
    assert page.status_code == 500
    assert "This is a fault of the portal" in page.text
    answer = browse(alice).get("/api/v1/fail")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "broken on purpose" not in page.text + answer.text


def test_an_unreadable_request_has_a_page():
    page = defaults.bad_request(RequestFactory().get("/"), ValueError())
    assert page.status_code == 400
    assert "Malformed request" in page.text


def test_a_refusal_that_no_view_has_caught_is_a_page_with_its_sentence(alice):
    request = RequestFactory().get("/claims/")
    request.user = alice
    middleware = PortalErrorMiddleware(lambda request: HttpResponse())
    page = middleware.process_exception(request, QuotaExceeded("vision holds 6 of 8 h100 devices."))
    assert page is not None
    assert page.status_code == 409
    assert "vision holds 6 of 8 h100 devices." in page.text
    assert middleware.process_exception(request, ValueError()) is None


@pytest.mark.security("browser", "a policy that allows inline code")
def test_pages_allow_no_inline_script_and_no_inline_style(look, browse, alice, vision):
    page = browse(alice).get("/look/")
    policy = page.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    for word in (' style="', "onclick=", "hx-on", "javascript:"):
        assert word not in page.text


@pytest.mark.parametrize("path", ["/look/", "/accounts/login/"])
def test_every_page_has_a_title_a_language_and_one_main_part(look, browse, client, alice, path):
    page = (client if "login" in path else browse(alice)).get(path)
    assert '<html lang="en"' in page.text
    assert " · Dragoman</title>" in page.text
    assert page.text.count("<main") == 1


def test_throttled_sign_in_shows_a_page(rf, db):
    request = rf.post("/accounts/login/")
    request.user = AnonymousUser()
    page = respond_429(request)
    assert page.status_code == 429
    assert "Wait a few minutes, then try again." in page.text


@pytest.fixture
def minute(monkeypatch):
    """The clock of the limit, 20 s into a minute."""
    monkeypatch.setattr("core.middleware.time.time", lambda: 60 * 29_000_000 + 20.0)


@pytest.mark.security("guessing", "opens pages without end")
def test_pages_are_limited_for_each_person_and_minute(browse, alice, root, settings, minute, monkeypatch):
    settings.PAGE_RATE = "3/min"
    person, other = browse(alice), browse(root)
    assert [person.get("/me/").status_code for _ in range(4)] == [200, 200, 200, 429]
    page = person.get("/me/")
    assert (page.status_code, page.headers["Retry-After"]) == (429, "41")
    assert (
        "The limit is 3 requests in 60 s for each person. Nothing was changed. Try again in 41 s."
        in page.text
    )
    assert page.headers["Cache-Control"] == "private"
    assert person.post("/me/", {}).status_code == 429
    assert other.get("/me/").status_code == 200
    assert person.get("/api/v1/me/").status_code == 200  # the API has its own limit
    monkeypatch.setattr("core.middleware.time.time", lambda: 60 * 29_000_001 + 0.0)
    assert person.get("/me/").status_code == 200


@pytest.mark.security("bombs", "sends manifests that cost seconds, side by side")
def test_imports_of_manifests_have_a_limit_of_their_own(browse, alice, vision, settings, monkeypatch):
    settings.IMPORT_RATE = "3/min"
    monkeypatch.setattr("core.rates.time.time", lambda: 60 * 29_000_000 + 20.0)
    person, path, body = browse(alice), "/claims/request/import/", {"text": "kind: Service"}
    assert [person.post(path, body).status_code for _ in range(2)] == [422, 422]
    over_api = partial(person.post, "/api/v1/claims/import/", {"text": "a"}, "application/json")
    assert [over_api().status_code for _ in range(2)] == [422, 429]
    assert over_api().headers["Retry-After"] == "40"
    page = person.post(path, body)
    assert page.status_code == 429
    assert "The limit is 3 imports of manifests in 60 s for each person. Try again in 40 s." in page.text
    assert person.get("/me/").status_code == 200


def test_pages_are_not_limited_while_redis_is_away(browse, alice, settings, minute):
    settings.PAGE_RATE = "1/min"
    settings.CACHES = {"default": {"BACKEND": "core.cache.RedisCache", "LOCATION": "redis://127.0.0.1:1/0"}}
    person = browse(alice)
    assert [person.get("/me/").status_code for _ in range(3)] == [200, 200, 200]


def test_anonymous_readers_have_no_limit_of_pages(client, db, settings, minute):
    settings.PAGE_RATE = "1/min"
    assert [client.get("/accounts/login/").status_code for _ in range(3)] == [200, 200, 200]


def test_opening_an_address_that_only_receives_forms_is_a_page(browse, alice):
    page = browse(alice).get("/me/notices/read/")
    assert (page.status_code, page.headers["Allow"]) == (405, "POST")
    assert "This address only receives a form." in page.text
    assert browse(alice).post("/api/v1/me/").headers["Content-Type"] == "application/problem+json"
