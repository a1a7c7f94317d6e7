"""A provider that is configured in the portal, and a browser that signs in through it."""

from typing import Any

import pytest
from django.test import Client

from teams.identity.models import IdentityProvider
from teams.identity.services import add_provider, set_enabled
from teams.models import Team
from tests.factories import make_team
from tests.teams.identity.issuer import CLIENT, SECRET, Issuer, running


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
