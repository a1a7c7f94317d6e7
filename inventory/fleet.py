"""
The fleet in numbers and as a map: a group per model, a row per node or pool, a cell per device.

Partitions share the cell of their physical GPU, which is one link. A partition that is its whole GPU (AMD
spx, MIG 7g) counts as a whole GPU. Pages of devices and nodes also show which partitions still fit on a GPU.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from core.text import counted
from dra.devices import partition_width, short_name
from dra.fragmentation import PhysicalGpu, physical_gpus
from dra.pools import gather_pools
from inventory.cluster_snapshot import current_snapshot
from inventory.counts import device_groups, is_whole
from inventory.models import Cluster, Device, FleetCount, ResourceSlice
from inventory.models.device import DeviceQuerySet
from inventory.states import LOOKS, DeviceState, DeviceStateStyle, DeviceUse


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


def pool_facts(device: Device) -> PoolFacts | None:
    """Return None if the pool has no slice any more."""
    slices = ResourceSlice.objects.filter(
        cluster=device.cluster_id, driver=device.driver, pool=device.pool, gone_at=None
    )
    pools = gather_pools(list(slices.values_list("raw", flat=True)))
    if not pools:
        return None
    pool = pools[0]
    return PoolFacts(pool.name, pool.generation, len(pool.slices), pool.expected, pool.problem)


MAX_CELLS = 1000  # of the map; the table lists every device


# Shown even at 0; other states only above 0.
USUAL = (DeviceState.IN_USE, DeviceState.FREE, DeviceState.TAINTED, DeviceState.UNHEALTHY)


HELD = (DeviceState.IN_USE, DeviceUse.IDLE, DeviceUse.NO_TELEMETRY)


class FleetFigure(NamedTuple):
    look: DeviceStateStyle
    devices: int
    share: float


@dataclass(slots=True)
class Totals:
    """Every device has one figure, so they add up to `devices`, as `held` and `not_held` do."""

    devices: int
    gpus: int
    nodes: int
    clusters: int
    figures: list[FleetFigure]

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
    "is_whole", "use",
)  # fmt: skip


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

    @property
    def look(self) -> DeviceStateStyle:
        return LOOKS[self.use or self.state]

    @property
    def place(self) -> str:
        return self.node or self.pool

    @property
    def gpu(self) -> tuple[UUID, str, str]:
        return (self.cluster, self.place, self.parent or str(self.pk))


class Cell(NamedTuple):
    pk: UUID
    name: str
    look: DeviceStateStyle
    partition: str
    width: int  # its share of the GPU's width, 1 to 8
    hit: bool


@dataclass(slots=True)
class MapGpu:
    """A whole device, or the partitions of a GPU, which share one link: each is too small to click."""

    cluster: str
    place: str  # node, or pool
    parent: str
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
        parts = ", ".join(f"{cell.partition or cell.name}: {cell.look.label}" for cell in self.cells)
        return f"{counted(len(self.cells), 'partition')} of a GPU on {self.place}. {parts}"


@dataclass(slots=True)
class FleetRow:
    """A node, or a pool without a node."""

    name: str
    gpus: list[MapGpu] = field(default_factory=list)

    def whole_cells(self) -> SafeString:
        """Return the links of devices that are not in partitions; a template is too slow for thousands."""
        place, no_id = escape(self.name), UUID(int=0)
        address = reverse("inventory:device", args=[no_id])
        links = []
        for cell in (cell for gpu in self.gpus for cell in gpu.cells):
            name = escape(f"{cell.name} {cell.partition}" if cell.partition else cell.name)
            url, hit = address.replace(str(no_id), str(cell.pk)), " hit" if cell.hit else ""
            look, label = cell.look, cell.look.label
            links.append(
                f'<a class="dg-dev {look.cell}{hit}" href="{url}" title="{name}: {label}"'
                f' aria-label="{name} on {place}: {label}">{look.letter}</a>'
            )
        return mark_safe("".join(links))  # noqa: S308, names are escaped


@dataclass(slots=True)
class FleetGroup:
    """Whole GPUs or partitions of one model: the numbers count all of them, `rows` have the cells."""

    model: str
    partitioned: bool
    clusters: list[str] = field(default_factory=list)
    count: int = 0
    free: int = 0
    unhealthy: int = 0
    rows: list[FleetRow] = field(default_factory=list)

    @property
    def hidden(self) -> int:
        """How many devices have no cell, because the map is full."""
        return max(0, self.count - self.cells)

    @property
    def cells(self) -> int:
        return sum(len(gpu.cells) for row in self.rows for gpu in row.gpus)


def totals(counts: Iterable[FleetCount], *, with_uses: bool = False) -> Totals:
    """Return the figures; held devices are divided by their use if the reader may see it."""
    counts = list(counts)
    by_state = Counter[str]()
    for _cluster, group in device_groups(counts):
        by_state[group.state] += group.devices
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
    return Totals(count, sum(row.gpus for row in counts), sum(row.nodes for row in counts), clusters, figures)


def fleet_map(
    counts: Mapping[UUID, FleetCount], hits: DeviceQuerySet | None = None, *, with_uses: bool = False
) -> list[FleetGroup]:
    """
    Return the groups, whole GPUs first, with cells for the first MAX_CELLS devices.

    `hits` are the devices that a filter matches, None without one; groups without a match are then left out.
    `with_uses` is whether the reader may see which held devices are idle.
    """
    devices = Device.objects.present()
    products = None
    if hits is not None:
        products = set(hits.order_by().values_list("product", flat=True).distinct())
        devices = devices.filter(product__in=products)
    names = dict(Cluster.objects.values_list("pk", "name"))
    groups = _group_counts(counts.values(), names, products)
    # By cluster, not by its name: the index has the order, and only the cells of the map are read.
    ordered = (
        devices.order_by("product", "cluster", "node_name", "pool", "name")
        .with_state()
        .with_use(visible=with_uses)
    )
    shown = [
        MapDevice(*values)
        for values in ordered.annotate(is_whole=is_whole(counts.values())).values_list(*FIELDS)[:MAX_CELLS]
    ]
    shown.sort(key=lambda device: (device.product, names[device.cluster]))
    hit = (
        None
        if hits is None
        else set(hits.filter(pk__in=[device.pk for device in shown]).values_list("pk", flat=True))
    )
    by_group: dict[tuple[str, bool], list[MapDevice]] = defaultdict(list)
    for device in shown:
        by_group[short_name(device.product), not device.is_whole].append(device)
    for key, members in by_group.items():
        if key in groups:  # else it has appeared since they were counted
            groups[key].rows = _rows(members, names, hit)
    return sorted(groups.values(), key=lambda group: (group.partitioned, -group.count, group.model))


def _group_counts(
    counts: Iterable[FleetCount], names: Mapping[UUID, str], products: Collection[str] | None
) -> dict[tuple[str, bool], FleetGroup]:
    """Return the headings by (model, partitioned), with counts of all devices, also those without a cell."""
    groups: dict[tuple[str, bool], FleetGroup] = {}
    rows = [(group, names[cluster]) for cluster, group in device_groups(counts)]
    for (product, whole, state, count), cluster in sorted(rows, key=lambda row: (*row[0][:2], row[1])):
        if products is not None and product not in products:
            continue
        key = short_name(product), not whole
        fleet_group = groups.setdefault(key, FleetGroup(*key))
        if cluster not in fleet_group.clusters:
            fleet_group.clusters.append(cluster)
        fleet_group.count += count
        fleet_group.free += count if state == DeviceState.FREE else 0
        fleet_group.unhealthy += count if state == DeviceState.UNHEALTHY else 0
    return groups


def _rows(devices: Iterable[MapDevice], names: Mapping[UUID, str], hits: set[UUID] | None) -> list[FleetRow]:
    rows: dict[tuple[UUID, str], FleetRow] = {}
    gpus: dict[tuple[UUID, str, str], MapGpu] = {}
    for device in devices:
        hit = hits is not None and device.pk in hits
        width = partition_width(device.partition)
        row = rows.setdefault((device.cluster, device.place), FleetRow(device.place))
        if device.gpu not in gpus:
            gpu = MapGpu(names[device.cluster], device.place, device.parent)
            row.gpus.append(gpus.setdefault(device.gpu, gpu))
        gpus[device.gpu].cells.append(Cell(device.pk, device.name, device.look, device.partition, width, hit))
    return list(rows.values())
