"""Visits everything that one person can reach by links and GET forms, and notes what is wrong with it."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import parse_qsl, urljoin, urlsplit

from django.http.response import HttpResponseBase
from django.test import Client
from django.urls import Resolver404, ResolverMatch, resolve

from tests.crawl import checks, known
from tests.crawl.forms import Found, forms, links, posts
from tests.crawl.tree import Element, parse

HOST = "http://testserver"
PER_ROUTE = 2  # addresses of one route that are visited without a query
PER_PLACE = {  # more of what differs most from one to the next
    "claims/<uuid:claim_id>/": 24,
    "catalogue/<slug:slug>/": 5,
    "profiles/<slug:slug>/": 20,
}
PER_KEY = 1  # addresses of one route that are visited with one name in their query
PER_FORM = 1  # pages of one route whose form is sent in all its ways
PER_HTMX = 1  # addresses of one route, or with one name in their query, that are asked for as htmx does
KINDS = {"key"}  # values of these places in a route are routes of their own: each kind of snippet


class Form(NamedTuple):
    route: str  # of the page on which it stands
    name: str
    action: str  # the route that it is sent to


class Visit(NamedTuple):
    path: str  # with its query
    start: str  # the page on which it was found
    htmx: bool = False
    always: bool = False  # not counted against what is enough of its route


class Seen(NamedTuple):
    visit: Visit
    status: int
    match: ResolverMatch | None


@dataclass
class Crawl:
    """One person's way through the portal. `faults` are sentences, one for each thing that is wrong."""

    who: str
    client: Client
    tried: frozenset[Form] | None = frozenset()  # forms sent as they stand, not with each choice; None: all
    seen: list[Seen] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    posted: set[str] = field(
        default_factory=set
    )  # routes that forms of the pages are sent to; nothing is sent
    compared: int = 0  # figures that were held against the list they lead to

    def __post_init__(self) -> None:
        self._queue: deque[Visit] = deque()
        self._known: set[tuple[str, bool]] = set()
        self._visits: Counter[tuple[str, str, bool]] = Counter()
        self._forms: Counter[Form] = Counter()
        self._figures: list[tuple[Visit, int, str]] = []
        self._totals: dict[str, int | None] = {}

    def run(self) -> Crawl:
        self._queue.extend(Visit(start, "") for start in known.STARTS)
        while self._queue:
            visit = self._queue.popleft()
            if self._is_wanted(visit):
                self._visit(visit)
        self._compare()
        return self

    @property
    def routes(self) -> set[str]:
        """The routes that were reached; what turns the person away counts, what is not there does not."""
        return {one.match.route for one in self.seen if one.match and one.status != 404}

    @property
    def forms(self) -> frozenset[Form]:
        return frozenset(self._forms)

    def _is_wanted(self, visit: Visit) -> bool:
        """Tell whether the address is new, and too little was seen of its route or a name in its query."""
        place = (visit.path, visit.htmx)
        if place in self._known:
            return False
        path, _, query = visit.path.partition("?")
        names = {name for name, _value in parse_qsl(query)}  # what is empty asks for nothing
        counted = [(route_of(path, kinds=not names), name, visit.htmx) for name in names or ("",)]
        if all(self._visits[one] >= most_of(*one) for one in counted) and not visit.always:
            return False
        self._known.add(place)
        self._visits.update(counted)
        return True

    def _visit(self, visit: Visit) -> None:
        headers = {"HX-Request": "true"} if visit.htmx else {}
        answer = self.client.get(visit.path, headers=headers)
        match = matched(visit.path)
        self.seen.append(Seen(visit, answer.status_code, match))
        expected = known.expected(self.who, visit.path)
        if answer.status_code >= 400 and answer.status_code != expected:
            self._fault(visit, f"answers {answer.status_code}")
        if 300 <= answer.status_code < 400:
            self._follow(visit, [Found(answer.headers["Location"])], always=True)
        text = body(answer)
        kind = answer.headers.get("Content-Type", "")
        if kind.startswith("text/html"):
            self._read(visit, parse(text))
        elif kind.startswith("text/csv"):
            self._note(visit, checks.leaks_in_text(text))

    def _read(self, visit: Visit, page: Element) -> None:
        self._note(visit, checks.leaks(page))
        self._note(visit, checks.contradictions(page))
        self._totals[visit.path] = checks.total(page)
        self._follow(visit, links(page))
        for action in posts(page):
            path = joined(visit.path, action)
            if (match := matched(path)) is not None:
                self.posted.add(match.route)
            elif path:
                self._fault(visit, f"has a form for {path}, which is no address")
        route = route_of(visit.path.partition("?")[0])
        for form, action, ways in forms(page):
            seen = Form(route, form, route_of(joined(visit.path, action).partition("?")[0]))
            self._forms[seen] += 1
            if self._forms[seen] <= PER_FORM:
                as_it_stands = self.tried is None or seen in self.tried
                self._follow(visit, ways[:1] if as_it_stands else ways, always=True)
        for link, number in checks.figures(page):
            path = joined(visit.path, known.counted(link, self.who))
            if path and matched(path) and link["id"] != "bell":  # notices that are opened are read
                self._figures.append((Visit(path, visit.path, always=True), number, link.text))

    def _follow(self, visit: Visit, found: Iterator[Found] | list[Found], *, always: bool = False) -> None:
        for one in found:
            if path := joined(visit.path, one.address):
                self._queue.append(Visit(path, visit.path, one.htmx, (always and not one.htmx) or one.chosen))

    def _compare(self) -> None:
        """Hold each figure of a tile against the list that it leads to."""
        for visit, number, words in self._figures:
            if self._is_wanted(visit):
                self._visit(visit)
            total = self._totals.get(visit.path)
            if total is not None:
                self.compared += 1
                if total != number:
                    self.faults.append(f"{visit.start}: “{words}” leads to {visit.path}, which lists {total}")

    def _note(self, visit: Visit, faults: Iterator[str]) -> None:
        for fault in faults:
            self._fault(visit, fault)

    def _fault(self, visit: Visit, what: str) -> None:
        by = " (htmx)" if visit.htmx else ""
        self.faults.append(f"{visit.path}{by} {what}, found on {visit.start}")


def joined(page: str, address: str) -> str:
    """Return the path and query that `address` means on a page, "" where it leads out of the portal."""
    parts = urlsplit(urljoin(f"{HOST}{page}", address))
    if f"{parts.scheme}://{parts.netloc}" != HOST or parts.path.startswith(known.NOT_CRAWLED):
        return ""
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def matched(path: str) -> ResolverMatch | None:
    try:
        return resolve(path.partition("?")[0])
    except Resolver404:
        return None


def route_of(path: str, *, kinds: bool = False) -> str:
    match = matched(path)
    if match is None:
        return path
    return " ".join([match.route, *(str(match.kwargs[name]) for name in KINDS & set(match.kwargs) if kinds)])


def most_of(route: str, name: str, htmx: bool) -> int:
    """Return how many addresses of a route are enough: without a query, or with this name in it."""
    if htmx:
        return PER_HTMX
    return PER_KEY if name else PER_PLACE.get(route, PER_ROUTE)


def body(answer: HttpResponseBase) -> str:
    content = b"".join(answer) if answer.streaming else answer.content
    return str(content.decode(answer.charset or "utf-8"))
