"""The description of the API: there for programs, complete, and true to the addresses."""

import re

import pytest
from django.urls import resolve

from core.schema import refuses
from tests.factories import make_user, sign_in_just_now

PROMISED = (
    *("me", "clusters", "nodes", "devices", "device-classes", "profiles", "match", "claims"),
    *("approvals", "quotas", "teams", "rates", "costs", "tokens"),
)
OF_A_CLAIM = ("approve", "deny", "withdraw", "release", "manifest", "explain", "usage", "cost", "history")


@pytest.fixture
def schema(client, db):
    """What anybody may read before they have a token."""
    answer = client.get("/api/v1/schema/", headers={"Accept": "application/vnd.oai.openapi+json"})
    assert answer.status_code == 200
    return answer.json()


def test_every_resource_is_described(schema):
    assert schema["openapi"].startswith("3.")
    assert [name for name in PROMISED if f"/api/v1/{name}/" not in schema["paths"]] == []
    paths = {re.sub(r"\{\w+\}", "ID", path) for path in schema["paths"]}
    assert [name for name in OF_A_CLAIM if f"/api/v1/claims/ID/{name}/" not in paths] == []


def test_every_described_address_is_served(schema):
    some = "01a1fd0e-cd81-741b-ad1f-8943d5325f9e"
    for path in schema["paths"]:
        parts = [some if part.startswith("{") else part for part in path.split("/")]
        assert resolve("/".join(parts)).func, path


def test_a_bearer_token_is_the_way_in(schema):
    schemes = schema["components"]["securitySchemes"].values()
    assert any(scheme.get("scheme") == "bearer" for scheme in schemes)


# Whoever asks, 401 is not what they are told.
NO_LOGIN = {"/api/v1/login/device/": (401,), "/api/v1/login/device/token/": (401,)}


def refusals(schema, method, path):
    return {int(code) for code in schema["paths"][path][method]["responses"] if code >= "400"}


def test_every_operation_says_what_it_refuses_with(schema):
    silent = [
        (method, path)
        for path, methods in schema["paths"].items()
        for method in methods
        if not refusals(schema, method, path) >= ({406, 422, 429} | ({401} - {*NO_LOGIN.get(path, ())}))
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("method", "path", "more"),
    [
        ("get", "/api/v1/me/", set()),
        ("get", "/api/v1/claims/", {422}),
        ("get", "/api/v1/claims/{id}/explain/", {404}),
        ("get", "/api/v1/profiles/lint/", {403}),
        ("get", "/api/v1/costs/", {404, 422}),
        ("get", "/api/v1/match/", {403, 404, 422}),
        ("post", "/api/v1/match/", {403, 404, 413, 415, 422}),
        ("post", "/api/v1/claims/", {403, 404, 409, 413, 415, 422}),
        ("post", "/api/v1/claims/{id}/approve/", {403, 404, 409, 412, 413, 415, 422}),
        ("put", "/api/v1/profiles/{slug}/", {403, 404, 409, 412, 413, 415, 422}),
        ("delete", "/api/v1/tokens/{id}/", {403, 404, 412}),
        ("delete", "/api/v1/rates/{id}/", {403, 404, 409, 412}),
    ],
)
def test_refusals_follow_from_the_operation_and_what_it_declares(schema, method, path, more):
    assert refusals(schema, method, path) == {401, 406, 422, 429} | more


def test_a_refusal_is_described_as_a_problem(schema, client):
    answers = schema["components"]["responses"]
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    unlike = {name for name, one in answers.items() if one.get("content") != problem}
    assert unlike == {"NotModified"}
    assert answers["Unauthorized"]["headers"]["WWW-Authenticate"]["required"]
    assert answers["TooManyRequests"]["headers"]["Retry-After"]["required"]
    told = client.get("/api/v1/me/")
    assert told.json().keys() >= set(schema["components"]["schemas"]["Problem"]["required"])
    assert "WWW-Authenticate" in told.headers


def test_a_status_without_a_meaning_cannot_be_declared():
    with pytest.raises(ValueError, match="418"):
        refuses(418)


SOME_ID = "01a1fd0e-cd81-741b-ad1f-8943d5325f9e"


def test_every_operation_refuses_unknown_parameters_and_names_the_described_ones(schema, client):
    sign_in_just_now(client, make_user("root", admin=True))
    wrong = []
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts = [SOME_ID if part.startswith("{") else part for part in path.split("/")]
            described = sorted(one["name"] for one in operation.get("parameters", ()) if one["in"] == "query")
            answer = getattr(client, method)(f"{'/'.join(parts)}?nonsense=1")
            known = ", ".join(described) or "none"
            if answer.json()["detail"] != f"Unknown parameter nonsense. Known: {known}.":
                wrong.append((method, path, answer.status_code, answer.json()["detail"]))
            assert answer.status_code == 422, (method, path)
    assert wrong == []


@pytest.mark.parametrize("query", ["search=x", "team=vision", "limit=null", "limit=", "limit=0", "limit=1.5"])
def test_unknown_filter_or_malformed_limit_of_a_list_is_refused(client, db, query):
    client.force_login(make_user("alice"))
    answer = client.get(f"/api/v1/quotas/?{query}")
    assert (answer.status_code, answer.json()["field"]) == (422, query.partition("=")[0])


def test_format_and_described_filters_are_no_unknown_parameters(client, db):
    client.force_login(make_user("alice"))
    assert client.get("/api/v1/claims/?format=json&name=x&state=released&limit=5").status_code == 200
    assert client.head("/api/v1/claims/?name=x").status_code == 200
    assert client.options("/api/v1/claims/?name=x").status_code in (200, 422)


def test_every_operation_names_the_scope_that_a_token_needs(schema):
    scopes = {
        f"{method} {path.removeprefix('/api/v1')}": operation.get("x-required-scope")
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    }
    without = {name for name, scope in scopes.items() if scope is None}
    assert without == {"post /login/device/", "post /login/device/token/", "post /login/kubernetes/"}
    assert scopes["get /claims/"] == "read"
    assert scopes["post /claims/"] == "request"
    assert scopes["post /claims/{id}/approve/"] == "approve"
    assert scopes["get /costs/focus/"] == "admin"
    described = schema["paths"]["/api/v1/claims/"]["post"]["description"]
    assert described.endswith("Scope of the token: `request`.")
