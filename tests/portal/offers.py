"""What a page offers its reader: the forms that it would send, and the links that lead to one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.template import engines
from django.template.loaders.filesystem import Loader
from django.urls import Resolver404, resolve

TEMPLATES = Path(settings.BASE_DIR) / "templates"
POSTING = re.compile(r'<(?:form\b(?=[^>]*method="post")|\w+\b(?=[^>]*hx-post=))')


@dataclass
class Sent:
    """A form of a page: where it goes, and what a browser would send that only presses the button."""

    url: str
    fields: dict[str, str] = field(default_factory=dict)
    by_script: bool = False  # hx-post: sent as somebody types


@dataclass
class Offers:
    """What stands in `main` of a page, and `beside` it; by the name of the address it leads to."""

    status: int
    forms: dict[str, list[Sent]] = field(default_factory=dict)
    links: dict[str, list[str]] = field(default_factory=dict)
    beside: dict[str, list[Sent]] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)  # "claims/quotas/quota.html:23"


class Reader(HTMLParser):
    def __init__(self, path: str, status: int) -> None:
        super().__init__()
        self.path, self.offers = urlsplit(path).path, Offers(status)
        self.form: Sent | None = None
        self.buttons: list[tuple[str, str]] = []
        self.in_main, self.select, self.text = False, "", ""

    def handle_starttag(self, tag, attrs):
        at = {name: value or "" for name, value in attrs}
        if at.get("id") == "main":
            self.in_main = True
        if source := at.get("data-source"):
            self.offers.sources.add(source)
        if "hx-post" in at:
            self.note(at["hx-post"], by_script=True)
        if tag == "form":
            posts = at.get("method", "").lower() == "post"
            self.form = Sent(self.absolute(at.get("action", ""))) if posts else None
        elif tag == "a" and self.in_main:
            self.link(at.get("href", ""))
        elif tag == "button" and self.form and at.get("type", "submit") == "submit" and "hx-post" not in at:
            self.button(at)
        elif self.form:
            self.field(tag, at)

    def button(self, at):
        """Only what somebody can send is offered: a form without a button is not."""
        fields = self.form.fields
        if "formaction" in at:
            self.note(at["formaction"], fields)
            return
        kept = self.kept.setdefault(name_of(self.form.url), [])
        if self.form not in kept:
            kept.append(self.form)
        self.buttons.append((at.get("name", ""), at.get("value", "")))

    def field(self, tag, at):
        name, value, fields = at.get("name", ""), at.get("value", ""), self.form.fields
        if tag == "input" and name and not (at.get("type") in ("checkbox", "radio") and "checked" not in at):
            fields[name] = value
        elif tag == "textarea":
            self.text, fields[name] = name, ""
        elif tag == "select":
            self.select = name
        elif tag == "option" and self.select and (self.select not in fields or "selected" in at):
            fields[self.select] = value

    def handle_data(self, data):
        if self.text and self.form:
            self.form.fields[self.text] += data

    def handle_endtag(self, tag):
        if tag == "main":
            self.in_main = False
        elif tag == "form":
            if self.buttons and all(name for name, _value in self.buttons):
                self.form.fields |= dict(self.buttons[:1])  # one has to be pressed
            self.form, self.buttons = None, []
        elif tag == "textarea":
            self.text = ""
        elif tag == "select":
            self.select = ""

    @property
    def kept(self) -> dict[str, list[Sent]]:
        return self.offers.forms if self.in_main else self.offers.beside

    def absolute(self, url: str) -> str:
        return urlsplit(url).path or self.path

    def note(self, url: str, fields: dict[str, str] | None = None, *, by_script: bool = False) -> None:
        sent = Sent(self.absolute(url), fields if fields is not None else {}, by_script)
        self.kept.setdefault(name_of(sent.url), []).append(sent)

    def link(self, url):
        parts = urlsplit(url)
        if parts.netloc or not parts.path:
            return
        name = name_of(parts.path) + (" replaces" if "replaces=" in parts.query else "")
        self.offers.links.setdefault(name, []).append(parts.path)


def name_of(path: str) -> str:
    """Return the name of an address; those of `claims`, which are most, without "claims:"."""
    try:
        return resolve(path).view_name.removeprefix("claims:")
    except Resolver404:
        return path


def read(path: str, status: int, text: str) -> Offers:
    reader = Reader(path, status)
    reader.feed(text)
    return reader.offers


def sources() -> set[str]:
    """Return every place in the templates where something is sent with POST."""
    found = set()
    for path in TEMPLATES.rglob("*.html"):
        name = path.relative_to(TEMPLATES).as_posix()
        for number, line in enumerate(path.read_text().splitlines(), 1):
            found |= {f"{name}:{number}"} if POSTING.search(line) else set()
    return found


@contextmanager
def sources_shown() -> Iterator[None]:
    """Have each form and each hx-post say in `data-source` where it stands in the templates."""
    with pytest.MonkeyPatch.context() as patch:
        original = Loader.get_contents

        def marked(self, origin):
            text = original(self, origin)
            if not Path(origin.name).is_relative_to(TEMPLATES):
                return text
            name = Path(origin.name).relative_to(TEMPLATES).as_posix()
            lines = text.splitlines(keepends=True)
            return "".join(
                POSTING.sub(lambda tag: f'{tag[0]} data-source="{name}:{number}"', line)  # noqa: B023
                for number, line in enumerate(lines, 1)
            )

        patch.setattr(Loader, "get_contents", marked)
        forget_templates()
        yield
    forget_templates()


def forget_templates() -> None:
    for loader in engines["django"].engine.template_loaders:
        loader.reset()
