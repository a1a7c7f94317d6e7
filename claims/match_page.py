"""The steps of a match as rows of a page: words for conditions, and the devices that each step leaves out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Page, Paginator

from core.text import counted
from dra.cel.idioms import conjuncts
from dra.cluster_snapshot import ClusterSnapshot
from dra.help import Relaxation, RelaxationKind
from dra.match import (
    ConditionDifference,
    Drop,
    DropCause,
    Dropped,
    FunnelStep,
    NodeRequirement,
    Preview,
    SelectorCondition,
    StepKind,
    condition,
    dropped,
    taint_text,
)
from dra.match.conditions import in_words
from dra.objects import DeviceRequest, Json, alternatives, requests
from inventory.holders import Person, name_holders
from inventory.models import Cluster, Device
from inventory.states import Holder

PER_PAGE = 50


def devices_of(person: Person, cluster: Cluster, drops: Sequence[Drop]) -> dict[tuple[str, str, str], Device]:
    """Return the rows of these devices by their key, each with its holder."""
    keys = {drop.device.key for drop in drops}
    rows = Device.objects.present().filter(
        cluster=cluster, pool__in={pool for _driver, pool, _name in keys}, name__in={key[2] for key in keys}
    )
    listed = rows.select_related("held_by").defer("attributes", "capacity", "counters", "held_by__raw")
    found = {(row.driver, row.pool, row.name): row for row in listed}
    wanted = {key: row for key, row in found.items() if key in keys}
    name_holders(person, wanted.values())
    return wanted


# Attributes that everybody speaks of by another name; others are called as the driver calls them.
NAMES = {
    "productName": "product",
    "memory": "memory",
    "cudaComputeCapability": "compute capability",
    "driverVersion": "driver version",
    "profile": "slice",
    "type": "type",
    "resource.kubernetes.io/pcieRoot": "PCIe root",
    "resource.kubernetes.io/numaNode": "NUMA node",
    "driver": "driver",
}
DIFFERENCES = {
    ">=": "%(name)s %(seen)s < %(wanted)s",
    "<=": "%(name)s %(seen)s > %(wanted)s",
    ">": "%(name)s %(seen)s ≤ %(wanted)s",
    "<": "%(name)s %(seen)s ≥ %(wanted)s",
    "==": "%(name)s %(seen)s, not %(wanted)s",
    "!=": "%(name)s is %(seen)s",
    "begins": "%(name)s %(seen)s, not %(wanted)s…",
    "ends": "%(name)s %(seen)s, not …%(wanted)s",
    "contains": "%(name)s %(seen)s, without %(wanted)s",
    "in": "%(name)s %(seen)s, none of %(wanted)s",
    "missing": "%(name)s is not published",
    "": "does not meet the selector: %(seen)s",
}
CONDITIONS = {
    ">=": "%(name)s ≥ %(wanted)s",
    "<=": "%(name)s ≤ %(wanted)s",
    ">": "%(name)s > %(wanted)s",
    "<": "%(name)s < %(wanted)s",
    "==": "%(name)s %(wanted)s",
    "!=": "%(name)s other than %(wanted)s",
    "begins": "%(name)s begins with %(wanted)s",
    "ends": "%(name)s ends with %(wanted)s",
    "contains": "%(name)s contains %(wanted)s",
    "in": "%(name)s one of %(wanted)s",
}


def name_of(attribute: str) -> str:
    """Return how people call an attribute; of one that nobody knows the name without its domain."""
    return str(NAMES.get(attribute) or attribute.rpartition("/")[2])


def condition_words(read: SelectorCondition) -> str:
    """Return "memory ≥ 79 GiB"; "" for CEL of no usual form."""
    if not read.sign:
        return ""
    if read.name == "productName" and read.sign == "==":
        return read.wanted  # says itself what it is
    return CONDITIONS[read.sign] % {"name": name_of(read.name), "wanted": in_words(read.wanted)}


def condition_of(expression: str) -> str:
    """Return all conditions of a selector in words, "" if one of them is of no usual form."""
    words = [condition_words(condition(part)) for part in conjuncts(expression)]
    return ", ".join(words) if all(words) else ""


def asks_in_words(spec: Json) -> str:
    """
    Return everything that a claim of `spec` takes, joined by "and"; ways to meet one request are joined by
    "or", the preferred one first. Says a number only where it is not 1.
    """
    parts = Counter(_request_words(request) for request in requests(spec))
    return ", and ".join(part if count == 1 else f"{count} × ({part})" for part, count in parts.items())


def _request_words(request: Json) -> str:
    ways = list(dict.fromkeys(_ask_words(ask) for ask in alternatives(request)))
    if len(ways) < 2:
        return "".join(ways)
    return f"either {', or '.join(ways)}"


def _ask_words(ask: DeviceRequest) -> str:
    conditions = [condition_of(text) or "a CEL selector" for text in ask.expressions]
    return ", ".join(
        [
            (
                f"every {ask.class_name} of a node"
                if ask.all
                else (f"{ask.class_name}" if ask.count == 1 else f"{ask.count} × {ask.class_name}")
            ),
            *conditions,
        ]
    )


def difference_words(found: ConditionDifference | None) -> str:
    if found is None or (not found.sign and not found.seen):
        return "does not meet the selector"
    values = {"name": name_of(found.name), "seen": found.seen, "wanted": found.wanted}
    return DIFFERENCES[found.sign] % values


def drop_words(drop: Drop) -> str:
    """Say why a device does not come into question, but not who holds it."""
    match drop.cause:
        case DropCause.CLASS | DropCause.SELECTOR:
            return difference_words(drop.difference)
        case DropCause.ERROR:
            return f"could not be evaluated: {drop.message}"
        case DropCause.TAINT if drop.taint:
            return f"tainted {taint_text(drop.taint)}, not tolerated"
        case DropCause.HELD:
            return "held by"
        case DropCause.USED_UP:
            return "what it shares with other devices or claims is used up"
    return (
        (f"its node has no room for the whole claim; {drop.free_beside} device that matches is free there")
        if drop.free_beside == 1
        else (
            f"its node has no room for the whole claim; {drop.free_beside} devices that match are free there"
        )
    )


def together_words(together: NodeRequirement | None, nodes: int) -> str:
    """Return "nodes could take 2 on one PCIe root", to follow the number of nodes."""
    if together is None:
        return "node has room for one claim" if nodes == 1 else "nodes have room for one claim"
    said = f"node could take {together.devices}" if nodes == 1 else f"nodes could take {together.devices}"
    same = [f"on one {name_of(name)}" for name in together.same]
    distinct = [f"each of another {name_of(name)}" for name in together.distinct]
    return " ".join([said, *same, *distinct])


def relaxation_words(relaxation: Relaxation) -> str:
    """Say what would be asked for less, as "39 GiB instead of 40 GiB of memory"."""
    match relaxation.kind:
        case RelaxationKind.CONDITION if relaxation.condition:
            return f"Without “{condition_words(relaxation.condition) or relaxation.condition.text}”"
        case RelaxationKind.THRESHOLD if relaxation.condition:
            proposed, current = in_words(relaxation.proposed), in_words(relaxation.current)
            if proposed == current:
                proposed, current = relaxation.proposed, relaxation.current
            return f"With {name_of(relaxation.condition.name)} {proposed} instead of {current}"  # fmt: skip
        case RelaxationKind.COUNT:
            return (
                f"With {relaxation.proposed} device instead of {relaxation.current}"
                if int(relaxation.proposed or 1) == 1
                else f"With {relaxation.proposed} devices instead of {relaxation.current}"
            )
        case RelaxationKind.CONSTRAINT:
            return f"Without the constraint on {name_of(relaxation.constraint)}"
        case _ if relaxation.taint:
            return f"Tolerating {taint_text(relaxation.taint)}"
    return ""


def gain_words(relaxation: Relaxation) -> str:
    """Say what that would bring."""
    if relaxation.fits:
        return "fits now"
    if relaxation.more_devices:
        return f"{counted(relaxation.more_devices, 'more', 'more')} free"
    return f"{counted(relaxation.more_nodes, 'more node')} with room"


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


def helps_of(relaxations: Sequence[Relaxation]) -> list[HelpRow]:
    several = len({relaxation.request for relaxation in relaxations if relaxation.request}) > 1
    rows = []
    for relaxation in relaxations:
        words = relaxation_words(relaxation)
        named = f"{relaxation.request}: {words}" if several and relaxation.request else words
        rows.append(HelpRow(named, gain_words(relaxation), relaxation.fits))
    return rows


def funnel_of(match: Preview) -> list[FunnelRow]:
    several = len({step.request for step in match.steps if step.request}) > 1
    most = match.steps[0].count if match.steps else 0
    rows = []
    for number, step in enumerate(match.steps):
        read = condition(step.detail) if step.kind == StepKind.SELECTOR else None
        rows.append(
            FunnelRow(
                number=number,
                count=step.count,
                words=words_of(step, match, read, several=several),
                code=step.detail if read and not condition_words(read) else "",
                dropped=dropped_of(step, match),
                of=most,
                is_last=step.kind == StepKind.NODES,
            )
        )
    return rows


def words_of(step: FunnelStep, match: Preview, read: SelectorCondition | None, *, several: bool) -> str:
    match step.kind:
        case StepKind.TOTAL:
            words = "device in the cluster" if step.count == 1 else "devices in the cluster"
        case StepKind.IN_CLASS:
            words = f"in class {step.detail}"
        case StepKind.SELECTOR:
            words = (condition_words(read) if read else "") or "meet the condition"
        case StepKind.UNTAINTED:
            words = "not tainted, or tolerated"
        case StepKind.FREE:
            words = "free now"
        case _:
            words = together_words(match.together, step.count)
    return f"{step.request}: {words}" if several and step.request else words


def dropped_of(step: FunnelStep, match: Preview) -> str:
    if step.kind == StepKind.NODES:
        return "others have no room" if match.free and not match.fits else ""
    if not step.dropped or step.kind == StepKind.TOTAL:
        return ""
    match step.kind:
        case StepKind.UNTAINTED:
            return f"{counted(step.dropped, 'is', 'are')} tainted"
        case StepKind.FREE:
            return f"{counted(step.dropped, 'is', 'are')} held"
    return f"{counted(step.dropped, 'left', 'left')} out"


def dropped_page(
    person: Person, cluster: Cluster, snapshot: ClusterSnapshot, spec: Json, step: FunnelRow, page: str = "1"
) -> DroppedPage:
    """Return one page of the devices that a step drops, holders masked for `person`; in a few queries."""
    wanted = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    found = dropped(snapshot, spec, step.number, offset=max(wanted - 1, 0) * PER_PAGE, limit=PER_PAGE)
    shown = Paginator(range(found.total), PER_PAGE).get_page(wanted)
    if shown.number != wanted:  # beyond the last one
        offset = (shown.number - 1) * PER_PAGE
        found = dropped(snapshot, spec, step.number, offset=offset, limit=PER_PAGE)
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
                words=drop_words(drop) if holder or drop.cause != DropCause.HELD else "held",
                failing=drop.cause == DropCause.ERROR,
                holder=holder,
            )
        )
    return rows
