"""Every page of the demo in a real browser: no error, nothing for axe in both themes, fits a phone."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.e2e.person import Person

pytestmark = pytest.mark.browser

PAGES = {
    "engineer": [
        "/",
        "/catalogue/",
        "/catalogue/train-80g/",
        "/claims/",
        "/claims/request/?profile=train-80g&cluster=fra-1",
        "/claims/request/?profile=train-48g&together=train-80g&together_devices=2&colour=red",
        "/claims/request/import/",
        "/claims/drafts/",
        "/quotas/",
        "/fleet/",
        "/devices/",
        "/rates/",
        "{usage:team}",
        "{teams:people}",
        "{teams:tokens}",
        "{claim}",
    ],
    "lead": ["/", "/approvals/", "/quotas/"],
    "admin": [
        "/",
        "/fleet/",
        "/clusters/",
        "/nodes/",
        "/devices/",
        "{device}",
        "/profiles/",
        "/profiles/lint/",
        "/profiles/import/",
        "/profiles/presets/",
        "{fix}",
        "/profiles/train-80g/",
        "/rates/",
    ],
}
SERIOUS = {"serious", "critical"}


def addresses(person, paths):
    """Fill in the addresses that only a page knows, by following its links as a person would."""
    links = {
        "{usage:team}": ("/", "Cost"),
        "{teams:people}": ("/", "People"),
        "{teams:tokens}": ("/", "API tokens"),
        "{claim}": ("/claims/", "sam2-finetune"),
        "{fix}": ("/profiles/lint/", re.compile(r"^Show the fix")),
        "{device}": ("/devices/?q=gpu-1", re.compile(r"^gpu-1")),
    }
    for path in paths:
        if path not in links:
            yield path
            continue
        start, name = links[path]
        person.page.goto(start)
        link = person.page.get_by_role("link", name=name, exact=isinstance(name, str)).first
        yield link.get_attribute("href")


@pytest.fixture(scope="module", params=sorted(PAGES))
def seat(request, simulated, browser):
    """A person of the demo, and the addresses that they visit."""
    person = Person(browser, simulated.url, request.param).sign_in()
    yield person, list(addresses(person, PAGES[request.param]))
    person.leaves()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(seat, scheme):
    person, paths = seat
    person.page.emulate_media(color_scheme=scheme)
    found = []
    for path in paths:
        answer = person.page.goto(path)
        assert answer.status == 200, path
        for violation in Axe().run(person.page).response["violations"]:
            if violation["impact"] in SERIOUS:
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                found.append(f"{path} in {scheme}: {violation['id']}: {nodes}")
    assert found == []


def test_a_phone_needs_no_sideways_scrolling(seat):
    person, paths = seat
    person.page.set_viewport_size({"width": 390, "height": 844})
    too_wide = []
    for path in paths:
        person.page.goto(path)
        width = person.page.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            too_wide.append(f"{path}: {width} px")
    person.page.set_viewport_size({"width": 1440, "height": 900})
    assert too_wide == []


def test_axe_is_able_to_find_something(simulated, browser):
    person = Person(browser, simulated.url, "engineer")
    person.page.goto("/accounts/login/")
    person.page.evaluate("document.querySelectorAll('label').forEach(label => label.remove())")
    assert [item for item in Axe().run(person.page).response["violations"] if item["impact"] in SERIOUS]
    person.leaves()


def test_pages_that_are_not_there_or_not_for_you_say_so_in_the_look_of_the_portal(simulated, browser):
    person = Person(browser, simulated.url, "engineer").sign_in()
    for path, status in (("/nothing/", 404), ("/profiles/", 403)):
        assert person.page.goto(path).status == status
        expect(person.page.get_by_role("heading", level=1)).to_be_visible()
        expect(person.page.get_by_role("link", name=re.compile("Home|home")).first).to_be_visible()
    person.leaves()


def test_the_theme_can_be_chosen_and_stays(simulated, browser):
    person = Person(browser, simulated.url, "engineer").sign_in()
    person.page.locator("summary[aria-label=Theme]").click()
    person.page.get_by_role("button", name="Dark", exact=True).click()
    expect(person.page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    person.page.goto("/claims/")
    expect(person.page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    person.leaves()


def test_the_request_panel_follows_what_is_typed_and_works_without_javascript(simulated, browser):
    person = Person(browser, simulated.url, "engineer").sign_in()
    person.page.goto("/claims/request/?profile=train-80g&cluster=fra-1")
    panel = person.page.locator("#panel")
    expect(panel).to_contain_text("in class gpu.nvidia.com")
    person.page.get_by_label("Devices", exact=True).fill("3")
    expect(panel).to_contain_text(re.compile("count: 3"))
    person.leaves()

    plain = Person(browser, simulated.url, "engineer", java_script_enabled=False).sign_in()
    plain.page.goto("/claims/request/?profile=train-80g&cluster=fra-1")
    plain.page.get_by_label("Devices", exact=True).fill("3")
    plain.page.get_by_role("button", name="Check").click()
    expect(plain.page.locator("#panel")).to_contain_text(re.compile("count: 3"))
    plain.leaves()
