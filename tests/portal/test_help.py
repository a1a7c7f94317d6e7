"""/help/ shows every term of docs/glossary.md to everybody who is signed in."""

import re
from html import unescape

import pytest
from django.conf import settings

from core.templatetags.ui import term
from portal.help import GLOSSARY, formatted, read_glossary
from teams.models import Role
from tests.factories import make_team, make_user

ROWS = [
    line
    for line in (settings.BASE_DIR / "docs" / "glossary.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| term |")
]


@pytest.fixture
def people(db):
    everybody = {role: make_user(role) for role in Role.values}
    make_team(
        "vision",
        viewers=(everybody[Role.VIEWER],),
        members=(everybody[Role.MEMBER],),
        leads=(everybody[Role.LEAD],),
        owners=(everybody[Role.OWNER],),
    )
    return everybody | {"outsider": make_user("outsider"), "admin": make_user("admin", is_superuser=True)}


@pytest.mark.parametrize("role", [*Role.values, "outsider", "admin"])
def test_help_page_opens_for_every_role(client, people, role):
    client.force_login(people[role])
    response = client.get("/help/")
    assert response.status_code == 200
    assert re.search(r'<a class="dg-nav" href="/help/" aria-current="page"', response.text)


def test_help_page_sends_anonymous_readers_to_sign_in(client, db):
    response = client.get("/help/")
    assert (response.status_code, response["Location"]) == (302, "/accounts/login/?next=/help/")


def test_help_page_refuses_to_be_posted_to(client, people):
    client.force_login(people[Role.MEMBER])
    assert client.post("/help/").status_code == 405


def test_help_page_shows_every_row_of_the_glossary(client, people):
    client.force_login(people[Role.MEMBER])
    shown = unescape(re.sub(r"<[^>]+>", "", client.get("/help/").text))
    missing = [
        row for row in ROWS if not all(cell.strip().replace("`", "") in shown for cell in row.split("|")[1:3])
    ]
    assert len(ROWS) > 80
    assert missing == []


def test_anchors_of_the_help_page_are_unique():
    anchors = [group.slug for group in GLOSSARY] + [term.slug for group in GLOSSARY for term in group.terms]
    assert len(anchors) == len(set(anchors))


def test_terms_of_a_group_are_in_alphabetical_order():
    for group in GLOSSARY:
        names = [term.name.casefold() for term in group.terms]
        assert names == sorted(names), group.title


def test_meaning_is_escaped_and_backticks_become_code():
    assert formatted("a <b> of `x<y`") == 'a &lt;b&gt; of <code class="dg-id">x&lt;y</code>'


def test_glossary_row_without_a_meaning_is_refused():
    with pytest.raises(ValueError, match="not a row of term and meaning"):
        read_glossary("## Group\n| term | meaning |\n|---|---|\n| claim |  |")


TERM = re.compile(r'{% term "([^"]+)"')


def test_terms_on_pages_are_in_the_glossary():
    """A tag with an unknown term would link to an anchor that does not exist."""
    slugs = {row.slug for group in GLOSSARY for row in group.terms}
    used = {
        name
        for path in (settings.BASE_DIR / "templates").rglob("*.html")
        for name in TERM.findall(path.read_text())
    }
    assert len(used) >= 5
    for name in used:
        address = re.search(r'href="/help/#([^"]+)"', term(name))
        assert address, name
        assert address[1] in slugs, name
