"""Reads everything that the API describes, as one person, and holds each answer to its description."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from django.test import Client

from tests.crawl import checks, known

type Json = dict[str, Any]

MAX_ROWS = 6  # of one list whose own addresses are read; one of each state comes first
TELLS_APART = ("state", "status", "sharing", "kind", "origin")  # what makes rows of a list different in kind
DOCUMENTS = {"spec", "manifest", "raw", "text", "fix"}  # of Kubernetes, not prose
# A query for which no description names a value: a value, or the list and field that have one.
QUERIES = {"q": "gpu", "month": "2026-10", "limit": "1", "version": "1", "wait": "0", "name": "gpu"}
NAMED = {"team": ("teams/", "slug"), "cluster": ("clusters/", "name"), "profile": ("profiles/", "slug")}
ROOT = "/api/v1/"
SPARSE = "fields"  # tests/core/test_conditional.py
PARQUET = "application/vnd.apache.parquet"


def described(client: Client) -> Json:
    """Return what the API says of itself, read strictly: an answer has no field that is not described."""
    schema: Json = client.get(f"{ROOT}schema/?format=json").json()
    for component in schema["components"]["schemas"].values():
        if "properties" in component:
            component.setdefault("additionalProperties", False)
    return schema


@dataclass
class ApiCrawl:
    who: str
    client: Client
    schema: Json
    seen: list[tuple[str, str, int]] = field(default_factory=list)  # (described path, address, status)
    faults: list[str] = field(default_factory=list)
    _rows: dict[str, list[Json]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        import schemathesis

        self._described = schemathesis.openapi.from_dict(deepcopy(self.schema))

    def run(self) -> ApiCrawl:
        paths = [path for path, item in self.schema["paths"].items() if "get" in item]
        named = [ROOT + where for where, _name in NAMED.values()]
        for path in sorted(paths, key=lambda path: (path not in named, path.count("{"))):
            for address in self._addresses(path):
                self._read(path, address)
        return self

    @property
    def paths(self) -> set[str]:
        return {path for path, _address, _status in self.seen}

    def _addresses(self, path: str) -> Iterator[str]:
        parameters = self.schema["paths"][path]["get"].get("parameters", [])
        queries = {one["name"]: one for one in parameters if one["in"] == "query"}
        required = [(name, values[0]) for name, one in queries.items() if one.get("required")
                    and (values := self._values(name, one["schema"]))]  # fmt: skip
        for place in self._places(path):
            yield address_of(place, required)
        for place in self._places(path)[:1]:
            for name, one in queries.items():
                if name == SPARSE:  # such an answer has not all that is described
                    continue
                others = [pair for pair in required if pair[0] != name]
                for value in self._values(name, one["schema"]):
                    yield address_of(place, [*others, (name, value)])

    def _places(self, path: str) -> list[str]:
        """Return the addresses that a described path stands for, with ids from its own list."""
        before, brace, rest = path.partition("{")
        if not brace:
            return [path]
        name, _, after = rest.partition("}")
        rows = self._rows.get(before, []) if "{" not in after else []  # of rows below rows nothing is known
        return [f"{before}{quote(str(row.get(name, row.get('id'))))}{after}" for row in rows]

    def _values(self, name: str, schema: Json) -> list[str]:
        schema = schema.get("items", schema)
        if "enum" in schema:
            return [str(value) for value in schema["enum"]]
        if schema.get("type") == "boolean":
            return ["true", "false"]
        if name in NAMED:
            where, field_name = NAMED[name]
            return [row[field_name] for row in self._rows.get(ROOT + where, [])[:1]]
        if name in QUERIES:
            return [QUERIES[name]]
        return [str(schema.get("minimum", 1))] if schema.get("type") in ("integer", "number") else []

    def _read(self, path: str, address: str) -> None:
        answer = self.client.get(address)
        self.seen.append((path, address, answer.status_code))
        if answer.status_code != 200:
            if answer.status_code != known.expected(self.who, address):
                self.faults.append(f"{address} answers {answer.status_code}: {answer.content[:200]!r}")
            return
        if answer["Content-Type"] == PARQUET:
            return
        if answer["Content-Type"].startswith(("text/csv", "application/yaml")):
            text = b"".join(answer).decode()
            self.faults += [f"{address} {fault}" for fault in checks.leaks_in_text(text)]
            return
        said = answer.json()
        self.faults += [f"{address}: {fault}" for fault in self._mismatch(path, answer)]
        self.faults += [f"{address} {fault}" for text in texts(said) for fault in checks.leaks_in_text(text)]
        rows = said.get("results") if isinstance(said, dict) else said
        if "{" not in path and isinstance(rows, list) and path not in self._rows:
            self._rows[path] = some_of(rows)

    def _mismatch(self, path: str, answer: Any) -> Iterator[str]:
        """Yield in what the answer differs from its description."""
        from requests import Request
        from schemathesis import Response
        from schemathesis.core.failures import FailureGroup

        headers = {name: [value] for name, value in answer.headers.items()}
        request = Request("GET", f"http://testserver{path}").prepare()
        try:
            self._described[path]["GET"].validate_response(
                Response(answer.status_code, headers, answer.content, request, elapsed=0, verify=False)
            )
        except FailureGroup as group:
            yield from (f"{one.title}: {one.message}"[:500] for one in group.exceptions)


def some_of(rows: list[Json]) -> list[Json]:
    """Return a few rows, of each kind at least one."""
    kinds: dict[tuple[str, ...], Json] = {}
    for row in rows:
        kinds.setdefault(tuple(str(row.get(name)) for name in TELLS_APART), row)
    chosen = list(kinds.values())
    return (chosen + [row for row in rows if row not in chosen])[: max(MAX_ROWS, len(chosen))]


def texts(said: Any) -> Iterator[str]:
    """Yield every sentence of an answer; documents of Kubernetes are none."""
    if isinstance(said, str):
        if not said.lstrip().startswith(("{", "[")) and "\n" not in said:
            yield said
    elif isinstance(said, dict):
        for name, value in said.items():
            if name not in DOCUMENTS:
                yield from texts(value)
    elif isinstance(said, list):
        for value in said:
            yield from texts(value)


def address_of(place: str, query: list[tuple[str, str]]) -> str:
    return f"{place}?{urlencode(query)}" if query else place
