"""/help/ shows docs/user, /help/terms/ docs/glossary.md, to everybody who is signed in."""

import re
from html import unescape

import pytest
from django.conf import settings

from core.glossary import GLOSSARY, TERMS, formatted, read_glossary
from core.templatetags.ui import term
from portal.help.pages import SOURCE, all_pages, anchor_of, contents, read_page
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


ADDRESSES = ["/help/", "/help/terms/", "/help/quota/"]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("role", [*Role.values, "outsider", "admin"])
def test_help_page_opens_for_every_role(client, people, role, address):
    client.force_login(people[role])
    response = client.get(address)
    assert response.status_code == 200
    assert re.search(r'<a class="dg-nav" href="/help/" aria-current="page"', response.text)


@pytest.mark.parametrize("address", ADDRESSES)
def test_help_page_sends_anonymous_readers_to_sign_in(client, db, address):
    response = client.get(address)
    assert (response.status_code, response["Location"]) == (302, f"/accounts/login/?next={address}")


@pytest.mark.parametrize("slug", ["README", "readme", "nothing", "glossary"])
def test_unknown_help_page_is_404(client, people, slug):
    client.force_login(people[Role.MEMBER])
    assert client.get(f"/help/{slug}/").status_code == 404


def test_every_file_is_a_page_with_its_headings(client, people):
    client.force_login(people[Role.MEMBER])
    slugs = sorted(file.stem for file in SOURCE.glob("*.md") if file.stem != "README")
    assert len(slugs) > 20
    for slug in slugs:
        shown = client.get(f"/help/{slug}/").text
        title, *headings = re.findall(r"^##? (.+)$", without_code((SOURCE / f"{slug}.md").read_text()), re.M)
        parts = [f"<h1>{title}</h1>"]
        for heading in headings:
            parts.append(f'<a href="#{anchor_of(heading)}">{heading}</a>')
            parts.append(f'<h2 id="{anchor_of(heading)}">{heading}</h2>')
        assert [part for part in parts if part not in shown] == [], slug
        assert headings == [heading.title for heading in all_pages()[slug].headings], slug


def without_code(text):
    return re.sub(r"```.*?```", "", text, flags=re.S)


def test_contents_name_every_page_once():
    listed = [page.slug for chapter in contents() for page in chapter.pages]
    assert sorted([*listed, "README"]) == sorted(all_pages())


def test_links_between_help_pages_lead_somewhere_on_the_portal_and_in_the_repository():
    anchors = {
        f"{slug}.md": {heading.anchor for heading in page.headings} for slug, page in all_pages().items()
    }
    anchors["../glossary.md"] = {group.slug for group in GLOSSARY}
    links = [(slug, link) for slug, page in all_pages().items() for link in page.links]
    assert len(links) >= 30
    for slug, link in links:
        file, _, anchor = link.partition("#")
        assert (SOURCE / (file or f"{slug}.md")).is_file(), (slug, link)
        assert not anchor or anchor in anchors[file or f"{slug}.md"], (slug, link)


def test_link_to_a_file_is_a_link_to_its_page():
    page = read_page(
        "x", "# X\n[a](quota.md#request-more) [b](../glossary.md#quota) [c](README.md) [d](https://k8s.io)"
    )
    assert re.findall('href="([^"]+)"', page.html) == [
        "/help/quota/#request-more",
        "/help/terms/#quota",
        "/help/",
        "https://k8s.io",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("No title", "only title"),
        ("# A\n# B", "only title"),
        ("# A\n## B\n## B", "heading twice"),
        ("# A\n[b](nothing.md)", "no page of the help"),
        ("# A\n[b](../quota.md)", "no page of the help"),
        ("# A\n[b](http://example.org)", "no page of the help"),
    ],
)
def test_help_file_with_a_mistake_is_refused(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_page("x", text)


def test_html_in_a_help_file_is_shown_as_text():
    page = read_page("x", "# X\n<script>alert(1)</script>\n\nand <b onclick=x>this</b> [x](https://x)")
    assert "<script" not in page.html
    assert "<b " not in page.html
    assert "&lt;script&gt;" in page.html


def test_javascript_links_of_a_help_file_stay_text():
    assert "href" not in read_page("x", "# X\n[a](javascript:alert(1))").html


@pytest.mark.parametrize(
    ("title", "anchor"),
    [
        ("With kubectl", "with-kubectl"),
        ("How old is this?", "how-old-is-this"),
        ("No account, no team", "no-account-no-team"),
    ],
)
def test_anchors_are_those_of_git_servers(title, anchor):
    assert anchor_of(title) == anchor


def test_help_page_shows_every_row_of_the_glossary(client, people):
    client.force_login(people[Role.MEMBER])
    shown = unescape(re.sub(r"<[^>]+>", "", client.get("/help/terms/").text))
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


def test_term_is_a_link_with_its_definition():
    (row,) = (row for row in ROWS if row.startswith("| quota |"))
    plain = row.split("|")[2].strip()
    shown = f'<a class="dg-term" href="/help/terms/#term-quota" data-term="{plain}">Quotas</a>'
    assert term("quota", "Quotas") == shown
    assert TERMS["device plugin"].plain.endswith("by number (nvidia.com/gpu: 1) and without claims")


def test_unknown_term_is_a_mistake():
    with pytest.raises(KeyError):
        term("no such term")


def test_terms_on_pages_are_in_the_glossary():
    """A tag with an unknown term would link to an anchor that does not exist."""
    slugs = {row.slug for group in GLOSSARY for row in group.terms}
    used = {
        name
        for path in (settings.BASE_DIR / "templates").rglob("*.html")
        for name in TERM.findall(path.read_text())
    }
    assert len(used) >= 20
    for name in used:
        address = re.search(r'href="/help/terms/#([^"]+)"', term(name))
        assert address, name
        assert address[1] in slugs, name
