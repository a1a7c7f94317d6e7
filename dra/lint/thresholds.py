"""
A threshold that leaves devices out by a rounding: an “80 GB” H100 publishes 81559Mi, which is 79.6 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator

from dra.facts import Malformed, value
from dra.lint import rewrite
from dra.lint.passage import Passage, Stage, with_other
from dra.lint.population import Groups
from dra.lint.report import Code, Finding, Severity
from dra.lint.rewrite import Threshold
from dra.lint.selectors import Checker, devices
from dra.quantity import Quantity

MARGIN = 20  # a value within 1/20 below the threshold was meant


def just_missed(checker: Checker, made: Passage) -> Iterator[Finding]:
    """Yield a finding for each threshold of the request that devices miss by at most 5 %."""
    for stage in made.of_request:
        for threshold in rewrite.thresholds(stage.expression) if stage.judged else ():
            nearest = _nearest(checker, stage.reaching & ~stage.accepted, threshold)
            if nearest is None:
                continue
            judged = checker.population.try_out(threshold.at(rewrite.below(nearest)))
            gained = with_other(made, stage, judged) & ~made.accepted if judged else 0
            if gained:
                yield _finding(checker, stage, threshold, nearest, gained)


def _nearest(checker: Checker, groups: Groups, threshold: Threshold) -> Quantity | None:
    """Return the largest amount below the threshold among the groups, if it is close."""
    amounts = []
    for number in checker.population.numbers(groups):
        try:
            seen = value(checker.population.samples[number], threshold.ref)
        except Malformed:
            continue
        if isinstance(seen, Quantity) and seen < threshold.least:
            amounts.append(seen)
    nearest = max(amounts, default=None)
    close = nearest is not None and nearest.nano * (MARGIN + 1) >= threshold.least.nano * MARGIN
    return nearest if close else None


def _finding(
    checker: Checker, stage: Stage, threshold: Threshold, nearest: Quantity, gained: Groups
) -> Finding:
    population, text = checker.population, rewrite.below(nearest)
    number = population.count(gained)
    verb = "publishes" if number == 1 else "publish"
    message = (
        f"{stage.label} asks for {threshold.ref[2]} of at least {threshold.least}; {devices(number)} that "
        f"would match otherwise {verb} {nearest}{_in_gib(nearest)}, such as "
        f"{next(population.devices(gained))}. {text} leaves head-room."
    )
    fix = checker.fix(stage, threshold.at(text))
    return checker.found(Code.JUST_MISSED, Severity.WARNING, message, stage.path, fix)


def _in_gib(amount: Quantity) -> str:
    return f" ({amount.bytes / rewrite.GIB:.2f} GiB)" if amount.bytes >= rewrite.GIB else ""
