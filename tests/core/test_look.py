"""The look in a browser: every component, in both themes, on a desk and on a phone."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from core import assets
from teams.models import User
from tests import patience
from tests.e2e.chromium import ARGUMENTS, executable
from tests.factories import make_team, make_user

DESK, PHONE, TABLET = (1440, 900), (390, 844), (1024, 768)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _patient():
    """What a page shows is waited for, however slow the machine is."""
    expect.set_options(timeout=patience.PAGE * 1000)
    yield
    expect.set_options(timeout=5_000)  # Playwright's own


@pytest.fixture(scope="module")
def chromium():
    if not assets.is_current():
        assets.build()
    with pytest.MonkeyPatch.context() as patch:
        # Playwright keeps an event loop in this thread, in which Django would refuse to query.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=executable(), args=ARGUMENTS)
            yield browser
            browser.close()


@pytest.fixture
def mira() -> User:
    person = make_user("mira", first_name="Mira")
    make_team("vision", owners=(person,))
    for name in ("bob", "carol", "dan", "erin", "frank", "grace"):
        make_user(name, theme="dark" if name == "dan" else "light")
    return person


@pytest.fixture
def window(chromium: Browser, live_server, look, mira):
    """A window of somebody who is signed in; it fails the test that leaves an error in its console."""
    contexts: list[BrowserContext] = []
    errors: list[str] = []

    def open_(size: tuple[int, int] = DESK, **options) -> Page:
        context = chromium.new_context(
            base_url=live_server.url, viewport={"width": size[0], "height": size[1]}, **options
        )
        contexts.append(context)
        client = Client()
        client.force_login(mira)
        context.add_cookies(
            [{"name": "sessionid", "value": client.session.session_key, "url": live_server.url}]
        )
        page = context.new_page()
        page.set_default_timeout(patience.PAGE * 1000)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
        return page

    yield open_
    for context in contexts:
        context.close()
    assert errors == []


def found_by_axe(page: Page) -> list[str]:
    """What axe finds once no colour is on its way to another: a change of theme fades for a moment."""
    page.evaluate("Promise.allSettled(document.getAnimations().map((one) => one.finished))")
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:120]}"
        for rule in Axe().run(page).response["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("path", ["/look/", "/look/people/", "/teams/vision/people/", "/me/", "/me/tokens/"])
def test_axe_finds_nothing_and_nothing_is_wider_than_the_window(window, path):
    page = window(DESK, color_scheme="light", reduced_motion="reduce")
    page.goto(path)
    page.wait_for_load_state("networkidle")
    for size, theme in ((DESK, "light"), (TABLET, "light"), (PHONE, "dark"), (DESK, "dark")):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.emulate_media(color_scheme=theme)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        if size != TABLET:
            assert found_by_axe(page) == []


@pytest.mark.parametrize("path", ["/accounts/login/", "/nothing/"])
def test_axe_finds_nothing_where_strangers_come(chromium, live_server, look, path):
    page = chromium.new_page(base_url=live_server.url, color_scheme="light", reduced_motion="reduce")
    page.goto(path)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert found_by_axe(page) == []
    page.close()


def test_axe_would_find_something(window):
    page = window()
    page.goto("/look/plain/")
    page.evaluate("document.querySelector('main').insertAdjacentHTML('beforeend', '<button></button>')")
    assert any(found.startswith("button-name") for found in found_by_axe(page))


def canvas_of(page: Page) -> str:
    return page.evaluate("getComputedStyle(document.body).backgroundColor")


def test_the_theme_follows_the_system_until_somebody_chooses(window):
    page = window(color_scheme="dark")
    page.goto("/look/")
    dark = canvas_of(page)
    page.emulate_media(color_scheme="light")
    light = canvas_of(page)
    assert light != dark
    page.get_by_label("Theme").click()
    with page.expect_response("**/me/theme"):
        page.get_by_role("button", name="Dark").click()
    assert canvas_of(page) == dark
    page.reload()
    assert canvas_of(page) == dark


def test_a_slash_goes_to_the_search_but_not_while_one_types(window):
    page = window()
    page.goto("/look/people/")
    page.keyboard.press("/")
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    page.keyboard.press("Escape")
    page.get_by_label("Search this list").fill("")
    page.keyboard.press("/")
    expect(page.get_by_label("Search this list")).to_have_value("/")


def test_copying_says_so(window):
    page = window(permissions=["clipboard-read", "clipboard-write"])
    page.goto("/look/")
    page.get_by_role("button", name="Copy 019a9d3c").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == "019a9d3c-aaaa-7bbb-8ccc-dddddddddddd"


def test_a_dialog_asks_with_the_focus_on_the_safe_answer(window):
    page = window()
    page.goto("/look/")
    page.get_by_role("button", name="Release…").click()
    expect(page.get_by_role("button", name="Keep it")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_teams_to_choose_from_on_their_page_look_like_those_of_the_menu(window):
    page = window()
    page.goto("/me/team/choose/")
    button = page.get_by_role("main").get_by_role("button", name="vision")
    assert button.evaluate("one => getComputedStyle(one).borderTopWidth") == "0px"
    assert button.bounding_box()["height"] >= 30


def test_a_stepper_steps_within_its_limits(window):
    page = window()
    page.goto("/look/")
    page.get_by_role("button", name="One less").click()
    page.get_by_role("button", name="One less").click()
    expect(page.get_by_label("Devices")).to_have_value("1")


PICTURE = """before => {
  const canvas = document.querySelector(".dg-plot canvas");
  if (!canvas) return null;
  const { width, height } = canvas;
  const blank = Object.assign(document.createElement("canvas"), { width, height });
  const picture = canvas.toDataURL();
  return picture !== before && picture !== blank.toDataURL() ? picture : null;
}"""


def test_charts_are_drawn_and_drawn_anew_for_the_other_theme(window):
    page = window(color_scheme="light")
    page.goto("/look/")
    light = page.wait_for_function(PICTURE, arg="").json_value()
    page.emulate_media(color_scheme="dark")
    page.wait_for_function(PICTURE, arg=light)
    expect(page.locator(".dg-plot canvas")).to_have_count(2)


def test_a_list_follows_what_one_types_and_the_address_keeps_it(window):
    page = window()
    page.goto("/look/people/")
    page.get_by_label("Search this list").press_sequentially("da")
    rows = page.locator("#listing tbody tr")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("dan")
    page.wait_for_url("**/look/people/?q=da")
    expect(page.get_by_label("Search this list")).to_be_focused()
    assert "q=da" in page.get_by_label("Download as CSV").get_attribute("href")
    page.get_by_label("Remove “da”").click()
    expect(rows).to_have_count(5)
    page.go_back()
    expect(rows).to_have_count(1)


def test_columns_appear_when_they_are_chosen(window):
    page = window()
    page.goto("/look/people/")
    page.get_by_text("Columns").click()
    page.get_by_label("Address").check()
    expect(page.get_by_role("columnheader", name="Address")).to_be_visible()


def test_a_list_and_the_theme_work_without_javascript(window):
    page = window(java_script_enabled=False)
    page.goto("/look/people/")
    page.get_by_label("Search this list").fill("dan")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#listing tbody tr")).to_have_count(1)
    page.get_by_role("link", name="User name").click()
    expect(page.locator("#listing tbody tr")).to_have_count(1)
    page.get_by_role("banner").get_by_label("Theme").click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_on_a_phone_the_menu_opens_and_closes(window):
    page = window(PHONE)
    page.goto("/look/")
    link = page.get_by_role("link", name="API tokens")
    expect(link).to_be_hidden()
    page.get_by_role("button", name="Menu").click()
    expect(link).to_be_visible()
    page.keyboard.press("Escape")
    expect(link).to_be_hidden()


def test_the_first_tab_offers_to_skip_to_the_content(window):
    page = window()
    page.goto("/me/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()


def test_a_message_is_announced_and_goes_away(window):
    page = window()
    page.clock.install()
    page.goto("/me/")
    page.get_by_role("button", name="Save", exact=True).click()
    toast = page.get_by_role("status").get_by_text("Account saved.")
    expect(toast).to_be_visible()
    page.clock.fast_forward(7_000)
    expect(toast).to_be_hidden()
