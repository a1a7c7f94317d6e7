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
from functools import lru_cache

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
# NGC images are released monthly, and all frameworks of one month have the same CUDA: (first month, last
# month, version). Source: "is based on CUDA" in the release notes of PyTorch and Triton at docs.nvidia.com,
# read on 2026-11-23, except for 22.09, 23.01, 23.03, 24.08 and 25.01. Months between two versions whose notes
# were not read are left out.
NGC_IMAGES = re.compile(
    r"nvidia/(?:pytorch|tensorflow|tritonserver|tensorrt|jax|cuda-dl-base):(\d\d)\.(\d\d)(?![0-9.])", re.ASCII
)
NGC_MONTHS: tuple[tuple[Numbers, Numbers, str], ...] = (
    ((22, 5), (22, 8), "11.7"),
    ((22, 9), (22, 12), "11.8"),
    ((23, 1), (23, 2), "12.0"),
    ((23, 3), (23, 7), "12.1"),
    ((23, 8), (23, 10), "12.2"),
    ((23, 11), (24, 2), "12.3"),
    ((24, 3), (24, 5), "12.4"),
    ((24, 6), (24, 7), "12.5"),
    ((24, 8), (24, 12), "12.6"),
    ((25, 1), (25, 3), "12.8"),
    ((25, 4), (25, 7), "12.9"),
    ((25, 8), (25, 11), "13.0"),
    ((25, 12), (26, 2), "13.1"),
    ((26, 4), (26, 4), "13.2"),
    ((26, 6), (26, 7), "13.3"),
    ((26, 8), (26, 10), "13.4"),
)
# Release numbers: (image, first release, version), the newest first. Sources, read on 2026-11-23: ARG
# CUDA_VERSION of vLLM's docker/Dockerfile, release notes except 0.11.1, and issue 42738 (a tag with another
# CUDA says so: "-cu129"). For tags of TensorFlow with "-gpu": "Tested build configurations" of
# tensorflow.org/install/source as of TensorFlow 2.20, not compared with the images.
RELEASES: tuple[tuple[re.Pattern[str], tuple[tuple[Numbers, str], ...]], ...] = (
    (
        re.compile(r"vllm/vllm-openai:v?(\d+(?:\.\d+)+)", re.ASCII),
        (
            ((0, 20), "13.0"),
            ((0, 11, 1), "12.9"),
            ((0, 9), "12.8"),
            ((0, 4, 3), "12.4"),
            ((0, 2, 2), "12.1"),
        ),
    ),
    (
        re.compile(r"tensorflow/tensorflow:(\d+(?:\.\d+)+)-gpu", re.ASCII),
        (((2, 18), "12.5"), ((2, 16), "12.3"), ((2, 15), "12.2"), ((2, 12), "11.8"), ((2, 5), "11.2")),
    ),
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
    """Return the CUDA version in the tag of an image, else of its release, such as "12.9"; "" if unknown."""
    name = image.lower()
    for pattern in IMAGE_TAGS:
        if match := pattern.search(name):
            return f"{int(match[1])}.{int(match[2])}"
    if match := NGC_IMAGES.search(name):
        month = int(match[1]), int(match[2])
        return next((version for first, last, version in NGC_MONTHS if first <= month <= last), "")
    for pattern, releases in RELEASES:
        if match := pattern.search(name):
            release = _numbers(match[1])
            return next((version for first, version in releases if release >= first), "")
    return ""


def check(version: str, devices: Iterable[tuple[GpuCapability, int]]) -> CudaCheck:
    """
    Check a version against (device, number) pairs; UNKNOWN without devices.

    Where devices publish which CUDA version their driver supports, the version of the driver does not matter:
    those of several drivers get one verdict, which names no driver.
    """
    drivers_by_gpu: dict[tuple[str, str, str, str], dict[str, int]] = {}
    for gpu, number in devices:
        driver = "" if _numbers(gpu.cuda) else gpu.driver
        drivers = drivers_by_gpu.setdefault((gpu.product, gpu.cuda, driver, gpu.capability), {})
        drivers[gpu.driver] = drivers.get(gpu.driver, 0) + number
    counts: dict[CudaVerdict, int] = {}
    for (product, supported, _driver, capability), drivers in drivers_by_gpu.items():
        driver = next(iter(drivers)) if len(drivers) == 1 else ""
        verdict = judge(version, GpuCapability(product, supported, driver, capability))
        counts[verdict] = counts.get(verdict, 0) + sum(drivers.values())
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


@lru_cache(maxsize=1024)
def _numbers(text: str) -> Numbers:
    """Return "580.95.05" as numbers; () if it is not a version."""
    parts = text.split(".")
    return tuple(map(int, parts)) if all(part.isascii() and part.isdecimal() for part in parts) else ()


def _text(numbers: Numbers) -> str:
    return ".".join(map(str, numbers))
