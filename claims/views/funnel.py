"""The steps of a match in words for people: what each asks, what is left, what fell out."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.forms.selectors import exact_match, read_expressions
from dra.match import Kind, Preview, Step


@dataclass(frozen=True)
class FunnelRow:
    """`of` is the count of the first step, for the bar; a step that counts nodes has no bar."""

    count: int
    words: str
    code: str  # the selector itself, where words are not enough
    dropped: str
    of: int
    is_last: bool

    @property
    def has_bar(self) -> bool:
        return not self.is_last


def funnel_of(match: Preview) -> list[FunnelRow]:
    several = len({step.request for step in match.steps if step.request}) > 1
    most = match.steps[0].count if match.steps else 0
    return [
        FunnelRow(
            count=step.count,
            words=words_of(step, several=several),
            code=step.detail if step.kind == Kind.SELECTOR and not condition_of(step.detail) else "",
            dropped=dropped_of(step),
            of=most,
            is_last=step.kind == Kind.NODES,
        )
        for step in match.steps
    ]


def words_of(step: Step, *, several: bool) -> str:
    match step.kind:
        case Kind.TOTAL:
            words = ngettext("device in the cluster", "devices in the cluster", step.count)
        case Kind.IN_CLASS:
            words = _("in class %(name)s") % {"name": step.detail}
        case Kind.SELECTOR:
            words = condition_of(step.detail) or _("meet the selector")
        case Kind.UNTAINTED:
            words = _("not tainted, or tolerated")
        case Kind.FREE:
            words = _("free now")
        case _:
            words = ngettext("node has room for one claim", "nodes have room for one claim", step.count)
    return f"{step.request}: {words}" if several and step.request else words


def condition_of(expression: str) -> str:
    """Return "memory ≥ 79 GiB" for the idioms of the profile editor, "" for any other CEL."""
    fields = read_expressions([expression]) or {}
    if exact := exact_match(expression):
        name, value = exact
        return _("slice %(name)s") % {"name": value} if name == "profile" else value
    if "memory_gib" in fields:
        return _("memory ≥ %(n)d GiB") % {"n": fields["memory_gib"]}
    if "product" in fields:
        return _("product begins with %(name)s") % {"name": fields["product"]}
    if "compute" in fields:
        return _("compute capability ≥ %(version)s") % {"version": fields["compute"]}
    return ""


def dropped_of(step: Step) -> str:
    if not step.dropped or step.kind in (Kind.TOTAL, Kind.NODES):
        return ""
    values = {"n": step.dropped}
    match step.kind:
        case Kind.UNTAINTED:
            return ngettext("%(n)d is tainted", "%(n)d are tainted", step.dropped) % values
        case Kind.FREE:
            return ngettext("%(n)d is held", "%(n)d are held", step.dropped) % values
    return ngettext("%(n)d left out", "%(n)d left out", step.dropped) % values
