"""What nobody should send: other people's tokens and ids, deep filters, large and malformed bodies."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from teams.models import AuditEntry, User
from teams.scim.models import ScimToken, ScimUser
from teams.scim.tokens import create_scim_token, remove_scim_token
from tests.factories import make_token, make_user
from tests.teams.scim.conftest import GROUP, PATCH, USER

ADDRESSES = ("ServiceProviderConfig", "ResourceTypes", "Schemas", "Users", "Groups", "Users/x", "nothing")


def is_error(answer, status: int, scim_type: str | None = None) -> bool:
    body = answer.json()
    return (answer.status_code, body["status"], body.get("scimType")) == (status, str(status), scim_type)


@pytest.mark.security("scopes", "SCIM without token, with a session, a token of the API, a changed one")
@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_is_answered_without_a_token(okta, root, path):
    browser = Client()
    browser.force_login(root)
    _row, text = make_token(root)
    for client, headers in (
        (Client(), {}),
        (browser, {}),
        (Client(), {"authorization": f"Bearer {text}"}),
        (Client(), {"authorization": f"Basic {okta.text}"}),
        (Client(), {"authorization": f"Bearer {okta.text[:-1]}"}),
        (Client(), {"authorization": "Bearer"}),
    ):
        answer = client.get(f"/scim/v2/{path}", headers=headers)
        assert is_error(answer, 401)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


@pytest.mark.security("scopes", "pages and API with a token of SCIM")
def test_token_opens_nothing_else(okta):
    headers = {"authorization": f"Bearer {okta.text}"}
    assert Client().get("/api/v1/me/", headers=headers).status_code == 401
    assert Client().get("/me/", headers=headers).status_code == 302


@pytest.mark.security("secrets", "the token of SCIM in database and audit log, and after its end")
def test_token_is_stored_hashed_rotated_with_overlap_and_removed(okta, root):
    row = ScimToken.objects.get()
    assert okta.text not in str(ScimToken.objects.values().get())
    old = okta.text
    _row, okta.text = create_scim_token(by=root, provider=okta.row, overlap=timedelta(hours=1))
    assert okta.get("Users").status_code == 200
    row.refresh_from_db()
    assert (row.last_used_from, row.start) == ("127.0.0.1", okta.text[:10])
    new, okta.text = okta.text, old
    assert okta.get("Users").status_code == 200
    ScimToken.objects.update(previous_ends_at=timezone.now())
    assert okta.get("Users").status_code == 401
    _row, again = create_scim_token(by=root, provider=okta.row, overlap=timedelta(0))
    okta.text = new
    assert okta.get("Users").status_code == 401
    okta.text = again
    remove_scim_token(by=root, provider=okta.row)
    assert okta.get("Users").status_code == 401
    texts = [entry.text for entry in AuditEntry.objects.filter(action="identity_provider.changed")]
    assert any(text.startswith("SCIM token rotated; the text before works until") for text in texts)
    assert texts[-1] == "SCIM token removed"
    assert all(text not in str(list(AuditEntry.objects.values())) for text in (old, new, again))


@pytest.mark.security("access", "people and groups of another provider by their ids over SCIM")
def test_one_provider_never_sees_or_changes_what_another_keeps(okta, entra):
    mia = okta.add_user("mia", externalId="1")
    group = okta.add_group("one", mia["id"])
    for kind, made in (("Users", mia), ("Groups", group)):
        path = f"{kind}/{made['id']}"
        assert entra.get(kind).json()["totalResults"] == 0
        assert entra.find(kind, f'id eq "{made["id"]}"') == []
        for method, body in (
            ("GET", None),
            ("PUT", made),
            ("PATCH", {"schemas": [PATCH], "Operations": [{"op": "replace", "value": {"active": False}}]}),
            ("DELETE", None),
        ):
            assert is_error(entra.send(method, path, body), 404), method
    assert entra.find("Groups", f'members.value eq "{mia["id"]}"') == []
    assert entra.add_group("mine", mia["id"], status=400)["scimType"] == "invalidValue"
    assert entra.add_group("one")["id"] != group["id"]
    assert User.objects.get(username="mia").is_active


def test_people_of_the_portal_are_not_listed(okta):
    make_user("alice", email="alice@corp.example")
    assert okta.get("Users").json()["totalResults"] == 0
    assert okta.find("Users", 'userName eq "alice"') == []


FILTERS = [
    "userName",
    "userName eq",
    'userName eq "x',
    'userName xx "x"',
    'userName co "a"',
    "userName pr",
    'not (userName eq "x")',
    'isSuperuser eq "true"',
    'user.password eq "x"',
    'emails[type eq "work"]',
    " or ".join(['userName eq "x"'] * 100),
    'userName eq "' + "a" * 3_000 + '"',
    "not (" * 40 + 'userName eq "x"' + ")" * 40,
    'userName eq "a" and' * 80,
    "\x00",
]


@pytest.mark.security("injection", "filters of SCIM about columns, with patterns, and a hundred at once")
@pytest.mark.parametrize("condition", FILTERS, ids=lambda text: text[:30])
def test_filters_that_are_not_supported_are_refused(okta, condition):
    answer = okta.client.get(
        "/scim/v2/Users", {"filter": condition}, headers={"authorization": f"Bearer {okta.text}"}
    )
    assert is_error(answer, 400, "invalidFilter"), answer.content


@pytest.mark.parametrize(
    "condition",
    [
        'userName eq "\\u0000"',
        'userName eq "%"',
        'userName eq "\' or 1=1 --"',
        "userName eq null",
        "userName eq 5",
        'id eq "\\\\"',
        "(" * 500 + 'userName eq "x"' + ")" * 500,
    ],
)
def test_values_of_filters_are_values(okta, condition):
    okta.add_user("mia")
    answer = okta.client.get(
        "/scim/v2/Users", {"filter": condition}, headers={"authorization": f"Bearer {okta.text}"}
    )
    assert answer.status_code == 400 or answer.json()["totalResults"] == 0


@pytest.mark.parametrize(
    "query", ["startIndex=x", "count=x", "startIndex=99999999999999999999", "count=-5", "attributes=%00"]
)
def test_hostile_pages(okta, query):
    assert okta.get(f"Users?{query}").status_code in (200, 400)


BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b'"x"',
    b"\xff\xfe",
    b"[" * 100_000,
    b'{"a":' * 200 + b"1" + b"}" * 200,
    b'{"userName": NaN}',
]


@pytest.mark.security("bombs", "bodies of SCIM that are no JSON, too deep, or of another form")
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH"])
@pytest.mark.parametrize("body", BODIES, ids=lambda body: str(body[:20]))
def test_malformed_bodies_are_refused(okta, method, body):
    made = okta.add_user("mia")
    path = "Users" if method == "POST" else f"Users/{made['id']}"
    answer = okta.send(method, path, body)
    assert answer.status_code == 400, answer.content
    assert answer.json()["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]


@pytest.mark.parametrize(
    "fields",
    [
        {"userName": "a" * 501},
        {"userName": " "},
        {"userName": "mia\x00"},
        {"userName": ""},
        {"userName": None},
        {"userName": 5},
        {"userName": ["mia"]},
        {"userName": "mia", "externalId": "x" * 201},
        {"userName": "mia", "name": {"givenName": "x" * 151}},
        {"userName": "mia", "name": "x"},
        {"userName": "mia", "emails": {"value": "mia@corp.example"}},
        {"userName": "mia", "emails": [{"value": f"{number}@corp.example"} for number in range(500)]},
        {"userName": "mia", "active": "perhaps"},
        {"userName": "mia", "active": {"a": 1}},
    ],
    ids=lambda fields: str(fields)[:40],
)
def test_malformed_users_are_refused(okta, fields):
    answer = okta.send("POST", "Users", {"schemas": [USER], **fields})
    assert is_error(answer, 400, "invalidValue"), answer.content
    assert not ScimUser.objects.exists()


@pytest.mark.parametrize(
    "operations",
    [
        [],
        None,
        [None],
        [5],
        [{}],
        [{"op": "move", "path": "active", "value": 1}],
        [{"op": "remove"}],
        [{"op": "replace", "path": "id", "value": "x"}],
        [{"op": "remove", "path": "active"}],
        [{"op": "replace", "path": "userName", "value": None}],
        [{"op": "replace", "path": "userName", "value": "\ud800"}],
        [{"op": "replace", "path": "emails[", "value": "x"}],
        [{"op": "replace", "path": "(" * 3_000, "value": "x"}],
        [{"op": "add", "path": "active", "value": []}],
    ],
    ids=str,
)
def test_malformed_patches_are_refused_and_change_nothing(okta, operations):
    made = okta.add_user("mia")
    body = {"schemas": [PATCH], "Operations": operations}
    answer = okta.send("PATCH", f"Users/{made['id']}", body)
    assert answer.status_code == 400, answer.content
    assert okta.get(f"Users/{made['id']}").json() == made


def test_too_many_operations_and_too_large_bodies_are_refused(okta, settings):
    made = okta.add_user("mia")
    operation = {"op": "replace", "path": "active", "value": True}
    body = {"schemas": [PATCH], "Operations": [operation] * 1_001}
    assert okta.send("PATCH", f"Users/{made['id']}", body).status_code == 413
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000
    large = {"schemas": [GROUP], "displayName": "x", "members": [{"value": "1"}] * 500}
    assert is_error(okta.send("POST", "Groups", json.dumps(large)), 413)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "ServiceProviderConfig", 405),
        ("DELETE", "Users", 405),
        ("POST", "Users/01890000-0000-7000-8000-000000000000", 405),
        ("GET", "Users/%00", 404),
        ("GET", "Schemas/urn:nothing", 404),
        ("GET", "ResourceTypes/Device", 404),
        ("GET", "nothing/at/all", 404),
        ("POST", "Bulk", 501),
        ("GET", "Me", 501),
        *(("GET", path, 404) for path in ("Users/x/", "Users//x", "Usersx", "x/Users")),
        ("POST", "Users/.search", 501),
        ("GET", "Schemas?filter=x", 403),
    ],
)
def test_other_addresses_and_methods(okta, method, path, status):
    assert is_error(okta.send(method, path, {}), status)


@pytest.mark.security("guessing", "guesses of a SCIM token, and more requests than a provider may send")
def test_requests_are_limited_by_provider_and_by_address(okta, entra, settings):
    settings.SCIM_RATE, settings.API_ANONYMOUS_RATE = "2/min", "2/min"
    cache.clear()
    assert [okta.get("Users").status_code for _request in range(3)] == [200, 200, 429]
    assert int(okta.get("Users").headers["Retry-After"]) > 0
    assert entra.get("Users").status_code == 200
    okta.text = "wrong"
    assert [okta.get("Users").status_code for _request in range(3)] == [401, 401, 429]


VALUES = [None, 5, "\ud800", [None]]


@pytest.mark.security("bombs", "bodies of SCIM in which any member is of another type")
@pytest.mark.parametrize("kind", ["Users", "Groups"])
def test_no_type_of_a_member_is_an_error_of_the_portal(okta, kind):
    """The answers to odd bodies are 2xx or 4xx; what a body has in its place is any of `VALUES`."""
    made = okta.add_user("mia") if kind == "Users" else okta.add_group("gpu")
    path, asked = f"{kind}/{made['id']}", 0
    whole = {"op": "replace", "path": "displayName", "value": "x"}
    names = (
        "schemas",
        "Operations",
        "userName",
        "displayName",
        "members",
        "emails",
        "name",
        "active",
        "externalId",
    )
    for value in VALUES:
        bodies = [("PUT", {**made, name: value}) for name in names]
        patches: list[dict[str, Any]] = [
            {"Operations": value},
            {"operations": value},
            {"OPERATIONS": [value]},
            {"schemas": value},
        ]
        patches += [{"Operations": [{**whole, name: value}]} for name in whole]
        patches += [{"Operations": [{"op": "replace", "value": {name: value}}]} for name in names]
        patches += [
            {"Operations": [{"op": op, "path": name, "value": value}]}
            for op in ("add", "remove")
            for name in names
        ]
        patches += [{"Operations": [{"op": "add", "path": "members", "value": [{"value": value}]}]}]
        bodies += [("PATCH", {"schemas": [PATCH], **body}) for body in patches]
        for method, body in bodies:
            answer = okta.send(method, path, body)
            assert answer.status_code < 500, (method, body)
            asked += 1
    assert asked > 150
