"""Which devices are left after each step, for one request or alternative."""

from __future__ import annotations

from dataclasses import dataclass, field

from dra.cel import CelError
from dra.cel.idioms import conjuncts
from dra.columns import Column, pack, unpack
from dra.match.report import Kind, Step
from dra.objects import Ask
from dra.picture import Picture


@dataclass(slots=True)
class Funnel:
    """
    Devices of the picture that pass. `failing` are those on which a selector fails, with what it says.

    `accepted` pass class and selectors, `open` are not tainted either, `free` can be taken now. `lost` are
    the devices that each of `steps` drops.
    """

    ask: Ask
    accepted: Column = 0
    open: Column = 0
    free: Column = 0
    failing: dict[int, CelError] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    lost: list[Column] = field(default_factory=list)


def funnel(picture: Picture, ask: Ask) -> Funnel:
    """
    Narrow the devices of the picture down to those that the request could take.

    Raise `KeyError` for an unknown class, and `CompileError` or `NotPreviewable` for an expression.
    """
    made = Funnel(ask)
    left = everything = picture.stock.all
    for expression in picture.class_expressions(ask.class_name):
        left = _pass(picture, expression, left, made)
    _step(made, f"in class {ask.class_name}", everything, left, Kind.IN_CLASS, ask.class_name)
    for expression in ask.expressions:
        after = _pass(picture, expression, left, made)
        for part, kept in _parts(picture, expression, left, after):
            _step(made, f"selected by {' '.join(part.split())}", left, kept, Kind.SELECTOR, part)
            left = kept
    made.accepted = left
    made.open = left & picture.untainted(ask.tolerations)
    _step(made, "not tainted, or tolerated", left, made.open, Kind.UNTAINTED)
    # Admin access looks at devices whoever has them.
    made.free = made.open if ask.admin else made.open & picture.available
    _step(made, "free now", made.open, made.free, Kind.FREE)
    return made


def parts_of(picture: Picture, expression: str) -> tuple[str, ...]:
    """
    Return the conditions of an expression.

    The expression as a whole is its only condition where one of the parts cannot be run on its own.
    """
    parts = conjuncts(expression)
    try:
        for part in parts:
            picture.verdicts(part)
    except CelError:
        return (expression,)
    return parts


def _parts(picture: Picture, expression: str, left: Column, after: Column) -> list[tuple[str, Column]]:
    """
    Share out among the conditions what the expression drops: `left` before, `after` it.

    A device goes where a condition is false for it. One on which the whole fails, for no condition is false,
    goes where a condition fails; the last takes what none of them explains.
    """
    parts = parts_of(picture, expression)
    if len(parts) == 1:
        return [(parts[0], after)]
    fails = _failing(picture, expression)
    kept, found = left, []
    for part in parts[:-1]:
        kept &= picture.verdicts(part).column | (_failing(picture, part) & ~fails) | after
        found.append((part, kept))
    return [*found, (parts[-1], after)]


def _failing(picture: Picture, expression: str) -> Column:
    failing = picture.verdicts(expression).failing
    if not failing:
        return 0
    return pack(place in failing for place in range(len(picture.devices)))


def _pass(picture: Picture, expression: str, left: Column, made: Funnel) -> Column:
    verdicts = picture.verdicts(expression)
    if verdicts.failing:
        # A device that an earlier selector turned down is not asked any more.
        asked = unpack(left, len(verdicts.flags))
        made.failing |= {place: error for place, error in verdicts.failing.items() if asked[place]}
    return left & verdicts.column


def _step(made: Funnel, label: str, before: Column, after: Column, kind: Kind, detail: str = "") -> None:
    count = after.bit_count()
    step = Step(label, count, before.bit_count() - count, kind, detail, made.ask.result_name)
    made.steps.append(step)
    made.lost.append(before ^ after)
