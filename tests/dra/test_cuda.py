"""Whether an image runs on a GPU and its driver: NVIDIA's rules, one row each."""

import pytest

from dra.cuda import CudaVerdict, GpuCapability, Level, check, image_cuda_version, judge

H100 = {"product": "NVIDIA H100 80GB HBM3", "capability": "9.0.0"}
B200 = {"product": "NVIDIA B200", "capability": "10.0.0"}
V100 = {"product": "Tesla V100", "capability": "7.0.0"}


@pytest.mark.parametrize(
    ("version", "gpu", "level", "words"),
    [
        ("12.9", {"cuda": "13.0.0", "driver": "580.95.5"}, "ok", "the driver 580.95.5 supports CUDA 13.0"),
        ("13.0", {"cuda": "13.0.0"}, "ok", "the driver supports CUDA 13.0"),
        ("13.0.2", {"cuda": "13.0.0"}, "ok", "runs"),  # updates of one minor version need no newer driver
        ("13.2", {"cuda": "13.0.0"}, "warning", "features newer than 13.0, fail"),
        ("13.0", {"cuda": "12.9.0", "driver": "575.57.8"}, "error", "fails: the driver 575.57.8 supports"),
        ("13.0", {"cuda": "12.9.0"}, "error", "cuda-compat"),
        ("11.8", {"cuda": "13.0.0"}, "ok", "runs"),
        # the driver's version alone
        ("13.0", {"driver": "570.86.15"}, "error", "needs driver 580 or newer, and the device has 570.86.15"),
        ("13.0", {"driver": "580.65.06"}, "ok", "was released with driver 580.65.6"),
        ("13.1", {"driver": "580.95.5"}, "warning", "driver 590.44.1, and the device has 580.95.5"),
        ("12.9", {"driver": "535.54.3"}, "warning", "was released with driver 575.51.3"),
        ("12.9", {"driver": "525.60.12"}, "error", "needs driver 525.60.13"),
        ("11.8", {"driver": "450.80.2"}, "warning", "was released with driver 520.61.5"),
        ("12.7", {"driver": "570.86.15"}, "unknown", "The driver that CUDA 12.7 needs is unknown"),
        ("14.0", {"driver": "600.1"}, "unknown", "CUDA 14.0 needs is unknown"),
        ("10.2", {"driver": "440.33"}, "unknown", "10.2"),
        # nothing to go by
        ("12.9", {}, "unknown", "publishes neither its driver version nor"),
        ("12.9", {"driver": "unknown"}, "unknown", "publishes neither"),
        # architecture before driver
        ("12.4", {**B200, "cuda": "13.0.0"}, "error", "Blackwell needs 12.8 or newer"),
        ("12.8", {**B200, "cuda": "13.0.0"}, "ok", "runs"),
        ("12.6", {"capability": "12.0.0", "cuda": "13.0.0"}, "error", "compute capability 12.0"),
        ("11.7", {**H100, "cuda": "13.0.0"}, "error", "Hopper needs 11.8"),
        ("11.8", {**H100, "cuda": "13.0.0"}, "ok", "runs"),
        ("11.7", {"capability": "8.9.0", "cuda": "13.0.0"}, "error", "Ada Lovelace needs 11.8"),
        ("11.0", {"capability": "8.6.0", "cuda": "13.0.0"}, "ok", "runs"),
        ("10.2", {"capability": "8.0.0", "cuda": "13.0.0"}, "error", "Ampere needs 11.0"),
        ("13.0", {**V100, "cuda": "13.0.0"}, "error", "version 13 dropped it"),
        ("12.9", {**V100, "cuda": "13.0.0"}, "ok", "runs"),
        ("13.0", {"capability": "7.5.0", "cuda": "13.0.0"}, "ok", "runs"),
    ],
)  # fmt: skip
def test_the_rules(version, gpu, level, words):
    verdict = judge(version, GpuCapability(**gpu))
    assert (verdict.level, words in verdict.sentence) == (Level(level), True), verdict.sentence
    assert verdict.sentence.endswith(".")
    assert version in verdict.sentence or level == "unknown"


def test_versions_are_compared_part_by_part():
    """The driver publishes 595.58.03 as 595.58.3, and 100 is more than 99."""
    assert (
        judge("13.2", GpuCapability(driver="595.58.3")).level
        == judge("13.2", GpuCapability(driver="595.58.03")).level
    )
    assert judge("13.2", GpuCapability(driver="595.45.04")).level == Level.OK
    assert judge("13.2", GpuCapability(driver="595.45.3")).level == Level.WARNING
    assert judge("13.2", GpuCapability(driver="595.100.1")).level == Level.OK


def test_the_worst_of_all_devices_counts_and_the_best_is_told_too():
    old, new = (
        GpuCapability(cuda="12.4.0", driver="550.54.14"),
        GpuCapability(cuda="13.0.0", driver="580.95.5"),
    )
    found = check("13.0", [(new, 16), (old, 8), (GpuCapability(), 2)])
    assert found.level == Level.ERROR
    assert [(part.verdict.level, part.devices) for part in found.parts] == [
        (Level.ERROR, 8),
        (Level.UNKNOWN, 2),
        (Level.OK, 16),
    ]
    assert found.devices == 26


def test_the_same_verdict_is_told_once():
    found = check(
        "12.9", [(GpuCapability("A", "13.0.0", "580.1"), 4), (GpuCapability("B", "13.0.0", "580.1"), 4)]
    )
    assert [part.devices for part in found.parts] == [8]


def test_drivers_that_support_the_same_cuda_version_get_one_verdict():
    drivers = [(GpuCapability("A", "13.0.0", f"580.95.{number}", "9.0.0"), 2) for number in range(1, 900)]
    (part,) = check("12.9", drivers).parts
    assert (part.verdict.sentence, part.devices) == ("CUDA 12.9 runs: the driver supports CUDA 13.0.", 1798)
    (only,) = check("12.9", drivers[:1]).parts
    assert only.verdict.sentence == "CUDA 12.9 runs: the driver 580.95.1 supports CUDA 13.0."


def test_without_published_cuda_version_each_driver_is_checked():
    parts = check(
        "12.4", [(GpuCapability("A", "", "550.54.14"), 3), (GpuCapability("A", "", "470.1"), 1)]
    ).parts
    assert [(part.verdict.level, part.devices) for part in parts] == [(Level.ERROR, 1), (Level.OK, 3)]


def test_without_devices_nothing_is_told():
    found = check("12.9", [])
    assert (found.level, found.parts, found.devices) == (Level.UNKNOWN, (), 0)


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("docker.io/nvidia/cuda:12.9.1-runtime-ubuntu22.04", "12.9"),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", "12.8"),
        ("docker.io/vllm/vllm-openai:v0.14.1-cu130", "13.0"),
        ("registry:5000/team/x:CUDA-11.8", "11.8"),
        ("quay.io/jupyter/pytorch-notebook:cuda12-latest", ""),
        ("docker.io/library/ubuntu:24.04", ""),
        ("example.org/focus128:1", ""),
        ("", ""),
    ],
)
def test_the_version_in_the_tag(image, version):
    assert image_cuda_version(image) == version


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("nvcr.io/nvidia/pytorch:24.01-py3", "12.3"),
        ("registry.example.org/mirror/nvidia/pytorch:25.04-py3", "12.9"),
        ("nvcr.io/nvidia/tritonserver:25.12-py3", "13.1"),
        ("nvcr.io/nvidia/tensorflow:23.08-tf2-py3", "12.2"),
        ("nvcr.io/nvidia/tritonserver:26.10-vllm-python-py3", "13.4"),
        ("nvcr.io/nvidia/pytorch:26.03-py3", ""),  # between two versions; nobody read its notes
        ("nvcr.io/nvidia/pytorch:22.04-py3", ""),
        ("nvcr.io/nvidia/pytorch:27.01-py3", ""),
        ("nvcr.io/nvidia/nemo:25.04", ""),
        ("nvidia/pytorch:24.011-py3", ""),
        ("docker.io/vllm/vllm-openai:v0.11.0", "12.8"),
        ("docker.io/vllm/vllm-openai:v0.11.1", "12.9"),
        ("vllm/vllm-openai:v0.21.0", "13.0"),
        ("vllm/vllm-openai:v0.21.0-cu129", "12.9"),
        ("vllm/vllm-openai:v0.4.2", "12.1"),
        ("vllm/vllm-openai:v0.1.7", ""),
        ("vllm/vllm-openai:latest", ""),
        ("tensorflow/tensorflow:2.15.0-gpu-jupyter", "12.2"),
        ("tensorflow/tensorflow:2.11.1-gpu", "11.2"),
        ("tensorflow/tensorflow:2.15.0", ""),  # for CPUs
    ],
)
def test_version_of_a_release_is_known(image, version):
    assert image_cuda_version(image) == version


@pytest.mark.parametrize(
    ("version", "shipped"),
    [
        ("11.4", "470.42.1"),
        ("11.5", "495.29.5"),
        ("11.6", "510.39.1"),
        ("11.7", "515.48.7"),
        ("11.8", "520.61.5"),
        ("12.0", "525.60.13"),
        ("12.1", "530.30.2"),
        ("12.2", "535.54.3"),
        ("12.3", "545.23.6"),
        ("12.4", "550.54.14"),
        ("12.5", "555.42.2"),
        ("12.6", "560.28.3"),
        ("12.8", "570.26"),
        ("12.9", "575.51.3"),
        ("13.0", "580.65.6"),
        ("13.1", "590.44.1"),
        ("13.2", "595.45.4"),
    ],
)
def test_toolkit_runs_fully_from_its_bundled_driver_on(version, shipped):
    *rest, last = shipped.split(".")
    before = ".".join([*rest, str(int(last) - 1)])
    runs = f"CUDA {version} runs: it was released with driver {shipped}; the device has {shipped}."
    assert judge(version, GpuCapability(driver=shipped)) == CudaVerdict(Level.OK, runs)
    assert judge(version, GpuCapability(driver=before)).level == (
        Level.ERROR if version == "12.0" else Level.WARNING
    )


@pytest.mark.parametrize(
    ("version", "least", "before"),
    [("11.8", "450.80.2", "450.80.1"), ("12.9", "525.60.13", "525.60.12"), ("13.0", "580", "579.99.99")],
)
def test_driver_below_the_minimum_runs_no_toolkit_of_the_version(version, least, before):
    major = version.partition(".")[0]
    assert judge(version, GpuCapability(driver=least)).level == Level.WARNING
    assert judge(version, GpuCapability(driver=before)) == CudaVerdict(
        Level.ERROR,
        f"CUDA {version} probably fails: CUDA {major} needs driver {least} or newer, "
        f"and the device has {before}.",
    )


@pytest.mark.parametrize(
    ("capability", "version", "said"),
    [
        ("10.0", "12.7", "Blackwell needs 12.8 or newer"),
        ("9.9", "11.7", "Hopper needs 11.8 or newer"),
        ("8.9", "11.7", "Ada Lovelace needs 11.8 or newer"),
        ("8.8", "10.9", "Ampere needs 11.0 or newer"),
        ("7.4", "13.0", "version 13 dropped it"),
    ],
)
def test_the_code_of_an_image_is_for_some_architectures(capability, version, said):
    found = judge(version, GpuCapability("NVIDIA X", "99.0", "", f"{capability}.0"))
    assert found == CudaVerdict(
        Level.ERROR, f"CUDA {version} has no code for NVIDIA X (compute capability {capability}): {said}."
    )


def test_driver_support_is_reported():
    has = "the driver 580.95.5 supports CUDA 13.0"
    gpu = GpuCapability("", "13.0.0", "580.95.5", "")
    assert [judge(version, gpu).sentence for version in ("13.0", "13.1", "14.0")] == [
        f"CUDA 13.0 runs: {has}.",
        f"CUDA 13.1 runs by minor version compatibility: {has}. PTX code that the driver must compile, and "
        "features newer than 13.0, fail.",
        f"CUDA 14.0 probably fails: {has}. It runs only if the image contains the package cuda-compat.",
    ]
