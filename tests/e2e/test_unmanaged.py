"""Bulk actions, unmanaged claims, and dialogs by keyboard, in a real browser."""

import re

import pytest
from playwright.sync_api import expect

from cluster.credentials import from_kubeconfig, seal
from cluster.kube import connect
from cluster.protocol import RESOURCE_CLAIM
from demo.controlplane.client import eventually
from tests import patience

pytestmark = pytest.mark.browser


def tick(person, *names):
    for name in names:
        person.page.get_by_role("checkbox", name=f"Select {name}", exact=True).check()


def ask_for_two(person, stem):
    """Two claims that need nobody's approval, in the cluster."""
    names = [f"{stem}-{number}" for number in (1, 2)]
    for name in names:
        person.ask("notebook-24g", name)
        person.sees_state("Waiting for a pod")
    return names


def test_two_claims_are_released_at_once_after_a_preview(people):
    mira = people("engineer")
    names = ask_for_two(mira, "several")
    mira.page.goto("/claims/?q=several")
    tick(mira, *names)
    expect(mira.page.get_by_text("2 selected")).to_be_visible()
    mira.page.get_by_label("Action", exact=True).select_option("release")
    mira.page.get_by_role("button", name="Preview…").click()
    expect(mira.page.get_by_role("heading", level=1)).to_have_text("Release 2 claims?")
    expect(mira.page.get_by_text("Released: it holds no device now.")).to_have_count(2)
    mira.page.get_by_role("button", name="Release 2 claims").click()
    expect(mira.page.get_by_text("done for 2 of 2 claims")).to_be_visible()
    for name in names:
        mira.open_claim(name)
        mira.sees_state("Releas(ing|ed)")


def test_rows_are_chosen_by_keyboard_and_with_shift(people):
    mira = people("engineer")
    mira.page.goto("/claims/")
    boxes = mira.page.locator("[data-tick]")
    boxes.nth(0).click()
    boxes.nth(2).click(modifiers=["Shift"])
    expect(mira.page.get_by_text("3 selected")).to_be_visible()
    boxes.nth(3).focus()
    mira.page.keyboard.press("x")
    expect(mira.page.get_by_text("4 selected")).to_be_visible()
    mira.page.get_by_label("All on this page").check()
    expect(boxes.last).to_be_checked()


def test_without_javascript_the_boxes_work_too(people):
    plain = people("engineer", java_script_enabled=False)
    plain.page.goto("/claims/?q=sam2-finetune")
    tick(plain, "sam2-finetune")
    plain.page.get_by_label("Action", exact=True).select_option("withdraw")
    plain.page.get_by_role("button", name="Preview…").click()
    expect(plain.page.get_by_text("Only pending requests can be withdrawn.")).to_be_visible()


def test_an_admin_adopts_what_somebody_made_by_hand(people, simulated):
    kubectl = connect(seal(from_kubeconfig(simulated.kubeconfig("people"))))
    wish = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": wish}]}}
    metadata = {"name": "made-by-hand", "namespace": "vision"}
    made = kubectl.create(RESOURCE_CLAIM, {"metadata": metadata, "spec": spec})
    ada = people("admin")

    ada.asked.append("made-by-hand")
    link = ada.page.get_by_role("link", name="made-by-hand", exact=True)

    def listed():
        ada.page.goto("/claims/unmanaged/?q=made-by-hand")
        return link.count()

    eventually(listed, seconds=patience.PAGE, subject="the portal's sight of the claim")
    link.click()
    expect(ada.page.get_by_text("Created with kubectl or another tool.")).to_be_visible()
    ada.page.get_by_role("link", name="Adopt…").click()
    ada.page.get_by_label("Owner").select_option("engineer")
    ada.page.get_by_label("Adopt although over quota").check()
    ada.page.get_by_role("button", name="Adopt", exact=True).click()
    expect(ada.page.get_by_role("heading", level=1, name="made-by-hand")).to_be_visible()
    ada.sees_state("Waiting for a pod")
    expect(ada.page.locator("#claim-side").get_by_text("Adopted", exact=True)).to_be_visible()

    def labeled():
        return kubectl.get(RESOURCE_CLAIM, "made-by-hand", namespace="vision")["metadata"].get("labels") or {}

    ada.page.reload()
    assert labeled().get("gpu.dragoman.dev/team") == "vision"
    now = kubectl.get(RESOURCE_CLAIM, "made-by-hand", namespace="vision")
    assert (now["spec"], now["metadata"]["uid"]) == (made["spec"], made["metadata"]["uid"])


def test_a_dialog_is_opened_closed_and_confirmed_by_keyboard(people):
    mira = people("engineer")
    mira.ask("notebook-24g", "by-keyboard")
    mira.sees_state("Waiting for a pod")
    release = mira.page.get_by_role("link", name="Release…")
    release.focus()
    mira.page.keyboard.press("Enter")
    dialog = mira.page.locator("dialog#ending")
    expect(dialog.get_by_role("heading", name="Release by-keyboard?")).to_be_visible()
    mira.page.keyboard.press("Escape")
    expect(dialog).not_to_be_visible()
    expect(release).to_be_focused()
    # A form that is about to be replaced takes no words: they would be lost.
    held, form = [], re.compile("/release/")
    mira.page.route(form, lambda route: held.append(route))
    with mira.page.expect_request(form):
        release.press("Enter")  # which the page may have drawn anew meanwhile
    expect(dialog).to_have_text("Loading…")
    while not held:  # the request was sent; its handler runs while the page waits
        mira.page.wait_for_timeout(20)
    held.pop().continue_()
    mira.page.unroute(form)
    dialog.get_by_label(re.compile("^Reason")).fill("Done by keyboard.")
    mira.page.keyboard.press("Enter")
    mira.sees_state("Releas(ing|ed)")
    expect(mira.page.get_by_text("Done by keyboard.").first).to_be_visible()
