"""Parts of a page poll: never in a hidden tab, at once in one that is shown again, later while unchanged."""

import re
from itertools import pairwise

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

HIDE = """hidden => {
  Object.defineProperty(document, "hidden", {configurable: true, get: () => hidden});
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_hidden_tab_does_not_poll_and_shown_tab_polls_at_once(people):
    mira = people("engineer")
    page = mira.page
    page.clock.install()
    page.goto("/")
    polls: list[str] = []
    page.on("request", lambda request: polls.append(request.url) if "bell" in request.url else None)
    page.clock.run_for(45_000)
    assert polls == []
    with page.expect_response("**/bell/") as answer:
        page.clock.run_for(20_000)
    assert answer.value.status == 304
    page.evaluate(HIDE, True)
    page.clock.run_for(600_000)
    assert len(polls) == 1
    with page.expect_response("**/bell/"):
        page.evaluate(HIDE, False)
    assert len(polls) == 2


def test_unchanged_element_polls_later_each_time_at_most_four_times_as_late(people):
    mira = people("engineer")
    page = mira.page
    page.clock.install()
    page.goto("/")
    seconds: list[int] = []
    elapsed = 0
    page.on("request", lambda request: seconds.append(elapsed) if "bell" in request.url else None)
    while elapsed < 1_000:
        page.clock.run_for(5_000)
        elapsed += 5
        page.wait_for_timeout(20)
    waits = [after - before for before, after in pairwise(seconds)]
    assert waits[0] < waits[1] < waits[2]
    assert 230 <= max(waits) <= 250


def test_swap_keeps_the_focus_and_an_open_menu(people):
    mira = people("engineer")
    mira.ask("notebook-24g", "keeps-focus")
    mira.sees_state("Waiting for a pod")
    page = mira.page
    menu = page.locator("#claim-top details.dg-menu")
    menu.locator("summary").click()
    release = page.get_by_role("link", name="Release…")
    release.focus()
    page.evaluate("""() => {
        const top = document.getElementById("claim-top");
        top.dataset.etag = "changed";  // so that the answer is not 304
        top.firstElementChild.dataset.before = "";
        top.dispatchEvent(new CustomEvent("poll"));
    }""")
    expect(page.locator("#claim-top [data-before]")).to_have_count(0)
    expect(menu).to_have_attribute("open", "")
    expect(release).to_be_focused()


def test_link_of_a_dialog_works_at_once_after_a_swap(people):
    mira = people("engineer")
    mira.ask("notebook-24g", "at-once")
    mira.sees_state("Waiting for a pod")
    page = mira.page
    with page.expect_request(re.compile("/release/")):
        page.evaluate("""() => {
            document.addEventListener("htmx:afterSwap", () => setTimeout(
                () => document.querySelector("#claim-top a[href$='/release/']").click()
            ), {once: true});
            const top = document.getElementById("claim-top");
            top.dataset.etag = "changed";
            top.dispatchEvent(new CustomEvent("poll"));
        }""")
    expect(page.get_by_role("heading", name="Release at-once?")).to_be_visible()
