"""The inbox by keyboard alone: what Enter does, and picking a reason."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser]


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
    expect(page.get_by_text("enter-denies denied.")).to_be_visible()
    mira.sees_state("Denied")


def test_a_reason_is_picked_by_arrow_keys(people):
    mira, aylin = people("engineer"), people("lead")
    asked(mira, "arrow-keys")
    page = aylin.page
    page.goto("/approvals/?q=arrow-keys")
    reasons = page.get_by_label("Saved reason")
    reasons.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(reasons).to_be_focused()
    second = reasons.locator("option").nth(2).get_attribute("value")
    expect(page.get_by_label(re.compile("^Note"))).to_have_value(second)
    page.keyboard.press("Escape")
    page.keyboard.press("a")
    expect(page.get_by_role("button", name=re.compile("^Approve"))).to_be_focused()
