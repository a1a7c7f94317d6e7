"""
The fleet in numbers and as a map: groups by model, node pool or team, a row per node, a cell per device.

Partitions share the cell of their physical GPU, which is one link. A partition that is its whole GPU (AMD
spx, MIG 7g) counts as a whole GPU. Pages of devices and nodes also show which partitions still fit on a GPU.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db.models import CharField, F, TextChoices, Value
from django.urls import reverse
from django.utils.safestring import SafeString, mark_safe

from core.markup import escape, markup
from core.templatetags.ui import icon
from core.text import counted
from dra.devices import partition_width, short_name
from dra.fragmentation import PhysicalGpu, physical_gpus
from dra.pools import gather_pools
from inventory.cluster_snapshot import current_snapshot
from inventory.counts import device_groups, is_whole
from inventory.freshness import Age
from inventory.models import Cluster, Device, FleetCount, ResourceSlice
from inventory.models.device import DeviceQuerySet
from inventory.states import LOOKS, DeviceState, DeviceStateStyle, DeviceUse
from inventory.team_marks import HELD, NO_TEAM, TeamMark, TeamMarks, namespace_teams


def physical_gpus_for(cluster: Cluster, devices: DeviceQuerySet) -> list[PhysicalGpu]:
    """Return the partitioned GPUs of these devices of a cluster; one query if none is partitioned."""
    partitioned = devices.exclude(counters=[]).order_by().values_list("driver", "pool", "counters")
    counter_sets = {
        (driver, pool, str(consumed.get("counterSet")))
        for driver, pool, counters in partitioned
        for consumed in counters
    }
    if not counter_sets:
        return []
    snapshot = current_snapshot(cluster)
    return [
        gpu
        for driver, pool in sorted({key[:2] for key in counter_sets})
        for gpu in physical_gpus(snapshot, driver, pool)
        if (driver, pool, gpu.counter_set) in counter_sets
    ]


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """A pool as its newest slices describe it."""

    name: str
    generation: int
    slices: int  # in the mirror
    expected: int
    problem: str  # why Kubernetes does not allocate from the pool, else empty
    shared_name: str = ""  # what it means that another node has a device of this name in the pool


def pool_facts(device: Device) -> PoolFacts | None:
    """Return None if the pool has no slice any more."""
    slices = ResourceSlice.objects.filter(
        cluster=device.cluster_id, driver=device.driver, pool=device.pool, gone_at=None
    )
    pools = gather_pools(list(slices.values_list("raw", flat=True)))
    if not pools:
        return None
    pool = next((pool for pool in pools if pool.node_name == device.node_name), pools[0])
    facts = PoolFacts(pool.name, pool.generation, pool.present, pool.expected, pool.problem)
    nodes = {other.node_name for part in pools for other in part.devices if other.name == device.name}
    if not (others := sorted(nodes - {device.node_name})):
        return facts
    shared_name = (
        f"Another node has a device {device.name} in a pool {pool.name} too: {', '.join(others)}. Kubernetes "
        "takes devices of equal driver, pool and name for one: while one is held, nobody gets the other."
    )
    return replace(facts, shared_name=shared_name)


NO_ID = UUID(int=0)  # in an address that gets the id of each device
NO_CLUSTER, NO_NODE = "no-such-cluster", "no-such-node"  # in one that gets the names of each row
MAX_CELLS = 1000  # of the map; the table lists every device
MAX_GROUPS = 40  # of the map, the largest; hundreds of teams are found by filter and table


# In the order of urgency.
OUT_OF_SERVICE = (
    DeviceState.UNHEALTHY,
    DeviceState.NOT_READY,
    DeviceState.CORDONED,
    DeviceState.INCOMPLETE,
    DeviceState.TAINTED,
)

# Shown even at 0; other states only above 0.
USUAL = (DeviceState.IN_USE, DeviceState.FREE, DeviceState.TAINTED, DeviceState.UNHEALTHY)


def out_of_service(states: Mapping[DeviceState, int]) -> list[tuple[DeviceStateStyle, int]]:
    """Return the states in which devices can be neither used nor allocated, each with its number."""
    return [(LOOKS[state], states[state]) for state in OUT_OF_SERVICE if states.get(state)]


class FleetFigure(NamedTuple):
    look: DeviceStateStyle
    devices: int
    share: float


@dataclass(slots=True)
class Totals:
    """
    Every GPU device has one figure, so they add up to `devices`, as `held` and `not_held` do. `others` are
    devices that are no GPUs, such as network interfaces.
    """

    devices: int
    gpus: int
    nodes: int
    clusters: int
    others: int
    figures: list[FleetFigure]

    @property
    def query(self) -> str:
        """The part of an address that leaves out other devices, "" if there are none."""
        return "gpu=yes" if self.others else ""

    @property
    def held(self) -> int:
        return sum(self._held_parts)

    @property
    def not_held(self) -> int:
        return self.devices - self.held

    @property
    def sum_of_held(self) -> str:
        """Return "129 + 18 + 5 = ", "" if all held devices are in use."""
        return f"{' + '.join(map(str, self._held_parts))} = " if len(self._held_parts) > 1 else ""

    @property
    def sum_of_not_held(self) -> str:
        """Return "92 + 4 + 2"."""
        rest = [str(f.devices) for f in self.figures if f.look.state not in HELD and f.devices]
        return " + ".join(rest)

    @property
    def _held_parts(self) -> list[int]:
        return [f.devices for f in self.figures if f.look.state in HELD and f.devices]


FIELDS = (
    "pk", "name", "product", "partition", "parent_uuid", "node_name", "pool", "state", "cluster",
    "is_whole", "use", "node__ready", "node__unschedulable",
)  # fmt: skip


type GpuKey = tuple[UUID, str, str | UUID]  # cluster, place, and the parent or the device itself


class MapDevice(NamedTuple):
    """A device as read for the map: FIELDS."""

    pk: UUID
    name: str
    product: str
    partition: str
    parent: str
    node: str
    pool: str
    state: DeviceState
    cluster: UUID
    is_whole: bool
    use: str
    node_ready: bool | None  # None: its node is not known
    node_cordoned: bool | None
    namespace: str | None  # of the claim that holds it, if the map shows teams
    grouped_by: str  # the column of the grouping

    @property
    def look(self) -> DeviceStateStyle:
        return LOOKS[self.use or self.state]

    @property
    def place(self) -> str:
        return self.node or self.pool

    @property
    def gpu(self) -> GpuKey:
        return (self.cluster, self.place, self.parent or self.pk)


class Cell(NamedTuple):
    pk: UUID
    name: str
    look: DeviceStateStyle
    partition: str
    width: int  # its share of the GPU's width, 1 to 8
    hit: bool
    team: TeamMark | None  # in place of the look of a held device

    @property
    def shape(self) -> str:
        return f"by {self.team.color}" if self.team else self.look.cell

    @property
    def letter(self) -> str:
        return self.team.letter if self.team else self.look.letter

    @property
    def label(self) -> str:
        return f"{self.look.label}, {self.team.team}" if self.team else self.look.label


@dataclass(slots=True)
class MapGpu:
    """A whole GPU, or the partitions of a GPU, which share one link: each is too small to click."""

    cluster: str
    place: str  # node, or pool
    parent: str
    is_whole: bool
    cells: list[Cell] = field(default_factory=list)

    @property
    def url(self) -> str:
        """The page of a single partition, else the list of devices of this GPU."""
        if len(self.cells) == 1:
            return reverse("inventory:device", args=[self.cells[0].pk])
        query = {"cluster": self.cluster, "q": f"{self.place} {self.parent}"}
        return f"{reverse('inventory:devices')}?{urlencode(query)}"

    @property
    def label(self) -> str:
        """Return the letters and colors of the cells as a sentence."""
        parts = ", ".join(f"{cell.partition or cell.name}: {cell.label}" for cell in self.cells)
        return f"{counted(len(self.cells), 'partition')} of a GPU on {self.place}. {parts}"


class NodeCondition(NamedTuple):
    """Why a node takes no pods, as on its page."""

    family: str  # of its colour
    icon: str
    label: str


NOT_READY = NodeCondition("bad", "server-off", "not ready")
CORDONED = NodeCondition("warn", "tool", "cordoned")


@dataclass(slots=True)
class FleetRow:
    """A node with its page and its condition, or a pool without a node, which has neither."""

    name: str
    device_page: tuple[str, str]  # its address before and after the id
    url: str = ""
    condition: NodeCondition | None = None
    gpus: list[MapGpu] = field(default_factory=list)

    @property
    def drawn(self) -> SafeString:
        """Return the name, the cells and the condition; a template is too slow for hundreds of rows."""
        name = (
            '<a class="dg-id" href="{1}" title="{0}">{0}</a>'
            if self.url
            else '<span class="dg-id" title="{0}">{0}</span>'
        )
        tag = SafeString("")
        if self.condition:
            family, symbol, label = self.condition
            tag = markup(
                '<span class="dg-node-tag dg-s dg-{}">{} {}</span>', family, icon(symbol, "s"), label
            )
        return markup(
            '<div class="dg-nrow">{} <span class="dg-cells">{}</span> {}</div>',
            *(markup(name, self.name, self.url), self._cells(), tag),
        )

    def _cells(self) -> SafeString:
        """Return a link per GPU."""
        place = escape(self.name)
        before, after = self.device_page
        links = []
        for gpu in self.gpus:
            if not gpu.is_whole:
                links.append(_partitions(gpu, before, after))
                continue
            for cell in gpu.cells:
                name = escape(f"{cell.name} {cell.partition}" if cell.partition else cell.name)
                label, hit = escape(cell.label), " hit" if cell.hit else ""
                links.append(
                    f'<a class="dg-dev {cell.shape}{hit}" href="{before}{cell.pk}{after}"'
                    f' title="{name}: {label}" aria-label="{name} on {place}: {label}">{cell.letter}</a>'
                )
        return mark_safe("".join(links))  # noqa: S308, names are escaped


def _partitions(gpu: MapGpu, before: str, after: str) -> str:
    """
    Return the link of a GPU with its partitions, each by its share of the width; the page of one is its id
    between two texts.

    A click on a partition opens it in the drawer; the keyboard, and a page without JavaScript, has the link.
    """
    label, cells = escape(gpu.label), []
    for cell in gpu.cells:
        shape = f"{cell.shape} w{cell.width}{' hit' if cell.hit else ''}"
        cells.append(
            f'<span class="dg-dev {shape}" data-device="{before}{cell.pk}{after}">{cell.letter}</span>'
        )
    parts = "".join(cells)
    return f'<a class="dg-mig" href="{escape(gpu.url)}" title="{label}" aria-label="{label}">{parts}</a>'


@dataclass(slots=True)
class FleetGroup:
    """
    Devices of one model (whole GPUs or partitions), node pool or team: the numbers count all of them, `rows`
    have the cells. `is_rest` is what has no pool or team.
    """

    title: str
    partitioned: bool
    is_rest: bool = False
    clusters: list[str] = field(default_factory=list)
    count: int = 0
    states: Counter[DeviceState] = field(default_factory=Counter)
    rows: list[FleetRow] = field(default_factory=list)
    ages: list[Age] = field(default_factory=list)  # of its clusters
    counted_at: datetime | None = None  # where devices have changed since
    may_be_cut: bool = False  # the map is full

    @property
    def hidden(self) -> int:
        """How many devices have no cell, because the map is full; without that, a count may be older."""
        return max(0, self.count - self.cells) if self.may_be_cut else 0

    @property
    def cells(self) -> int:
        return sum(len(gpu.cells) for row in self.rows for gpu in row.gpus)

    @property
    def is_wide(self) -> bool:
        """Whether its rows have GPUs in partitions, which need the whole width."""
        return self.partitioned or any(not gpu.is_whole for row in self.rows for gpu in row.gpus)

    def add(self, cluster: str, state: DeviceState, devices: int) -> None:
        if cluster not in self.clusters:
            self.clusters.append(cluster)
        self.count += devices
        self.states[state] += devices

    @property
    def free(self) -> int:
        return self.states[DeviceState.FREE]

    @property
    def out_of_service(self) -> list[tuple[DeviceStateStyle, int]]:
        return out_of_service(self.states)

    @property
    def stale(self) -> list[Age]:
        return [age for age in self.ages if age.is_stale]

    @property
    def seen_at(self) -> datetime | None:
        """Return since when its devices may have changed; None if `stale` says it of a cluster."""
        known = [instant for instant in (self.counted_at, *(age.seen_at for age in self.ages)) if instant]
        return None if self.stale else min(known, default=None)


def totals(counts: Iterable[FleetCount], *, with_uses: bool = False) -> Totals:
    """Return the figures; held devices are divided by their use if the reader may see it."""
    counts = list(counts)
    by_state, others = Counter[str](), 0
    for _cluster, group in device_groups(counts):
        if group.is_gpu:
            by_state[group.state] += group.devices
        else:
            others += group.devices
    for use in DeviceUse if with_uses else ():
        # Telemetry is collected every half minute: a device may have been released since.
        measured = min(sum(row.uses.get(use, 0) for row in counts), by_state[DeviceState.IN_USE])
        by_state[use] = measured
        by_state[DeviceState.IN_USE] -= measured
    count = sum(by_state.values())
    figures = [
        FleetFigure(look, by_state[state], by_state[state] / count if count else 0.0)
        for state, look in LOOKS.items()
        if by_state[state] or state in USUAL
    ]
    clusters = sum(1 for row in counts if row.groups)
    gpus, nodes = sum(row.gpus for row in counts), sum(row.nodes for row in counts)
    return Totals(count, gpus, nodes, clusters, others, figures)


class Grouping(TextChoices):
    """What the groups of the map are; the values are those of the parameter `group`."""

    MODEL = "model", "Model"
    NODE_POOL = "node-pool", "Node pool"
    TEAM = "team", "Team"


COLUMNS = {
    Grouping.MODEL: "product",
    Grouping.NODE_POOL: "node__node_pool",
    Grouping.TEAM: "held_by__namespace",
}
NO_NODE_POOL, NOT_HELD = "No node pool", "Not held"
type GroupKey = tuple[str, bool, bool]  # title, whether it has partitions of a model, whether it is the rest


@dataclass(frozen=True, slots=True)
class Groups:
    """Which group a device belongs to; `teams` has the names that the reader may see, by namespace."""

    grouping: Grouping
    teams: Mapping[tuple[UUID, str], str]

    @classmethod
    def read(cls, grouping: Grouping, person: AbstractUser | AnonymousUser) -> Groups:
        of_teams = grouping is Grouping.TEAM
        return cls(grouping, namespace_teams(person) if of_teams else {})

    @property
    def column(self) -> str:
        return COLUMNS[self.grouping]

    def key(self, cluster: UUID, value: str | None, whole: bool) -> GroupKey:  # noqa: FBT001
        """Return the group of a device by its `column`."""
        if self.grouping is Grouping.MODEL:
            return short_name(value or ""), not whole, False
        rest = NO_NODE_POOL
        if self.grouping is Grouping.TEAM:
            rest = NO_TEAM if value else NOT_HELD
            value = self.teams.get((cluster, value)) if value else None
        return value or rest, False, not value

    def counts(
        self, counts: Mapping[UUID, FleetCount]
    ) -> Iterable[tuple[UUID, str | None, bool, DeviceState, int]]:
        """Yield cluster, `column`, whether these are whole GPUs, state and number."""
        if self.grouping is Grouping.MODEL:
            for cluster, group in device_groups(counts.values()):
                yield cluster, group.product, group.is_whole, group.state, group.devices
            return
        for cluster, row in counts.items():
            places = row.namespaces if self.grouping is Grouping.TEAM else row.node_pools
            for value, state, number, *_is_gpu in places:
                yield cluster, value, True, DeviceState(state), number


def fleet_map(
    counts: Mapping[UUID, FleetCount],
    hits: DeviceQuerySet | None = None,
    *,
    person: AbstractUser | AnonymousUser,
    with_uses: bool = False,
    grouping: Grouping = Grouping.MODEL,
    marks: TeamMarks | None = None,
) -> list[FleetGroup]:
    """
    Return the groups, whole GPUs first, with cells for the first MAX_CELLS devices.

    `counts` have the places, unless the `grouping` is by model. `hits` are the devices that a filter matches,
    None without one; groups without a match are then left out. `with_uses` is whether `person` may see which
    held devices are idle. With `marks`, held devices show their team in place of their state.
    """
    devices, groups_by = Device.objects.present(), Groups.read(grouping, person)
    names = dict(Cluster.objects.values_list("pk", "name"))
    matching: set[tuple[UUID, str | None]] | None = None
    if hits is not None:
        matching = set(hits.order_by().values_list("cluster", groups_by.column).distinct())
        if grouping is Grouping.MODEL:
            devices = devices.filter(product__in={product for _cluster, product in matching})
    groups: dict[GroupKey, FleetGroup] = {}
    counted = sorted(groups_by.counts(counts), key=lambda row: names[row[0]])
    for cluster, value, whole, state, number in counted:
        if matching is None or (cluster, value) in matching:
            key = groups_by.key(cluster, value, whole)
            groups.setdefault(key, FleetGroup(*key)).add(names[cluster], state, number)
    shown = _shown(devices, counts, groups_by, with_uses=with_uses, with_teams=marks is not None)
    shown.sort(key=lambda device: (device.product, names[device.cluster]))
    hit = None
    if hits is not None:
        hit = set(hits.filter(pk__in=[device.pk for device in shown]).values_list("pk", flat=True))
    members: dict[GroupKey, list[MapDevice]] = defaultdict(list)
    for device in shown:
        members[groups_by.key(device.cluster, device.grouped_by, device.is_whole)].append(device)
    for group in groups.values():
        group.may_be_cut = len(shown) == MAX_CELLS
    pages = _Pages.read(names)
    for key in members.keys() & groups.keys():  # others have appeared since they were counted
        groups[key].rows = _rows(members[key], pages, hit, marks)
    return sorted(groups.values(), key=lambda row: (row.partitioned, row.is_rest, -row.count, row.title))


def _shown(
    devices: DeviceQuerySet,
    counts: Mapping[UUID, FleetCount],
    groups_by: Groups,
    *,
    with_uses: bool,
    with_teams: bool,
) -> list[MapDevice]:
    """Return the devices that have a cell."""
    # An index has each order, so that only the cells of the map are read.
    by_model = ("product", "cluster", "node_name", "pool", "name")
    ordered = devices.order_by(
        *by_model if groups_by.grouping is Grouping.MODEL else ("node_name", "name", "pk")
    )
    rows = ordered.with_state().with_use(visible=with_uses).annotate(is_whole=is_whole(counts.values()))
    namespace = F(COLUMNS[Grouping.TEAM]) if with_teams else Value(None, output_field=CharField())
    columns = rows.values_list(*FIELDS, namespace, F(groups_by.column))
    return [MapDevice(*values) for values in columns[:MAX_CELLS]]


class _Pages(NamedTuple):
    """The addresses of pages, each made once: a map has a thousand links to them. `names` are of clusters."""

    device: tuple[str, str]
    node: str
    names: Mapping[UUID, str]

    @classmethod
    def read(cls, names: Mapping[UUID, str]) -> _Pages:
        before, _, after = reverse("inventory:device", args=[NO_ID]).partition(str(NO_ID))
        return cls((before, after), reverse("inventory:node", args=[NO_CLUSTER, NO_NODE]), names)

    def of_node(self, device: MapDevice) -> str:
        return self.node.replace(NO_CLUSTER, self.names[device.cluster]).replace(NO_NODE, device.node)


def _rows(
    devices: Iterable[MapDevice], pages: _Pages, hits: set[UUID] | None, marks: TeamMarks | None
) -> list[FleetRow]:
    rows: dict[tuple[UUID, str], FleetRow] = {}
    gpus: dict[GpuKey, MapGpu] = {}
    for device in devices:
        place = device.place
        row = rows.get((device.cluster, place))
        if row is None:
            row = rows[device.cluster, place] = FleetRow(place, pages.device)
            if device.node_ready is not None:
                row.url = pages.of_node(device)
                row.condition = None if device.node_ready else NOT_READY
                row.condition = row.condition or (CORDONED if device.node_cordoned else None)
        key = device.gpu
        gpu = gpus.get(key)
        if gpu is None:
            gpu = MapGpu(pages.names[device.cluster], place, device.parent, device.is_whole)
            gpus[key] = gpu
            row.gpus.append(gpu)
        team = marks.mark(device.cluster, device.namespace) if marks and device.state in HELD else None
        width, hit = partition_width(device.partition), hits is not None and device.pk in hits
        gpu.cells.append(Cell(device.pk, device.name, device.look, device.partition, width, hit, team))
    return list(rows.values())
