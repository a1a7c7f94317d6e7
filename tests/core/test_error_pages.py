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
