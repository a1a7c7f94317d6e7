"""What browsers and caches are told with every answer, and what no page may have in it."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.urls import reverse

from tests.factories import make_token, make_user
from tests.portal.every_address import address, routes

pytestmark = pytest.mark.django_db

ADMIN = ("admin/",)  # Django's admin: its pages are sampled below
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
POLICY = {
    "default-src 'self'",
    "object-src 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "form-action 'self'",
}


def person(known, name):
    client = Client(raise_request_exception=False)
    client.force_login(make_user(name))
    return client


def pages(known):
    """Yield every address of the portal, with what stands in it."""
    for route in routes(skipped=ADMIN):
        yield route, address(route, known)


def text_of(answer):
    return b"".join(answer).decode() if answer.streaming else answer.content.decode()


def missing_headers(answer):
    wrong = {name for name, value in HEADERS.items() if answer.headers.get(name) != value}
    policy = set(answer.headers.get("Content-Security-Policy", "").split("; "))
    wrong |= POLICY - policy
    wrong |= {part for part in policy if "unsafe" in part or "*" in part or "http:" in part}
    if "Access-Control-Allow-Origin" in answer.headers:
        wrong.add("Access-Control-Allow-Origin")
    return wrong


@pytest.mark.security("browser", "an answer without one of the headers, of every page and operation")
def test_every_answer_has_the_headers(root, known):
    wrong, statuses = {}, set()
    for route, path in pages(known):
        for answer in (root.get(path), root.post(path, {})):
            statuses.add(answer.status_code)
            if missing := missing_headers(answer):
                wrong[route] = (answer.status_code, missing)
    assert wrong == {}
    assert {200, 302, 404, 405, 422} <= statuses


@pytest.mark.security("browser", "errors, files, Django's admin and probes without the headers")
def test_errors_and_files_and_probes_have_the_headers(root, known, settings, monkeypatch):
    for path in ("/nothing/", "/api/v1/nothing/", "/admin/", "/api/v1/schema/", "/accounts/login/"):
        assert missing_headers(root.get(path)) == set(), path
    monkeypatch.setattr("portal.help.views.render", None)
    broken = root.get("/help/")
    assert (broken.status_code, missing_headers(broken)) == (500, set())
    assert missing_headers(Client().get("/", HTTP_HOST="evil.example")) == set()
    for path in ("/healthz", "/readyz", "/metrics"):
        assert root.get(path).headers["X-Content-Type-Options"] == "nosniff", path


@pytest.mark.security("browser", "a page over HTTP, or one that a browser would ask for over HTTP again")
def test_https_is_asked_for_and_kept(settings, client):
    settings.SECURE_SSL_REDIRECT, settings.SECURE_HSTS_SECONDS = True, 31_536_000
    settings.SECURE_HSTS_INCLUDE_SUBDOMAINS = True
    answer = Client().get("/accounts/login/")
    assert (answer.status_code, answer["Location"]) == (301, "https://testserver/accounts/login/")
    answer = Client().get("/accounts/login/", secure=True)
    assert answer["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains"


@pytest.mark.security("browser", "a program that sends its token over HTTP and is redirected each time")
@pytest.mark.parametrize("path", ["/api/v1/me/", "/api/v1/me", "/scim/v2/Users"])
def test_programs_are_refused_over_http_and_not_redirected(settings, db, path):
    settings.SECURE_SSL_REDIRECT = True
    answer = Client().get(path, headers={"Authorization": "Bearer x"})
    assert (answer.status_code, answer.json()["code"]) == (403, "https-required")
    assert "Replace the token" in answer.json()["detail"]
    assert answer.headers["X-Request-ID"] == answer.json()["request_id"]
    assert Client().get(path, secure=True).status_code == 401


@pytest.mark.security("browser", "reads after the sign-out what the browser has kept of pages")
def test_a_sign_out_clears_what_the_browser_keeps(root):
    assert "Clear-Site-Data" not in root.get("/accounts/logout/").headers
    assert root.post("/accounts/logout/").headers["Clear-Site-Data"] == '"cache", "storage"'


@pytest.mark.security("browser", "keeps the page of one person in a shared cache, by every address")
def test_no_shared_cache_may_keep_what_a_person_reads(root, known):
    wrong = []
    _row, text = make_token(make_user("alice"))
    program = Client(raise_request_exception=False, headers={"Authorization": f"Bearer {text}"})
    for route, path in pages(known):
        for client in (root, program):
            control = client.get(path).headers.get("Cache-Control", "")
            if not re.search(r"private|no-store", control) and client is root:
                wrong.append(f"{route}: {control}")
            if "public" in control and route not in PUBLIC:
                wrong.append(f"{route} is public")
    assert [line for line in wrong if line.partition(":")[0] not in PUBLIC] == []


# What is the same for everybody.
PUBLIC = {"logo.png"}


class Inline(HTMLParser):
    """Notes what a strict policy would block, or what would work without one."""

    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "style" or (tag == "script" and "src" not in values and not is_data(values)):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            if name == "style" or name.startswith(("on", "hx-on")):
                self.found.append(f"{tag}[{name}]")
            text = (value or "").strip().lower()
            if text.startswith(("javascript:", "vbscript:")) or (
                name in ("src", "action") and text.startswith(("http:", "https:", "//"))
            ):
                self.found.append(f"{tag}[{name}={text[:60]}]")


def is_data(attributes):
    return attributes.get("type") in ("application/json", "application/ld+json")


@pytest.mark.security("browser", "inline script, style and handlers, and foreign scripts, in every page")
@pytest.mark.parametrize("who", ["root", "alice"])
def test_no_page_has_inline_code_or_foreign_sources(who, known):
    client, wrong, read = person(known, who), {}, 0
    for route, path in pages(known):
        for headers in ({}, {"HX-Request": "true"}):
            answer = client.get(path, headers=headers)
            if answer.headers.get("Content-Type", "").startswith("text/html"):
                read += 1
                parser = Inline()
                parser.feed(text_of(answer))
                if parser.found:
                    wrong[route] = parser.found
    assert wrong == {}
    assert read > 200


@pytest.mark.security("forgery", "every address that writes, with the cookie of a session and no CSRF token")
def test_every_write_by_a_session_needs_the_csrf_token(known):
    client = Client(raise_request_exception=False, enforce_csrf_checks=True)
    client.force_login(make_user("root"))
    wrong = {}
    for route, path in pages(known):
        methods = ("post", "put", "patch", "delete") if route.startswith("api/") else ("post",)
        for method in methods:
            answer = getattr(client, method)(path, {}, content_type="application/json")
            if answer.status_code not in (403, 405) and not route.startswith(WITHOUT_SESSION):
                wrong[f"{method} {route}"] = answer.status_code
    assert wrong == {}


# Operations that read no session: what they do is decided by what the body has.
WITHOUT_SESSION = (
    "api/v1/login/kubernetes/",
    "api/v1/login/device/",
    "report/unsubscribe/<str:token>/",  # a signed token, sent by email programs (RFC 8058)
    "accounts/oidc/<slug:provider_id>/logout/",  # a logout token that the provider has signed
    "scim/v2/",  # the token of a provider
)
ELSEWHERE = ("https://evil.example/", "//evil.example/", "/\\evil.example/", "https:evil.example")
NAMES = ("next", "return", "return_to", "back", "to", "url", "redirect", "redirect_uri", "continue")


@pytest.mark.security("forgery", "every address with another host as next page, in query, form and headers")
@pytest.mark.parametrize("there", ELSEWHERE)
def test_no_address_leads_to_another_host(there, root, known):
    wrong = {}
    fields = dict.fromkeys(NAMES, there)
    headers = {"Referer": there, "HX-Current-URL": there, "Origin": "http://testserver"}
    for route, path in pages(known):
        for answer in (root.get(path, fields, headers=headers), root.post(path, fields, headers=headers)):
            told = [answer.headers.get(name, "") for name in ("Location", "HX-Redirect", "HX-Location")]
            if any("evil" in one.partition("?")[0] for one in told):
                wrong[route] = told
    client = Client()
    signed = client.post(f"{reverse('account_login')}?next={there}", {"login": "alice", "password": "alice"})
    assert "evil" not in signed["Location"]
    assert wrong == {}


@pytest.mark.security("forgery", "a host that the portal does not have, in Host and X-Forwarded-Host")
def test_another_host_is_refused_and_a_forwarded_one_not_read(client, settings, db):
    assert client.get("/accounts/login/", HTTP_HOST="evil.example").status_code == 400
    answer = client.get("/me/", HTTP_X_FORWARDED_HOST="evil.example")
    assert "evil" not in answer["Location"]
    body = client.get("/api/v1/me/", HTTP_X_FORWARDED_HOST="evil.example").json()
    assert "evil" not in body["type"]


@pytest.mark.security("forgery", "other methods in headers, fields and verbs that are not served")
def test_no_header_or_field_makes_another_method_of_a_request(root, known):
    path = f"/api/v1/rates/{known['rate_id']}/"
    for headers in ({"X-HTTP-Method-Override": "DELETE"}, {"X-Method-Override": "DELETE"}):
        assert root.post(path, {"_method": "DELETE"}, headers=headers).status_code == 405
        assert root.get(f"{path}", headers=headers).status_code == 200
    for method in ("TRACE", "CONNECT", "PROPFIND"):
        assert root.generic(method, "/me/notices/").status_code == 405
        assert root.generic(method, path).status_code == 405


@pytest.mark.security("injection", "ways around the rules of addresses: dots, encoded slashes, case")
@pytest.mark.parametrize(
    "path",
    [
        "/static/../portal/settings.py",
        "/static/%2e%2e/portal/settings.py",
        "/static/..%2fmanage.py",
        "/help/..%2f..%2fREADME/",
        "/ME/",
        "/me/;/tokens/",
        "/api/v1/..%2f..%2fadmin/",
        "/.git/config",
        "/manage.py",
        "/static/",
    ],
)
def test_no_path_leads_around_the_addresses(root, path):
    assert root.get(path).status_code in (400, 404)


@pytest.mark.security("injection", "bodies of another type than the address takes")
@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/xml"]
)
def test_the_api_takes_json_alone(root, kind):
    answer = root.post("/api/v1/approval-reasons/", data=b'{"title": "x", "text": "y"}', content_type=kind)
    assert answer.status_code == 415


@pytest.mark.security("sign-in", "cookies that scripts read, that go over HTTP, or with requests of others")
def test_cookies_are_for_this_host_alone(settings, known):
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True
    client = Client()
    client.get("/accounts/login/", secure=True)
    client.post("/accounts/login/", {"login": "alice", "password": "alice"}, secure=True)
    assert set(client.cookies) == {settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME}
    for name, cookie in client.cookies.items():
        flags = (bool(cookie["secure"]), bool(cookie["httponly"]), cookie["samesite"], cookie["domain"])
        assert flags == (True, True, "Lax", ""), name
        assert cookie["path"] == "/"


@pytest.mark.security("sign-in", "a cookie that a neighbour under the same domain sets or reads")
def test_over_https_the_names_of_cookies_bind_them_to_the_host():
    show = "import portal.settings as s; print(*(v for k, v in vars(s).items() if 'COOKIE_NAME' in k))"
    names = {}
    for insecure in ("true", "false"):
        env = os.environ | {"INSECURE_HTTP": insecure, "DATABASE_URL": "postgres://none"}
        run = subprocess.run([sys.executable, "-c", show], env=env, capture_output=True, text=True)
        names[insecure] = run.stdout.split()
    assert names == {"true": [], "false": ["__Host-sessionid", "__Host-csrftoken"]}
