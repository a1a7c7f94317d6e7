"""Terms show their definition: with the pointer, with the keyboard, by touch."""

import re

import pytest
from playwright.sync_api import expect

from core.glossary import TERMS

pytestmark = [pytest.mark.browser]
PLAIN = TERMS["guarantee"].plain


def test_definition_appears_with_the_pointer_and_stays_while_the_pointer_is_on_it(people):
    page = people("engineer").page
    page.goto("/quotas/")
    term, hint = page.get_by_role("link", name="guarantee", exact=True), page.get_by_role("tooltip")
    expect(hint).to_have_count(0)
    before = page.locator("main").bounding_box()
    term.hover()
    expect(hint).to_have_text(PLAIN)
    expect(term).to_have_accessible_description(PLAIN)
    assert page.locator("main").bounding_box() == before, "nothing moves"
    hint.hover()
    expect(hint).to_be_visible()
    page.get_by_role("heading", level=1).hover()
    expect(hint).to_have_count(0)


def test_definition_appears_on_focus_and_escape_closes_it(people):
    page = people("engineer").page
    page.goto("/quotas/")
    term, hint = page.get_by_role("link", name="guarantee", exact=True), page.get_by_role("tooltip")
    page.get_by_role("link", name="held", exact=True).focus()
    page.keyboard.press("Tab")
    expect(term).to_be_focused()
    expect(hint).to_have_text(PLAIN)
    page.keyboard.press("Escape")
    expect(hint).to_have_count(0)
    expect(term).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("row").filter(has_text=PLAIN)).to_be_in_viewport()


def test_first_touch_shows_the_definition_and_the_second_follows_the_link(people):
    page = people("engineer", has_touch=True).page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/quotas/")
    term, hint = page.get_by_role("link", name="guarantee", exact=True), page.get_by_role("tooltip")
    term.tap()
    expect(hint).to_have_text(PLAIN)
    box = hint.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    page.get_by_role("heading", level=1).tap()
    expect(hint).to_have_count(0)
    term.tap()
    expect(hint).to_be_visible()
    term.tap()
    expect(page).to_have_url(re.compile("/help/terms/#term-guarantee$"))
