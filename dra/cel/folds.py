"""Comprehensions and bindings at run time (cel-go `interpreter/interpretable.go`, evalFold)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dra.cel.access import Run
from dra.cel.values import Failure, Map, type_of

UNSET: Any = object()


def binding(slot: int, result: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        frame[slot] = UNSET
        return result(frame)

    return run


def fold(
    over: Run, start: Run, condition: Run | None, step: Run, result: Run, slots: tuple[int, int, int]
) -> Run:
    """
    Go over a list or map. `slots` are those of the variables, 0 for no second one, and of the accumulator.

    A failing step leaves its failure in the accumulator: a later step of all() or exists() may do without it.
    """
    first, second, total = slots

    def run(frame: list[Any]) -> Any:
        found = over(frame)
        entries: Iterable[Any] = _pairs(found) if second else _singles(found)
        frame[total] = start(frame)
        for entry in entries:
            if second:
                frame[first], frame[second] = entry
            else:
                frame[first] = entry
            if condition and condition(frame) is False:
                break
            try:
                frame[total] = step(frame)
            except Failure as failure:
                frame[total] = failure
        return result(frame)

    return run


def _pairs(found: Any) -> Iterable[tuple[Any, Any]]:
    if type(found) is list:
        return enumerate(found)
    if isinstance(found, Map):
        return [(name, found.find(name)[0]) for name in found]
    raise Failure(f"unsupported comprehension range type: {type_of(found).name}")


def _singles(found: Any) -> Iterable[Any]:
    if type(found) is list or isinstance(found, Map):
        return found
    raise Failure(f"got '{type_of(found).name}', expected iterable type")
