"""/help/reference/ shows what the OpenAPI description says, for everybody who is signed in."""

import re
from html import unescape

import pytest

from portal.help.reference import Drawing, resources
from teams.models import Role
from tests.factories import make_team, make_user

OPERATIONS = [(resource, operation) for resource in resources().values() for operation in resource.operations]


@pytest.fixture
def reader(client, db):
    person = make_user("mira")
    make_team("vision", viewers=(person,))
    client.force_login(person)
    return client


def shown(text):
    return unescape(re.sub(r"<[^>]+>", "", text))


def test_reference_lists_every_operation_of_the_description(reader):
    described = reader.get("/api/v1/schema/", {"format": "json"}).json()["paths"]
    there = {
        (method.upper(), path)
        for path, item in described.items()
        for method in item
        if method != "parameters"
    }
    assert there == {(operation.method, operation.path) for _resource, operation in OPERATIONS}
    page = reader.get("/help/reference/").text
    for resource, operation in OPERATIONS:
        assert f'href="{resource.url}#{operation.anchor}"' in page


@pytest.mark.parametrize("name", sorted(resources()))
def test_page_of_a_resource_has_its_operations_and_links_that_lead_somewhere(reader, name):
    page = reader.get(f"/help/reference/{name}/")
    assert page.status_code == 200
    anchors = re.findall(r' id="([^"]+)"', page.text)
    assert len(anchors) == len(set(anchors))
    assert set(re.findall(r'href="#([^"]+)"', page.text)) <= set(anchors)
    for operation in resources()[name].operations:
        assert operation.path in shown(page.text)


def test_operation_says_parameters_body_answers_and_refusals():
    (create,) = (
        operation
        for _, operation in OPERATIONS
        if (operation.method, operation.path) == ("POST", "/api/v1/claims/")
    )
    assert [(each.name, each.where) for each in create.parameters] == [("Idempotency-Key", "header")]
    fields = {each.name: each for each in create.body}
    assert fields["team"].is_required
    assert not fields["reason"].is_required
    assert shown(fields["devices"].kind) == "whole number"
    assert [(status, shown(kind)) for status, kind in create.answers] == [("201", "ClaimDetailOut")]
    assert "409" in dict(create.refusals)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "text"),
        ({"type": ["string", "null"], "format": "date-time"}, "time, or null"),
        ({"type": "integer", "minimum": 1}, "whole number"),
        ({"type": "array", "items": {"$ref": "#/components/schemas/State"}}, "list of new, old"),
        ({"$ref": "#/components/schemas/Claim"}, "Claim"),
        ({"oneOf": [{"$ref": "#/components/schemas/Claim"}, {"type": "null"}]}, "Claim, or null"),
        ({"oneOf": [{"type": "string"}, {"enum": [None]}]}, "text, or null"),
        ({"additionalProperties": {}}, "object"),
    ],
)
def test_types_are_shown_in_words(schema, words):
    schemas = {
        "State": {"type": "string", "enum": ["new", "old", "", None]},
        "Claim": {"type": "object", "properties": {"state": {"$ref": "#/components/schemas/State"}}},
    }
    assert shown(Drawing({"components": {"schemas": schemas}}).kind(schema)) == words


@pytest.mark.parametrize("role", [*Role.values, "outsider", "admin"])
def test_reference_is_the_same_for_everybody(client, db, role):
    person = make_user(role, is_superuser=role == "admin")
    if role in Role.values:
        make_team(
            "vision",
            **{
                {"owner": "owners", "lead": "leads", "member": "members", "viewer": "viewers"}[role]: (
                    person,
                )
            },
        )
    client.force_login(person)
    assert "/api/v1/claims/{id}/approve/" in client.get("/help/reference/claims/").text


def test_unknown_resource_is_404(reader):
    assert reader.get("/help/reference/nothing/").status_code == 404


@pytest.mark.parametrize("address", ["/help/reference/", "/help/reference/claims/"])
def test_reference_needs_a_session(client, reader, address):
    client.logout()
    assert client.get(address).status_code == 302
