"""Logic, comparisons and alternatives at run time: what does not simply take the values of all its parts."""

from __future__ import annotations

from typing import Any

from dra.cel.access import Run
from dra.cel.values import Failure, Optional, equal, is_equal, no_overload


def logical(terms: list[Run], *, stop: bool) -> Run:
    """Return && or ||: a term that decides makes up for one that fails, before it or after."""

    def run(frame: list[Any]) -> bool:
        failure: Failure | None = None
        for term in terms:
            try:
                value = term(frame)
            except Failure as failed:
                failure = failure or failed
                continue
            if type(value) is bool and value is stop:
                return stop
            if type(value) is not bool:
                failure = failure or no_overload()
        if failure:
            raise failure
        return not stop

    return run


def conditional(condition: Run, yes: Run, no: Run) -> Run:
    def run(frame: list[Any]) -> Any:
        value = condition(frame)
        if type(value) is not bool:
            raise no_overload()
        return yes(frame) if value else no(frame)

    return run


def not_strictly_false(inner: Run) -> Run:
    def run(frame: list[Any]) -> bool:
        try:
            return inner(frame) is not False
        except Failure:
            return True

    return run


def otherwise(first: Run, other: Run, function: str) -> Run:
    unwrap = function == "orValue"

    def run(frame: list[Any]) -> Any:
        found = first(frame)
        if type(found) is not Optional:
            raise no_overload()
        if not found.present:
            return other(frame)
        return found.value if unwrap else found

    return run


def comparison(one: Run, other: Run, *, same: bool) -> Run:
    if same:
        return lambda frame: equal(one(frame), other(frame))
    return lambda frame: not is_equal(one(frame), other(frame))  # values that cannot be compared differ
