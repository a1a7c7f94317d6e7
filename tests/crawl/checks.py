"""What every page is held to: no text as Python writes it, and no number that its list contradicts."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.crawl.tree import Element

# A text that Python wrote for programmers, or markup that became text.
LEAK = re.compile(
    r"datetime\.|Decimal\(|UUID\(|<QuerySet|object at 0x|%\(\w+\)|%[ds]\b|\[\]|\{'|^\s*(None|\(None\))\s*$"
    r"|\bnan\b|&(amp|lt|gt|quot);"
    r"|<(time|span|svg)\b|\">\w"  # an element inside an attribute ends it
)
NOT_PROSE = frozenset(
    {"pre", "code", "script", "style", "textarea", "template"}
)  # of people and of Kubernetes
SPOKEN = ("title", "aria-label", "alt", "placeholder", "value", "data-l")
IN_ADDRESS = re.compile(r"[/=](None|\[\]|%5B%5D)(?=[/&?#]|$)")
LINKING = ("href", "action", "formaction", "hx-get", "hx-post")

NUMBER = re.compile(r"^(\d+)$")
COUNT = re.compile(r"^(?:All )?(\d[\d,]*)(?: [a-z][a-z ]*)?$")
SPAN = re.compile(r"^(\d+) to (\d+) of (\d+)\b")
SHORTENED = re.compile(r"^The (?:(?:newest|oldest|first) )?(\d+)(?: with the highest cost)? of (\d+)[.:]")
COUNTED = re.compile(r"^(\d+) (?:claim|request|node|cluster|team|device|profile)s?$")


def leaks(page: Element) -> Iterator[str]:
    """Yield every visible text that shows how Python writes a value."""
    for _element, text in page.pieces(without=NOT_PROSE):
        if found := LEAK.search(text):
            yield f"shows {text.strip()[:120]!r} ({found[0].strip()})"
    for one in page.walk():
        for name in SPOKEN:
            if (found := LEAK.search(one[name])) and one.tag not in NOT_PROSE:
                yield f"{name} of <{one.tag}> is {one[name][:120]!r} ({found[0].strip()})"
        for name in LINKING:
            if IN_ADDRESS.search(one[name]):
                yield f"{name} of <{one.tag}> is {one[name][:120]!r}"


def leaks_in_text(text: str) -> Iterator[str]:
    """Yield the cells of a CSV, or the strings of a document, that show how Python writes a value."""
    for line in text.splitlines():
        if found := LEAK.search(line):
            yield f"says {line[:120]!r} ({found[0].strip()})"


def contradictions(page: Element) -> Iterator[str]:
    """
    Yield every number beside a heading that the list below it contradicts.

    Heading of a card: a number after its <h2> is how many entries the card lists; where the card shows a part
    ("The newest 8 of 12."), it is the whole. A number before the <h2> is that of a step.
    Heading of a page: "12 claims" beside its <h1> is the total of the page's list ("1 to 50 of 12").
    List: "1 to 50 of 230" stands below fifty rows. Tab: the number of the open tab is how many rows follow.
    """
    yield from _cards(page)
    yield from _listing(page)
    yield from _tabs(page)


def _cards(page: Element) -> Iterator[str]:
    for header in page.all(cls="card-header"):
        title = next((child for child in header.children if isinstance(child, Element)), None)
        count = header.first("span", cls="dg-count")
        if title is None or count is None or count is title:  # the number of a step
            continue
        card = header.parent
        shown = card and entries(card)
        heading = f"“{title.text} {count.text}”"
        if shown is None and count.text == "0":  # a sentence says so
            continue
        if card is None or shown is None:
            yield f"{heading} stands above no list that the crawl knows"
            continue
        whole = shown
        for foot in card.all("p", cls="card-footer"):
            if part := SHORTENED.match(foot.text):
                whole = int(part[2])
                if int(part[1]) != shown:
                    yield f"{heading}: {foot.text!r} below {shown} entries"
        if count.text != str(whole):
            yield f"{heading} stands above {whole} entries"


def entries(card: Element) -> int | None:
    """Return how many entries the first list of a card has, None if there is no list in it."""
    for one in card.walk():
        if one.tag == "tbody":
            return len([row for row in children(one, "tr") if not row.first("td", colspan="3")])
        if one.tag in ("ul", "ol"):
            return len(children(one, "li"))
        if one.tag == "dl":
            return len(children(one, "dt"))
        if {"dg-need", "dg-mini"} & one.classes and one.parent is not None:
            folded = [child for part in children(one.parent, "details") for child in children(part)]
            rows = [row for row in children(one.parent) + folded if row.tag != "summary"]
            return len([row for row in rows if row.classes == one.classes])
    return None


def children(element: Element, *tags: str) -> list[Element]:
    return [one for one in element.children if isinstance(one, Element) and (not tags or one.tag in tags)]


def total(page: Element) -> int | None:
    """Return how many rows the list of a page has over all its pages, None if it has no such list."""
    if (listing := page.first(id="listing")) is not None:
        foot = listing.first(cls="dg-listfoot")
        span = SPAN.match(foot.text) if foot else None
        return int(span[3]) if span else 0
    if (tab := open_tab(page)) is not None:
        count = tab.first("span", cls="dg-count")
        return int(count.text) if count else 0
    return None


def open_tab(page: Element) -> Element | None:
    """Return the open tab of an inbox: tabs that are places of their own have no number."""
    tabs = next((one for one in page.all("nav", cls="dg-tabs") if one.first("span", cls="dg-count")), None)
    return tabs and tabs.first("a", **{"aria-current": "page"})


def _listing(page: Element) -> Iterator[str]:
    listing = page.first(id="listing")
    if listing is None:
        return
    rows = entries(listing) if listing.first("tbody") else 0
    foot = listing.first(cls="dg-listfoot")
    span = SPAN.match(foot.text) if foot else None
    if span and int(span[2]) - int(span[1]) + 1 != rows:
        yield f"{span[0]!r} stands below {rows} rows"
    if not span and rows:
        yield f"{rows} rows have no line that counts them"
    head = page.first(cls="dg-head")
    said = [one.text for one in head.all("span", cls="dg-sub")] if head else []
    for text in said:
        if (counted := COUNTED.match(text)) and int(counted[1]) != total(page):
            yield f"the heading says {text!r}, the list {total(page)}"


def _tabs(page: Element) -> Iterator[str]:
    tab = open_tab(page)
    count = tab and tab.first("span", cls="dg-count")
    if tab is None or count is None:
        return
    rows = len(page.all(role="listitem"))
    paged = page.first("nav", **{"aria-label": "Pages"})
    if rows != int(count.text) and not paged:
        yield f"the open tab “{tab.text}” stands above {rows} rows"


def figures(page: Element) -> Iterator[tuple[Element, int]]:
    """
    Yield each link that says how many something are, and the number: the list that it leads to has so many
    rows. It is a tile with a figure, a label with a number behind it, or the words "12", "All 12",
    "3 live claims".
    """
    for link in page.all("a"):
        figure = link.first(cls="dg-fig") or link.first("span", cls="dg-count")
        said = NUMBER.match(figure.own_text) if figure else COUNT.match(link.text)
        if said and not link.closest(lambda one: "dg-listfoot" in one.classes):
            yield link, int(said[1].replace(",", ""))
