"""The terms of docs/glossary.md, the only place where they are defined: pages show its sentences."""

import re
from dataclasses import dataclass

from django.conf import settings
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify

SOURCE = settings.BASE_DIR / "docs" / "glossary.md"
CODE = re.compile(r"`([^`]+)`")


@dataclass(frozen=True, slots=True)
class Term:
    """A row of the glossary; `slug` is its anchor on the page."""

    name: str
    slug: str
    meaning: SafeString
    plain: str = ""  # the meaning as text


@dataclass(frozen=True, slots=True)
class TermGroup:
    title: str
    slug: str
    terms: list[Term]


def read_glossary(text: str) -> list[TermGroup]:
    """
    Return the tables below the headings of a Markdown text: first column the term, second its meaning.

    Raises ValueError where a row has no term or no meaning.
    """
    groups: list[TermGroup] = []
    for line in text.splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ").strip()
            groups.append(TermGroup(title, slugify(title), []))
        elif groups and line.startswith("|") and not line.startswith(("| term |", "|---")):
            name, meaning, *_code = [*(cell.strip() for cell in line.strip("|").split("|")), ""]
            if not name or not meaning:
                raise ValueError(f"docs/glossary.md: {line!r} is not a row of term and meaning.")
            groups[-1].terms.append(
                Term(name, f"term-{slugify(name)}", formatted(meaning), meaning.replace("`", ""))
            )
    return groups


def formatted(text: str) -> SafeString:
    """Return a sentence as HTML, with what stands between backticks as code."""
    return mark_safe(CODE.sub(r'<code class="dg-id">\1</code>', str(escape(text))))  # noqa: S308 (escaped)


GLOSSARY = read_glossary(SOURCE.read_text(encoding="utf-8"))
TERMS = {term.name: term for group in GLOSSARY for term in group.terms}
