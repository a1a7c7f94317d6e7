"""Somebody in front of a browser window of their own, doing what a person does."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

import yaml
from playwright.sync_api import Browser, Page, Response, expect

from claims.states import LIVE, ClaimState
from demo.controlplane.client import eventually
from tests import patience

# What htmx says where somebody leaves a page while it fetches something; what fails is said otherwise.
LEFT = ("htmx:sendAbort", "htmx:afterRequest")
WAIT = patience.PAGE * 1000  # as Playwright counts, in milliseconds


def _answers_a_request(response: Response) -> bool:
    return response.request.method == "POST" and urlsplit(response.url).path == "/claims/request/"


class Person:
    def __init__(self, browser: Browser, url: str, name: str, **options: Any) -> None:
        self.name, self.url = name, url
        self.context = browser.new_context(base_url=url, viewport={"width": 1440, "height": 900}, **options)
        self.context.set_default_timeout(WAIT)
        self.page: Page = self.context.new_page()
        self.asked: list[str] = []  # names of the claims that `gives_back` ends
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._hear)

    def _hear(self, message) -> None:
        refused = "status of 4" in message.text  # refusals are meant
        left = message.text.startswith(LEFT)
        if message.type == "error" and not refused and not left:
            self.errors.append(message.text)

    def sign_in(self) -> Person:
        self.page.goto("/accounts/login/")
        self.page.get_by_label("User name or email address").fill(self.name)
        self.page.get_by_label("Password").fill("demo")
        self.page.get_by_role("button", name="Sign in", exact=True).click()
        expect(self.page.get_by_role("heading", level=1)).to_be_visible()
        return self

    def ask(
        self, profile: str, name: str, *, devices: int = 1, template: int = 0, reason: str = "A test."
    ) -> None:
        """Fill the request form, send it, and wait for the answer: then somebody else can see it."""
        self.page.goto(f"/claims/request/?profile={profile}&cluster=fra-1")
        self.page.get_by_label("Devices", exact=True).fill(str(devices))
        if template:
            self.page.get_by_text("Template for several pods").click()
            self.page.get_by_text("Template", exact=True).click()
            self.page.get_by_label("Concurrent pods").fill(str(template))
        self.page.get_by_label("Claim name").fill(name)
        self.page.get_by_label("Purpose").fill(reason)
        self.asked.append(name)
        with self.page.expect_response(_answers_a_request):
            self.page.locator("#send").click()

    def open_claim(self, name: str) -> None:
        self.page.goto(f"/claims/?q={name}")
        self.page.get_by_role("link", name=name, exact=True).click()
        expect(self.page.get_by_role("heading", level=1, name=name)).to_be_visible()

    def sees_state(self, text: str) -> None:
        """The badge says so, without a reload."""
        expect(self.page.locator("h1 + .dg-badge")).to_have_text(re.compile(text))

    def snippet(self, title: str) -> dict:
        """Return what the tab of that title shows, of whichever use, as its reader would paste it."""
        uses = self.page.get_by_label("Uses").get_by_role("link")
        tab = self.page.get_by_label("Snippets").get_by_role("link", name=title, exact=True)
        for number in range(uses.count()):
            if tab.count():
                break
            uses.nth(number).click()
            expect(uses.nth(number)).to_have_attribute("aria-current", "true")
        tab.click()
        code = self.page.locator("#snippets pre")
        expect(code).to_contain_text(f"kind: {title}")
        return yaml.safe_load(code.inner_text())

    def opens_request(self, name: str) -> None:
        self.page.goto("/approvals/")
        self.page.get_by_role("link", name=re.compile(name)).first.click()
        expect(
            self.page.get_by_role("heading", level=1, name=re.compile(f"{name}|Approvals"))
        ).to_be_visible()

    def approve(self, name: str) -> None:
        self.opens_request(name)
        self.page.get_by_role("button", name=re.compile("^Approve")).click()
        expect(self.page.get_by_text(f"{name} approved")).to_be_visible()

    def deny(self, name: str, reason: str) -> None:
        self.opens_request(name)
        self.page.get_by_label(re.compile("^Note")).fill(reason)
        self.page.get_by_role("button", name=re.compile("^Deny")).click()
        expect(self.page.get_by_text(f"{name} denied")).to_be_visible()

    def release(self) -> None:
        self.page.get_by_role("link", name="Release…").click()
        self.page.get_by_role("button", name=re.compile("^Release ")).click()

    def gives_back(self) -> None:
        """Withdraw or release what was asked for, and wait until nothing of it counts against a quota."""
        for claim in self._held():
            end = "withdraw" if claim["state"] == ClaimState.REQUESTED else "release"
            if claim["state"] != ClaimState.RELEASING:
                token = next(one["value"] for one in self.context.cookies() if one["name"] == "csrftoken")
                address = f"/api/v1/claims/{claim['id']}/{end}/"
                answer = self.context.request.post(address, data={}, headers={"X-CSRFToken": token})
                assert answer.ok, answer.text()
        eventually(lambda: not self._held(), seconds=patience.PAGE, subject=f"the end of {self.asked}")

    def _held(self) -> list[dict[str, Any]]:
        if not self.asked:
            return []
        states = "&".join(f"state={state}" for state in LIVE)
        answer = self.context.request.get(f"/api/v1/claims/?limit=500&{states}")
        assert answer.ok, answer.text()
        return [claim for claim in answer.json()["results"] if claim["name"] in self.asked]

    def leaves(self) -> None:
        self.context.close()
        assert self.errors == [], f"{self.name} saw errors in the console"
