"""Differences that are accepted, and why. Everything else is an error of ours."""

from collections.abc import Callable, Mapping

from tests.oracle.compare import GIVEN_UP, outcome
from tests.oracle.run import Verdict

MANY_STEPS = 10_000  # of upstream's search: beyond that ours may give up


def _too_long(verdict: Verdict) -> bool:
    upstream, ours = verdict.upstream, verdict.ours
    return GIVEN_UP in (outcome(upstream), outcome(ours)) and bool(
        upstream.get("timeout") or upstream["steps"] > MANY_STEPS
    )


# why → whether a difference is of that kind
KNOWN: Mapping[str, Callable[[Verdict], bool]] = {
    f"the search takes upstream more than {MANY_STEPS} steps, or too long": _too_long,
}


def why_accepted(verdict: Verdict) -> str:
    """Return why a difference is accepted; empty if it is not."""
    return next((why for why, applies in KNOWN.items() if applies(verdict)), "")
