"""
A threshold that leaves devices out by a rounding: an “80 GB” H100 publishes 81559Mi, which is 79.6 GiB.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from dra.cel.idioms import Comparison, comparisons, quoted, replaced
from dra.facts import Malformed, Ref, value
from dra.lint import rewrite
from dra.lint.passage import Passage, with_other
from dra.lint.population import Groups
from dra.lint.report import Code, Finding, Severity
from dra.lint.selectors import Checker, devices
from dra.quantity import Quantity, QuantityError

MARGIN = 20  # a value within 1/20 below the threshold was meant


def just_missed(checker: Checker, made: Passage) -> Iterator[Finding]:
    """Yield a finding for each threshold of the request that devices miss by at most 5 %."""
    for stage in made.of_request:
        for asked, ref, least in _thresholds(stage.expression) if stage.judged else ():
            nearest = _nearest(checker, stage.reaching & ~stage.accepted, ref, least)
            if nearest is None:
                continue
            text = rewrite.below(nearest)
            lower = replaced(stage.expression, {asked.literal: quoted(text)})
            judged = checker.population.try_out(lower)
            gained = with_other(made, stage, judged) & ~made.accepted if judged else 0
            if not gained:
                continue
            number = checker.population.count(gained)
            message = (
                f"{stage.label} asks for {ref[2]} of at least {least}; {devices(number)} that would match "
                f"otherwise {'publishes' if number == 1 else 'publish'} {nearest}{_in_gib(nearest)}, such as "
                f"{next(checker.population.devices(gained))}. {text} leaves head-room."
            )
            fix = checker.fix(stage, lower)
            yield checker.found(Code.JUST_MISSED, Severity.WARNING, message, stage.path, fix)


def _thresholds(expression: str) -> Iterator[tuple[Comparison, Ref, Quantity]]:
    for asked in comparisons(expression):
        if asked.ref and asked.kind == "quantity" and asked.sign in (">=", ">"):
            with suppress(QuantityError):
                yield asked, asked.ref, Quantity.parse(asked.wanted)


def _nearest(checker: Checker, groups: Groups, ref: Ref, least: Quantity) -> Quantity | None:
    """Return the largest amount below the threshold among the groups, if it is close."""
    amounts = []
    for number in checker.population.numbers(groups):
        try:
            seen = value(checker.population.samples[number], ref)
        except Malformed:
            continue
        if isinstance(seen, Quantity) and seen < least:
            amounts.append(seen)
    nearest = max(amounts, default=None)
    close = nearest is not None and nearest.nano * (MARGIN + 1) >= least.nano * MARGIN
    return nearest if close else None


def _in_gib(amount: Quantity) -> str:
    return f" ({amount.bytes / rewrite.GIB:.2f} GiB)" if amount.bytes >= rewrite.GIB else ""
