"""Expressions that are stored in a cluster, compiled as its scheduler compiles them."""

from __future__ import annotations

from functools import lru_cache

from dra.cel import cost
from dra.cel.environment import checked, environment
from dra.cel.errors import CelError
from dra.cel.program import program
from dra.cel.reading import reading
from dra.cel.selector import KEPT, Selector
from dra.features import STORED


def compile_stored(expression: str) -> Selector:
    """
    Compile an expression whatever it may cost, and whatever the cluster has switched off since.

    Raise `CompileError` if Kubernetes 1.37 does not understand it, `NotPreviewable` if it may be right but
    cannot be run here.
    """
    outcome = _compiled(expression)
    if isinstance(outcome, Selector):
        return outcome
    kind, message = outcome
    raise kind(message)


@lru_cache(maxsize=KEPT)
def _compiled(expression: str) -> Selector | tuple[type[CelError], str]:
    known = environment(STORED)
    try:
        tree = checked(expression, known)
        return Selector(expression, cost.estimate(tree, known.parts), reading(tree), program(tree))
    except CelError as error:
        return type(error), error.message
