"""The catalogue and the editor of profiles in a browser: narrowed, compared, edited, retired, restored."""

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser


def test_filters_stand_in_the_address_and_survive_the_toggle(people):
    page = people("engineer").page
    page.goto("/catalogue/")
    expect(page.get_by_role("heading", level=3, name="Small 16 GB")).to_be_visible()
    page.get_by_label("Min memory, GB").fill("80")
    page.get_by_label("Min memory, GB").press("Tab")
    expect(page).to_have_url(re.compile(r"memory=80"))
    expect(page.get_by_role("heading", level=3, name="Small 16 GB")).to_have_count(0)
    expect(page.get_by_role("heading", level=3, name="Train 80 GB")).to_be_visible()
    page.get_by_role("link", name="Table", exact=True).click()
    expect(page).to_have_url(re.compile(r"memory=80.*view=table"))
    expect(page.get_by_role("row", name=re.compile("Train 80 GB"))).to_be_visible()
    page.reload()
    expect(page.get_by_label("Min memory, GB")).to_have_value("80")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download as CSV").click()
    assert download.value.suggested_filename == "catalogue.csv"


@pytest.mark.parametrize("javascript", [True, False])
@pytest.mark.parametrize("view", ["", "?view=table"])
def test_two_profiles_are_ticked_and_compared(people, javascript, view):
    page = people("engineer", java_script_enabled=javascript).page
    page.goto(f"/catalogue/{view}")
    for title in ("Train 80 GB", "Small 16 GB"):
        page.get_by_label(f"Compare {title}").check()
    page.get_by_role("button", name="Compare").click()
    expect(page.get_by_role("heading", level=1, name="Compare profiles")).to_be_visible()
    table = page.get_by_role("table")
    expect(table.get_by_role("columnheader", name=re.compile("Train 80 GB"))).to_be_visible()
    expect(table.get_by_role("row", name=re.compile("^Model differs"))).to_be_visible()
    expect(page.locator("pre mark").first).to_be_visible()


@pytest.mark.parametrize("profiles", [("train-80g", "any-48g"), ("train-80g", "any-48g", "train-48g")])
def test_compared_profiles_stand_side_by_side_on_a_phone(people, profiles):
    page = people("engineer").page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/catalogue/compare/?" + "&".join(f"profile={slug}" for slug in profiles))
    table = page.get_by_role("region", name="Profiles side by side")
    cut = (
        "all => all.filter(it => it.scrollWidth > it.clientWidth || it.scrollHeight > it.clientHeight).length"
    )
    assert table.locator("td, thead th:not(:first-child)").evaluate_all(cut) == 0
    assert table.evaluate("box => box.scrollWidth - box.clientWidth") <= 0
    cells = table.get_by_role("row").nth(1).get_by_role("cell").all()
    boxes = [box for cell in cells if (box := cell.bounding_box())]
    assert len(boxes) == len(profiles)
    assert len({(round(box["y"]), round(box["width"])) for box in boxes}) == 1


def test_cards_are_low_equally_high_side_by_side_and_cut_no_title(people):
    page = people("engineer").page
    page.goto("/catalogue/")
    for group in page.locator(".dg-group").all():
        boxes = [box for card in group.locator(".dg-pc").all() if (box := card.bounding_box())]
        rows: dict[int, set[int]] = {round(box["y"]): set() for box in boxes}
        for box in boxes:
            rows[round(box["y"])].add(round(box["height"]))
        assert all(len(heights) == 1 for heights in rows.values())
        assert max(box["height"] for box in boxes) <= 240
        for title in group.get_by_role("heading", level=3).all():
            assert title.evaluate(
                "it => it.scrollWidth <= it.clientWidth && it.scrollHeight <= it.clientHeight"
            )


@pytest.mark.parametrize("view", ["", "?view=table"])
def test_nothing_is_clipped_on_a_phone(people, view):
    page = people("engineer").page
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/catalogue/{view}")
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    wide = """() => [...document.querySelectorAll("#catalogue-body .dg-scroll, #catalogue-body td, .dg-pc")]
        .filter(it => it.offsetParent && it.getBoundingClientRect().right > innerWidth).length"""
    assert page.evaluate(wide) == 0


def test_a_profile_is_edited_in_yaml_compared_saved_retired_and_restored(people):
    page = people("admin").page
    page.goto("/profiles/any-48g/")
    page.get_by_role("button", name="YAML").click()
    text = page.get_by_label("ResourceClaim spec")
    expect(text).to_be_visible()
    written = text.input_value()
    text.fill(
        written.replace(
            "devices:\n", "devices:\n  constraints:\n    - matchAttribute: resource.kubernetes.io/pcieRoot\n"
        )
    )
    page.get_by_role("button", name="Fields").click()
    expect(page.locator("#yaml-only")).to_contain_text("Also in YAML: 1 constraint")
    page.get_by_label("Max devices").fill("6")
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("heading", level=1, name=re.compile("^Save version 2"))).to_be_visible()
    expect(page.locator(".dg-diff .plus").first).to_contain_text("constraints:")
    expect(page.get_by_role("row", name=re.compile("Max devices"))).to_contain_text("6")
    page.get_by_role("button", name="Save version 2").click()
    expect(page.get_by_text("any-48g is saved; its version is 2.")).to_be_visible()
    expect(page.locator("#yaml-only")).to_contain_text("1 constraint")
    page.get_by_role("link", name="v1 to v2").click()
    expect(page.locator(".dg-diff .plus").first).to_contain_text("constraints:")

    page.goto("/profiles/any-48g/retire/")
    page.get_by_role("button", name="Retire the profile").click()
    toast = page.locator(".dg-toast", has_text="any-48g is retired")
    expect(toast).to_be_visible()
    page.goto("/catalogue/")
    expect(page.get_by_role("heading", level=3, name="Any GPU from 48 GB")).to_have_count(0)
    page.goto("/profiles/")
    page.get_by_role("button", name="Restore Any GPU from 48 GB").click()
    expect(page.get_by_text("any-48g is in the catalogue again.")).to_be_visible()
    page.goto("/profiles/any-48g/retire/")
    page.get_by_role("button", name="Retire the profile").click()
    page.locator(".dg-toast", has_text="any-48g is retired").get_by_role("button", name="Undo").click()
    expect(page.get_by_text("any-48g is in the catalogue again.")).to_be_visible()


def test_nothing_of_the_table_is_cut_and_cards_are_low(people):
    page = people("engineer").page
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto("/catalogue/?view=table")
    assert page.locator(".dg-scroll").evaluate("box => box.scrollWidth - box.clientWidth") <= 0
    page.goto("/catalogue/")
    page.get_by_text("profiles that you cannot request").click()  # unfolds them
    heights = page.locator(".dg-pc").evaluate_all("cards => cards.map(card => card.offsetHeight)")
    assert max(heights) <= 240, heights


def test_the_sidebar_stays_while_a_long_page_scrolls(people):
    page = people("engineer").page
    page.goto("/catalogue/?view=table")
    page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
    assert page.evaluate("window.scrollY") > 0
    assert page.locator(".dg-side").bounding_box()["y"] == 0
