"""Quota in a browser: what it is made of, asking for more, and getting it."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
MORE = "/quotas/requests/new/?team=vision&device_class=mig.nvidia.com&more=3"


def test_the_parts_open_below_their_quota_and_add_up(people):
    page = people("engineer").page
    page.goto("/quotas/?team=vision")
    row = page.locator("[data-quota='vision/gpu.nvidia.com']")
    row.get_by_role("link", name="How is this computed?").click()
    parts = row.locator("[data-parts]")
    expect(parts).to_be_visible()
    counted = [int(one) for one in parts.locator("[data-part]").all_inner_texts()]
    assert sum(counted) == int(parts.locator("[data-sum]").inner_text())
    assert sum(counted) == int(row.get_attribute("data-taken"))


def test_more_is_asked_for_and_given_for_good(people):
    engineer, admin = people("engineer").page, people("admin").page
    engineer.goto(MORE)
    expect(engineer.get_by_label("How many more")).to_have_value("3")
    engineer.get_by_label("What is it for?").fill("Slices for the course.")
    engineer.get_by_role("button", name="Send request", exact=True).click()
    expect(engineer.get_by_text("Requested: 3 more.")).to_be_visible()
    address = engineer.url
    admin.goto(address)
    before, after = (int(one) for one in re.findall(r"\d+", admin.locator("[data-limit]").inner_text()))
    assert after == before + 3
    admin.get_by_role("button", name="Approve", exact=True).click()
    expect(admin.get_by_text("Quota request of vision approved.")).to_be_visible()
    engineer.goto("/quotas/?team=vision")
    row = engineer.locator("[data-quota='vision/mig.nvidia.com']")
    expect(row).to_contain_text(f"of {after}")


def test_a_request_that_does_not_fit_leads_to_asking_for_what_it_lacks(people):
    page = people("engineer").page
    page.goto("/claims/request/?profile=train-80g&cluster=fra-1&devices=8")
    link = page.locator("#panel").get_by_role("link", name=re.compile(r"^Request \d+ more gpu.nvidia.com"))
    lacks = re.search(r"\d+", link.inner_text()).group()
    link.click()
    expect(page.get_by_label("How many more")).to_have_value(lacks)
    expect(page.get_by_role("heading", name="vision: gpu.nvidia.com")).to_be_visible()


def test_a_quota_is_asked_for_without_javascript(people):
    page = people("engineer", java_script_enabled=False).page
    page.goto("/quotas/?team=vision")
    page.locator("[data-quota='vision/mig.nvidia.com']").get_by_role("link", name="Request more").click()
    page.get_by_label("How many more").fill("1")
    page.get_by_label("What is it for?").fill("One more run.")
    page.get_by_role("button", name="Send request", exact=True).click()
    expect(page.get_by_text("Requested: 1 more.")).to_be_visible()
    page.get_by_role("button", name="Withdraw").click()
    expect(page.get_by_text("The request for more mig.nvidia.com is withdrawn.")).to_be_visible()
