"""The plots of a claim: one cursor, the dates of the page, and zoom by dragging."""

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
