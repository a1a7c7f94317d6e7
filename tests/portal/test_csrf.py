"""
Whatever a template posts carries the CSRF token.

Django's test client checks no token, so a form without one passes every other test. Here the templates are
parsed as Django does it, with what they include, and read as HTML. A form has its token if that stands
between its tags, under no condition that the form itself does not stand under. htmx sends the fields of the
form around an element along; no header of a page has the token.
"""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import pytest
from django.template import Engine, engines
from django.template.base import NodeList, TextNode
from django.template.defaulttags import CsrfTokenNode, ForNode, IfChangedNode, IfNode
from django.template.loader_tags import IncludeNode

TEMPLATES = Path(__file__).resolve().parents[2] / "templates"
SOURCES = {str(path.relative_to(TEMPLATES)): path.read_text() for path in TEMPLATES.rglob("*.html")}
INCLUDED = {name for source in SOURCES.values() for name in re.findall(r'{% include "([^"#]+)"', source)}
POSTS = re.compile(r"<\w+\b[^>]*?(?:\bmethod=.?post|\bhx-(?:post|put|patch|delete)=)[^>]*>", re.I)
UNSAFE = {"hx-post", "hx-put", "hx-patch", "hx-delete"}
SAFE = {"", "get", "dialog"}
TOKEN = "dg-csrf-token"
FILLED_IN = "\ue000"  # what stands where a template fills something in

# Parameters without which a part of a template is not shown; who includes the template gives them.
GIVEN = {"editor", "live"}
# `live` is given by claims.views.profile_match, of what goes into a step of claims/_funnel.html.
SWAPPED_INTO_A_FORM = {"claims/_dropped_page.html"}
# allauth's templates fill in its method and, with its body, its token.
FILLED_BY_OTHERS = {"allauth/elements/form.html"}

type Conditions = tuple[tuple[int, int | str], ...]


class Piece(NamedTuple):
    """A stretch of HTML: which template it is from, and under which conditions it is shown."""

    text: str
    template: str
    node: int
    under: Conditions


class Post(NamedTuple):
    """A form that is posted, or an element that posts by itself; `place` is one of a template."""

    template: str
    place: tuple[int, int]
    text: str
    has_token: bool


class Walk:
    """
    Takes a template apart into the pieces of HTML that it may show, in order. What it includes by a name that
    a view gives is walked on its own.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def template(
        self,
        name: str,
        under: Conditions = (),
        given: frozenset[str] = frozenset(),
        *,
        isolated: bool = False,
    ) -> Iterator[Piece]:
        nodes = self.engine.get_template(name).nodelist
        yield from self._nodes(nodes, name.partition("#")[0], under, given, isolated)

    def _nodes(
        self, nodes: NodeList, name: str, under: Conditions, given: frozenset[str], isolated: bool
    ) -> Iterator[Piece]:
        for node in nodes:
            if isinstance(node, TextNode):
                yield Piece(node.s, name, id(node), under)
            elif isinstance(node, CsrfTokenNode):
                yield Piece("" if isolated else f"<{TOKEN}>", name, id(node), under)
            elif isinstance(node, IncludeNode) and isinstance(target := node.template.var, str):
                further = given | node.extra_context.keys()
                # With `only` a template gets no token.
                alone = isolated or node.isolated_context
                yield from self.template(target, under, further, isolated=alone)
            elif isinstance(node, IfNode):
                for number, (condition, branch) in enumerate(node.conditions_nodelists):
                    if getattr(condition, "text", "") not in GIVEN - given:
                        inside = (*under, (id(node), number))
                        yield from self._nodes(branch, name, inside, given, isolated)
            else:
                yield Piece(FILLED_IN, name, id(node), under)
                for kind in node.child_nodelists:
                    may_be_none = isinstance(node, ForNode | IfChangedNode)
                    inside = (*under, (id(node), kind)) if may_be_none else under
                    inner = getattr(node, kind, None) or NodeList()
                    yield from self._nodes(inner, name, inside, given, isolated)


class Reader(HTMLParser):
    """Reads pieces as one text and notes in `posts` what it sends."""

    def __init__(self, pieces: list[Piece]) -> None:
        super().__init__()
        self.posts: list[Post] = []
        self._in_form: list[Post] = []  # the form itself among them, if it is posted
        self._form: Piece | None = None
        self._has_token = False
        text = "".join(piece.text for piece in pieces)
        self._lines = [0, *(match.end() for match in re.finditer("\n", text))]
        self._owners = [(piece, at) for piece in pieces for at in range(len(piece.text))]
        self.feed(text)
        self.close()
        assert self._form is None, "a form has no end"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        line, column = self.getpos()
        piece, at = self._owners[self._lines[line - 1] + column]
        named = dict(attrs)
        method = (named.get("method") or "").lower()
        if tag == "form":
            assert self._form is None, f"a form stands in a form in {piece.template}"
            self._form, self._has_token = piece, False
        if tag == TOKEN and self._form is not None:
            self._has_token |= piece.under == self._form.under[: len(piece.under)]
        filled = method == FILLED_IN and piece.template in FILLED_BY_OTHERS
        if (method not in SAFE and not filled) or UNSAFE & named.keys():
            post = Post(piece.template, (piece.node, at), self.get_starttag_text() or "", has_token=False)
            (self.posts if self._form is None else self._in_form).append(post)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self.posts += [post._replace(has_token=self._has_token) for post in self._in_form]
            self._in_form, self._form = [], None


def posts_of(name: str, engine: Engine) -> list[Post]:
    return Reader(list(Walk(engine).template(name))).posts


@pytest.fixture(scope="module")
def posts() -> list[Post]:
    """What every template posts that no other includes."""
    engine: Engine = engines["django"].engine
    return [post for name in sorted(SOURCES.keys() - INCLUDED) for post in posts_of(name, engine)]


@pytest.mark.security("forgery", "looks for a form or an element that posts without the CSRF token")
def test_whatever_a_template_posts_carries_the_token(posts):
    assert len(posts) > 50
    assert [f"{post.template}: {post.text}" for post in posts if not post.has_token] == []


def test_nothing_that_a_template_posts_is_overlooked(posts):
    places = {(post.template, post.place) for post in posts}
    for name, source in SOURCES.items():
        met = sum(template == name for template, _place in places)
        written = 0 if name in SWAPPED_INTO_A_FORM else len(POSTS.findall(source))
        assert met == written, name


FORM = "<form method=post>%s</form>"


@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        (FORM % "{% csrf_token %}", [True]),
        (FORM % "", [False]),
        (FORM % "" + "{% csrf_token %}", [False]),
        (FORM % "{# csrf_token #}", [False]),
        (FORM % "{% if x %}{% csrf_token %}{% endif %}", [False]),
        (FORM % "{% for x in y %}{% csrf_token %}{% endfor %}", [False]),
        ("{% if x %}" + FORM % "{% csrf_token %}" + "{% else %}" + FORM % "" + "{% endif %}", [True, False]),
        (FORM % "{% with x=1 %}{% csrf_token %}{% endwith %}", [True]),
        (FORM % '{% include "has.html" %}', [True]),
        (FORM % '{% include "has.html" only %}', [False]),
        (FORM % '{% include "has_not.html" %}', [False]),
        ("<form method='get'>{% csrf_token %}</form>", []),
        ("<p hx-post=x></p>", [False]),
        ("<form>{% csrf_token %}<p hx-delete=x></p></form>", [True]),
        ("<form method={% if x %}get{% else %}post{% endif %}></form>", [False]),
    ],
)
def test_only_a_token_that_gets_into_the_form_counts(source, tokens):
    kept = {"page.html": source, "has.html": "<p>{% csrf_token %}</p>", "has_not.html": "<p></p>"}
    engine = Engine(loaders=[("django.template.loaders.locmem.Loader", kept)])
    assert [post.has_token for post in posts_of("page.html", engine)] == tokens
