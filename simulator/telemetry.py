"""`/metrics` of a cluster: what the exporters of all its nodes would say together, in the text format."""

from collections.abc import Iterator

from simulator import curves, exporters
from simulator.boards import Board, boards_of
from simulator.exporters import Sample
from simulator.store import Store
from simulator.world_models import AMD

FULL_LOAD = 0.93  # of a board's limit is what it draws when busy

HELP = {
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("gauge", "Ratio of time the graphics engine is active."),
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
}


class Telemetry:
    """Energy counts up from scrape to scrape; `energy` (board → mJ, as of second) is kept on disk."""

    def __init__(self, store: Store, seed: int) -> None:
        self.store = store
        self.seed = seed
        self.energy: dict[str, list[float]] = {}

    def text(self) -> str:
        lines: dict[str, list[str]] = {}
        for metric, labels, value in self._samples():
            shown = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
            number = f"{value:.0f}" if value >= 1e6 else f"{value:.6g}"
            lines.setdefault(metric, []).append(f"{metric}{{{shown}}} {number}")
        parts: list[str] = []
        for metric, samples in lines.items():
            kind, about = HELP[metric]
            parts += [f"# HELP {metric} {about}", f"# TYPE {metric} {kind}", *samples]
        return "\n".join([*parts, ""])

    def _samples(self) -> Iterator[Sample]:
        now = self.store.now().timestamp()
        for board in boards_of(self.store, seed=self.seed, now=now):
            model = board.model
            watts = model.idle_watts + (model.watts * FULL_LOAD - model.idle_watts) * board.activity
            if board.driver == AMD:
                yield from exporters.amd(board, watts=watts)
            else:
                yield from exporters.dcgm(board, watts=watts, millijoules=self._energy(board, watts, now))

    def _energy(self, board: Board, watts: float, now: float) -> float:
        start = 1e9 + 1e10 * curves.fraction(f"{self.seed}/{board.key}")
        total, since = self.energy.get(board.key, [start, now])
        total += watts * 1000 * max(0.0, now - since)
        self.energy[board.key] = [total, now]
        return total


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
