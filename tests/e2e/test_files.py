"""Files of an admin in a browser: a catalogue read in after its difference was seen, policies to download."""

import re

import pytest
import yaml
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def page(people):
    """The page of an admin."""
    return people("admin").page


def test_a_catalogue_is_changed_by_its_own_file_after_the_difference_was_seen(page):
    page.goto("/profiles/")
    page.get_by_text("Bulk actions", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name="Export", exact=True).click()
    written = download.value.path().read_text()
    profiles = list(yaml.safe_load_all(written))
    (profile,) = [one for one in profiles if one["slug"] == "slice-40g"]
    profile["title"] = "Slice, 40 GB, from a file"

    page.goto("/profiles/import/")
    page.get_by_label("Or paste its text").fill(yaml.safe_dump_all(profiles, sort_keys=False))
    page.get_by_role("button", name="Show changes").click()
    expect(page.get_by_role("heading", name="1 profile changes")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("^title"))).to_contain_text("Slice, 40 GB, from a file")
    page.get_by_role("button", name="Change 1 profile").click()
    expect(page.get_by_text("1 profile imported.")).to_be_visible()
    expect(page.get_by_role("row", name=re.compile("Slice, 40 GB, from a file"))).to_be_visible()


def test_policies_are_chosen_and_downloaded(page):
    page.goto("/clusters/fra-1/policies/")
    page.get_by_role("radio", name=re.compile("warning")).check()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    assert download.value.suggested_filename == "dragoman-policies-fra-1.yaml"
    objects = list(yaml.safe_load_all(download.value.path().read_text()))
    bindings = [one for one in objects if one["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert bindings
    assert {action for one in bindings for action in one["spec"]["validationActions"]} == {"Warn"}
