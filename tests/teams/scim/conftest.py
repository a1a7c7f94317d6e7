"""An identity provider with its token, and what it sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from teams.identity.models import IdentityProvider
from teams.models import User
from teams.scim.tokens import create_scim_token
from tests.factories import make_user

USER = "urn:ietf:params:scim:schemas:core:2.0:User"
GROUP = "urn:ietf:params:scim:schemas:core:2.0:Group"
PATCH = "urn:ietf:params:scim:api:messages:2.0:PatchOp"


class Provider:
    """A provider that talks SCIM."""

    def __init__(self, row: IdentityProvider, text: str) -> None:
        self.row, self.text, self.client = row, text, Client()

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        return self.client.generic(
            method,
            f"/scim/v2/{path}",
            body if isinstance(body, str | bytes) else json.dumps(body) if body is not None else b"",
            content_type="application/scim+json",
            headers={"authorization": f"Bearer {self.text}", **headers},
        )

    def get(self, path: str, **headers: str) -> Any:
        return self.send("GET", path, **headers)

    def find(self, kind: str, condition: str, **more: str) -> list[dict[str, Any]]:
        answer = self.client.get(
            f"/scim/v2/{kind}",
            {"filter": condition, **more},
            headers={"authorization": f"Bearer {self.text}"},
        )
        assert answer.status_code == 200, answer.content
        return answer.json()["Resources"]

    def add_user(self, user_name: str, /, *, status: int = 201, **fields: Any) -> dict[str, Any]:
        answer = self.send("POST", "Users", {"schemas": [USER], "userName": user_name, **fields})
        assert answer.status_code == status, answer.content
        return answer.json()

    def add_group(
        self, group_name: str, /, *members: str, status: int = 201, **fields: Any
    ) -> dict[str, Any]:
        body = {
            "schemas": [GROUP],
            "displayName": group_name,
            "members": [{"value": pk} for pk in members],
            **fields,
        }
        answer = self.send("POST", "Groups", body)
        assert answer.status_code == status, answer.content
        return answer.json()

    def patch(self, path: str, *operations: dict[str, Any], status: int = 0) -> dict[str, Any]:
        """Send operations; of a group nothing is answered."""
        status = status or (204 if path.startswith("Groups") else 200)
        answer = self.send("PATCH", path, {"schemas": [PATCH], "Operations": list(operations)})
        assert answer.status_code == status, answer.content
        return answer.json() if answer.content else {}


def make_provider(slug: str, by: User, **fields: Any) -> Provider:
    row = IdentityProvider.objects.create(
        slug=slug, title=slug.title(), issuer=f"https://{slug}.example", client_id="dragoman", **fields
    )
    _token, text = create_scim_token(by=by, provider=row)
    return Provider(row, text)


@pytest.fixture(autouse=True)
def _no_counts_of_others():
    cache.clear()


@pytest.fixture
def root(db) -> User:
    return make_user("root", admin=True)


@pytest.fixture
def okta(root) -> Provider:
    return make_provider("okta", root)


@pytest.fixture
def entra(root) -> Provider:
    return make_provider("entra", root)
