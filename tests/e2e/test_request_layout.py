"""Where the parts of the request form are: what one needs first is in view, and nothing is covered."""

import pytest

pytestmark = pytest.mark.browser

DESK, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 844}
CHOSEN = "/claims/request/?profile=train-80g&devices=2"
# Whether a point of the element is something else, or outside of the window.
COVERED = """it => {
  const box = it.getBoundingClientRect();
  const inside = box.top >= 0 && box.bottom <= innerHeight && box.left >= 0 && box.right <= innerWidth;
  const middle = (box.left + box.right) / 2;
  const at = [[middle, box.top + 3], [middle, box.bottom - 3], [box.left + 5, box.bottom - 5]];
  return !inside || at.some(([x, y]) => !it.contains(document.elementFromPoint(x, y)));
}"""


@pytest.mark.parametrize("address", ["/claims/request/", CHOSEN])
def test_profiles_duration_and_the_button_are_on_the_first_screen(people, address):
    page = people("engineer").page
    page.set_viewport_size(DESK)
    page.goto(address)
    for part in (
        page.get_by_role("radio", name="Train 80 GB"),
        page.get_by_role("group", name="Duration").locator(".dg-seg"),
        page.locator("#send"),
    ):
        box = part.bounding_box()
        assert box
        assert 0 < box["y"] < box["y"] + box["height"] <= DESK["height"]
    assert not page.locator("#send").evaluate(COVERED)


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_bar_of_the_button_covers_no_field_that_has_focus(people, size):
    page = people("engineer", reduced_motion="reduce").page  # scrolls at once
    page.set_viewport_size(size)
    page.goto(CHOSEN)
    for label in ("Purpose", "Claim name", "Devices"):
        field = page.get_by_label(label, exact=label == "Devices")
        page.evaluate("scrollTo(0, 0)")
        field.focus()
        assert not field.evaluate(COVERED), label
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        field.focus()
        field.blur()
        field.focus()
        assert not field.evaluate(COVERED), label


@pytest.mark.parametrize("size", [DESK, PHONE], ids=["desk", "phone"])
def test_everything_can_be_scrolled_to_above_the_bar(people, size):
    page = people("engineer", reduced_motion="reduce").page
    page.set_viewport_size(size)
    page.goto(CHOSEN)
    assert page.evaluate("document.documentElement.scrollWidth") == size["width"]
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.locator("#panel").evaluate("it => it.scrollTo(0, it.scrollHeight)")
    assert not page.get_by_text("Generated YAML").evaluate(COVERED)


def test_cards_of_a_group_are_equally_high_and_cut_no_title(people):
    page = people("engineer").page
    page.goto("/claims/request/")
    for group in page.locator(".dg-group:visible").all():
        boxes = [card.bounding_box() for card in group.locator(".dg-opt").all()]
        assert len({round(box["height"]) for box in boxes if box}) == 1
        for title in group.locator(".dg-opt > b").all():
            assert title.evaluate(
                "it => it.scrollWidth <= it.clientWidth && it.scrollHeight <= it.clientHeight"
            )


def test_verdict_of_each_cluster_follows_the_chosen_profile(people):
    page = people("engineer").page
    page.goto("/claims/request/")
    with page.expect_response("**/claims/request/preview/**"):
        page.get_by_role("radio", name="Train 80 GB").check()
    page.get_by_role("radio", name="Any that fits").wait_for()
    for card in ("#fit-any", "#fit-in-fra-1", "#fit-in-lab-2"):
        page.locator(f"{card} .dg-s").first.wait_for()
    assert page.get_by_role("radio", name="Any that fits").is_checked()
