"""The description of the API: there for programs, complete, and true to the addresses."""

import re

import pytest
from django.urls import resolve

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
