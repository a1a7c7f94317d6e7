"""The portal with Keycloak as its identity provider, and people in front of Chromium."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_socket
from django.core.cache import cache
from playwright.sync_api import Browser, Page, sync_playwright

from teams.identity.models import IdentityProvider
from teams.identity.services import add_provider, save_rule, set_enabled
from teams.models import Team, User
from tests.e2e.chromium import ARGUMENTS, executable
from tests.factories import make_team, make_user
from tests.keycloak.realm import CLIENT, PASSWORD, SECRET
from tests.keycloak.server import Realm


@pytest.fixture(scope="module")  # it ends with them: two of Playwright in one process do not go
def browser():
    pytest_socket.enable_socket()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(autouse=True)
def _nothing_cached():
    """Keys and metadata of the realm, and counts of rate limits."""
    cache.clear()


@dataclass
class Portal:
    url: str
    root: User
    vision: Team
    browser: Browser
    pages: list[Page] = field(default_factory=list)

    def connect(self, realm: Realm, slug: str, **fields: Any) -> IdentityProvider:
        """Register the portal at a realm, and the realm at the portal, as an admin of both does."""
        (client,) = realm.call("GET", f"/clients?clientId={CLIENT}")
        logout = f"{self.url}/accounts/oidc/{slug}/logout/"
        attributes = client["attributes"] | {
            "backchannel.logout.url": logout,
            "backchannel.logout.session.required": "true",
            "post.logout.redirect.uris": f"{self.url}/accounts/login/",
        }
        redirect = f"{self.url}/accounts/oidc/{slug}/login/callback/"
        realm.call(
            "PUT", f"/clients/{client['id']}", client | {"redirectUris": [redirect], "attributes": attributes}
        )
        values = {"title": slug.title(), "issuer": realm.issuer, "client_id": CLIENT, **fields}
        row = add_provider(by=self.root, slug=slug, secret=SECRET, **values)
        set_enabled(by=self.root, provider=row, enabled=True)
        row.refresh_from_db()
        return row

    def visit(self) -> Page:
        """Open the sign-in page in a browser of its own."""
        page = self.browser.new_context().new_page()
        self.pages.append(page)
        page.goto(f"{self.url}/accounts/login/")
        return page

    def sign_in(self, username: str, title: str = "Company") -> Page:
        """Sign in through a provider, on its own page."""
        page = self.visit()
        page.get_by_role("button", name=f"Sign in with {title}").click()
        page.locator("#username").fill(username)
        page.locator("#password").fill(PASSWORD)
        page.locator("#kc-login").click()
        return page


@pytest.fixture
def portal(live_server, socket_enabled, browser, db):
    root = make_user("root", admin=True)
    vision = make_team("vision", owners=(make_user("olga"),))
    one = Portal(live_server.url, root, vision, browser)
    yield one
    for page in one.pages:
        page.context.close()


@pytest.fixture
def sso(portal: Portal, company: Realm) -> IdentityProvider:
    row = portal.connect(company, "company")
    save_rule(by=portal.root, provider=row, pattern="gpu-vision", team=portal.vision, role="member")
    save_rule(by=portal.root, provider=row, pattern="gpu-l*", team=portal.vision, role="lead")
    return row


@pytest.fixture
def real_id_token(company: Realm) -> Callable[..., str]:
    """Return a function that gets an ID token of Keycloak for a person, issued to a client."""

    def issued(username: str, client_id: str = CLIENT) -> str:
        form = {
            "grant_type": "password",
            "client_id": client_id,
            "client_secret": SECRET,
            "username": username,
            "password": PASSWORD,
            "scope": "openid",
        }
        answer = httpx.post(f"{company.issuer}/protocol/openid-connect/token", data=form, timeout=30)
        assert answer.is_success, answer.text
        return str(answer.json()["id_token"])

    return issued
