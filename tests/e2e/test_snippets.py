"""The manifests of a claim in a browser: an option changes, the text is copied, the file is saved."""

import re

import pytest
import yaml
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


@pytest.fixture
def mira(people):
    return people("engineer", permissions=["clipboard-read", "clipboard-write"])


@pytest.fixture
def plain(people):
    """Somebody whose browser runs no scripts."""
    return people("engineer", java_script_enabled=False)


def code(person):
    return person.page.locator("#snippets pre")


def test_an_option_changes_the_manifest_which_is_copied_and_saved(mira):
    mira.open_claim("sam2-finetune")
    page = mira.page
    page.locator("#snippets summary").click()
    page.get_by_label("Image", exact=False).first.fill("registry.example.org/own:1")
    page.get_by_label("Image", exact=False).first.press("Enter")
    expect(code(mira)).to_contain_text("image: registry.example.org/own:1")
    expect(page).to_have_url(re.compile(r"image=registry\.example\.org%2Fown%3A1"))

    page.get_by_label("Snippets").get_by_role("link", name="Deployment", exact=True).click()
    expect(code(mira)).to_contain_text("kind: Deployment")
    expect(code(mira)).to_contain_text("image: registry.example.org/own:1")  # the option stays
    expect(page).to_have_url(re.compile("snippet=deployment"))

    page.locator("#snippets .dg-codebox [data-copy]").click()
    copied = page.evaluate("navigator.clipboard.readText()")
    with page.expect_download() as download:
        page.locator("#snippets a[download]").click()
    assert download.value.suggested_filename == "sam2-finetune-deployment.yaml"
    saved = download.value.path().read_text()
    assert saved == copied
    assert yaml.safe_load(saved)["kind"] == "Deployment"

    page.reload()
    expect(code(mira)).to_contain_text("image: registry.example.org/own:1")


def test_an_option_that_cannot_be_is_told_and_what_was_written_stays(mira):
    mira.open_claim("sam2-finetune")
    page = mira.page
    page.locator("#snippets summary").click()
    priority = page.get_by_label("PriorityClass")
    priority.fill("Not a name")
    priority.press("Enter")
    expect(page.locator("#snippets").get_by_text("Use lower-case letters", exact=False)).to_be_visible()
    expect(priority).to_have_value("Not a name")
    priority.fill("low")
    priority.press("Enter")
    expect(code(mira)).to_contain_text("priorityClassName: low")


def test_uses_and_options_work_without_scripts(plain):
    plain.open_claim("sam2-finetune")
    page = plain.page
    page.get_by_label("Uses").get_by_role("link", name="Serve", exact=True).click()
    expect(code(plain)).to_contain_text("tensor-parallel-size")
    page.locator("#snippets summary").click()
    page.get_by_label("Network").select_option("isolated")
    page.get_by_role("button", name="Apply options").click()
    expect(code(plain)).to_contain_text("kind: NetworkPolicy")


def test_a_printed_manifest_is_whole(mira):
    mira.open_claim("sam2-finetune")
    mira.page.emulate_media(media="print")
    expect(code(mira)).to_contain_text("drop:")
    sizes = code(mira).evaluate("e => [e.scrollHeight - e.clientHeight, e.scrollWidth - e.clientWidth]")
    assert max(sizes) <= 0
