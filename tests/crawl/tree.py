"""A page as a tree of elements, filled by the parser of the standard library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


@dataclass(eq=False)
class Element:
    """`children` are elements and pieces of text, in their order."""

    tag: str
    attrs: dict[str, str] = field(default_factory=dict)
    parent: Element | None = None
    children: list[Element | str] = field(default_factory=list)

    def __getitem__(self, name: str) -> str:
        return self.attrs.get(name, "")

    def has(self, name: str) -> bool:
        return name in self.attrs

    @property
    def classes(self) -> set[str]:
        return set(self["class"].split())

    def walk(self) -> Iterator[Element]:
        """Yield this element and all below it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, *tags: str, **attrs: str) -> list[Element]:
        """Return the elements below this one with one of `tags` and these attributes; `cls` is a class."""
        cls = attrs.pop("cls", None)
        return [
            one
            for one in self.walk()
            if one is not self
            and (not tags or one.tag in tags)
            and (cls is None or cls in one.classes)
            and all(one.attrs.get(name) == value for name, value in attrs.items())
        ]

    def first(self, *tags: str, **attrs: str) -> Element | None:
        return next(iter(self.all(*tags, **attrs)), None)

    def closest(self, matches: Callable[[Element], bool]) -> Element | None:
        """Return the nearest element around this one that `matches`, this one included."""
        found: Element | None = self
        while found is not None and not matches(found):
            found = found.parent
        return found

    def pieces(self, *, without: frozenset[str] = frozenset()) -> Iterator[tuple[Element, str]]:
        """Yield each piece of text below this element beside the element it stands in."""
        for child in self.children:
            if isinstance(child, str):
                yield self, child
            elif child.tag not in without:
                yield from child.pieces(without=without)

    @property
    def own_text(self) -> str:
        return " ".join("".join(child for child in self.children if isinstance(child, str)).split())

    @property
    def text(self) -> str:
        return " ".join("".join(text for _element, text in self.pieces()).split())


class _Builder(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = self.open = Element("")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs}, self.open)
        self.open.children.append(element)
        if tag not in VOID:
            self.open = element

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:  # a shape of SVG
            self.open = self.open.parent or self.root

    def handle_endtag(self, tag: str) -> None:
        ends = self.open.closest(lambda one: one.tag == tag)
        if ends is not None and ends.parent is not None:
            self.open = ends.parent

    def handle_data(self, data: str) -> None:
        self.open.children.append(data)


def parse(text: str) -> Element:
    builder = _Builder()
    builder.feed(text)
    builder.close()
    return builder.root
