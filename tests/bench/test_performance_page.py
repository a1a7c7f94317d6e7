"""The generated parts of docs/performance.md."""

import pytest

from bench import document
from bench.measure import Result
from bench.portal import explain
from bench.portal.explain import FrequentQuery

TEXT = "# Performance\n\n<!-- {0}: generated -->\nold\n<!-- {0}: end -->\n\nAfter it.\n"


@pytest.fixture
def page(tmp_path, monkeypatch):
    monkeypatch.setattr(document, "PAGE", tmp_path / "performance.md")
    return document.PAGE


def test_figures_replace_only_their_part(page):
    page.write_text(TEXT.format("figures"))
    document.write_figures(
        [
            Result("pages: frame alone", 8, "lead", [9.0], budget=8.0, processor=[4.0]),
            Result(
                *("pages: frame alone", 8, "admin", [9.0]),
                budget=8.0,
                processor=[10.0],
                profile=["70 % SELECT …"],
            ),
        ],
        {"build": 60.0, "all": 300.0},
    )
    text = page.read_text()
    assert text.startswith("# Performance\n")
    assert text.endswith("\nAfter it.\n")
    assert "| frame alone | 8 ms | 10.0 ms | 10.0 ms | 1 of 2 |" in text
    assert "| pages: frame alone | admin | p95" not in text, "one sample has no percentile"
    assert "| pages: frame alone | admin | 10.0 ms of CPU time, budget 8 (1.2 ×) | 70 % SELECT … |" in text
    assert "the run took 5.0 min, building the data 1.0" in text
    assert "old" not in text


def test_a_query_names_its_indexes_and_the_tables_it_reads_whole(page):
    page.write_text(TEXT.format("queries"))
    plan = "Nested Loop\n  ->  Index Scan using claim_pk on claims_claim\n  ->  Seq Scan on teams_team"
    document.write_queries(
        [FrequentQuery('SELECT "c"."id", "c"."name" FROM "c" WHERE "c"."id" = 7', 25, plan)]
    )
    text = page.read_text()
    assert "| 1 | 25 | `claim_pk`, `teams_team (whole)` |" in text
    assert "SELECT c.* FROM c WHERE c.id = ?" in text


@pytest.mark.django_db
def test_a_plan_is_that_of_postgresql():
    assert "Scan" in explain.explained("SELECT count(*) FROM teams_team")
