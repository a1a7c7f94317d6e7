"""The table of the benchmarks names what misses its budget, became slower, or grows too fast."""

import pytest

from bench import report
from bench.measure import Result


def result(*samples, **fields):
    return Result(fields.pop("path", "pages: home"), 8, "engineer", samples, **fields)


@pytest.mark.parametrize(
    ("line", "of_budget", "misses"),
    [
        (result(10.0, budget=50.0), 0.2, []),
        (result(90.0, budget=50.0, processor=[25.0]), 0.5, []),
        (result(90.0, budget=50.0), 1.8, ["90.0 ms, budget 50 (1.8 ×)"]),
        (result(1.0, 90.0, budget=50.0), 1.8, ["p95 90.0 ms, budget 50 (1.8 ×)"]),
        (
            result(30.0, budget=50.0, median_budget=25.0),
            1.2,
            ["median 30.0 ms, budget 25 (1.2 ×)"],
        ),
        (result(1.0, budget=50.0, queries=30, max_queries=15), 2.0, ["30 queries, at most 15"]),
        (result(30.0, unit="/s", budget=60.0, at_least=True), 2.0, ["30.0 /s, at least 60 wanted"]),
        (result(0.0, unit="differences", budget=0.0), 0.0, []),
        (result(5.0), None, []),
    ],
)
def test_a_line_says_by_how_much_it_misses(line, of_budget, misses):
    assert line.of_budget == of_budget
    assert line.misses == misses


def test_results_are_read_as_they_were_written(tmp_path):
    lines = [
        result(1.0, 2.0, budget=50.0, processor=[1.5, 2.5], queries=3, size=10),
        result(7.0, unit="MiB", path="memory: web", notes=["a note"]),
    ]
    report.write(tmp_path / "results.json", lines, [])
    read = report.read(tmp_path / "results.json")
    assert [line.as_dict() for line in read] == [line.as_dict() for line in lines]


def test_a_run_of_some_paths_replaces_only_their_lines(tmp_path):
    out = tmp_path / "results.json"
    report.write(out, [result(1.0), result(2.0, path="pages: claims")], [])
    lines = report.merged(out, [result(3.0), result(4.0, path="pages: new")])
    assert [(line.path, line.median) for line in lines] == [
        ("pages: claims", 2.0),
        ("pages: home", 3.0),
        ("pages: new", 4.0),
    ]


def test_what_became_a_fifth_slower_is_named():
    previous = [result(20.0).as_dict(), result(20.0, path="pages: claims").as_dict()]
    current = [result(26.0), result(22.0, path="pages: claims"), result(99.0, path="pages: new")]
    assert list(report.slower(current, previous)) == [
        "pages: home (engineer): 20.0 → 26.0 ms, 1.3 × as long."
    ]


def test_less_than_a_millisecond_is_not_slower():
    assert list(report.slower([result(1.5)], [result(1.0).as_dict()])) == []


def sizes_of(steps, rows, size=10, visits=0):
    return [
        Result("pages: home", devices, "engineer", [1.0], size=size, rows=count, steps=work, visits=visits)
        for devices, work, count in zip((400, 4_000, 40_000), steps, rows, strict=True)
    ]


@pytest.mark.parametrize(
    ("steps", "rows", "too_fast"),
    [
        ((1_000, 10_000, 100_000), (10, 10, 10), True),
        ((1_000, 10_000, 100_000), (10, 100, 1000), False),
        ((1_000, 30_000, 30_000), (10, 10, 10), True),
        ((100_000, 100_000, 120_000), (10, 10, 10), False),
        ((1_000, 1_000, 4_000), (10, 10, 10), False),
        ((1_000, 10_000, 100_000), (0, 0, 0), True),
    ],
)
def test_growth_is_compared_with_that_of_the_result(steps, rows, too_fast):
    lines = sizes_of(steps, rows)
    (row,) = report.growth(lines)
    assert row.too_fast is too_fast
    assert report.at_full_size(lines) == lines[-1:]


@pytest.mark.parametrize(("last", "too_fast"), [(32_000, True), (30_000, False)])
def test_what_postgresql_reads_may_not_grow_faster_either(last, too_fast):
    lines = sizes_of((1_000, 1_000, 1_000), (10, 10, 10), visits=1_000)
    lines[-1].visits = last
    assert report.growth(lines)[0].too_fast is too_fast


def test_the_bytes_of_a_result_may_grow_instead_of_its_rows():
    small, medium, large = sizes_of((1_000, 10_000, 100_000), (1, 1, 1))
    medium.size, large.size = 100, 1_000
    (row,) = report.growth([small, medium, large])
    assert (row.too_fast, row.result_factor) == (False, 100)


def test_the_growth_table_shows_rows_work_and_factors(capsys):
    report.show_growth(report.growth(sizes_of((1_000, 10_000, 99_001), (5, 6, 7))))
    text = capsys.readouterr().out
    for figure in ("5", "6", "7", "1.4", "99,001", "grows faster than its result", "0 of 1 paths"):
        assert figure in text


def test_a_missed_budget_is_explained_by_what_was_measured(capsys):
    report.show([result(90.0, budget=50.0, profile=["40 % SELECT … FROM claims_claim"])], [])
    assert "1.8 ×). Most time: 40 % SELECT … FROM claims_claim" in capsys.readouterr().out
