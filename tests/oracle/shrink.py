"""A case made as small as it gets while the two sides still differ in the same way."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.oracle.run import Verdict

SKELETON = ("name", "metadata", "spec", "driver", "pool", "generation", "resourceSliceCount")

type Path = tuple[str | int, ...]
type Judge = Callable[[Sequence[dict]], Sequence[Verdict]]


def shrink(verdict: Verdict, judge: Judge) -> Verdict:
    """
    Take away whatever the difference does not need.

    `judge` sends cases through both sides; many at a time, since upstream costs a process per call.
    """
    kind = signature(verdict)

    def same(cases: Sequence[dict]) -> list[Verdict | None]:
        return [one if signature(one) == kind else None for one in judge(cases)]

    while True:
        paths = list(removable(verdict.case))
        each = same([without(verdict.case, [path]) for path in paths])
        kept = [path for path, one in zip(paths, each, strict=True) if one]
        found = None
        while kept and not found:  # all that can go at once; if that is too much, half of it
            found = same([without(verdict.case, kept)])[0]
            kept = kept[: len(kept) // 2]
        if not found:
            return verdict
        verdict = found


def signature(verdict: Verdict) -> str:
    """Return what kind of difference it is: messages and numbers left out, so that shrinking keeps it."""
    told = re.sub(r"\([^;]*\)|'[^']*'|\d+", "", verdict.difference)
    return re.sub(r"upstream [^:].*", "", told) if told.startswith("results") else told


def removable(value: dict | list, path: Path = ()) -> Iterator[Path]:
    items = enumerate(value) if isinstance(value, list) else value.items()
    for key, one in items:
        if key not in SKELETON:
            yield (*path, key)
        if isinstance(one, dict | list):
            yield from removable(one, (*path, key))


def without(case: dict, paths: Sequence[Path]) -> dict:
    """Return a copy that lacks what the paths name. A pool that loses a slice counts one less."""
    smaller = json.loads(json.dumps(case))  # no copy.deepcopy: parts that are one object must come apart
    # Inner things and later places first, so that the other paths stay true.
    for path in sorted(paths, key=lambda one: (-len(one), -one[-1] if isinstance(one[-1], int) else 0)):
        holder: Any = smaller
        for key in path[:-1]:
            holder = holder[key]
        gone = holder.pop(path[-1])
        if path[0] == "slices" and len(path) == 2:
            _count_less(smaller["slices"], gone["spec"])
    return smaller


def _count_less(slices: list[dict], gone: dict) -> None:
    pool = gone["pool"]
    for one in slices:
        other = one["spec"]["pool"]
        same = (one["spec"]["driver"], other["name"], other["generation"])
        if same == (gone["driver"], pool["name"], pool["generation"]):
            other["resourceSliceCount"] = other.get("resourceSliceCount", 0) - 1
