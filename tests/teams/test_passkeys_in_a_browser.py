"""A passkey from its first day to its last, in Chromium with an authenticator that DevTools provides."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest
from allauth.mfa.models import Authenticator
from axe_playwright_python.sync_playwright import Axe
from django.core.cache import cache
from playwright.sync_api import BrowserContext, CDPSession, Page, ViewportSize, expect, sync_playwright

from core import assets
from core.models import Installation
from teams.models import AuditEntry, Session
from tests import patience
from tests.e2e.chromium import ARGUMENTS, executable

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
PHONE, DESK = ViewportSize(width=390, height=844), ViewportSize(width=1440, height=900)
# What a phone has: it keeps the keys, and asks for a finger.
AUTHENTICATOR = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@pytest.fixture(scope="module")
def chromium():
    if not assets.is_current():
        assets.build()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")  # Playwright keeps an event loop in this thread
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
            yield browser
            browser.close()


class Window:
    """A window with an authenticator, at the name of this machine: passkeys do not work at an IP address."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(patience.PAGE * 1000)
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.devtools: CDPSession = context.new_cdp_session(self.page)
        self.devtools.send("WebAuthn.enable")
        self.key = self.devtools.send("WebAuthn.addVirtualAuthenticator", {"options": AUTHENTICATOR})[
            "authenticatorId"
        ]

    def asks_for_a_finger_in_vain(self, *, fails: bool) -> None:
        self.devtools.send(
            "WebAuthn.setUserVerified", {"authenticatorId": self.key, "isUserVerified": not fails}
        )

    def sign_in_by_password(self) -> None:
        self.page.goto("/accounts/login/")
        self.page.get_by_label("User name or email address").fill("alice")
        self.page.get_by_label("Password").fill("alice")
        self.page.get_by_role("button", name="Sign in", exact=True).click()

    def sign_out(self) -> None:
        self.page.goto("/accounts/logout/")
        self.page.locator("main").get_by_role("button", name="Sign out").click()
        expect(self.page.get_by_role("heading", name="Sign in")).to_be_visible()

    def add_passkey(self, name: str, *, alone: bool = True) -> None:
        self.page.goto("/accounts/2fa/webauthn/add/")
        if self.page.get_by_role("heading", name="Confirm that it is you").is_visible():
            self.page.get_by_label("Password").fill("alice")
            self.page.locator("main").get_by_role("button").first.click()
        self.page.get_by_label("Name").fill(name)
        self.page.get_by_label("Sign in with it instead of a password").set_checked(alone)
        self.page.get_by_role("button", name="Add", exact=True).click()

    def sees(self, path: str, name: str) -> None:
        """Look at a page with axe, in both themes and on a phone; keep its picture if PICTURES is set."""
        self.page.goto(path)
        self.looks_at(name)

    def looks_at(self, name: str) -> None:
        size = self.page.viewport_size or DESK
        themes: tuple[tuple[ViewportSize, Literal["light", "dark"]], ...] = (
            (size, "light"),
            (size, "dark"),
            (PHONE, "light"),
        )
        for view, theme in themes:
            self.page.set_viewport_size(view)
            self.page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            wide = self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
            assert not wide, name
            found = Axe().run(self.page).response["violations"]
            assert [rule["id"] for rule in found] == [], name
            if folder := os.environ.get("PICTURES"):
                path = Path(folder) / f"{name}-{theme}-{view['width']}.png"
                self.page.screenshot(path=path, full_page=True)
        self.page.set_viewport_size(size)


@pytest.fixture
def window(chromium, live_server, alice):
    cache.clear()
    url = live_server.url.replace("127.0.0.1", "localhost")
    context = chromium.new_context(base_url=url, viewport={"width": 1440, "height": 900})
    seat = Window(context)
    yield seat
    context.close()
    assert seat.errors == []


@pytest.fixture(autouse=True)
def _patient():
    expect.set_options(timeout=patience.PAGE * 1000)
    yield
    expect.set_options(timeout=5_000)


def test_passkey_is_added_named_used_renamed_and_removed(window, alice):
    page = window.page
    window.sees("/accounts/login/", "login")
    window.sign_in_by_password()
    window.sees("/accounts/2fa/", "factors-none")
    window.add_passkey("Phone")
    expect(page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    assert Authenticator.objects.filter(user=alice).count() == 2
    window.sees("/accounts/2fa/", "factors")
    window.sees("/accounts/2fa/webauthn/", "passkeys")
    expect(page.get_by_text("instead of the password")).to_be_visible()

    window.sign_out()
    page.get_by_role("button", name="Sign in with a passkey").click()
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Sign in")
    assert Session.objects.get(user=alice).signed_in_with == "passkey"
    window.sees("/me/sessions/", "sessions")
    expect(page.get_by_text("with a passkey")).to_be_visible()

    page.goto("/accounts/2fa/webauthn/")
    page.get_by_role("link", name="Rename Phone").click()
    window.looks_at("confirm")  # whoever sits there now may be somebody else
    page.get_by_role("link", name="Use a passkey").click()
    page.get_by_role("button", name="Use a passkey").click()
    page.get_by_label("Name").fill("Old phone")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("link", name="Remove Old phone").click()
    window.looks_at("remove")
    page.get_by_role("button", name="Remove").click()
    expect(page.get_by_text("No passkeys yet")).to_be_visible()
    assert not Authenticator.objects.exists()  # recovery codes go with the last factor
    actions = AuditEntry.objects.filter(action__startswith="second_factor.").order_by("at", "pk")
    assert [entry.action.partition(".")[2] for entry in actions] == ["added", "added", "removed", "removed"]


def test_passkey_is_the_second_factor_of_a_password(window, alice):
    window.sign_in_by_password()
    window.add_passkey("Key", alone=False)
    expect(window.page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    window.sign_out()
    window.sign_in_by_password()
    expect(window.page.get_by_role("heading", name="Second factor")).to_be_visible()
    window.looks_at("second-factor")
    window.page.goto("/me/")
    expect(window.page.get_by_role("heading", name="Second factor")).to_be_visible()
    window.page.get_by_role("button", name="Use a passkey").click()
    expect(window.page.get_by_role("heading", level=1)).not_to_have_text("Second factor")
    assert Session.objects.filter(user=alice, signed_in_with="password").exists()


def test_what_went_wrong_is_said_in_words(window, alice):
    window.page.goto("/accounts/login/")
    window.page.get_by_role("button", name="Sign in with a passkey").click()
    expect(window.page.get_by_role("alert")).to_contain_text("found no passkey")
    window.sign_in_by_password()
    window.asks_for_a_finger_in_vain(fails=True)
    window.add_passkey("Phone")
    expect(window.page.get_by_role("alert")).to_contain_text("Try again")
    window.asks_for_a_finger_in_vain(fails=False)
    window.page.get_by_role("button", name="Add", exact=True).click()
    expect(window.page.get_by_role("heading", name="Recovery codes")).to_be_visible()


@pytest.mark.security("sign-in", "pages in a browser before the demanded passkey is set up")
def test_required_passkey_is_set_up_before_anything_else(window, alice):
    Installation.objects.create(pk=1, second_factor="all")
    window.sign_in_by_password()
    expect(window.page.get_by_text("requires a second factor of you")).to_be_visible()
    window.looks_at("required")
    window.page.goto("/me/")
    expect(window.page.get_by_role("heading", name="Two-factor authentication")).to_be_visible()
    window.page.get_by_role("link", name="Add a passkey").click()
    window.add_passkey("Phone")
    expect(window.page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    window.page.goto("/me/")
    expect(window.page.get_by_role("heading", name="Alice Ames")).to_be_visible()


@pytest.mark.security("sign-in", "the passkey of a deactivated person")
def test_deactivated_person_cannot_sign_in_with_a_passkey(window, alice):
    window.sign_in_by_password()
    window.add_passkey("Phone")
    expect(window.page.get_by_role("heading", name="Recovery codes")).to_be_visible()
    window.sign_out()
    alice.is_active = False
    alice.save(update_fields=["is_active"])
    with window.page.expect_navigation():  # of the form, which answers on a page of the sign-in
        window.page.get_by_role("button", name="Sign in with a passkey").click()
    window.page.goto("/me/")
    expect(window.page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert not Session.objects.filter(user=alice).exists()
