"""What is wrong with a form stands beside its field, and the field is marked: it gets the focus."""

import re
from pathlib import Path

import pytest
from django.conf import settings
from django.db import transaction

from teams.models import User
from tests.crawl.forms import fields_of
from tests.crawl.tree import parse
from tests.portal.every_address import address, one_of_everything, routes

TEMPLATES = Path(settings.BASE_DIR, "templates")
BY_HAND = re.compile(r"for error in ([\w.]+)\.errors|_errors\.html\" with bound=([\w.]+)")
SKIPPED = ("api/", "admin/", "scim/", "__debug__/")
JUNK = ("", "?" * 700)


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


@pytest.mark.django_db
def test_refused_form_names_the_field_of_each_error(client):
    known, faults, refused, sent = one_of_everything(), [], 0, set()
    client.force_login(User.objects.get(username="root"))
    for path in sorted({address(route, known) for route in routes(skipped=SKIPPED)}):
        opened = client.get(path)
        if opened.status_code != 200 or not opened.headers["Content-Type"].startswith("text/html"):
            continue
        page = parse(opened.text)
        for form in page.all("form"):
            action = form["action"] or path
            if form["method"].lower() != "post" or "logout" in action or action in sent:
                continue
            sent.add(action)
            names = {one["name"] for one in fields_of(page, form) if one["type"] not in ("hidden", "submit")}
            for junk in JUNK:
                with transaction.atomic():
                    answer = client.post(action, dict.fromkeys(names, junk))
                    transaction.set_rollback(True)
                if answer.status_code == 422 and "html" in answer.headers["Content-Type"]:
                    refused += 1
                    faults += [f"{path}: {fault}" for fault in unmarked(parse(answer.text))]
    assert faults == []
    assert refused > 40


def unmarked(page):
    """Yield each error whose field is not marked; a refused form has an error at all."""
    errors, fields = page.all(cls="dg-err"), page.all(**{"aria-invalid": "true"})
    if not errors and not fields:
        yield "refused without an error"
    marked = {
        name for one in page.all(**{"aria-invalid": "true"}) for name in one["aria-describedby"].split()
    }
    for error in errors:
        named = error.closest(lambda one: one["id"].endswith(("_error", "-error")))
        if named is not None and named["id"] not in marked:
            yield f"{named['id']} belongs to no marked field"
