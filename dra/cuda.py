"""
Whether an image with some version of CUDA runs on a GPU and its driver.

Rules: NVIDIA's CUDA compatibility guide and the table of toolkit and driver versions in its release notes.
Within a major version an older driver runs newer toolkits ("minor version compatibility"), but code that the
driver has to compile (PTX) and features of the newer toolkit fail. Nothing is guessed: without the facts the
answer is that it cannot be told.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

type Numbers = tuple[int, ...]


class Level(StrEnum):
    OK = "ok"
    UNKNOWN = "unknown"
    WARNING = "warning"
    ERROR = "error"


SEVERITY = list(Level)  # the worst last

# Oldest driver that runs toolkits of a major version at all (Linux x86-64).
MIN_DRIVERS: dict[int, Numbers] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}
# Driver that came with each toolkit: with it or a newer one everything works.
BUNDLED_DRIVERS: dict[Numbers, Numbers] = {
    (11, 4): (470, 42, 1),
    (11, 5): (495, 29, 5),
    (11, 6): (510, 39, 1),
    (11, 7): (515, 48, 7),
    (11, 8): (520, 61, 5),
    (12, 0): (525, 60, 13),
    (12, 1): (530, 30, 2),
    (12, 2): (535, 54, 3),
    (12, 3): (545, 23, 6),
    (12, 4): (550, 54, 14),
    (12, 5): (555, 42, 2),
    (12, 6): (560, 28, 3),
    (12, 8): (570, 26),
    (12, 9): (575, 51, 3),
    (13, 0): (580, 65, 6),
    (13, 1): (590, 44, 1),
    (13, 2): (595, 45, 4),
}
# From this compute capability on: the architecture, and the first toolkit that compiles for it.
ARCHITECTURES: tuple[tuple[Numbers, str, Numbers], ...] = (
    ((10, 0), "Blackwell", (12, 8)),
    ((9, 0), "Hopper", (11, 8)),
    ((8, 9), "Ada Lovelace", (11, 8)),
    ((8, 0), "Ampere", (11, 0)),
)
CUDA_13_MIN_CAPABILITY: Numbers = (7, 5)  # CUDA 13 has no code for what is older

# "nvidia/cuda:12.9.1-base", "pytorch:2.8.0-cuda12.8-cudnn9", "vllm-openai:v0.14.1-cu130"
IMAGE_TAGS = (
    re.compile(r"cuda[:_-]?v?(\d{1,2})\.(\d{1,2})", re.ASCII),
    re.compile(r"(?<![a-z0-9])cu(\d{2})(\d)(?![0-9])", re.ASCII),
)


@dataclass(frozen=True, slots=True)
class GpuCapability:
    """What a device publishes, as written: "13.0.0", "580.95.5", "9.0.0"; "" where it does not."""

    product: str = ""
    cuda: str = ""  # the newest that its driver knows
    driver: str = ""
    capability: str = ""


@dataclass(frozen=True, slots=True)
class CudaVerdict:
    level: Level
    sentence: str


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """One verdict, and how many of the devices it holds for."""

    verdict: CudaVerdict
    devices: int


@dataclass(frozen=True, slots=True)
class CudaCheck:
    """
    The version over all devices that match. `level` is the worst; parts come the worst first.

    A claim may get any of the devices, so one that cannot run the image is an error of the whole.
    """

    version: str
    level: Level
    parts: tuple[VerdictCount, ...]

    @property
    def devices(self) -> int:
        return sum(part.devices for part in self.parts)


def image_cuda_version(image: str) -> str:
    """Return the version that the tag of an image names, "12.9", or ""."""
    for pattern in IMAGE_TAGS:
        if match := pattern.search(image.lower()):
            return f"{int(match[1])}.{int(match[2])}"
    return ""


def check(version: str, devices: Iterable[tuple[GpuCapability, int]]) -> CudaCheck:
    """Judge a version for devices, each kind with its number. No device: nothing can be told."""
    counts: dict[CudaVerdict, int] = {}
    for gpu, number in devices:
        verdict = judge(version, gpu)
        counts[verdict] = counts.get(verdict, 0) + number
    parts = sorted(
        (VerdictCount(verdict, number) for verdict, number in counts.items()),
        key=lambda part: SEVERITY.index(part.verdict.level),
        reverse=True,
    )
    return CudaCheck(version, parts[0].verdict.level if parts else Level.UNKNOWN, tuple(parts))


def judge(version: str, gpu: GpuCapability) -> CudaVerdict:
    """Judge one kind of device: its architecture first, then its driver."""
    image = _numbers(version)[:2]
    capability = _numbers(gpu.capability)[:2]
    if capability:
        name = f"{gpu.product or 'the device'} (compute capability {_text(capability)})"
        if image >= (13,) and capability < CUDA_13_MIN_CAPABILITY:
            return CudaVerdict(Level.ERROR, f"CUDA {version} has no code for {name}: version 13 dropped it.")
        for since, architecture, oldest in ARCHITECTURES:
            if capability >= since:
                if image < oldest:
                    needs = f"{architecture} needs {_text(oldest)} or newer"
                    return CudaVerdict(Level.ERROR, f"CUDA {version} has no code for {name}: {needs}.")
                break
    return _by_driver(version, image, gpu)


def _by_driver(version: str, image: Numbers, gpu: GpuCapability) -> CudaVerdict:
    supported, driver = _numbers(gpu.cuda)[:2], _numbers(gpu.driver)
    if supported:
        driver_support = f"the driver{f' {gpu.driver}' if driver else ''} knows CUDA {_text(supported)}"
        if image[0] > supported[0]:
            return CudaVerdict(
                Level.ERROR,
                f"CUDA {version} likely fails: {driver_support}. It runs only if the image carries the package "
                "cuda-compat.",
            )
        if image > supported:
            return CudaVerdict(
                Level.WARNING,
                f"CUDA {version} runs by minor version compatibility: {driver_support}. What the driver has to compile "
                f"(PTX), and features newer than {_text(supported)}, fail.",
            )
        return CudaVerdict(Level.OK, f"CUDA {version} runs: {driver_support}.")
    if not driver:
        return CudaVerdict(
            Level.UNKNOWN,
            f"{gpu.product or 'The device'} publishes neither its driver nor the CUDA version that it knows.",
        )
    return _by_table(version, image, gpu.driver)


def _by_table(version: str, image: Numbers, driver: str) -> CudaVerdict:
    """Judge by the version of the driver alone."""
    numbers, floor, shipped = _numbers(driver), MIN_DRIVERS.get(image[0]), BUNDLED_DRIVERS.get(image)
    if floor and numbers < floor:
        needs = f"CUDA {image[0]} needs driver {_text(floor)} or newer, and the device has {driver}"
        return CudaVerdict(Level.ERROR, f"CUDA {version} likely fails: {needs}.")
    if shipped is None or floor is None:
        sentence = f"Which driver CUDA {version} needs is not known; the device has {driver}."
        return CudaVerdict(Level.UNKNOWN, sentence)
    if numbers < shipped:
        return CudaVerdict(
            Level.WARNING,
            f"CUDA {version} runs by minor version compatibility: it came with driver {_text(shipped)}, and "
            f"the device has {driver}. What the driver has to compile (PTX), and newer features, fail.",
        )
    sentence = f"CUDA {version} runs: it came with driver {_text(shipped)}, and the device has {driver}."
    return CudaVerdict(Level.OK, sentence)


def _numbers(text: str) -> Numbers:
    """Read "580.95.05" part by part; () for what is no version."""
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdecimal() for part in parts) else ()


def _text(numbers: Numbers) -> str:
    return ".".join(map(str, numbers))
