"""The steps of a match in words for people: what each asks, what is left, what fell out and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Page, Paginator
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.request.dropped import PER_PAGE, devices_of
from claims.views.words import condition_words, drop_words, gain_words, relief_words, together_words
from dra.help import Relief
from dra.match import Cause, Condition, Dropped, Kind, Preview, Step, condition, dropped
from dra.objects import Json
from dra.picture import Picture
from inventory.masking import Holder, Person
from inventory.models import Cluster, Device


@dataclass(frozen=True)
class FunnelRow:
    """
    One step; `number` is its place in the preview. `of` is the count of the first step, for the bar; a step
    that counts nodes has no bar.
    """

    number: int
    count: int
    words: str
    code: str  # the selector itself, where words are not enough
    dropped: str
    of: int
    is_last: bool

    @property
    def has_bar(self) -> bool:
        return not self.is_last


@dataclass(frozen=True)
class DroppedRow:
    """A device that a step drops. `device` is None where the mirror has lost it since."""

    name: str
    node: str
    device: Device | None
    words: str
    failing: bool  # a selector could not be evaluated on it
    holder: Holder | None


@dataclass(frozen=True)
class DroppedPage:
    """Devices that one step drops; the page numbers are those of all of them."""

    step: FunnelRow
    rows: list[DroppedRow]
    page: Page[int]

    @property
    def total(self) -> int:
        return self.page.paginator.count

    @property
    def failing(self) -> list[DroppedRow]:
        return [row for row in self.rows if row.failing]

    @property
    def plain(self) -> list[DroppedRow]:
        return [row for row in self.rows if not row.failing]


@dataclass(frozen=True)
class HelpRow:
    """One thing less asked for, and what that brings."""

    words: str
    gain: str
    fits: bool


def helps_of(reliefs: Sequence[Relief]) -> list[HelpRow]:
    several = len({relief.request for relief in reliefs if relief.request}) > 1
    rows = []
    for relief in reliefs:
        words = relief_words(relief)
        named = f"{relief.request}: {words}" if several and relief.request else words
        rows.append(HelpRow(named, gain_words(relief), relief.fits))
    return rows


def funnel_of(match: Preview) -> list[FunnelRow]:
    several = len({step.request for step in match.steps if step.request}) > 1
    most = match.steps[0].count if match.steps else 0
    rows = []
    for number, step in enumerate(match.steps):
        read = condition(step.detail) if step.kind == Kind.SELECTOR else None
        rows.append(
            FunnelRow(
                number=number,
                count=step.count,
                words=words_of(step, match, read, several=several),
                code=step.detail if read and not condition_words(read) else "",
                dropped=dropped_of(step, match),
                of=most,
                is_last=step.kind == Kind.NODES,
            )
        )
    return rows


def words_of(step: Step, match: Preview, read: Condition | None, *, several: bool) -> str:
    match step.kind:
        case Kind.TOTAL:
            words = ngettext("device in the cluster", "devices in the cluster", step.count)
        case Kind.IN_CLASS:
            words = _("in class %(name)s") % {"name": step.detail}
        case Kind.SELECTOR:
            words = (condition_words(read) if read else "") or _("meet the condition")
        case Kind.UNTAINTED:
            words = _("not tainted, or tolerated")
        case Kind.FREE:
            words = _("free now")
        case _:
            words = together_words(match.together, step.count)
    return f"{step.request}: {words}" if several and step.request else words


def dropped_of(step: Step, match: Preview) -> str:
    if step.kind == Kind.NODES:
        return _("others have no room") if match.free and not match.fits else ""
    if not step.dropped or step.kind == Kind.TOTAL:
        return ""
    values = {"n": step.dropped}
    match step.kind:
        case Kind.UNTAINTED:
            return ngettext("%(n)d is tainted", "%(n)d are tainted", step.dropped) % values
        case Kind.FREE:
            return ngettext("%(n)d is held", "%(n)d are held", step.dropped) % values
    return ngettext("%(n)d left out", "%(n)d left out", step.dropped) % values


def dropped_page(
    person: Person, cluster: Cluster, picture: Picture, spec: Json, step: FunnelRow, page: str = "1"
) -> DroppedPage:
    """Return one page of the devices that a step drops, holders masked for `person`; in a few queries."""
    wanted = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    found = dropped(picture, spec, step.number, offset=max(wanted - 1, 0) * PER_PAGE, limit=PER_PAGE)
    shown = Paginator(range(found.total), PER_PAGE).get_page(wanted)
    if shown.number != wanted:  # beyond the last one
        offset = (shown.number - 1) * PER_PAGE
        found = dropped(picture, spec, step.number, offset=offset, limit=PER_PAGE)
    return DroppedPage(step, rows_of(person, cluster, found), shown)


def rows_of(person: Person, cluster: Cluster, found: Dropped) -> list[DroppedRow]:
    known = devices_of(person, cluster, found.drops)
    rows = []
    for drop in found.drops:
        device = known.get(drop.device.key)
        holder = device.holder if device and drop.holder else None
        rows.append(
            DroppedRow(
                name=drop.device.name,
                node=drop.device.node_name or drop.device.pool,
                device=device,
                words=drop_words(drop) if holder or drop.cause != Cause.HELD else _("held"),
                failing=drop.cause == Cause.ERROR,
                holder=holder,
            )
        )
    return rows
