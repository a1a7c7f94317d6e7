"""The life of a claim in a browser: more time, less, and another owner, over the simulated clusters."""

import re
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def chooses(person, name):
    """Open one of the dialogs of a claim, by its button or from the menu."""
    if not person.page.get_by_role("link", name=name).is_visible():
        person.page.get_by_text("More", exact=True).click()
    person.page.get_by_role("link", name=name).click()
    dialog = person.page.get_by_role("dialog")
    expect(dialog).to_be_visible()
    return dialog


def end_of(person):
    """Return when the claim ends, as the machine reads it."""
    figure = person.page.locator(".dg-stats > div").filter(has_text=re.compile("^Ends")).locator(".sub time")
    return figure.get_attribute("datetime")


def asks_for_three_days(person, reason):
    dialog = chooses(person, "Extend…")
    dialog.get_by_role("radio", name=re.compile("^3 d ")).check()
    dialog.get_by_label(re.compile("^Reason")).fill(reason)
    dialog.get_by_role("button", name="Extend").click()
    expect(person.page.get_by_text("requested an extension until")).to_be_visible()


def test_an_engineer_extends_a_claim_at_once(people):
    mira = people("engineer")
    mira.ask("notebook-24g", "kept-longer")
    mira.sees_state("Waiting for a pod")
    before = end_of(mira)
    dialog = chooses(mira, "Extend…")
    expect(dialog.get_by_text(re.compile("no approval"))).not_to_have_count(0)
    dialog.get_by_role("radio", name=re.compile("^4 h ")).check()
    dialog.get_by_role("button", name="Extend").click()
    expect(mira.page.get_by_text(re.compile("kept-longer now ends on"))).to_be_visible()
    assert end_of(mira) > before
    expect(mira.page.locator("#claim-side").get_by_text(re.compile("Extended by 4 h"))).to_be_visible()


def test_a_longer_extension_waits_for_a_lead_and_the_page_follows(people):
    mira, aylin = people("engineer"), people("lead")
    mira.ask("train-80g", "two-epochs")
    aylin.approve("two-epochs")
    mira.sees_state("Waiting for a pod")
    before = end_of(mira)
    asks_for_three_days(mira, "One more epoch.")
    mira.page.get_by_role("button", name="Cancel extension request").click()
    expect(mira.page.get_by_text("requested an extension until")).to_have_count(0)
    asks_for_three_days(mira, "Two more epochs.")
    assert end_of(mira) == before

    aylin.open_claim("two-epochs")
    aylin.page.get_by_role("link", name="pending", exact=True).click()
    expect(aylin.page.get_by_text("Two more epochs.").first).to_be_visible()
    aylin.page.get_by_role("button", name=re.compile("^Approve")).click()
    expect(aylin.page.get_by_text("Extension of two-epochs approved.")).to_be_visible()

    expect(mira.page.get_by_text("requested an extension until")).to_have_count(0)  # without a reload
    assert end_of(mira) > before


def test_a_claim_is_shortened_and_the_toast_takes_it_back(people):
    mira = people("engineer")
    mira.ask("notebook-24g", "given-back-early")
    mira.sees_state("Waiting for a pod")
    before = end_of(mira)
    dialog = chooses(mira, "Shorten…")
    field = dialog.get_by_label("New end")
    earlier = datetime.fromisoformat(field.input_value()) - timedelta(hours=6)
    field.fill(earlier.strftime("%Y-%m-%dT%H:%M"))
    dialog.get_by_role("button", name="Shorten").click()
    expect(mira.page.get_by_text(re.compile("given-back-early now ends on"))).to_be_visible()
    assert end_of(mira) < before
    mira.page.get_by_role("button", name="Undo").click()
    expect(mira.page.get_by_text(re.compile("ends on .* again"))).to_be_visible()
    assert end_of(mira) == before


def test_a_claim_is_handed_over_and_taken_back(people):
    mira = people("engineer")
    mira.ask("notebook-24g", "handed-over")
    mira.sees_state("Waiting for a pod")
    dialog = chooses(mira, "Transfer…")
    choice = dialog.get_by_label("New owner")
    heir = choice.locator("option").nth(1).inner_text()
    choice.select_option(label=heir)
    dialog.get_by_role("button", name="Transfer").click()
    expect(mira.page.get_by_text(f"handed-over is {heir}'s now.")).to_be_visible()
    expect(mira.page.get_by_role("link", name="Release…")).to_have_count(0)
    mira.page.get_by_role("button", name="Undo").click()
    expect(mira.page.get_by_role("link", name="Release…")).to_be_visible()


def test_the_menu_works_by_keyboard(people):
    mira = people("engineer")
    mira.open_claim("notebook-mira")
    more = mira.page.locator(".dg-actions summary")
    more.focus()
    mira.page.keyboard.press("Enter")
    expect(mira.page.get_by_role("link", name="Shorten…")).to_be_visible()
    mira.page.keyboard.press("Escape")
    expect(mira.page.get_by_role("link", name="Shorten…")).to_be_hidden()
    expect(more).to_be_focused()


def test_refused_extension_puts_the_focus_on_the_wrong_field(people):
    mira = people("engineer")
    mira.ask("notebook-24g", "too-early")
    mira.sees_state("Waiting for a pod")
    dialog = chooses(mira, "Extend…")
    dialog.get_by_role("radio", name=re.compile("^Until")).check()
    dialog.get_by_label("Until", exact=True).last.fill("2020-01-01T00:00")
    dialog.get_by_role("button", name="Extend").click()
    expect(mira.page.locator("[aria-invalid=true]")).to_be_focused()
