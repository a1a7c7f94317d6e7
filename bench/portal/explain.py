"""The queries that browsing sends most often, with the plan that PostgreSQL has for each and its indexes."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import set_script_prefix

from bench.portal.pages import signed_in
from bench.portal.population import READERS
from bench.portal.traffic import POLLS, pages_of, renewed

MAX_QUERIES = 10  # queries
READS = re.compile(r"\s*(SELECT|WITH)\b", re.IGNORECASE)
COLUMNS = re.compile(
    r'^(SELECT(?: DISTINCT)?) "(\w+)"\."\w+"(?: AS "\w+")?(?:, "\w+"\."\w+")+(?= FROM)', re.M
)
LITERALS = re.compile(
    r"'(?:[^']|'')*'(?:::[a-z]+(?:\[\])?)?|\b\d+(?:\.\d+)?\b|\bIN \([^()]*\)|\b(?:true|false)\b",
    re.IGNORECASE,
)
TEXTS = re.compile(r"'[^']*'")
INDEX = re.compile(r"(?:Index (?:Only )?Scan(?: Backward)? using|Bitmap Index Scan on) (\w+)")
SCANNED = re.compile(r"Seq Scan on (\w+)")


@dataclass(frozen=True, slots=True)
class FrequentQuery:
    """A query as PostgreSQL got it once, how often it is sent per 100 requests, and its plan."""

    sql: str
    per_100: float
    plan: str

    @property
    def indexes(self) -> list[str]:
        """Return what serves the query: its indexes, and the tables that it reads whole."""
        whole = [f"{table} (whole)" for table in SCANNED.findall(self.plan)]
        return list(dict.fromkeys([*INDEX.findall(self.plan), *whole]))


def frequent_queries() -> list[FrequentQuery]:
    """Return the ten most frequent queries of people who browse and poll as in `bench.portal.traffic`."""
    set_script_prefix("/")
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    requests = 0
    for reader in READERS:
        client = signed_in(reader)
        for page in pages_of(reader):
            polled, tag = renewed(client.get(page).content.decode())
            for address in (page, *([polled] * POLLS if polled else ())):
                requests += 1
                headers = {"HX-Request": "true", "If-None-Match": tag} if address == polled else None
                with CaptureQueriesContext(connection) as queries:
                    client.get(address, headers=headers)
                    texts = [query["sql"] for query in queries.captured_queries]
                for text in texts:
                    if READS.match(text):
                        counts[LITERALS.sub("?", text)] += 1
                        examples.setdefault(LITERALS.sub("?", text), text)
    return [
        FrequentQuery(examples[shape], 100 * count / requests, explained(examples[shape]))
        for shape, count in counts.most_common(MAX_QUERIES)
    ]


def explained(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF, BUFFERS OFF) {sql}")
        return "\n".join(TEXTS.sub("?", line) for (line,) in cursor.fetchall())


def shortened(sql: str) -> str:
    """Return the query with its list of columns as an asterisk and its literals as question marks."""
    return " ".join(LITERALS.sub("?", COLUMNS.sub(r"\1 \2.*", sql)).replace('"', "").split())
