"""The plots of a claim: one cursor, the dates of the page, zoom by dragging and by keyboard, ranges."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

MOMENT = re.compile(r"^(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \d{1,2} [A-Z][a-z]{2}, \d\d:\d\d · ")


@pytest.fixture
def plots(people):
    mira = people("engineer")
    mira.open_claim("sam2-finetune")
    plots = mira.page.locator(".dg-plot")
    expect(plots.locator("canvas").first).to_be_visible()
    plots.first.scroll_into_view_if_needed()
    return mira.page, plots


def across(page, plot, *shares):
    box = plot.locator(".u-over").bounding_box()
    for share in shares:
        page.mouse.move(box["x"] + box["width"] * share, box["y"] + box["height"] / 2, steps=4)
        yield


def test_a_cursor_shows_one_moment_in_both_plots_in_the_dates_of_the_page(plots):
    page, plots = plots
    for _ in across(page, plots.first, 0.3, 0.4):
        pass
    tips = plots.locator(".dg-plottip")
    expect(tips.nth(0)).to_have_text(MOMENT)
    activity, memory = (tips.nth(number).inner_text() for number in (0, 1))
    assert activity.split(" · ")[0] == memory.split(" · ")[0]
    assert activity.endswith(" %")
    assert memory.endswith(" GiB")


def test_a_drag_zooms_both_plots_and_show_all_undoes_it(plots):
    page, plots = plots
    show_all = plots.get_by_role("button", name="Show all", include_hidden=True)
    expect(show_all.first).to_be_hidden()
    steps = across(page, plots.first, 0.3, 0.6)
    next(steps)
    page.mouse.down()
    next(steps)
    page.mouse.up()
    expect(show_all.nth(0)).to_be_visible()
    expect(show_all.nth(1)).to_be_visible()
    show_all.nth(1).click()
    expect(show_all.nth(0)).to_be_hidden()
    expect(show_all.nth(1)).to_be_hidden()


def test_the_keyboard_reads_values_zooms_and_shows_all(plots):
    page, plots = plots
    plots.first.focus()
    page.keyboard.press("Home")
    tips = plots.locator(".dg-plottip")
    expect(tips.nth(0)).to_have_text(MOMENT)
    first = tips.nth(0).inner_text()
    page.keyboard.press("ArrowRight")
    expect(tips.nth(0)).not_to_have_text(first)
    expect(tips.nth(1)).to_have_text(MOMENT)
    show_all = plots.get_by_role("button", name="Show all", include_hidden=True)
    page.keyboard.press("+")
    expect(show_all.nth(0)).to_be_visible()
    expect(show_all.nth(1)).to_be_visible()
    page.keyboard.press("Escape")
    expect(show_all.nth(0)).to_be_hidden()
    expect(show_all.nth(1)).to_be_hidden()


def test_a_range_of_days_is_chosen_in_the_panel(people):
    mira = people("engineer")
    mira.open_claim("sam2-finetune")
    panel = mira.page.locator("#usage-panel")
    panel.get_by_role("link", name="30 d", exact=True).click()
    expect(panel.get_by_role("link", name="30 d", exact=True)).to_have_attribute("aria-current", "true")
    panel.locator("summary", has_text="Range").click()
    panel.get_by_label("From").fill("2020-01-02")
    panel.get_by_label("To").fill("2020-01-01")
    panel.get_by_role("button", name="Show").click()
    expect(panel).to_contain_text("The range ends before it begins.")
