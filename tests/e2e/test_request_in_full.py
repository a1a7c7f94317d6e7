"""A request in a browser from the first word to the last: draft, manifest, several profiles, once more."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

MANIFEST = """
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata:
  name: from-a-file
spec:
  devices:
    requests:
      - name: cards
        exactly:
          deviceClassName: gpu.nvidia.com
          count: 2
"""


@pytest.fixture
def engineer(people):
    return people("engineer")


def test_a_draft_outlives_a_reload_and_goes_when_it_is_sent(engineer):
    page = engineer.page
    engineer.asked.append("half-written")
    page.goto("/claims/request/?profile=slice-10g&cluster=fra-1")
    page.get_by_label("Claim name").fill("half-written")
    page.get_by_label("Purpose").fill("Not finished yet")
    expect(page.locator("#panel")).to_contain_text("half-written")
    page.get_by_role("button", name="Save draft").click()
    expect(page.locator("#draft-saved")).to_contain_text("Draft saved")
    expect(page.locator("#panel")).to_contain_text("half-written")
    expect(page).to_have_url(re.compile(r"\?draft="))
    page.reload()
    expect(page.get_by_label("Claim name")).to_have_value("half-written")
    expect(page.get_by_label("Purpose")).to_have_value("Not finished yet")
    page.goto("/claims/request/")
    page.get_by_role("link", name=re.compile("You have [0-9]+ draft")).click()
    row = page.locator("tbody tr", has_text="half-written")
    row.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Undo").click()
    page.locator("tbody tr", has_text="half-written").get_by_role("link").click()
    page.get_by_label("Purpose").press("Control+Enter")
    expect(page.get_by_role("heading", level=1, name="half-written")).to_be_visible()
    page.goto("/claims/drafts/")
    expect(page.locator("tbody tr", has_text="half-written")).to_have_count(0)


def test_two_profiles_become_one_claim_and_are_asked_for_again(engineer):
    page = engineer.page
    engineer.asked.append("big-and-small")
    page.goto("/claims/request/?profile=train-48g&cluster=fra-1&devices=1")
    page.get_by_role("button", name="Add another profile").click()
    page.get_by_label("Additional profile 1", exact=True).select_option("train-80g")
    page.get_by_label("Devices of additional profile 1").fill("2")
    panel = page.locator("#panel")
    expect(panel).to_contain_text("this request needs 3.")
    page.get_by_label("Claim name").fill("big-and-small")
    expect(panel).to_contain_text("big-and-small")
    page.locator("#send").click()
    expect(page.get_by_role("heading", level=1, name="big-and-small")).to_be_visible()
    expect(page.locator("#claim-top")).to_contain_text(re.compile(r"Requested:\s+1 × .+\s+and\s+2 × "))
    page.get_by_role("link", name="Request again").click()
    expect(page.get_by_label("Additional profile 1", exact=True)).to_have_value("train-80g")
    expect(page.get_by_label("Devices of additional profile 1")).to_have_value("2")
    with page.expect_response("**/claims/request/preview/**"):
        page.get_by_role("button", name="Remove additional profile 1").click()
    expect(page.get_by_label("Additional profile 1", exact=True)).to_have_count(0)


def test_a_manifest_leads_back_to_the_form(engineer):
    page = engineer.page
    page.goto("/claims/request/")
    page.get_by_role("link", name="From a manifest").click()
    page.get_by_label("Manifest").fill(MANIFEST)
    page.get_by_role("button", name="Find profiles").click()
    expect(page.get_by_role("heading", name="ResourceClaim from-a-file")).to_be_visible()
    page.get_by_role("link", name=re.compile("^Fill form")).first.click()
    expect(page.get_by_label("Claim name")).to_have_value("from-a-file")
    expect(page.get_by_label("Devices", exact=True)).to_have_value("2")
