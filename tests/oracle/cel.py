"""
Hold our CEL to the one of Kubernetes: `python -m tests.oracle.cel --seed 1 --cases 5000`.

Ends with 1 if a verdict differs from upstream's.
"""

import argparse
import gzip
import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dra.cel import CompileError, EvaluationError, NotPreviewable, compile_selector
from dra.features import Features
from tests.oracle.cel_devices import device
from tests.oracle.cel_expressions import expression
from tests.oracle.upstream import ask

SLACK = 100  # upstream's own estimate is a unit short for each `[?x]` of a list
UNDERESTIMATED = "uri"  # upstream runs it as a pattern of 1,103 characters and estimates it as one of 128
DEVICES = 4  # that each expression is tried on
SWITCHES = (
    {"ConsumableCapacity": True},
    {"ConsumableCapacity": True},
    {"ConsumableCapacity": False},
    {"ConsumableCapacity": True, "ListTypeAttributes": True},
)


@dataclass
class Shown:
    """A device as selectors take it."""

    driver: str
    raw: dict[str, Any] = field(default_factory=dict)


class Difference(NamedTuple):
    """`what` says which of the two answers differ."""

    what: str
    case: dict
    upstream: Any
    ours: Any


def cases(seed: int, count: int) -> Iterator[dict]:
    for number in range(count):
        dice = random.Random(f"{seed}/{number}")
        yield {
            "expression": expression(dice),
            "features": dice.choice(SWITCHES),
            "devices": [device(dice) for _ in range(DEVICES)],
        }


def differences(asked: Sequence[dict], answers: Sequence[dict], seen: Counter[str]) -> Iterator[Difference]:
    """Compare; count in `seen` what was refused, evaluated, failed or left to the cluster."""
    for case, answer in zip(asked, answers, strict=True):
        refused = answer.get("error", "")
        try:
            selector = compile_selector(case["expression"], Features.of_switches(case["features"]))
        except NotPreviewable as left:
            seen[f"left to the cluster: {left.message}"] += 1
            continue
        except CompileError as error:
            seen["refused"] += 1
            if not refused:
                yield Difference("refused by us alone", case, answer, error.message)
            elif "Syntax error" not in refused and _named(refused) != _named(error.message):
                seen["refused in other words"] += 1
                yield Difference("refused in other words", case, refused, error.message)
            elif refused != error.message:
                seen["syntax error in other words"] += 1
            continue
        if refused:
            yield Difference("refused by upstream alone", case, refused, "taken")
            continue
        if selector.cost != answer["cost"]:
            yield Difference("another cost", case, answer["cost"], selector.cost)
        for one, verdict in zip(case["devices"], answer["verdicts"], strict=True):
            yield from _on_device(selector, case, one, verdict, seen)


def _named(message: str) -> str:
    """Leave out the numbers of type variables, which tell how often the checker made one."""
    return re.sub(r"_var\d+", "_var", message)


def _on_device(
    selector: Any, case: dict, one: dict, verdict: dict, seen: Counter[str]
) -> Iterator[Difference]:
    failed = verdict.get("error", "")
    try:
        ours: Any = selector.matches(Shown(one["driver"], one))
    except EvaluationError as error:
        ours = error
    seen["failed" if failed else str(verdict["matches"]).lower()] += 1
    if verdict["cost"] > selector.cost + SLACK and UNDERESTIMATED not in case["expression"]:
        yield Difference(
            "costs more than estimated", {**case, "devices": [one]}, verdict["cost"], selector.cost
        )
    if isinstance(ours, EvaluationError):
        if not failed:
            yield Difference("fails for us alone", {**case, "devices": [one]}, verdict, ours.message)
        elif failed != ours.message:
            seen["failed in other words"] += 1
    elif failed or ours is not verdict["matches"]:
        yield Difference("another result", {**case, "devices": [one]}, verdict, ours)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.cel", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--replay", type=Path, help="cases from a file, one per line, instead of random ones")
    parser.add_argument("--record", type=Path, help="write cases and answers to this file, gzipped")
    parser.add_argument("--failures", type=Path, default=Path("/tmp/oracle-cel-failures.jsonl"))
    told = parser.parse_args()
    asked = (
        [json.loads(line) for line in told.replay.read_text().splitlines()]
        if told.replay
        else list(cases(told.seed, told.cases))
    )
    asked = [one.get("case", one) for one in asked]
    answers = ask(asked, "cel")
    if told.record:
        write(told.record, asked, answers)
    seen: Counter[str] = Counter()
    started = time.monotonic()
    found = list(differences(asked, answers, seen))
    say(f"seed {told.seed}, {len(asked)} expressions, ours took {time.monotonic() - started:.1f} s")
    for what, count in seen.most_common():
        say(f"{count:8} {what}")
    for what, count in Counter(one.what for one in found).most_common():
        say(f"{count:8} DIFFER: {what}")
    with told.failures.open("w") as file:
        file.writelines(json.dumps(one._asdict()) + "\n" for one in found)
    if found:
        say(f"The differences are in {told.failures}; try again with --replay {told.failures}")
    return 1 if found else 0


def write(path: Path, asked: Sequence[dict], answers: Sequence[dict]) -> None:
    lines = [
        json.dumps({"case": case, "upstream": answer}) + "\n"
        for case, answer in zip(asked, answers, strict=True)
    ]
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
