"""Fresh cases through the code of Kubernetes itself and through the engine."""

from pathlib import Path

import pytest

from tests.oracle.compare import ALLOCATED, DOES_NOT_FIT, ERROR, outcome
from tests.oracle.generate import make_case
from tests.oracle.known import why_accepted
from tests.oracle.run import verdicts

SEED, CASES = 20261121, 2000


@pytest.mark.usefixtures("upstream_program")
def test_fresh_cases_are_answered_as_upstream_does():
    print(f"seed {SEED}, {CASES} cases; the same by hand: make oracle SEED={SEED} CASES={CASES}")  # noqa: T201
    seen = list(verdicts(make_case(SEED, number) for number in range(CASES)))
    differences = {
        one.case["name"]: one.difference for one in seen if one.difference and not why_accepted(one)
    }
    assert differences == {}
    for told, least in ((ALLOCATED, 0.35), (DOES_NOT_FIT, 0.25), (ERROR, 0.1)):
        assert sum(outcome(one.upstream) == told for one in seen) >= least * CASES


def test_a_seed_repeats_its_cases():
    assert [make_case(5, number) for number in range(20)] == [make_case(5, number) for number in range(20)]
    assert make_case(5, 0) != make_case(6, 0)


def test_the_program_is_built_again_when_its_sources_change(tmp_path: Path, monkeypatch):
    from tests.oracle import build

    for name in ("main.go", "go.mod", "go.sum"):
        (tmp_path / name).write_text("one")
    monkeypatch.setattr(build, "SOURCES", tmp_path)
    before = build.program()
    (tmp_path / "main.go").write_text("two")
    assert build.program() != before
