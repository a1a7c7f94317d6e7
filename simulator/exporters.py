"""
The metrics and labels of the exporters: dcgm-exporter 4.6 for NVIDIA, device-metrics-exporter for AMD.

One series per pod and container that shares a device, each with the full value of the device. Values of the
board, such as power, come again with every partition.
"""

from collections.abc import Iterator

from simulator import curves
from simulator.boards import Board, Part, text_of
from simulator.world import SICK

type Labels = dict[str, str]
type Sample = tuple[str, Labels, float]

IDLE_MEBIBYTES = 4
AMD_IDLE_MEGABYTES = 285
RESERVED = 0.0075  # of the memory, for the driver


def dcgm(board: Board, *, watts: float, millijoules: float) -> Iterator[Sample]:
    of_board = {
        "DCGM_FI_DEV_POWER_USAGE": watts,
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": millijoules,
        "DCGM_FI_DEV_GPU_TEMP": round(29 + 45 * board.activity + 5 * curves.fraction(board.key)),
        "DCGM_FI_DEV_XID_ERRORS": 79.0 if (board.node, board.parts[0].device["name"]) == SICK else 0.0,
    }
    for instance, part in enumerate(board.parts, start=1):
        values = _dcgm_values(part) | of_board
        for labels in _dcgm_labels(board, part, instance):
            for metric, value in values.items():
                yield metric, labels, value


def amd(board: Board, *, watts: float) -> Iterator[Sample]:
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


def _dcgm_values(part: Part) -> dict[str, float]:
    load, memory = part.load, part.mebibytes
    reserved = round(memory * RESERVED)
    used = max(IDLE_MEBIBYTES, round(load.memory * (memory - reserved)))
    values: dict[str, float] = {
        "DCGM_FI_PROF_GR_ENGINE_ACTIVE": load.activity,
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": load.activity * load.tensor,
        "DCGM_FI_PROF_DRAM_ACTIVE": load.activity * 0.6,
        "DCGM_FI_DEV_FB_USED": used,
        "DCGM_FI_DEV_FB_FREE": memory - reserved - used,
        "DCGM_FI_DEV_FB_RESERVED": reserved,
    }
    # DCGM has no utilization for partitions.
    return values if part.profile else values | {"DCGM_FI_DEV_GPU_UTIL": round(load.activity * 100)}


def _dcgm_labels(board: Board, part: Part, instance: int) -> Iterator[Labels]:
    base = {
        "gpu": str(board.number),
        "UUID": board.key,
        "pci_bus_id": f"0000{text_of(part.device, 'resource.kubernetes.io/pciBusID').upper()}",
        "device": f"nvidia{board.number}",
        "modelName": board.model.product,
    }
    if part.profile:
        base |= {"GPU_I_PROFILE": part.profile, "GPU_I_ID": str(instance)}
    base |= {"Hostname": board.node, "DCGM_FI_DRIVER_VERSION": "580.95.05"}
    # A partition made on demand has no uuid in its slice by which the exporter could find the claim.
    if not part.users or (part.profile and not text_of(part.device, "uuid")):
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
            labels |= {"dra_mig_profile": part.profile, "dra_mig_device_uuid": text_of(part.device, "uuid")}
        if user.pod:
            labels |= {"pod": user.pod, "namespace": user.namespace, "container": user.container}
        yield labels
