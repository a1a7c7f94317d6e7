"""
The figures of a page: every amount of money, every number of GPU-hours and every share, with where it stands.

A place is "card: label", or "card: row / column" in a table. `figures_of` finds all of them, so that a figure
that a page gains is one that nobody has computed yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

from tests.crawl.tree import Element, parse
from tests.usage.three_days.history import half_up

type Figure = tuple[str, str]  # place and text

NUMBER = r"\d[\d,]*(?:\.\d+)?"
MONEY = re.compile(rf"−?(?:[€$£]|\b[A-Z]{{3}} ){NUMBER}")
QUANTITY = re.compile(rf"(?:< )?{NUMBER} (?:%|kWh|kg|GiB|W)(?!\w)")
DURATION = re.compile(r"(?<![\d.,])\d{1,2} (?:d|h|min|s)\b")
HOURS = re.compile(rf"−?({NUMBER}) (?:GPU[ -]hours|device hours|h)\b")
OF_HOURS = re.compile(rf"({NUMBER}) of (?={NUMBER} GPU-hours)")
DATE = re.compile(r"\b\d{1,2} (?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\w*(?: \d{4})?\b")
DECIMAL = re.compile(r"(?<![\d.,])(\d[\d,]*\.\d\d)(?![\d%])")
BARE = re.compile(rf"(?<![\d.,:])({NUMBER})(?![\d:])")
IGNORED = frozenset({"script", "style", "time", "template", "form", "nav", "dialog"})


def text_of(element: Element) -> str:
    return " ".join(" ".join(text for _one, text in element.pieces(without=IGNORED)).split())


def tokens(text: str, *, is_hours: bool) -> Iterator[str]:
    """Yield the figures of a piece of text; hours as "12.00 h". `is_hours`: bare numbers are hours too."""
    for pattern in (MONEY, QUANTITY):
        yield from pattern.findall(text)
        text = pattern.sub(" ", text)
    text = DATE.sub(" ", DURATION.sub(" ", text))
    for pattern in (OF_HOURS, HOURS, BARE if is_hours else DECIMAL):
        for found in pattern.finditer(text):
            yield f"{found[1]} h"
        text = pattern.sub(" ", text)


def figures_of(html: str, *, without: tuple[str, ...] = ()) -> set[Figure]:
    """Return the figures of a page but of the cards and tables that are named in `without`."""
    page = parse(html)
    found: set[Figure] = set()
    _walk(page.first("main") or page, _Place(), without, found)
    return found


@dataclass
class _Place:
    """Where one is in a page: the card, by its label or heading."""

    card: str = ""


def _walk(one: Element, place: _Place, without: tuple[str, ...], found: set[Figure]) -> None:
    if one.tag in IGNORED or one["aria-label"] in without or "dg-scale" in one.classes:
        return
    if one.tag == "section":
        place.card = one["aria-label"]
    if one.tag in ("h1", "h2"):
        place.card = text_of(one)
    if place.card in without:
        pass
    elif one.tag == "table":
        found |= {(f"{place.card}: {where}", token) for where, token in of_table(one, place.card)}
        return
    elif label := _label(one):
        where = f"{place.card}: {label}"
        found |= {(where, token) for token in tokens(text_of(one), is_hours="hours" in where.lower())}
        return
    else:
        text = text_of(one) if one.own_text else ""
        found |= {(place.card, token) for token in tokens(text, is_hours=False)}
    for child in one.children:
        if isinstance(child, Element):
            _walk(child, place, without, found)


def _label(one: Element) -> str:
    """Return what names the figures of an element: of a statistic its label, of a definition its term."""
    if one.tag == "dd" and one.parent is not None:
        siblings = [child for child in one.parent.children if isinstance(child, Element)]
        return text_of(siblings[siblings.index(one) - 1])
    labels = [child for child in one.children if isinstance(child, Element) and "lab" in child.classes]
    return text_of(labels[0]) if labels else ""


def of_table(table: Element, place: str) -> Iterator[Figure]:
    rows = table.all("tr")
    heads = [text_of(cell) for cell in cells_of(rows[0])] if rows else []
    for row in rows[1:] if any(cell.tag == "th" for cell in cells_of(rows[0])) else rows:
        cells = cells_of(row)
        name = next((text for cell in cells[:1] for text in _visible(cell)), "")
        for number, cell in enumerate(cells):
            column = cell["data-l"] or (heads[number] if number < len(heads) else "")
            if column in COUNTS:
                continue
            is_hours = "hours" in f"{place} {name} {column}".lower() and number > 0
            for token in tokens(text_of(cell), is_hours=is_hours):
                yield f"{name} / {column}", token


def _visible(cell: Element) -> Iterator[str]:
    for element, text in cell.pieces():
        if text.strip() and not element.closest(lambda one: one["aria-hidden"] == "true"):
            yield text.strip()


COUNTS = {"Claims", "Now", "Devices", "Measured", "Temperature", "ECC errors"}


def cells_of(row: Element) -> list[Element]:
    return [cell for cell in row.children if isinstance(cell, Element) and cell.tag in ("td", "th")]


# How people read figures: written here again.


def euros(amount: Decimal | Fraction, digits: int = 2) -> str:
    rounded = half_up(Fraction(amount), digits)
    return f"{'−' if rounded < 0 else ''}€{abs(rounded):,}"


def share(value: float | None) -> str:
    if value is None:
        return "—"
    text = f"{value:.0%}".replace("%", " %")
    return "< 1 %" if value > 0 and text == "0 %" else text


def hours(value: Fraction | float) -> str:
    """Return hours as pages do: from 100 on without digits."""
    exact = half_up(value)
    return f"{exact if exact < 100 else half_up(Fraction(exact), 0):,} h"
