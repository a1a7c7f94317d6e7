"""Whether a request would be accepted, and what it would get: devices, quota, budget and policy in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from claims.quotas.quota_usage import QuotaLine
from claims.requests.budget_check import BudgetLine
from core.text import counted
from dra.match import Preview

OVER_BUDGET = "Over budget"


class Outcome(StrEnum):
    """Of a request that is sent now: refused, or accepted with what its pods would meet."""

    REFUSED = "refused"
    FITS = "fits"
    WAITS = "waits"  # until devices are free
    NEVER = "never"  # even with every device free
    UNKNOWN = "unknown"


LOOK = {
    Outcome.REFUSED: ("bad", "alert-circle"),
    Outcome.FITS: ("held", "circle-check"),
    Outcome.WAITS: ("wait", "clock"),
    Outcome.NEVER: ("bad", "minus"),
    Outcome.UNKNOWN: ("unknown", "help"),
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """`label` is what stands in the head, such as "Over quota by 4 devices"; `sentence` is the next step."""

    outcome: Outcome
    label: str
    sentence: str = ""

    @property
    def accepted(self) -> bool:
        return self.outcome is not Outcome.REFUSED

    @property
    def fits(self) -> bool:
        return self.outcome is Outcome.FITS

    @property
    def family(self) -> str:
        return LOOK[self.outcome][0]

    @property
    def icon(self) -> str:
        return LOOK[self.outcome][1]

    def __str__(self) -> str:
        return f"{self.label}. {self.sentence}".strip()


def verdict_on(
    result: Preview,
    place: object,
    *,
    quota: Sequence[QuotaLine] = (),
    budgets: Sequence[BudgetLine] = (),
    problems: Sequence[str] = (),
    could_fit: bool | None = None,
) -> Verdict:
    """
    Return the verdict on a request with this match in a cluster, `place`. What refuses it comes first:
    `problems` are those of the plan and of permissions. `could_fit` is whether it fits with all devices free.
    """
    if problems:
        return Verdict(Outcome.REFUSED, "Cannot be sent", problems[0])
    if refusing := [line for line in quota if not line.fits]:
        line = max(refusing, key=lambda line: line.lacks)
        if line.usage is None and not line.request_query:
            return Verdict(Outcome.REFUSED, "Guaranteed to other teams", line.sentence)
        label = f"No quota for {line.label}"
        if line.usage is not None:
            label = f"Over quota by {counted(line.lacks, 'claim' if line.label == 'claims' else 'device')}"
        return Verdict(Outcome.REFUSED, label, "Request fewer, or request more quota.")
    if blocking := [line for line in budgets if line.blocks]:
        return Verdict(Outcome.REFUSED, OVER_BUDGET, blocking[0].sentence)
    if result.fits:
        return Verdict(Outcome.FITS, f"Fits now in {place}")
    if could_fit is False:
        sentence = f"Even with every device of {place} free it would not fit."
        return Verdict(Outcome.NEVER, f"Never fits in {place}", sentence)
    if result.nodes_that_fit is None:
        return Verdict(Outcome.UNKNOWN, "Unknown", result.problem)
    return Verdict(Outcome.WAITS, "Does not fit now", "Pods will wait until devices are free.")
