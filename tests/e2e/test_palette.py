"""The palette by keyboard: open it, choose a result with the arrows, open it with Enter."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser]


def test_palette_finds_and_opens_by_keyboard(people):
    page = people("engineer").page
    page.goto("/catalogue/")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search")
    expect(field).to_be_focused()
    page.keyboard.type("sam2-fine")
    first, second = (page.get_by_role("dialog").get_by_role("option").nth(number) for number in (0, 1))
    expect(first).to_contain_text("sam2-finetune")
    expect(first).to_have_attribute("aria-selected", "true")
    assert field.get_attribute("aria-activedescendant") == first.get_attribute("id")
    page.keyboard.press("ArrowDown")
    expect(second).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="sam2-finetune")).to_be_visible()


def test_kind_restricts_the_palette_until_it_opens_again(people):
    page = people("engineer").page
    page.goto("/")
    page.get_by_role("link", name="Search or jump to").click()
    page.keyboard.type("mira")
    page.get_by_role("navigation", name="Kinds of results").get_by_role("link", name="People").click()
    expect(page.get_by_role("dialog").get_by_role("group")).to_have_count(1)
    page.keyboard.type(" ")
    page.keyboard.press("Backspace")
    expect(page.get_by_role("dialog").get_by_role("group")).to_have_count(1)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("mira")
    expect(page.get_by_role("dialog").get_by_role("group", name="Claims")).to_be_visible()


def test_tab_goes_to_the_next_kind_and_back(people):
    page = people("engineer").page
    page.goto("/")
    page.keyboard.press("/")
    page.keyboard.type("mira")
    kinds = page.get_by_role("navigation", name="Kinds of results")
    expect(kinds.get_by_role("link", name=re.compile(r"^Claims \d+"))).to_be_visible()
    page.keyboard.press("Tab")
    expect(kinds.locator("[aria-current]")).to_have_text(re.compile("^Claims"))
    expect(page.get_by_role("combobox", name="Search")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(kinds.locator("[aria-current]")).to_have_text("All")


def test_question_mark_shows_the_keys_but_not_while_one_types(people):
    page = people("engineer").page
    page.goto("/claims/")
    page.get_by_label("Search this list").press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.locator("h1").click()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    expect(page.get_by_role("dialog", name="Keys")).to_contain_text(re.compile("Ctrl K"))


def test_palette_fits_a_phone(people):
    page = people("engineer").page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/")
    page.get_by_role("link", name="Search or jump to").click()
    page.keyboard.type("train")
    expect(page.get_by_role("dialog").get_by_role("option").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
