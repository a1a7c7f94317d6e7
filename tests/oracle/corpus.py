"""
Cases with upstream's answers, kept so that the comparison runs without Go.

`python -m tests.oracle.corpus` makes the big one again, with the generator and the Kubernetes of now.
"""

import gzip
import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.oracle import ours, upstream
from tests.oracle.compare import GIVEN_UP, difference, outcome
from tests.oracle.generate import make_case
from tests.oracle.mutations import RULES
from tests.oracle.uses import features_used

CASES = Path(__file__).parent / "cases"
CORPUS, FOUND = CASES / "corpus.jsonl.gz", CASES / "allocator.jsonl"
SEED, DRAWN = 20261121, 5000
LARGEST = 7000  # characters of a case that is kept
PER_RULE, PER_FEATURE = 3, 4  # cases that notice a broken rule; that use a feature with each outcome


def recorded() -> list[dict]:
    """Return the big corpus: `case`, and `upstream` with the error and the results."""
    with gzip.open(CORPUS, "rt") as lines:
        return [json.loads(line) for line in lines]


def permanent() -> list[dict]:
    """Return the cases that were found different once: `why` says what was wrong."""
    return [json.loads(line) for line in FOUND.read_text().splitlines()]


def main() -> int:
    drawn = [make_case(SEED, number) for number in range(DRAWN)]
    pairs = [
        {"case": case, "upstream": {key: answer[key] for key in ("error", "results")}}
        for case, answer in zip(drawn, upstream.ask(drawn), strict=True)
        if len(json.dumps(case)) < LARGEST and outcome(answer) != GIVEN_UP and _settled(answer)
    ]
    pairs = [pair for pair in pairs if not difference(pair["upstream"], ours.answer(pair["case"]))]
    kept = sorted(set(_by_rule(pairs)) | set(_by_feature(pairs)))
    with CORPUS.open("wb") as file, gzip.GzipFile("", "wb", mtime=0, fileobj=file) as packed:
        for place in kept:
            packed.write(json.dumps(pairs[place], separators=(",", ":")).encode() + b"\n")
    sys.stderr.write(f"{len(kept)} of {DRAWN} cases kept, {CORPUS.stat().st_size // 1024} KiB\n")
    return 0


def _settled(answer: dict) -> bool:
    return not any(difference(answer, other) for other in answer.pop("also", ()))


def _by_rule(pairs: Sequence[dict]) -> Iterator[int]:
    for rule, switch_off in RULES.items():
        with pytest.MonkeyPatch.context() as patch:
            switch_off(patch)
            noticed = [
                place
                for place, pair in enumerate(pairs)
                if difference(pair["upstream"], ours.answer(pair["case"]))
            ]
        sys.stderr.write(f"{len(noticed):5} notice: {rule}\n")
        yield from sorted(noticed, key=lambda place: len(json.dumps(pairs[place])))[:PER_RULE]


def _by_feature(pairs: Sequence[dict]) -> Iterator[int]:
    seen: Counter[tuple[str, str]] = Counter()
    for place, pair in enumerate(pairs):
        told = outcome(pair["upstream"])
        for feature in sorted(features_used(pair["case"])):
            if seen[feature, told] < PER_FEATURE:
                seen[feature, told] += 1
                yield place


if __name__ == "__main__":
    sys.exit(main())
