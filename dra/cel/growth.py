"""
A bound on what an expression can build, worked out before it is compiled.

The API server refuses an expression by its estimated cost. The library here limits iterations and nesting,
but not the size of texts and lists: two or three nested `replace` calls, or bindings that add themselves to
themselves, would fill the memory of the process. Such an expression is left to the cluster.
"""

from __future__ import annotations

from itertools import pairwise

from dra.cel.scan import TOKEN

MOST = 50_000_000  # bytes that an expression may come to build
GROWING = frozenset(("replace", "join"))
LOOPING = frozenset(("map", "filter", "all", "exists", "exists_one", "existsOne"))


def too_large(expression: str) -> bool:
    """
    Say whether the expression could build more than `MOST` bytes.

    Each growing step multiplies what it is given by at most its share of the text of the expression.
    """
    words = [found[0] for found in TOKEN.finditer(expression) if found.lastgroup != "space"]
    called = [word for word, after in pairwise(words) if after == "("]
    steps = sum(word in GROWING for word in called)
    if "+" in words:
        steps += called.count("bind")
    if steps and not LOOPING.isdisjoint(called):
        steps += 1
    share = len(expression.encode()) / (steps + 1)
    return steps > 0 and share ** (steps + 1) > MOST
