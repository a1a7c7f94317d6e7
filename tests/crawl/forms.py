"""The addresses that a page can ask for by GET: links, what htmx fetches, and forms with their choices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlencode

from tests.crawl.tree import Element

MAX_CHOICES = 4  # of one select, or of one group of radio buttons
# What a person would type, by the name of a field and else by its type.
TYPED = {"q": "gpu", "month": "2026-10", "devices": "2"}
TYPED_BY_TYPE = {
    "number": "1",
    "date": "2026-11-20",
    "datetime-local": "2026-12-24T12:00",
    "month": "2026-10",
}
BUTTONS = ("submit", "button", "reset", "image")

type Pairs = list[tuple[str, str]]


class Found(NamedTuple):
    """`chosen` tells an address that came of a choice in a form; `htmx` one that only htmx fetches."""

    address: str
    htmx: bool = False
    chosen: bool = False


def links(page: Element) -> Iterator[Found]:
    for one in page.walk():
        if one.tag in ("a", "area") and one["href"]:
            yield Found(one["href"])
        if one["hx-get"] and one.tag != "form" and not one["hx-include"]:
            yield Found(joined(one["hx-get"], [*own(one)]), htmx=True)


def forms(page: Element) -> Iterator[tuple[str, str, list[Found]]]:
    """Yield each form that is sent by GET: its name, its action, and every address it may lead to."""
    for form in page.all("form"):
        if form["method"].lower() != "post":
            yield form["id"] or form["role"], form["action"], [*sent(page, form, form["action"], htmx=False)]
        if form["hx-get"]:
            ways = [*sent(page, form, form["hx-get"], htmx=True)]
            # What the form asks for without htmx, too, htmx asks for once.
            yield "htmx", form["hx-get"], ways if form["method"].lower() == "post" else ways[:1]
    for one in page.walk():
        if one["hx-get"] and one.tag != "form" and one["hx-include"]:
            form = included(page, one)
            if form is not None:
                more = [*own(one)]
                found = [
                    Found(joined(where.address, more), htmx=True, chosen=where.chosen)
                    for where in sent(page, form, one["hx-get"], htmx=True, dropped=dropped_by(one))
                ]
                yield f"{one.tag} {more}", one["hx-get"], found


def posts(page: Element) -> Iterator[str]:
    """Yield where the forms and buttons of the page would send something."""
    for one in page.walk():
        if one.tag == "form" and one["method"].lower() == "post":
            yield one["action"]
        for name in ("formaction", "hx-post"):
            if one[name]:
                yield one[name]


def own(one: Element) -> Iterator[tuple[str, str]]:
    """Yield what an element sends of itself."""
    if one["name"] and one.tag == "button":
        yield one["name"], one["value"]
    if one["hx-vals"]:
        yield from ((name, str(value)) for name, value in json.loads(one["hx-vals"]).items())


def included(page: Element, one: Element) -> Element | None:
    where = one["hx-include"]
    if where.startswith("#"):
        return page.first(id=where[1:])
    return one.closest(lambda at: at.tag == "form")


def dropped_by(one: Element) -> set[str]:
    """Return the names that `hx-params` leaves out."""
    params = one["hx-params"]
    return set(params.removeprefix("not ").split(",")) if params.startswith("not ") else set()


def sent(
    page: Element, form: Element, action: str, *, htmx: bool, dropped: set[str] | None = None
) -> Iterator[Found]:
    """Yield the form as it stands, then with each choice and each field changed on its own."""
    left_out = {"csrfmiddlewaretoken", *(dropped or ())}
    fields = [one for one in fields_of(page, form) if one["name"] not in left_out]
    filled = [pair for one in fields for pair in as_filled(one)]
    base = action if htmx else action.partition("?")[0]  # a browser replaces the query of a form's action
    yield Found(joined(base, filled), htmx)
    for changed in variants(page, form, fields, filled):
        yield Found(joined(base, changed), htmx, chosen=True)


def fields_of(page: Element, form: Element) -> list[Element]:
    """Return what is sent with the form: fields inside it, and those elsewhere that name it."""
    inside = set(form.walk())
    return [
        one
        for one in page.all("input", "select", "textarea", "button")
        if one["name"]
        and not one.has("disabled")
        and (one["form"] == form["id"] if one["form"] else one in inside)
        and one["type"] != "file"
    ]


def as_filled(one: Element) -> Iterator[tuple[str, str]]:
    """Yield what the field sends when nobody touches it."""
    if one.tag == "button" or one["type"] in BUTTONS:
        return
    if one["type"] in ("checkbox", "radio"):
        if one.has("checked"):
            yield one["name"], one.attrs.get("value", "on")
    elif one.tag == "select":
        options = one.all("option")
        chosen = [option for option in options if option.has("selected")]
        if not chosen and not one.has("multiple"):
            chosen = options[:1]
        yield from ((one["name"], value_of(option)) for option in chosen)
    else:
        yield one["name"], one.text if one.tag == "textarea" else one["value"]


def value_of(option: Element) -> str:
    return option.attrs.get("value", option.text)


def variants(page: Element, form: Element, fields: list[Element], filled: Pairs) -> Iterator[Pairs]:
    groups: dict[tuple[str, str], list[str]] = {}
    for one in fields:
        if one.tag == "select":
            values = [value_of(option) for option in one.all("option")]
            yield from (changed(filled, one["name"], value) for value in values[:MAX_CHOICES])
        elif one.tag == "button" or one["type"] == "submit":
            if not one["formaction"] and one["formmethod"] != "post":
                yield [*filled, (one["name"], one["value"])]
        elif one["type"] in ("checkbox", "radio"):
            groups.setdefault((one["name"], one["type"]), []).append(one.attrs.get("value", "on"))
        elif one["type"] != "hidden":
            yield changed(filled, one["name"], typed(one))
    for (name, kind), values in groups.items():
        if kind == "radio":
            yield from (changed(filled, name, value) for value in values[:MAX_CHOICES])
        else:
            yield from (changed(filled, name, *values[:count]) for count in (0, 1, 2, len(values)))


def typed(one: Element) -> str:
    if one["min"] and one["type"] == "number":
        return one["min"]
    return TYPED.get(one["name"]) or TYPED_BY_TYPE.get(one["type"], "gpu")


def changed(filled: Pairs, name: str, *values: str) -> Pairs:
    return [pair for pair in filled if pair[0] != name] + [(name, value) for value in values]


def joined(address: str, pairs: Pairs) -> str:
    if not pairs:
        return address
    address = address.partition("#")[0]
    return f"{address}{'&' if '?' in address else '?'}{urlencode(pairs)}"
