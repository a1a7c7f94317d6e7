"""Deciding in Chromium: questions and answers, less than was asked for, several at once, away, by keys."""

import re
from datetime import datetime, timedelta

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser]


def test_a_question_is_answered_before_it_is_decided(people):
    mira, aylin = people("engineer"), people("lead")
    mira.ask("train-80g", "asked-about", devices=1)
    aylin.opens_request("asked-about")
    aylin.page.get_by_text("Ask a question", exact=True).click()
    aylin.page.get_by_label(re.compile("^Question to")).fill("Would a smaller one do?")
    aylin.page.get_by_role("button", name="Ask", exact=True).click()
    expect(aylin.page.get_by_text("Waiting for Mira")).to_be_visible()

    expect(mira.page.locator("#thread-lines").get_by_text("Would a smaller one do?")).to_be_visible()
    mira.page.reload()
    mira.page.get_by_label(re.compile("^Answer to")).fill("No, the batch does not fit.")
    mira.page.get_by_role("button", name="Send", exact=True).click()
    expect(mira.page.get_by_text("Waiting for Mira")).to_have_count(0)

    aylin.page.reload()
    expect(aylin.page.get_by_text("No, the batch does not fit.")).to_be_visible()
    aylin.approve("asked-about")


def test_less_is_given_than_was_asked_for(people):
    mira, aylin = people("engineer"), people("lead")
    mira.ask("train-80g", "give-less", devices=2)
    aylin.opens_request("give-less")
    card = aylin.page.url
    changes = aylin.page.get_by_role("link", name="With changes…")
    changes.click()
    devices = aylin.page.get_by_label("Devices per claim")
    expect(devices).to_have_value("2")
    aylin.page.get_by_role("link", name="Cancel").click()
    expect(aylin.page.get_by_role("button", name="Deny")).to_be_visible()
    changes.click()
    devices.fill("1")
    assert aylin.page.url == card  # the form unfolds on the card
    expect(aylin.page.locator("#preview").get_by_text("2 → 1 device")).to_be_visible()
    aylin.page.get_by_role("button", name="Approve with these changes").click()
    history = mira.page.locator("#claim-side")
    expect(history.get_by_text("Approved with changes: 2 → 1 device.")).to_be_visible()


def test_several_are_decided_at_once(people):
    mira, aylin = people("engineer"), people("lead")
    for name in ("bulk-one", "bulk-two"):
        mira.ask("train-80g", name)
        mira.sees_state("Waiting for approval")
    aylin.page.goto("/approvals/?q=bulk-")
    for name in ("bulk-one", "bulk-two"):
        aylin.page.get_by_label(f"Select {name}").check()
    aylin.page.get_by_role("button", name="Decide selected…").click()
    expect(aylin.page.get_by_text("2 requests, 2 devices")).to_be_visible()
    aylin.page.get_by_label(re.compile("^Note")).fill("Not this week.")
    aylin.page.get_by_role("button", name="Deny 2 requests").click()
    expect(aylin.page.get_by_text("2 of 2 requests denied.")).to_be_visible()
    mira.page.reload()
    mira.sees_state("Denied")
    expect(mira.page.get_by_role("link", name="Request again")).to_be_visible()


def test_a_member_decides_while_the_lead_is_away(people):
    aylin, jonas, mira = people("lead"), people("jonas"), people("engineer")
    mira.ask("train-80g", "while-away")
    aylin.page.goto("/approvals/delegations/")
    form = aylin.page.get_by_role("form", name="Delegate approvals in vision")
    now = datetime.now()  # noqa: DTZ005 - what a person types into a field of local time
    form.get_by_label("Delegate", exact=True).select_option("jonas")
    form.get_by_label("From").fill(f"{now - timedelta(days=1):%Y-%m-%dT%H:%M}")
    form.get_by_label(re.compile(r"^\s*To\b")).fill(f"{now + timedelta(days=2):%Y-%m-%dT%H:%M}")
    form.get_by_role("button", name="Save delegation").click()
    expect(aylin.page.get_by_text("Jonas decides for you in vision")).to_be_visible()

    jonas.opens_request("while-away")
    expect(jonas.page.get_by_text("You decide as delegate of Aylin.")).to_be_visible()
    jonas.approve("while-away")
    history = mira.page.locator("#claim-side")
    expect(history.get_by_text(re.compile("Approved. As delegate of "))).to_be_visible()
    aylin.page.get_by_role("button", name="End delegation").first.click()
    expect(aylin.page.get_by_text("No delegations")).to_be_visible()


def test_the_inbox_is_used_by_keys_alone(people):
    mira, aylin = people("engineer"), people("lead")
    mira.ask("train-80g", "by-keys")
    mira.sees_state("Waiting for approval")
    aylin.page.goto("/approvals/?q=by-keys")
    aylin.page.keyboard.press("x")
    expect(aylin.page.get_by_label("Select by-keys")).to_be_checked()
    aylin.page.keyboard.press("q")
    expect(aylin.page.get_by_label(re.compile("^Question to"))).to_be_focused()
    aylin.page.goto("/approvals/?q=by-keys")
    aylin.page.keyboard.press("j")
    expect(aylin.page).to_have_url(re.compile("/approvals/[0-9a-f-]{36}/"))
    aylin.page.keyboard.press("d")
    expect(aylin.page.get_by_label(re.compile("^Note"))).to_be_focused()
    aylin.page.keyboard.type("By keys.")
    aylin.page.keyboard.press("Escape")
    aylin.page.locator("body").click(position={"x": 5, "y": 5})
    aylin.page.keyboard.press("d")
    expect(aylin.page.get_by_role("button", name="Deny", exact=True)).to_be_focused()
    aylin.page.keyboard.press("Enter")
    mira.sees_state("Denied")


def test_a_rule_says_what_it_would_do(people):
    root = people("admin")
    root.page.goto("/approvals/rules/new/")
    root.page.get_by_label(re.compile("^Profile")).select_option("train-80g")
    root.page.get_by_label("Auto-approve up to (devices)").fill("2")
    effect = root.page.locator("#effect")
    expect(effect.get_by_text("Effect of this rule")).to_be_visible()
    expect(effect.get_by_role("cell", name="nobody").first).to_be_visible()
    expect(effect.get_by_text(re.compile("of the last 30 days"))).to_be_visible()


@pytest.mark.parametrize("height", [600, 900])
def test_the_buttons_of_a_decision_are_in_sight_and_cover_no_note(people, height):
    page = people("lead").page
    page.set_viewport_size({"width": 1440, "height": height})
    page.goto("/approvals/")
    note, approve = page.locator("#note"), page.locator("[data-approve]")
    expect(page.locator(".dg-impact").first).to_be_attached()
    for position in (0, 100, 10_000):
        page.evaluate(f"window.scrollTo(0, {position})")
        field, button = note.bounding_box(), approve.bounding_box()
        assert field["y"] + field["height"] <= button["y"]
        assert 0 < button["y"] + button["height"] <= height


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_buttons_cover_neither_the_note_nor_the_changes(people, width, height):
    mira, aylin = people("engineer"), people("lead")
    name = f"clear-{width}"
    mira.ask("train-80g", name, devices=2)
    page = aylin.page
    page.set_viewport_size({"width": width, "height": height})
    aylin.opens_request(name)
    approve = page.get_by_role("button", name=re.compile("^Approve"))

    def is_above(field, button) -> bool:
        page.wait_for_load_state("networkidle")  # what arrives later moves the field between two measurements
        field.scroll_into_view_if_needed()
        field.focus()
        box, bar = field.bounding_box(), button.bounding_box()
        return box["y"] >= 0 and box["y"] + box["height"] <= min(bar["y"], height)

    assert is_above(page.get_by_label(re.compile("^Note")), approve)
    page.get_by_role("link", name="With changes…").click()
    devices = page.get_by_label("Devices per claim")
    expect(devices).to_have_value("2")
    expect(page.locator("#id_duration")).to_have_value(re.compile(r"\d"))
    approve = page.get_by_role("button", name="Approve with these changes")
    assert all(is_above(field, approve) for field in (devices, page.locator("#id_note")))
