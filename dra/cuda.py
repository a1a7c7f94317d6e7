"""
Whether an image built for a CUDA version runs on a GPU and its driver.

Rules: NVIDIA's CUDA compatibility guide and the table of toolkit and driver versions in its release notes.
Within a major version an older driver runs newer toolkits ("minor version compatibility"), but code that the
driver must compile (PTX) and features of the newer toolkit fail. Without the facts the result is UNKNOWN.
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

# Oldest driver that runs toolkits of a major version (Linux x86-64).
MIN_DRIVERS: dict[int, Numbers] = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}
# Driver bundled with each toolkit: it and newer drivers run everything.
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
# Lowest compute capability of each architecture, and the first toolkit that compiles for it.
ARCHITECTURES: tuple[tuple[Numbers, str, Numbers], ...] = (
    ((10, 0), "Blackwell", (12, 8)),
    ((9, 0), "Hopper", (11, 8)),
    ((8, 9), "Ada Lovelace", (11, 8)),
    ((8, 0), "Ampere", (11, 0)),
)
CUDA_13_MIN_CAPABILITY: Numbers = (7, 5)  # CUDA 13 dropped older GPUs

# "nvidia/cuda:12.9.1-base", "pytorch:2.8.0-cuda12.8-cudnn9", "vllm-openai:v0.14.1-cu130"
IMAGE_TAGS = (
    re.compile(r"cuda[:_-]?v?(\d{1,2})\.(\d{1,2})", re.ASCII),
    re.compile(r"(?<![a-z0-9])cu(\d{2})(\d)(?![0-9])", re.ASCII),
)


@dataclass(frozen=True, slots=True)
class GpuCapability:
    """What a device publishes, such as "13.0.0", "580.95.5", "9.0.0"; "" if absent."""

    product: str = ""
    cuda: str = ""  # newest version that its driver supports
    driver: str = ""
    capability: str = ""


@dataclass(frozen=True, slots=True)
class CudaVerdict:
    level: Level
    sentence: str


@dataclass(frozen=True, slots=True)
class VerdictCount:
    """One verdict, and its number of devices."""

    verdict: CudaVerdict
    devices: int


@dataclass(frozen=True, slots=True)
class CudaCheck:
    """
    A CUDA version checked against all matching devices. `level` is the worst; the worst part comes first.

    A claim can get any of the devices, so one that cannot run the image makes the check an error.
    """

    version: str
    level: Level
    parts: tuple[VerdictCount, ...]

    @property
    def devices(self) -> int:
        return sum(part.devices for part in self.parts)


def image_cuda_version(image: str) -> str:
    """Return the CUDA version in the tag of an image, such as "12.9", or ""."""
    for pattern in IMAGE_TAGS:
        if match := pattern.search(image.lower()):
            return f"{int(match[1])}.{int(match[2])}"
    return ""


def check(version: str, devices: Iterable[tuple[GpuCapability, int]]) -> CudaCheck:
    """Check a version against (device, number) pairs; UNKNOWN without devices."""
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
    """Check one kind of device: its architecture first, then its driver."""
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
        driver_support = f"the driver{f' {gpu.driver}' if driver else ''} supports CUDA {_text(supported)}"
        if image[0] > supported[0]:
            return CudaVerdict(
                Level.ERROR,
                f"CUDA {version} probably fails: {driver_support}. It runs only if the image contains the "
                "package cuda-compat.",
            )
        if image > supported:
            return CudaVerdict(
                Level.WARNING,
                f"CUDA {version} runs by minor version compatibility: {driver_support}. PTX code that the "
                f"driver must compile, and features newer than {_text(supported)}, fail.",
            )
        return CudaVerdict(Level.OK, f"CUDA {version} runs: {driver_support}.")
    if not driver:
        return CudaVerdict(
            Level.UNKNOWN,
            f"{gpu.product or 'The device'} publishes neither its driver version nor its CUDA version.",
        )
    return _by_table(version, image, gpu.driver)


def _by_table(version: str, image: Numbers, driver: str) -> CudaVerdict:
    """Check the driver version only."""
    numbers, floor, shipped = _numbers(driver), MIN_DRIVERS.get(image[0]), BUNDLED_DRIVERS.get(image)
    if floor and numbers < floor:
        needs = f"CUDA {image[0]} needs driver {_text(floor)} or newer, and the device has {driver}"
        return CudaVerdict(Level.ERROR, f"CUDA {version} probably fails: {needs}.")
    if shipped is None or floor is None:
        sentence = f"The driver that CUDA {version} needs is unknown; the device has {driver}."
        return CudaVerdict(Level.UNKNOWN, sentence)
    if numbers < shipped:
        return CudaVerdict(
            Level.WARNING,
            f"CUDA {version} runs by minor version compatibility: it was released with driver "
            f"{_text(shipped)}, and the device has {driver}. PTX code that the driver must compile, and "
            "newer features, fail.",
        )
    sentence = f"CUDA {version} runs: it was released with driver {_text(shipped)}; the device has {driver}."
    return CudaVerdict(Level.OK, sentence)


def _numbers(text: str) -> Numbers:
    """Return "580.95.05" as numbers; () if it is not a version."""
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdecimal() for part in parts) else ()


def _text(numbers: Numbers) -> str:
    return ".".join(map(str, numbers))
