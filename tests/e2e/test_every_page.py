"""Every page of the demo in a real browser: no error, nothing for axe in both themes, fits a phone."""

import re

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.urls import URLPattern, get_resolver, resolve
from playwright.sync_api import ViewportSize, expect

from tests.e2e.addresses import NO_PAGE, PAGES, PART_OF_ANOTHER_PAGE, POST_ONLY, WITHOUT_AXE
from tests.e2e.person import Person

pytestmark = pytest.mark.browser

SERIOUS = {"serious", "critical"}
PHONE = ViewportSize(width=390, height=844)
DESK = ViewportSize(width=1440, height=900)
# What a look at a page on a phone would find: tables that scroll sideways, texts on others, two main buttons.
OBJECTIONS = """() => {
  const all = (what) => [...document.querySelectorAll(`main ${what}`)].filter((one) => one.checkVisibility())
  const wide = all(".dg-scroll").filter((box) => box.scrollWidth > box.clientWidth)
  const low = all(".dg-nrow").filter((row) => row.scrollHeight > row.clientHeight + 2)
  const main = all(".btn-primary")
  return [
    ...wide.map((box) => `a table of ${box.scrollWidth} px`),
    ...low.slice(0, 1).map((row) => `devices beside their row: ${row.innerText}`),
    ...(main.length > 1 ? [`several primary buttons: ${main.map((one) => one.innerText)}`] : []),
  ]
}"""


def names_of(patterns, space=""):
    """Every named address of the portal itself: sign-in, the API and Django's admin have their own."""
    for entry in patterns:
        if isinstance(entry, URLPattern):
            if entry.name:
                yield space + entry.name
        elif str(entry.pattern) == "":  # an app
            yield from names_of(entry.url_patterns, f"{entry.namespace}:")


def test_each_address_is_visited_or_it_is_said_why_not():
    there = set(names_of(get_resolver().url_patterns))
    visited = {name for pages in PAGES.values() for name, _way in pages}
    others = [POST_ONLY, set(PART_OF_ANOTHER_PAGE), set(NO_PAGE), set(WITHOUT_AXE)]
    assert there - visited.union(*others) == set(), "visit it in tests/e2e/addresses.py"
    assert visited.union(*others) - there == set(), "no such address any more"
    assert [name for name in visited if any(name in other for other in others)] == []


def address_of(person, way):
    """Return the address, by following links as a person would."""
    if isinstance(way, str):
        return way
    person.page.goto(way.start)
    link = person.page.locator("main").get_by_role("link", name=way.link, exact=isinstance(way.link, str))
    path = link.first.get_attribute("href").partition("?")[0]
    if way.then.startswith("/"):
        return way.then.format(id=path.rstrip("/").rpartition("/")[2])
    return path + way.then


def serious(person, where, **options):
    """What axe has to say of the page that is open."""
    said = Axe().run(person.page, options={"resultTypes": ["violations"], **options})
    for violation in said.response["violations"]:
        if violation["impact"] in SERIOUS:
            nodes = [node["html"][:160] for node in violation["nodes"][:3]]
            yield f"{where}: {violation['id']}: {nodes}"


@pytest.fixture(scope="module")
def seen():
    """The templates that axe has seen."""
    return set()


@pytest.mark.parametrize("who", sorted(PAGES))
def test_every_page_is_accessible_in_both_themes_and_fits_a_phone(people, seen, who):
    """Axe sees a page if it shows a template that no page before has shown."""
    # Without motion a theme is there at once: nothing is measured halfway between two colours.
    person = people(who, reduced_motion="reduce")
    found = []
    for name, way in PAGES[who]:
        path = address_of(person, way)
        assert resolve(path.partition("?")[0]).view_name == name, path
        person.page.set_viewport_size(PHONE)
        answer = person.page.goto(path)
        if answer.status != 200:
            found.append(f"{path}: answers {answer.status}")
            continue
        width = person.page.evaluate("document.documentElement.scrollWidth")
        if width > PHONE["width"]:
            found.append(f"{path}: {width} px wide on a phone")
        found += [f"{path}: {said}" for said in person.page.evaluate(OBJECTIONS)]
        if "no update for" in person.page.locator("main").inner_text():
            found.append(f"{path}: says that a cluster which is read all the time is not")
        templates = set(answer.headers["x-templates"].split())
        assert templates, path
        if not templates <= seen:
            seen |= templates
            found += serious_in_both_themes(person, path)
    assert found == []


def serious_in_both_themes(person, path):
    person.page.set_viewport_size(DESK)
    person.page.emulate_media(color_scheme="light")
    yield from serious(person, f"{path} in light")
    person.page.emulate_media(color_scheme="dark")
    yield from serious(person, f"{path} in dark", runOnly=["color-contrast"])  # a theme is colours alone


def test_axe_is_able_to_find_something(simulated, browser):
    person = Person(browser, simulated.url, "engineer")
    person.page.goto("/accounts/login/")
    person.page.evaluate("document.querySelectorAll('label').forEach(label => label.remove())")
    assert [item for item in Axe().run(person.page).response["violations"] if item["impact"] in SERIOUS]
    person.leaves()


def test_pages_that_are_not_there_or_not_for_you_say_so_in_the_look_of_the_portal(people):
    person = people("engineer")
    for path, status in (("/nothing/", 404), ("/profiles/", 403)):
        assert person.page.goto(path).status == status
        expect(person.page.get_by_role("heading", level=1)).to_be_visible()
        expect(person.page.get_by_role("link", name=re.compile("Home|home")).first).to_be_visible()


def test_the_theme_can_be_chosen_and_stays(people):
    person = people("emil")  # a theme is kept for its user: nobody else's page changes
    person.page.goto("/")
    person.page.locator("summary[aria-label=Theme]").click()
    with person.page.expect_response("**/me/theme"):
        person.page.get_by_role("button", name="Dark", exact=True).click()
    expect(person.page.locator("html")).to_have_attribute("data-bs-theme", "dark")
    person.page.goto("/claims/")
    expect(person.page.locator("html")).to_have_attribute("data-bs-theme", "dark")


def test_the_request_panel_follows_what_is_typed_and_works_without_javascript(people, simulated, browser):
    person = people("engineer")
    person.page.goto("/claims/request/?profile=train-80g&cluster=fra-1")
    panel = person.page.locator("#panel")
    expect(panel).to_contain_text("in class gpu.nvidia.com")
    person.page.get_by_label("Devices", exact=True).fill("3")
    expect(panel).to_contain_text(re.compile("count: 3"))

    plain = Person(browser, simulated.url, "engineer", java_script_enabled=False).sign_in()
    plain.page.goto("/claims/request/?profile=train-80g&cluster=fra-1")
    plain.page.get_by_label("Devices", exact=True).fill("3")
    plain.page.get_by_role("button", name="Check").click()
    expect(plain.page.locator("#panel")).to_contain_text(re.compile("count: 3"))
    plain.leaves()


def test_filters_and_bulk_actions_of_a_list_leave_a_phone_to_its_rows(people):
    page = people("engineer").page
    page.set_viewport_size(PHONE)
    page.goto("/claims/")
    filters = page.locator("#listing .dg-filters > summary")
    state, bulk = page.locator("#id_state"), page.locator("#bulk")
    expect(state).to_be_hidden()
    expect(bulk).to_be_hidden()
    assert page.locator("#listing tbody tr").first.bounding_box()["y"] < PHONE["height"] / 2
    filters.click()
    state.select_option("provisioned")
    expect(filters).to_have_text(re.compile(r"Filters\s+1"))
    expect(state).to_be_visible()
    page.locator("[data-tick]").first.check()
    expect(bulk).to_be_in_viewport()


def test_filters_of_the_map_stay_open_while_they_are_chosen(people):
    page = people("engineer").page
    page.set_viewport_size(PHONE)
    page.goto("/fleet/")
    cluster = page.get_by_label("Cluster", exact=True)
    expect(cluster).to_be_hidden()
    page.locator("#map .dg-filters > summary").click()
    cluster.select_option("lab-2")
    expect(page.locator("#map .dg-filters > summary")).to_have_text(re.compile(r"Filters\s+1"))
    expect(cluster).to_be_visible()


def test_figures_of_the_fleet_are_not_cut(people):
    page = people("admin").page
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto("/fleet/")
    assert page.locator(".dg-stats").first.evaluate("strip => strip.scrollWidth - strip.clientWidth") <= 0


def test_devices_of_a_filtered_map_stay_in_their_row_on_a_phone(people):
    page = people("admin").page
    page.set_viewport_size(PHONE)
    page.goto("/fleet/?cluster=lab-2")
    expect(page.locator(".dg-dimmed")).to_be_visible()
    assert page.evaluate(OBJECTIONS) == []


def test_letters_of_seven_partitions_have_room(people):
    page = people("admin").page
    page.goto("/fleet/?cluster=lab-2")
    widths = page.locator(".dg-mig .dg-dev").evaluate_all("cells => cells.map(cell => cell.clientWidth)")
    assert min(widths) >= 12


def test_a_partition_opens_in_the_drawer_and_leads_to_the_others_of_its_gpu(people):
    page = people("admin").page
    page.goto("/fleet/")
    page.locator(".dg-mig [data-device]").first.click()
    drawer = page.get_by_role("dialog", name="Device")
    other = drawer.get_by_role("region", name="Partitions of the same GPU").get_by_role("link").nth(1)
    name = other.get_attribute("title").partition(":")[0]
    other.click()
    expect(drawer.get_by_role("heading", level=1, name=name)).to_be_visible()
    assert page.url.endswith("/fleet/")


def test_a_cell_of_the_fleet_opens_its_device_in_a_drawer(people):
    page = people("admin").page
    page.goto("/fleet/")
    cell = page.locator("a.dg-dev").first
    cell.focus()
    page.keyboard.press("Enter")
    drawer = page.get_by_role("dialog", name="Device")
    expect(drawer.get_by_role("heading", name="Attributes")).to_be_visible()
    assert (
        drawer.get_by_role("link", name="Open as a page")
        .get_attribute("href")
        .endswith(cell.get_attribute("href"))
    )
    assert page.url.endswith("/fleet/")
    page.keyboard.press("Escape")
    expect(drawer).not_to_be_visible()
    expect(cell).to_be_focused()


def test_home_of_an_engineer_takes_two_screens_on_a_phone(people):
    person = people("engineer")
    person.page.set_viewport_size(PHONE)
    person.page.goto("/")
    expect(person.page.get_by_role("heading", name="Quota of Vision")).to_be_visible()
    assert person.page.evaluate("document.documentElement.scrollHeight") <= 2 * PHONE["height"]


@pytest.mark.parametrize("who", ["engineer", "admin"])
def test_home_takes_one_and_a_half_screens_on_a_desk(people, who):
    person = people(who)
    person.page.set_viewport_size(DESK)
    person.page.goto("/")
    expect(person.page.locator("#needs-title")).to_be_visible()
    assert person.page.evaluate("document.documentElement.scrollHeight") <= 1.5 * DESK["height"]


def test_a_long_notice_wraps_on_a_phone(people):
    page = people("engineer").page
    page.set_viewport_size(PHONE)
    page.goto("/me/notices/")
    title = page.locator("main .dg-table.fold .dg-link").first
    expect(title).to_be_visible()
    for text in ("a sentence of many words " * 8, "one-name-without-a-space" * 8):
        cut = title.evaluate(
            """(link, text) => {
              link.textContent = text
              const all = document.createRange()
              all.selectNodeContents(link)
              const lines = [...all.getClientRects()]
              let seen = {left: 0, right: innerWidth}
              for (let box = link.parentElement; box; box = box.parentElement)
                if (getComputedStyle(box).overflowX !== "visible") {
                  const edge = box.getBoundingClientRect()
                  seen = {left: Math.max(seen.left, edge.left), right: Math.min(seen.right, edge.right)}
                }
              return lines.length < 2 || lines.some(line => line.left < seen.left || line.right > seen.right)
            }""",
            text,
        )
        assert not cut, text


def test_code_is_drawn_without_ligatures(people):
    page = people("engineer").page
    page.goto("/")
    drawn = page.evaluate(
        """html => {
          document.querySelector("main").insertAdjacentHTML("beforeend", html)
          return [...document.querySelectorAll("[data-code]")].map(code => {
            const style = getComputedStyle(code)
            return [style.fontVariantLigatures, style.fontFeatureSettings.includes('"liga" 0')]
          })
        }""",
        "".join(f"<{name} data-code>>=</{name}>" for name in ("code", "kbd", "pre", "b class=dg-code")),
    )
    assert drawn == [["none", True]] * 4
