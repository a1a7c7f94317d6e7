"""A provider that is configured in the portal, and a browser that signs in through it."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from teams.identity.models import IdentityGrant, IdentityProvider
from teams.identity.services import add_provider, save_rule, set_enabled
from teams.models import Team, User
from teams.tokens import create_token
from tests.factories import make_team
from tests.teams.identity.issuer import CLIENT, SECRET, Issuer, running

# Of a group with a role in vision, and without a password.
NINA: dict[str, Any] = {"sub": "n-1", "preferred_username": "nina", "groups": ["gpu-vision"]}


@pytest.fixture
def issuer(socket_enabled):
    with running() as one:
        yield one


@pytest.fixture
def nlp(db, olga) -> Team:
    return make_team("nlp", owners=(olga,))


@pytest.fixture
def sso(root, issuer: Issuer) -> IdentityProvider:
    return configured(root, issuer)


def configured(root, issuer: Issuer, slug: str = "sso", **fields) -> IdentityProvider:
    fields = {"title": slug.upper(), "issuer": issuer.url, "client_id": CLIENT, **fields}
    row = add_provider(by=root, slug=slug, secret=SECRET, **fields)
    set_enabled(by=root, provider=row, enabled=True)
    row.refresh_from_db()
    return row


@pytest.fixture
def nina(root, sso, vision, issuer) -> Client:
    save_rule(by=root, provider=sso, pattern="gpu-vision", team=vision, role="member")
    browser = Client()
    sign_in(browser, issuer, **NINA)
    return browser


@pytest.fixture
def token(nina) -> str:
    _row, text = create_token(by=User.objects.get(username="nina"), title="pipeline")
    return text


def asks(token: str) -> Any:
    return Client().get("/api/v1/me", headers={"authorization": f"Bearer {token}"})


def due() -> None:
    """Let the groups of everybody be read again now."""
    IdentityGrant.objects.exclude(due_at=None).update(due_at=timezone.now())


def begin(client: Client, slug: str = "sso", **query) -> str:
    """Press the button of a provider; return the address to which the browser goes."""
    page = client.post(f"/accounts/oidc/{slug}/login/", query_params=query)
    assert page.status_code == 200, page.text
    return page.headers["Refresh"].removeprefix("0; url=")


def sign_in(client: Client, issuer: Issuer, slug: str = "sso", **claims: Any) -> Any:
    """Sign in through the provider, which says `claims`; return the answer to the callback."""
    issuer.claims = claims
    back = issuer.authorize(begin(client, slug))
    return client.get(f"/accounts/oidc/{slug}/login/callback/", back)
