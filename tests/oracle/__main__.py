"""
Hold our allocator to the one of Kubernetes: `python -m tests.oracle --seed 1 --cases 2000`.

Ends with 1 if an answer differs from upstream's, and `known.py` has no reason for it.
"""

import argparse
import json
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.oracle.compare import ALLOCATED, DOES_NOT_FIT, ERROR, GIVEN_UP, outcome
from tests.oracle.generate import TOPICS, make_case
from tests.oracle.known import why_accepted
from tests.oracle.run import Speed, Verdict, verdicts
from tests.oracle.shrink import shrink, signature
from tests.oracle.uses import features_used

OUTCOMES = (ALLOCATED, DOES_NOT_FIT, ERROR, GIVEN_UP)


def main() -> int:
    asked = arguments()
    cases = read(asked.replay) if asked.replay else generate(asked.seed, asked.cases, asked.feature)
    speed, different, accepted = Speed(), list[Verdict](), Counter[str]()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for number, verdict in enumerate(verdicts(cases, speed=speed), 1):
        for feature in ("any", verdict.upstream["allocator"] or "none", *features_used(verdict.case)):
            counts[feature][outcome(verdict.upstream)] += 1
        if why := verdict.difference and why_accepted(verdict):
            accepted[why] += 1
        elif verdict.difference:
            different.append(verdict)
            say(f"{verdict.case['name']}: {verdict.difference}")
        if number % 1000 == 0:
            say(f"{number} cases, {len(different)} differ without a reason")
    show(counts)
    say(f"{speed.cases} cases; cases per processor second:")
    say(f"ours {speed.cases / speed.ours:.0f}, upstream {speed.cases / speed.upstream:.0f}")
    for why, number in accepted.items():
        say(f"{number} differ and are accepted: {why}")
    if asked.shrink:
        different = smallest(different, asked.shrink)
    if different:
        write(asked.failures, different)
        say(f"{len(different)} differ without a reason; try again with --replay {asked.failures}")
    return 1 if different else 0


def smallest(different: list[Verdict], kinds: int) -> list[Verdict]:
    """Return one shrunk case for each kind of difference."""
    shortest = sorted(different, key=lambda one: len(json.dumps(one.case)))
    by_kind = {signature(one): one for one in reversed(shortest)}
    shrunk = [shrink(one, lambda cases: list(verdicts(cases))) for one in [*by_kind.values()][:kinds]]
    for one in shrunk:
        say(f"{one.difference}\n  {json.dumps(one.case)}")
    return shrunk


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: random"
    )
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--feature", choices=sorted(TOPICS), default="", help="let every case be about this")
    parser.add_argument("--shrink", type=int, default=0, metavar="N", help="shrink N kinds of difference")
    parser.add_argument("--replay", type=Path, help="cases from a file, one per line, instead of random ones")
    parser.add_argument("--failures", type=Path, default=Path("/tmp/oracle-failures.jsonl"))
    asked = parser.parse_args()
    if not asked.replay:
        say(f"seed {asked.seed}, {asked.cases} cases{f' about {asked.feature}' if asked.feature else ''}")
    return asked


def generate(seed: int, cases: int, feature: str) -> Iterator[dict]:
    return (make_case(seed, number, feature) for number in range(cases))


def read(path: Path) -> list[dict]:
    """Return the cases of a file: bare ones, or as this command writes them."""
    lines = [json.loads(line) for line in path.read_text().splitlines() if line.strip()]
    return [line.get("case", line) for line in lines]


def write(path: Path, different: Iterable[Verdict]) -> None:
    with path.open("w") as file:
        for one in different:
            line = {
                "difference": one.difference,
                "case": one.case,
                "upstream": one.upstream,
                "ours": one.ours,
            }
            file.write(json.dumps(line) + "\n")


def show(counts: dict[str, Counter]) -> None:
    say(f"{'':24}" + "".join(f"{name:>14}" for name in ("cases", *OUTCOMES)))
    for feature, by_outcome in sorted(counts.items(), key=lambda one: -one[1].total()):
        numbers = (by_outcome.total(), *(by_outcome[name] for name in OUTCOMES))
        say(f"{feature:24}" + "".join(f"{number:14}" for number in numbers))


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
