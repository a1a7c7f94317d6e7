"""
Series of AMD's device-metrics-exporter in the terms of DCGM.

Its labels name node, number of the GPU and pod, but no claim, no PCI address and no UUID that a slice has
(https://github.com/ROCm/device-metrics-exporter, docs). Kubernetes ≥ 1.34 tells it which pod uses a device.
Activity, power and energy are of partition 0 only. A prefix `amd_` is a setting of the exporter.
"""

from __future__ import annotations

from collections.abc import Mapping

from usage.samples import ENERGY, MEMORY, MEMORY_TOTAL, POWER, TEMPERATURE, UTILIZATION, Series

DRIVER = "gpu.amd.com"
# By the name without the prefix. Activity in per cent, memory in MB of 2**20 bytes as amd-smi has them,
# power in W, temperatures in °C: an MI200 has that of its edge, an MI300 that of its hottest place.
METRICS = {
    "gpu_gfx_activity": UTILIZATION,
    "gpu_used_vram": MEMORY,
    "gpu_total_vram": MEMORY_TOTAL,
    "gpu_power_usage": POWER,
    "gpu_package_power": POWER,
    "gpu_energy_consumed": ENERGY,
    "gpu_edge_temperature": TEMPERATURE,
    "gpu_junction_temperature": TEMPERATURE,
}
FACTORS = {"gpu_energy_consumed": 1e-3}  # it counts µJ since the driver was loaded, DCGM mJ
NAMES = frozenset(f"{prefix}{name}" for name in METRICS for prefix in ("", "amd_"))
# What a scrape renames is preferred: without `honorLabels` the plain labels name the exporter's own pod.
LABELS = (
    *("exported_namespace", "exported_pod", "namespace", "pod"),
    *("hostname", "gpu_id", "gpu_partition_id"),
)


def translated(name: str, labels: Mapping[str, str], value: float) -> Series:
    """Return a series of `NAMES` as one of `usage.samples.METRICS`."""
    board = "/".join(labels.get(label, "") for label in ("hostname", "gpu_id", "gpu_partition_id"))
    subject = {
        "amd_namespace": labels.get("exported_namespace") or labels.get("namespace", ""),
        "amd_pod": labels.get("exported_pod") or labels.get("pod", ""),
        "amd_board": board,
    }
    plain = name.removeprefix("amd_")
    return Series(subject, {METRICS[plain]: value * FACTORS.get(plain, 1.0)})
