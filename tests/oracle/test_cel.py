"""Selectors mean what they mean to Kubernetes: recorded answers need no Go, fresh ones do."""

import gzip
import json
from collections import Counter
from pathlib import Path

from tests.oracle.cel import cases, differences
from tests.oracle.upstream import ask

RECORDED = Path(__file__).parent / "cases/cel.jsonl.gz"
SEED, COUNT = 20261121, 600


def recorded() -> list[dict]:
    """Return {"case", "upstream"} of each; `python -m tests.oracle.cel --record` writes them."""
    with gzip.open(RECORDED, "rt") as file:
        return [json.loads(line) for line in file]


def test_the_recorded_expressions_are_refused_and_evaluated_as_upstream_did():
    told = recorded()
    seen: Counter[str] = Counter()
    found = list(differences([one["case"] for one in told], [one["upstream"] for one in told], seen))
    assert found == []
    assert min(seen[what] for what in ("true", "false", "failed", "refused")) >= 100


def test_fresh_expressions_are_refused_and_evaluated_as_upstream_does(upstream_program):
    asked = list(cases(SEED, COUNT))
    assert list(differences(asked, ask(asked, "cel"), Counter())) == []
