"""The list of teams in a real browser: a team opens beside it, with an address of its own."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_a_team_opens_in_a_drawer_with_its_own_address_and_esc_returns_to_the_list(people):
    ada = people("admin")
    ada.page.goto("/teams/")
    listed = ada.page.url
    ada.page.get_by_role("link", name="Speech", exact=True).click()
    drawer = ada.page.get_by_role("dialog", name="Team")
    expect(drawer.get_by_role("heading", level=1, name="Speech")).to_be_visible()
    expect(ada.page).to_have_url(re.compile("/teams/speech/settings/$"))
    ada.page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()
    expect(ada.page).to_have_url(listed)  # once the dialog has told that it is closed


def test_a_role_is_changed_in_the_drawer_which_stays_open(people):
    ada = people("admin")
    ada.page.goto("/teams/")
    ada.page.get_by_role("link", name="Speech", exact=True).click()
    drawer = ada.page.get_by_role("dialog", name="Team")
    role = drawer.get_by_role("combobox", name="Role of sofia")
    for chosen in ("viewer", "member"):
        role.select_option(chosen)
        expect(drawer.get_by_text(f"sofia is now {chosen} of speech.")).to_be_visible()
        expect(role).to_have_value(chosen)


def test_on_a_phone_a_team_is_a_page(people):
    ada = people("admin")
    ada.page.set_viewport_size({"width": 390, "height": 844})
    ada.page.goto("/teams/")
    ada.page.get_by_role("link", name="Speech", exact=True).click()
    expect(ada.page.get_by_role("heading", level=1, name="Speech")).to_be_visible()
    assert ada.page.get_by_role("dialog").count() == 0


def test_figures_of_members_end_at_one_edge_on_a_phone(people):
    page = people("lead").page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/teams/vision/")
    ends = page.locator(".dg-people td:is(.o2, .o4):visible").evaluate_all(
        """cells => cells.map(cell => {
          const all = document.createRange()
          all.selectNodeContents(cell)
          return Math.round(all.getBoundingClientRect().right)
        })"""
    )
    assert len(ends) > 4
    assert len(set(ends)) == 1
