"""
Telemetry of simulated GPUs: the metrics of their exporters in the text format, one exporter per node.

The load of a claim is a curve of `simulator.workloads`. Metrics and labels are those of dcgm-exporter 4.6 for
NVIDIA and device-metrics-exporter for AMD: one series per pod and container that shares a device, each with
the full value of the device. Values of the physical GPU, such as power, repeat with every partition.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dra.held import allocation_results, device_key
from simulator.resources import CLAIMS, PODS, SLICES, Manifest
from simulator.store import Store
from simulator.workloads import NOTHING, Load, Workload, fraction, load_at
from simulator.world import AMD, MODELS, SICK, SILENT_NODES, DeviceEntry, Model, exporter_is_away

SHARE = re.compile(r"[01](\.[0-9]{1,6})?", re.ASCII)
ACTIVITY = "simulator.dragoman.dev/activity"  # annotation of a pod: the mean of what it does, 0 to 1
WORKLOAD = "simulator.dragoman.dev/workload"  # or a `Workload`


@dataclass(frozen=True, slots=True)
class DeviceUser:
    """
    A claim that has a device, and one container that uses it; without a pod, both names are empty.

    `activity` and `workload` are what the pod says of itself, None if it says nothing.
    """

    claim: Manifest
    pod: str = ""
    container: str = ""
    activity: float | None = None
    workload: Workload | None = None

    @property
    def namespace(self) -> str:
        return str(self.claim["metadata"]["namespace"])


@dataclass(frozen=True, slots=True)
class PublishedDevice:
    """A device as its driver publishes it: a whole GPU, or one of its partitions."""

    device: DeviceEntry
    users: list[DeviceUser]
    load: Load

    @property
    def profile(self) -> str:
        return attribute_text(self.device, "profile")

    @property
    def mebibytes(self) -> int:
        return int(str(self.device["capacity"]["memory"]["value"]).removesuffix("Mi"))

    @property
    def share(self) -> float:
        """The part of the board's compute slices that this is."""
        return int(self.profile.partition("g")[0]) / 7 if self.profile else 1.0


@dataclass(frozen=True, slots=True)
class SimulatedGpu:
    """`key` is the uuid of the GPU, or node and device where the driver publishes none."""

    node: str
    driver: str
    pool: str
    number: int
    key: str
    model: Model
    parts: list[PublishedDevice]

    @property
    def activity(self) -> float:
        return min(1.0, sum(part.load.activity * part.share for part in self.parts))


type Published = dict[tuple[str, str, str], list[DeviceEntry]]  # by node, driver and pool
type Users = dict[tuple[str, str, str], list[DeviceUser]]  # by driver, pool and device


def physical_gpus(
    published: Published, users: Users, *, seed: int, now: float, only: str = ""
) -> Iterator[SimulatedGpu]:
    """Yield the boards whose exporter runs now, those of one node or of all."""
    for (node, driver, pool), devices in published.items():
        if (only and node != only) or exporter_is_away(node, now):
            continue
        boards: dict[str, list[PublishedDevice]] = {}
        for device in devices:
            using = users.get((driver, pool, device["name"]), [])
            part = PublishedDevice(device, using, _load(device, using, seed, now))
            boards.setdefault(_key(device, node), []).append(part)
        for number, (key, node_gpus) in enumerate(boards.items()):
            if model := MODELS.get(attribute_text(node_gpus[0].device, "productName")):
                yield SimulatedGpu(node, driver, pool, number, key, model, _existing(node_gpus))


def _published(store: Store) -> Published:
    """Return the devices of nodes with an exporter, those of one pool in the order of the bus."""
    by_pool: Published = {}
    for resource_slice in store.all(SLICES):
        spec = resource_slice["spec"]
        key = (spec.get("nodeName", ""), spec["driver"], spec["pool"]["name"])
        if key[0] not in SILENT_NODES:
            by_pool.setdefault(key, []).extend(spec.get("devices") or [])
    for devices in by_pool.values():
        devices.sort(key=lambda device: attribute_text(device, "resource.kubernetes.io/pciBusID"))
    return by_pool


def _existing(parts: list[PublishedDevice]) -> list[PublishedDevice]:
    """Of what could be cut from a GPU there is only what somebody holds; uncut, there is the whole."""
    if not parts[0].device.get("consumesCounters"):
        return parts
    return [part for part in parts if part.profile and part.users] or parts[:1]


def attribute_text(device: DeviceEntry, attribute: str) -> str:
    return str((device.get("attributes", {}).get(attribute) or {}).get("string", ""))


def _users(store: Store) -> Users:
    pods = {pod["metadata"]["uid"]: pod for pod in store.unordered(PODS)}
    by_device: Users = {}
    for claim in store.unordered(CLAIMS):
        results = [result for result in allocation_results(claim) if not result.get("adminAccess")]
        if not results:
            continue
        mine = [
            DeviceUser(
                claim,
                user["name"],
                container["name"],
                _activity(pods[user["uid"]]),
                _workload(pods[user["uid"]]),
            )
            for user in (claim.get("status") or {}).get("reservedFor") or []
            if user["uid"] in pods
            for container in pods[user["uid"]]["spec"]["containers"]
        ]
        for result in results:
            by_device.setdefault(device_key(result), []).extend(mine or [DeviceUser(claim)])
    return by_device


def _load(device: DeviceEntry, users: list[DeviceUser], seed: int, now: float) -> Load:
    if not users:
        return NOTHING
    key = f"{seed}/{users[0].claim['metadata']['uid']}"
    said = users[0]
    return load_at(key, device["name"], now, mean_activity=said.activity, workload=said.workload)


def _activity(pod: Manifest) -> float | None:
    annotation = str((pod["metadata"].get("annotations") or {}).get(ACTIVITY, ""))
    return min(1.0, float(annotation)) if SHARE.fullmatch(annotation) else None


def _workload(pod: Manifest) -> Workload | None:
    said = (pod["metadata"].get("annotations") or {}).get(WORKLOAD, "")
    return Workload(said) if said in Workload else None


def _key(device: DeviceEntry, node: str) -> str:
    return (
        attribute_text(device, "parentUUID") or attribute_text(device, "uuid") or f"{node}/{device['name']}"
    )


type Labels = dict[str, str]
type MetricSample = tuple[str, Labels, float]

IDLE_MEBIBYTES = 4
AMD_IDLE_MEGABYTES = 285
PCIE_BYTES, NVLINK_BYTES = 5e9, 60e9  # per second of a busy GPU: a training that reads and exchanges
NVLINKED = ("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4")  # L4, L40S and T4 have no NVLink
RESERVED = 0.0075  # of the memory, for the driver


def dcgm(board: SimulatedGpu, *, watts: float, millijoules: float) -> Iterator[MetricSample]:
    is_sick = (board.node, board.parts[0].device["name"]) == SICK
    of_board = {
        "DCGM_FI_DEV_POWER_USAGE": watts,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": millijoules,
        "DCGM_FI_DEV_GPU_TEMP": round(29 + 45 * board.activity + 5 * fraction(board.key)),
        "DCGM_FI_DEV_XID_ERRORS": 79.0 if is_sick else 0.0,
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": 12.0 if is_sick else 0.0,
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": 1.0 if is_sick else 0.0,
    }
    for instance, part in enumerate(board.parts, start=1):
        values = _dcgm_values(part, linked=board.model.product.startswith(NVLINKED)) | of_board
        for labels in _dcgm_labels(board, part, instance):
            for metric, value in values.items():
                yield metric, labels, value


def amd(board: SimulatedGpu, *, watts: float, millijoules: float) -> Iterator[MetricSample]:
    """AMD's exporter knows pods but no claims."""
    (part,) = board.parts
    total = part.mebibytes
    used = round(part.load.memory * total) if part.users else AMD_IDLE_MEGABYTES
    values = {
        "gpu_gfx_activity": round(part.load.activity * 100),
        "gpu_used_vram": used,
        "gpu_free_vram": total - used,
        "gpu_total_vram": total,
        "gpu_power_usage": round(watts),
        "gpu_energy_consumed": millijoules * 1000,
        "gpu_junction_temperature": round(34 + 45 * board.activity + 5 * fraction(board.key)),
    }
    base = {
        "gpu_id": str(board.number),
        "gpu_partition_id": "0",
        "card_model": board.model.product,
        "hostname": board.node,
    }
    pods = [user for user in part.users if user.pod]
    mine = [{"pod": user.pod, "namespace": user.namespace, "container": user.container} for user in pods]
    for labels in mine or [{}]:
        for metric, value in values.items():
            yield metric, base | labels, float(value)


def _dcgm_values(part: PublishedDevice, *, linked: bool) -> dict[str, float]:
    load, memory = part.load, part.mebibytes
    reserved = round(memory * RESERVED)
    used = max(IDLE_MEBIBYTES, round(load.memory * (memory - reserved)))
    values: dict[str, float] = {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": load.activity,
        "DCGM_FI_PROF_SM_ACTIVE": load.activity * 0.9,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": load.activity * load.tensor,
        "DCGM_FI_PROF_DRAM_ACTIVE": load.activity * 0.35,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_FREE": memory - reserved - used,
        "DCGM_FI_DEV_FB_RESERVED": reserved,
    }
    if part.profile:  # DCGM has no utilization for partitions, and traffic of physical GPUs only
        return values
    read, exchanged = load.activity * PCIE_BYTES, load.activity * load.tensor * NVLINK_BYTES
    values |= {
        "DCGM_FI_DEV_GPU_UTIL": round(load.activity * 100),
        "DCGM_FI_PROF_PCIE_TX_BYTES": round(read / 8),
        "DCGM_FI_PROF_PCIE_RX_BYTES": round(read),
    }
    if not linked:
        return values
    return values | {
        "DCGM_FI_PROF_NVLINK_TX_BYTES": round(exchanged),
        "DCGM_FI_PROF_NVLINK_RX_BYTES": round(exchanged),
    }


def _dcgm_labels(board: SimulatedGpu, part: PublishedDevice, instance: int) -> Iterator[Labels]:
    base = {
        "gpu": str(board.number),
        "UUID": board.key,
        "pci_bus_id": f"0000{attribute_text(part.device, 'resource.kubernetes.io/pciBusID').upper()}",
        "device": f"nvidia{board.number}",
        "modelName": board.model.product,
    }
    if part.profile:
        base |= {"GPU_I_PROFILE": part.profile, "GPU_I_ID": str(instance)}
    base |= {"hostname": board.node, "DCGM_FI_DRIVER_VERSION": "580.95.05"}
    # A partition made on demand has no uuid in its slice by which the exporter could find the claim.
    if not part.users or (part.profile and not attribute_text(part.device, "uuid")):
        yield base
        return
    for user in part.users:
        labels = base | {
            "dra_claim_name": user.claim["metadata"]["name"],
            "dra_claim_namespace": user.namespace,
            "dra_driver_name": board.driver,
            "dra_pool_name": board.pool,
            "dra_device_name": part.device["name"],
        }
        if part.profile:
            labels |= {
                "dra_mig_profile": part.profile,
                "dra_mig_device_uuid": attribute_text(part.device, "uuid"),
            }
        if user.pod:
            labels |= {"pod": user.pod, "namespace": user.namespace, "container": user.container}
        yield labels


FULL_LOAD = 0.93  # of a board's limit is what it draws when busy

HELP = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", "Ratio of time the graphics engine is active."),
    "DCGM_FI_PROF_SM_ACTIVE": ("gauge", "Ratio of cycles an SM has at least 1 warp assigned, simulated."),
    "DCGM_FI_PROF_PCIE_TX_BYTES": ("gauge", "Bytes per second sent over PCIe, simulated."),
    "DCGM_FI_PROF_PCIE_RX_BYTES": ("gauge", "Bytes per second received over PCIe, simulated."),
    "DCGM_FI_PROF_NVLINK_TX_BYTES": ("gauge", "Bytes per second sent over NVLink, simulated."),
    "DCGM_FI_PROF_NVLINK_RX_BYTES": ("gauge", "Bytes per second received over NVLink, simulated."),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("counter", "Single-bit volatile ECC errors, simulated."),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("counter", "Double-bit volatile ECC errors, simulated."),
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("gauge", "Ratio of cycles the tensor (HMMA) pipe is active."),
    "DCGM_FI_PROF_DRAM_ACTIVE": ("gauge", "Ratio of cycles the device memory interface is active."),
    "DCGM_FI_DEV_GPU_UTIL": ("gauge", "GPU utilization (in %)."),
    "DCGM_FI_DEV_FB_USED": ("gauge", "Framebuffer memory used (in MiB)."),
    "DCGM_FI_DEV_FB_FREE": ("gauge", "Framebuffer memory free (in MiB)."),
    "DCGM_FI_DEV_FB_RESERVED": ("gauge", "Framebuffer memory reserved (in MiB)."),
    "DCGM_FI_DEV_POWER_USAGE": ("gauge", "Power draw (in W)."),
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": ("counter", "Total energy consumption since boot (in mJ)."),
    "DCGM_FI_DEV_GPU_TEMP": ("gauge", "GPU temperature (in C)."),
    "DCGM_FI_DEV_XID_ERRORS": ("gauge", "Value of the last XID error encountered."),
    "gpu_gfx_activity": ("gauge", "Graphics engine activity (in %)."),
    "gpu_used_vram": ("gauge", "VRAM used (in MB)."),
    "gpu_free_vram": ("gauge", "VRAM free (in MB)."),
    "gpu_total_vram": ("gauge", "VRAM (in MB)."),
    "gpu_power_usage": ("gauge", "Power usage (in W)."),
    "gpu_energy_consumed": ("counter", "Energy consumed (in uJ)."),
    "gpu_junction_temperature": ("gauge", "Junction temperature (in C)."),
}


class Telemetry:
    """Energy counts up from scrape to scrape; `energy` (board → mJ, as of second) is kept on disk."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.seed = seed
        self.energy: dict[str, list[float]] = {}
        self._read: tuple[int, Published, Users] = (-1, {}, {})  # of the revision that was read

    def _fleet(self) -> tuple[Published, Users]:
        """Return the devices and their users; forty exporters are scraped between two changes."""
        if self._read[0] != self.store.revision:
            self._read = (self.store.revision, _published(self.store), _users(self.store))
        return self._read[1:]

    def nodes(self) -> list[str]:
        """Return the nodes that have an exporter, whether it runs or not."""
        return sorted({node for node, _, _ in self._fleet()[0]})

    def text(self, node: str = "") -> str:
        """Return what the exporter of a node says, or all of them; empty for one that does not run."""
        lines: dict[str, list[str]] = {}
        for metric, labels, value in self._samples(node):
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            number = f"{value:.0f}" if value >= 1e6 else f"{value:.6g}"
            lines.setdefault(metric, []).append(f"{metric}{{{shown}}} {number}")
        parts: list[str] = []
        for metric, samples in lines.items():
            kind, about = HELP[metric]
            parts += [f"# HELP {metric} {about}", f"# TYPE {metric} {kind}", *samples]
        return "\n".join([*parts, ""])

    def _samples(self, node: str) -> Iterator[MetricSample]:
        now = self.store.now().timestamp()
        for board in physical_gpus(*self._fleet(), seed=self.seed, now=now, only=node):
            model = board.model
            watts = model.idle_watts + (model.watts * FULL_LOAD - model.idle_watts) * board.activity
            samples_of = amd if board.driver == AMD else dcgm
            yield from samples_of(board, watts=watts, millijoules=self._energy(board, watts, now))

    def _energy(self, board: SimulatedGpu, watts: float, now: float) -> float:
        start = 1e9 + 1e10 * fraction(f"{self.seed}/{board.key}")
        total, since = self.energy.get(board.key, [start, now])
        total += watts * 1000 * max(0.0, now - since)
        self.energy[board.key] = [total, now]
        return total


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
