"""The inbox by keyboard alone, and as a screen reader finds it."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.e2e.person import WAIT, Person

pytestmark = [pytest.mark.browser]

# Everything that can be reached by Tab has a name; a list is told as one.
NAMELESS = """() => [...document.querySelectorAll("main :is(a, button, input, select, textarea)")]
  .filter((one) => one.checkVisibility() && one.type !== "hidden")
  .filter((one) => !(one.innerText?.trim() || one.ariaLabel || one.labels?.length))
  .map((one) => one.outerHTML)"""


@pytest.fixture(autouse=True)
def patience():
    """What a page says is waited for, however slow the machine is."""
    expect.set_options(timeout=WAIT)
    yield
    expect.set_options(timeout=5_000)


@pytest.fixture
def people(simulated, browser):
    """Return a function that seats somebody of the demo at a browser of their own."""
    seated = []

    def seat(name):
        seated.append(Person(browser, simulated.url, name).sign_in())
        return seated[-1]

    yield seat
    for person in seated:
        person.leaves()


def asked(mira, *names):
    for name in names:
        mira.ask("train-80g", name)
        mira.sees_state("Waiting for approval")


def test_enter_in_the_note_decides_nothing_and_then_what_was_begun(people):
    mira, aylin = people("engineer"), people("lead")
    asked(mira, "enter-denies")
    page = aylin.page
    page.goto("/approvals/?q=enter-denies")
    page.keyboard.press("d")
    expect(page.get_by_label(re.compile("^Note"))).to_be_focused()
    page.keyboard.type("Not this week.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Deny", exact=True)).to_be_focused()
    expect(page.get_by_role("heading", name="enter-denies")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_text("enter-denies is denied.")).to_be_visible()
    mira.sees_state("Denied")


def test_a_reason_is_picked_by_arrow_keys(people):
    mira, aylin = people("engineer"), people("lead")
    asked(mira, "arrow-keys")
    page = aylin.page
    page.goto("/approvals/?q=arrow-keys")
    reasons = page.get_by_label("Reason ready to use")
    reasons.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(reasons).to_be_focused()
    second = reasons.locator("option").nth(2).get_attribute("value")
    expect(page.get_by_label(re.compile("^Note"))).to_have_value(second)
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.get_by_role("button", name=re.compile("^Approve"))).to_be_focused()


def test_moving_goes_on_from_the_row_and_the_chosen_are_decided_by_keys(people):
    mira, aylin = people("engineer"), people("lead")
    asked(mira, "keys-one", "keys-two")
    page = aylin.page
    page.goto("/approvals/?q=keys-")
    page.keyboard.press("j")
    expect(page.get_by_role("link", name=re.compile("^keys-two"))).to_be_focused()
    expect(page).to_have_title(re.compile("^keys-two"))
    page.keyboard.press("x")
    expect(page.get_by_label("Choose keys-two")).to_be_checked()
    expect(page.get_by_label("Choose keys-two")).to_be_focused()
    page.keyboard.press("b")
    expect(page.get_by_role("heading", level=1, name="Decide on several")).to_be_visible()
    page.keyboard.press("d")
    page.keyboard.type("Not this week.")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Deny 1 request")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 of 1 is denied.")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_reader_finds_names_and_lists(people, scheme):
    root = people("admin")
    page = root.page
    page.emulate_media(color_scheme=scheme)
    page.goto("/approvals/?tab=all")
    expect(page.get_by_role("list", name="Oldest first").get_by_role("listitem").first).to_be_visible()
    chosen = [box.get_attribute("name") + "=" + box.get_attribute("value")
              for box in page.locator("[data-pick]").all()]  # fmt: skip
    bulk = "/approvals/bulk/?" + "&".join(chosen)
    for address in ("/approvals/?tab=all", "/approvals/?tab=decided", bulk, "/approvals/reasons/",
                    "/approvals/reasons/new/", "/approvals/rules/"):  # fmt: skip
        page.goto(address)
        assert page.evaluate(NAMELESS) == [], address
        found = Axe().run(page).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], address
        page.set_viewport_size({"width": 390, "height": 844})
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), address
        page.set_viewport_size({"width": 1440, "height": 900})
