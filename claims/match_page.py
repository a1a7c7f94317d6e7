"""
A match in words: conditions, the steps of the funnel, the devices that each step excludes, and relaxations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.core.paginator import Page, Paginator

from core.text import counted
from dra.cel.idioms import conjuncts
from dra.cluster_snapshot import ClusterSnapshot
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
from dra.match.funnel import SENTENCES, in_words
from dra.objects import DeviceRequest, Json, alternatives, requests
from dra.relaxations import Relaxation, RelaxationKind
from inventory.holders import Person, name_holders
from inventory.models import Cluster, Device
from inventory.states import Holder

DEVICES_PER_PAGE = 50


def excluded_devices(
    person: Person, cluster: Cluster, drops: Sequence[Drop]
) -> dict[tuple[str, str, str], Device]:
    """Return the rows of the excluded devices by key, each with its holder as `person` may see it."""
    keys = {drop.device.key for drop in drops}
    rows = Device.objects.present().filter(
        cluster=cluster, pool__in={pool for _driver, pool, _name in keys}, name__in={key[2] for key in keys}
    )
    rows = rows.select_related("held_by").defer("attributes", "capacity", "counters", "held_by__raw")
    by_key = {(row.driver, row.pool, row.name): row for row in rows}
    devices = {key: row for key, row in by_key.items() if key in keys}
    name_holders(person, devices.values())
    return devices


# Common names of attributes; all others keep the name that their driver gives them.
ATTRIBUTE_LABELS = {
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
DIFFERENCE_TEXTS = SENTENCES | {"": "does not meet the selector: %(seen)s"}
CONDITION_TEXTS = {
    ">=": "%(name)s ≥ %(expected)s",
    "<=": "%(name)s ≤ %(expected)s",
    ">": "%(name)s > %(expected)s",
    "<": "%(name)s < %(expected)s",
    "==": "%(name)s %(expected)s",
    "!=": "%(name)s other than %(expected)s",
    "begins": "%(name)s begins with %(expected)s",
    "ends": "%(name)s ends with %(expected)s",
    "contains": "%(name)s contains %(expected)s",
    "in": "%(name)s one of %(expected)s",
}


def attribute_label(attribute: str) -> str:
    """Return the common name of an attribute, else its name without the domain."""
    return str(ATTRIBUTE_LABELS.get(attribute) or attribute.rpartition("/")[2])


def condition_text(selector_condition: SelectorCondition) -> str:
    """Return "memory ≥ 79 GiB"; "" for CEL of an unknown form."""
    if not selector_condition.sign:
        return ""
    if selector_condition.name == "productName" and selector_condition.sign == "==":
        return selector_condition.expected  # a product name needs no label
    return CONDITION_TEXTS[selector_condition.sign] % {
        "name": attribute_label(selector_condition.name),
        "expected": in_words(selector_condition.expected),
    }


def selector_text(expression: str) -> str:
    """Return all conditions of a selector in words, "" if one of them has an unknown form."""
    texts = [condition_text(condition(part)) for part in conjuncts(expression)]
    return ", ".join(texts) if all(texts) else ""


def spec_text(spec: Json) -> str:
    """
    Return the devices that a claim of `spec` requests, joined by "and".

    Alternatives of one request are joined by "or" in order of preference. The count 1 is not shown.
    """
    parts = Counter(request_text(request) for request in requests(spec))
    return ", and ".join(part if count == 1 else f"{count} × ({part})" for part, count in parts.items())


def request_text(request: Json) -> str:
    texts = list(dict.fromkeys(device_request_text(option) for option in alternatives(request)))
    return f"either {', or '.join(texts)}" if len(texts) > 1 else "".join(texts)


def device_request_text(ask: DeviceRequest) -> str:
    conditions = [selector_text(text) or "a CEL selector" for text in ask.expressions]
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


def difference_text(difference: ConditionDifference | None) -> str:
    if difference is None or (not difference.sign and not difference.seen):
        return "does not meet the selector"
    values = {
        "name": attribute_label(difference.name),
        "seen": difference.seen,
        "expected": difference.expected,
    }
    return DIFFERENCE_TEXTS[difference.sign] % values


def exclusion_text(drop: Drop) -> str:
    """Return why a device is excluded, without its holder."""
    match drop.cause:
        case DropCause.CLASS | DropCause.SELECTOR:
            return difference_text(drop.difference)
        case DropCause.ERROR:
            return f"the selector failed: {drop.message}"
        case DropCause.TAINT if drop.taint:
            return f"has the taint {taint_text(drop.taint)}, which is not tolerated"
        case DropCause.UNREACHABLE:
            return drop.message
        case DropCause.HELD:
            return "held by"
        case DropCause.USED_UP:
            return "its shared capacity is exhausted"
    free = counted(drop.free_beside, "matching device")
    return f"its node does not have enough devices for the claim; {free} free there"


def node_text(together: NodeRequirement | None, nodes: int) -> str:
    """Return "nodes can host 2 devices on one PCIe root", to follow the number of nodes."""
    hosts = f"{'node' if nodes == 1 else 'nodes'} can host"
    if together is None:
        return f"{hosts} this claim"
    same = [f"on one {attribute_label(name)}" for name in together.same]
    distinct = [f"each on another {attribute_label(name)}" for name in together.distinct]
    return " ".join([f"{hosts} {counted(together.devices, 'device')}", *same, *distinct])


def relaxation_text(relaxation: Relaxation) -> str:
    """Return a changed request, as "With memory 39 GiB instead of 40 GiB"."""
    match relaxation.kind:
        case RelaxationKind.CONDITION if relaxation.condition:
            return f"Without “{condition_text(relaxation.condition) or relaxation.condition.text}”"
        case RelaxationKind.THRESHOLD if relaxation.condition:
            proposed, current = in_words(relaxation.proposed), in_words(relaxation.current)
            if proposed == current:
                proposed, current = relaxation.proposed, relaxation.current
            attribute = attribute_label(relaxation.condition.name)
            return f"With {attribute} {proposed} instead of {current}"
        case RelaxationKind.COUNT:
            devices = "device" if int(relaxation.proposed or 1) == 1 else "devices"
            return f"With {relaxation.proposed} {devices} instead of {relaxation.current}"
        case RelaxationKind.CLAIMS:
            return f"With {counted(int(relaxation.proposed), 'pod')} instead of {relaxation.current}"
        case RelaxationKind.CONSTRAINT:
            return f"Without the constraint on {attribute_label(relaxation.constraint)}"
        case _ if relaxation.taint:
            return f"Tolerating {taint_text(relaxation.taint)}"
    return ""


def gain_text(relaxation: Relaxation) -> str:
    """Return what a relaxation gains."""
    if relaxation.fits:
        return "fits now"
    if relaxation.more_devices:
        return f"{relaxation.more_devices} more free"
    return f"{counted(relaxation.more_nodes, 'more node')} can host this claim"


@dataclass(frozen=True)
class FunnelRow:
    """
    One step of the funnel; `number` is its index in the preview.

    `of` is the count of the first step, for the bar. The last step counts nodes and has no bar.
    """

    number: int
    count: int
    words: str
    code: str  # the selector, if it cannot be put in words
    dropped: str
    of: int
    is_last: bool

    @property
    def has_bar(self) -> bool:
        return not self.is_last


@dataclass(frozen=True)
class DroppedRow:
    """An excluded device. `device` is None if the mirror no longer has it."""

    name: str
    node: str
    device: Device | None
    words: str
    failing: bool  # a selector failed on it
    holder: Holder | None


@dataclass(frozen=True)
class DroppedPage:
    """One page of the devices that a step excludes."""

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
class RelaxationRow:
    """
    A relaxation of the request, and what it gains; `devices` or `pods` is the number to request for it, or 0.
    """

    words: str
    gain: str
    fits: bool
    devices: int = 0
    pods: int = 0


def relaxation_rows(relaxations: Sequence[Relaxation], *, with_count: bool = False) -> list[RelaxationRow]:
    """Return a row for each; `with_count` is whether the reader can change the number of devices."""
    with_request_name = len({relaxation.request for relaxation in relaxations if relaxation.request}) > 1
    rows = []
    for relaxation in relaxations:
        words = relaxation_text(relaxation)
        named = f"{relaxation.request}: {words}" if with_request_name and relaxation.request else words
        is_count = with_count and relaxation.kind == RelaxationKind.COUNT
        devices = int(relaxation.proposed or 1) if is_count else 0
        pods = int(relaxation.proposed) if relaxation.kind == RelaxationKind.CLAIMS else 0
        rows.append(RelaxationRow(named, gain_text(relaxation), relaxation.fits, devices, pods))
    return rows


def funnel_rows(match: Preview) -> list[FunnelRow]:
    with_request_name = len({step.request for step in match.steps if step.request}) > 1
    most = match.steps[0].count if match.steps else 0
    rows = []
    for number, step in enumerate(match.steps):
        selector_condition = condition(step.detail) if step.kind == StepKind.SELECTOR else None
        rows.append(
            FunnelRow(
                number=number,
                count=step.count,
                words=step_text(step, match, selector_condition, with_request_name=with_request_name),
                code=step.detail if selector_condition and not condition_text(selector_condition) else "",
                dropped=excluded_text(step, match),
                of=most,
                is_last=step.kind == StepKind.NODES,
            )
        )
    return rows


def step_text(
    step: FunnelStep, match: Preview, selector_condition: SelectorCondition | None, *, with_request_name: bool
) -> str:
    match step.kind:
        case StepKind.TOTAL:
            words = "device in the cluster" if step.count == 1 else "devices in the cluster"
        case StepKind.IN_CLASS:
            words = f"in class {step.detail}"
        case StepKind.SELECTOR:
            words = (condition_text(selector_condition) if selector_condition else "") or "meet the condition"
        case StepKind.UNTAINTED:
            words = "not tainted (or tolerated)"
        case StepKind.REACHABLE:
            words = "that a node can get"
        case StepKind.FREE:
            words = "free now"
        case _:
            words = node_text(match.together, step.count)
    return f"{step.request}: {words}" if with_request_name and step.request else words


def excluded_text(step: FunnelStep, match: Preview) -> str:
    if step.kind == StepKind.NODES:
        return "why the others cannot" if match.free and not match.fits else ""
    if not step.dropped or step.kind == StepKind.TOTAL:
        return ""
    match step.kind:
        case StepKind.UNTAINTED:
            return f"{step.dropped} tainted"
        case StepKind.FREE:
            return f"{step.dropped} held"
    return f"{step.dropped} excluded"


def dropped_page(
    person: Person, cluster: Cluster, snapshot: ClusterSnapshot, spec: Json, step: FunnelRow, page: str = "1"
) -> DroppedPage:
    """Return one page of the devices that a step excludes, with holders as `person` may see them."""
    number = int(page) if page.isascii() and page.isdigit() and len(page) < 7 else 1
    excluded = dropped(
        snapshot, spec, step.number, offset=max(number - 1, 0) * DEVICES_PER_PAGE, limit=DEVICES_PER_PAGE
    )
    shown = Paginator(range(excluded.total), DEVICES_PER_PAGE).get_page(number)
    if shown.number != number:  # beyond the last page
        offset = (shown.number - 1) * DEVICES_PER_PAGE
        excluded = dropped(snapshot, spec, step.number, offset=offset, limit=DEVICES_PER_PAGE)
    return DroppedPage(step, dropped_rows(person, cluster, excluded), shown)


def dropped_rows(person: Person, cluster: Cluster, excluded: Dropped) -> list[DroppedRow]:
    devices = excluded_devices(person, cluster, excluded.drops)
    rows = []
    for drop in excluded.drops:
        device = devices.get(drop.device.key)
        holder = device.holder if device and drop.holder else None
        rows.append(
            DroppedRow(
                name=drop.device.name,
                node=drop.device.node_name or drop.device.pool,
                device=device,
                words=exclusion_text(drop) if holder or drop.cause != DropCause.HELD else "held",
                failing=drop.cause == DropCause.ERROR,
                holder=holder,
            )
        )
    return rows
