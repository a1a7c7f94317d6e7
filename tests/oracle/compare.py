"""Whether two answers say the same."""

from typing import Any

# What a case comes to, on either side.
ALLOCATED, DOES_NOT_FIT, ERROR, GIVEN_UP, CRASH = "allocated", "does not fit", "error", "given up", "crash"


def outcome(answer: dict) -> str:
    """Return what an answer of either side comes to. Upstream's panic is an error too."""
    if answer.get("crash"):
        return CRASH
    if answer.get("gaveUp") or answer.get("timeout"):
        return GIVEN_UP
    if answer.get("error") is not None or answer.get("panic"):
        return ERROR
    return DOES_NOT_FIT if answer.get("results") is None else ALLOCATED


def difference(upstream: dict, ours: dict) -> str:
    """
    Return in one line how our answer differs; empty if it does not. Wording of errors is our own.

    Where upstream itself answers now this, now that, ours has to be one of its answers.
    """
    found = _difference(upstream, ours)
    return found if all(_difference(other, ours) for other in upstream.get("also", ())) else ""


def _difference(upstream: dict, ours: dict) -> str:
    theirs, mine = outcome(upstream), outcome(ours)
    if theirs != mine:
        return f"upstream: {_told(upstream)}; ours: {_told(ours)}"
    if theirs == ALLOCATED:
        return _first_difference(plain(upstream["results"]), plain(ours["results"]), "results")
    return ""


def plain(value: Any) -> Any:
    """Drop what has no meaning (nothing, empty, absent are one), and the value of random share IDs."""
    if isinstance(value, dict):
        kept = {key: plain(one) for key, one in value.items()}
        if "shareID" in kept:
            kept["shareID"] = "random"
        return {key: one for key, one in kept.items() if one not in (None, [], {})}
    if isinstance(value, list):
        return [plain(one) for one in value]
    return value


def _told(answer: dict) -> str:
    what = answer.get("error") or answer.get("panic") or answer.get("crash")
    return outcome(answer) + (f" ({what})" if what else "")


def _first_difference(left: Any, right: Any, path: str) -> str:
    if isinstance(left, dict) and isinstance(right, dict):
        for key in sorted(left.keys() | right.keys()):
            if found := _first_difference(left.get(key), right.get(key), f"{path}.{key}"):
                return found
        return ""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for place, (one, other) in enumerate(zip(left, right, strict=True)):
            if found := _first_difference(one, other, f"{path}[{place}]"):
                return found
        return ""
    same = left == right and type(left) is type(right)
    return "" if same else f"{path}: upstream {left!r}, ours {right!r}"
