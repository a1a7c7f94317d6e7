"""
The pages below /help/: docs/user/*.md, rendered once per process.

README.md is the page of contents: the order of its links is the order of the pages. Links between the files
are links between the pages, and anchors are those that Git servers give headings.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

from django.conf import settings
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.token import Token

from core.templatetags.ui import code

SOURCE: Path = settings.BASE_DIR / "docs" / "user"
CONTENTS = "README"
GLOSSARY = "../glossary.md"
LINK = re.compile(r"(?P<file>[^#]*)(?:#(?P<anchor>.*))?")


@dataclass(frozen=True, slots=True)
class Heading:
    title: str
    anchor: str


@dataclass(frozen=True, slots=True)
class HelpPage:
    """A page: `html` is what follows its title; `headings` are those of the second level."""

    slug: str
    title: str
    html: SafeString
    headings: tuple[Heading, ...]
    links: tuple[str, ...]  # to other files, as written

    @property
    def url(self) -> str:
        return address(self.slug)


@dataclass(frozen=True, slots=True)
class Chapter:
    """Pages under one heading of the contents."""

    title: str
    pages: list[HelpPage]


def address(slug: str) -> str:
    return reverse("help") if slug == CONTENTS else reverse("help_page", args=[slug])


def anchor_of(title: str) -> str:
    """Return the anchor of a heading as Git servers make it: "How long, how many?" → "how-long-how-many"."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def page_address(target: str) -> str:
    """
    Return the address on the portal of a link between files; other addresses are returned unchanged.

    Raises ValueError for a file that is no page of the portal.
    """
    if target.startswith("https://"):
        return target
    parts = LINK.fullmatch(target)
    file, anchor = (parts["file"], parts["anchor"]) if parts else (target, None)
    fragment = f"#{anchor}" if anchor else ""
    if not file:
        return fragment
    if file == GLOSSARY:
        return reverse("help_terms") + fragment
    if "/" in file or not (SOURCE / file).is_file():
        raise ValueError(f"docs/user has a link to {target}, which is no page of the help.")
    return address(file.removesuffix(".md")) + fragment


def text_of(token: Token) -> str:
    """Return the words of a heading or paragraph."""
    return "".join(child.content for child in token.children or () if child.type in ("text", "code_inline"))


def draw_code(self: Any, tokens: Sequence[Token], place: int, options: Any, env: Any) -> str:
    """Draw a block of code as pages do, with a button that copies it."""
    token = tokens[place]
    return render_to_string("_code.html", code(token.content.rstrip("\n"), token.info, label=token.info))


def renderer() -> MarkdownIt:
    """Return a renderer that shows HTML in the source as text."""
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    markdown.add_render_rule("fence", draw_code)
    markdown.add_render_rule("table_open", lambda *_args: '<table class="dg-table">')
    return markdown


def headings_in(tokens: Sequence[Token]) -> Iterator[tuple[Token, str]]:
    """Yield the opening token of each heading with its words."""
    for opening, words in pairwise(tokens):
        if opening.type == "heading_open":
            yield opening, text_of(words)


def read_page(slug: str, text: str) -> HelpPage:
    """
    Return the page of a Markdown text.

    Raises ValueError if it does not begin with one title, repeats a heading, or has a dead link.
    """
    markdown = renderer()
    tokens = markdown.parse(text)
    titles = list(headings_in(tokens))
    if not titles or tokens[0].tag != "h1" or [opening.tag for opening, _ in titles].count("h1") != 1:
        raise ValueError(f"docs/user/{slug}.md does not begin with its only title.")
    for opening, words in titles:
        opening.attrSet("id", anchor_of(words))
    anchors = [str(opening.attrGet("id")) for opening, _ in titles]
    if len(anchors) != len(set(anchors)):
        raise ValueError(f"docs/user/{slug}.md has a heading twice.")
    links = []
    for token in (child for outer in tokens for child in outer.children or ()):
        if token.type == "link_open":
            links.append(str(token.attrGet("href")))
            token.attrSet("href", page_address(links[-1]))
            token.attrSet("class", "dg-link")
        elif token.type == "code_inline":
            token.attrSet("class", "dg-id")
    body = markdown.renderer.render(tokens[3:], markdown.options, {})
    headings = tuple(Heading(words, anchor_of(words)) for opening, words in titles if opening.tag == "h2")
    return HelpPage(slug, titles[0][1], mark_safe(body), headings, tuple(links))  # noqa: S308 (no HTML in it)


@cache
def all_pages() -> dict[str, HelpPage]:
    """Return every page by its slug."""
    return {file.stem: read_page(file.stem, file.read_text(encoding="utf-8")) for file in SOURCE.glob("*.md")}


@cache
def contents() -> list[Chapter]:
    """Return the chapters of README.md with their pages."""
    chapters: list[Chapter] = []
    tokens = renderer().parse((SOURCE / f"{CONTENTS}.md").read_text(encoding="utf-8"))
    for opening, token in pairwise(tokens):
        if opening.tag == "h2" and opening.type == "heading_open":
            chapters.append(Chapter(text_of(token), []))
        for child in token.children or ():
            slug = str(child.attrGet("href")).removesuffix(".md") if child.type == "link_open" else ""
            if chapters and slug in all_pages():
                chapters[-1].pages.append(all_pages()[slug])
    return chapters
