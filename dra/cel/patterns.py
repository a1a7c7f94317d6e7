"""Regular expressions: RE2, as upstream, so that no pattern can take more than linear time."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from dra.cel.values import Failure

KEPT = 512
REASONS = {  # RE2's words and Go's
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
}
OPTIONS = re2.Options()
OPTIONS.log_errors = False


@lru_cache(maxsize=KEPT)
def compiled(pattern: str) -> Any:
    """Return a pattern. Raise `re2.error` if it is none."""
    return re2.compile(pattern, OPTIONS)


def use(pattern: str) -> Any:
    """Return a pattern. Raise `Failure` if it is none."""
    try:
        return compiled(pattern)
    except re2.error as error:
        reason, _, part = error.args[0].decode().rpartition(": ")
        raise Failure(f"error parsing regexp: {REASONS.get(reason, reason)}: `{part}`") from error


def find(text: str, pattern: str) -> str:
    found = use(pattern).search(text)
    return found[0] if found else ""


def find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    """Return the matches, at most `limit` of them; all if it is negative."""
    found: list[str] = []
    last = -1  # Go skips an empty match that touches the match before it
    for match in use(pattern).finditer(text):
        if limit >= 0 and len(found) >= limit:
            break
        if match.start() == match.end() == last:
            continue
        found.append(match[0])
        last = match.end()
    return found
