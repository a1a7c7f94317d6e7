"""What is wrong with a form stands beside its field, and the field is marked: it gets the focus."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.test import Client
from django.urls import Resolver404, resolve

from tests.crawl.forms import BUTTONS, as_filled, fields_of
from tests.crawl.tree import parse
from tests.factories import make_user, sign_in_just_now
from tests.fakes import FakeGateway
from tests.portal.every_address import address, one_of_everything, routes

TEMPLATES = Path(settings.BASE_DIR, "templates")
BY_HAND = re.compile(r"for error in ([\w.]+)\.errors|_errors\.html\" with bound=([\w.]+)")
MAIN = re.compile(r"<main.*</main>", re.DOTALL)
NOT_TYPED = ("hidden", *BUTTONS, "file", "checkbox", "radio", "password")
TEXT = ("", "text", "search")
# What no page shows again: secrets.
WITHHELD = {"kubeconfig", "certificate", "key"}
JUNK, LONG = "no such thing", "x" * 70_000


def test_each_error_drawn_by_hand_has_a_field_that_is_marked():
    bare, checked = [], 0
    for path in TEMPLATES.rglob("*.html"):
        text = path.read_text()
        near = "".join(other.read_text() for other in path.parent.glob("*.html"))
        names = {first or second for first, second in BY_HAND.findall(text)}
        for name in names - {"bound", "field"}:
            checked += 1
            drawn = (f"{{% field {name}", f"{{{{ {name} }}}}", f"in {name} %}}")
            if f"{name}|invalid" not in near and not any(way in text for way in drawn):
                bare.append(f"{path.relative_to(TEMPLATES)}: {name}")
    assert bare == []
    assert checked > 15


def main_of(answer):
    found = MAIN.search(answer.text)
    return parse(found[0] if found else answer.text)


def forms(client, known):
    """Yield the forms of all pages once: their view, address, what they send, and what is typed into them."""
    seen = set()
    for route in routes(skipped=("admin/", "accounts/", "api/")):
        path = address(route, known)
        page = client.get(path)
        if page.status_code != 200 or not page.headers["Content-Type"].startswith("text/html"):
            continue
        tree = main_of(page)
        for form in tree.all("form", method="post"):
            fields = fields_of(tree, form)
            typed = {one["name"]: one for one in fields if one["type"] not in NOT_TYPED}
            typed = {name: one for name, one in typed.items() if one.tag != "button"}
            filled = dict(pair for one in fields for pair in as_filled(one))
            buttons = [one for one in form.all("button") if not one["formaction"]]
            if buttons and all(one["name"] for one in buttons):  # one has to be pressed
                filled[buttons[0]["name"]] = buttons[0]["value"]
            elsewhere = {one["formaction"] for one in form.all("button")} - {""}
            for action in {form["action"], *elsewhere}:
                try:
                    view = resolve((action or path).partition("?")[0]).view_name
                except Resolver404:
                    continue
                if typed and (view, *sorted(typed)) not in seen:
                    seen.add((view, *sorted(typed)))
                    yield view, action or path, filled, typed


def is_text(field):
    return field.tag == "textarea" or (field.tag == "input" and field["type"] in TEXT)


def is_chosen(view, field):
    """Not every text is a value of the field; a saved reason is a text, and a denial grants nothing."""
    return not is_text(field) and field["name"] != "reason" and not view.endswith("_deny")


def wrong_values(typed):
    """Yield what is sent in place of what a form has: all fields missing, junk, too long; then each alone."""
    for value in ("", JUNK, LONG):
        yield dict.fromkeys(typed, value)
    for name, field in typed.items():
        if field.tag != "select":
            yield {name: LONG if is_text(field) else JUNK}


def faults(view, answer, typed, sent, changed):
    """Yield what is wrong with an answer."""
    refused = answer.status_code >= 400
    if answer.status_code >= 500:
        yield "fault"
    elif not refused and JUNK in [value for name, value in changed.items() if is_chosen(view, typed[name])]:
        yield "junk is taken"
    if not refused or answer.status_code >= 500:
        return
    page = main_of(answer)
    in_form = [one for one in page.all(cls="dg-err") if one.closest(lambda at: at.tag in ("form", "dialog"))]
    banners = [one for one in page.all(cls="dg-banner", role="alert") if "bad" in one.classes]
    if not page.all(**{"aria-invalid": "true"}) and not in_form and not banners:
        yield "nothing has the focus"  # as app.js looks for it
    for error in page.all(cls="dg-err"):
        field = error.closest(lambda at: "dg-field" in at.classes)
        if field and not field.all(**{"aria-invalid": "true"}):
            yield f"not marked: {error.text}"
    boxes = page.all("input", "textarea")
    shown = {one["name"]: one.text if one.tag == "textarea" else one["value"] for one in boxes}
    for name in typed.keys() - WITHHELD if answer.status_code == 422 else ():
        if typed[name].tag != "select" and shown.get(name, "").split() != sent.get(name, "").split():
            yield f"{name} is lost"


@pytest.mark.django_db
def test_refused_form_marks_what_is_wrong_and_keeps_what_was_typed(monkeypatch):
    monkeypatch.setattr("inventory.clusters.KubeGateway", lambda _credentials: FakeGateway())
    known, client = one_of_everything(), Client(raise_request_exception=False)
    sign_in_just_now(client, make_user("root"))
    wrong, refused, found = {}, 0, list(forms(client, known))
    for view, action, filled, typed in found:
        for changed in wrong_values(typed):
            cache.clear()  # what counts requests
            with transaction.atomic():
                answer = client.post(action, filled | changed)
                transaction.set_rollback(True)
            refused += answer.status_code == 422
            what = [*faults(view, answer, typed, filled | changed, changed)]
            if what:
                told = " ".join(f"{name}={value[:13]}" for name, value in changed.items())
                wrong[f"{view}: {told[:80]}"] = (answer.status_code, *what)
    assert wrong == {}
    assert refused > 150
