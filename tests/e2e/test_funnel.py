"""The match in a browser: it follows what is typed, opens to devices, and works without JavaScript."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser
ASKED = "/claims/request/?profile=train-48g&cluster=fra-1"


def step(page, words):
    return page.locator(".dg-funnel > li", has_text=words)


def test_the_funnel_follows_the_form_and_opens_to_the_devices_left_out(people):
    page = people("engineer").page
    page.goto(ASKED)
    condition = step(page, "product begins with NVIDIA L40S")
    condition.locator("summary").click()
    expect(condition.locator(".dg-lost li").first).to_contain_text("not NVIDIA L40S")
    expect(condition.get_by_role("link", name=re.compile("^gpu-")).first).to_have_attribute(
        "href", re.compile("^/devices/")
    )
    condition.get_by_role("link", name="Next").click()
    expect(condition).to_contain_text("51–")
    page.get_by_label("Devices", exact=True).fill("32")
    panel = page.locator("#panel")
    expect(panel).to_contain_text("nodes can host 32 devices")
    expect(panel).to_contain_text("train-48g allows 4 devices per claim; this request needs 32.")
    expect(panel.get_by_role("button", name="Request 4")).to_be_visible()


def test_a_tick_makes_an_alternative_that_is_sent(people):
    mira = people("engineer")
    mira.asked.append("either-of-two")
    page = mira.page
    page.goto("/claims/request/?profile=slice-10g&cluster=fra-1&devices=1&alternatives=small-16g")
    expect(page.locator("#panel input[name=alternatives]:checked")).to_have_value("small-16g")
    page.get_by_label("Claim name").fill("either-of-two")
    expect(page.locator("#panel")).to_contain_text("either-of-two")
    page.locator("#send").click()
    expect(page.get_by_role("heading", level=1, name="either-of-two")).to_be_visible()


def test_without_javascript_each_step_has_a_page_of_its_own(people):
    page = people("engineer", java_script_enabled=False).page
    page.goto(ASKED)
    condition = step(page, "product begins with NVIDIA L40S")
    condition.locator("summary").click()
    condition.get_by_role("link", name="Show these devices").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Excluded devices")
    expect(page.locator(".dg-lost li").first).to_contain_text("not NVIDIA L40S")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("navigation", name="Pages")).to_contain_text("51–")


def test_the_editor_of_profiles_matches_while_one_types(people):
    page = people("admin").page
    page.goto("/profiles/train-80g/")
    page.get_by_label("Min memory per device").fill("4000")
    panel = page.locator("#profile-match")
    expect(panel).to_contain_text("memory ≥ 4000 GiB")
    condition = step(page, "memory ≥ 4000 GiB")
    condition.locator("summary").click()
    expect(condition.locator(".dg-lost li").first).to_contain_text("< 4000 GiB")
