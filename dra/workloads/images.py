"""
Images that suit the devices of each maker, and the command that shows the devices.

Examples to begin with: all of them are public, and the person names an own one. "" where no public image of
that use is known.
"""

from __future__ import annotations

from dataclasses import dataclass

UBUNTU = "docker.io/library/ubuntu:24.04"


@dataclass(frozen=True, slots=True)
class Images:
    """`look` is a shell command that lists the devices; the NVIDIA driver brings nvidia-smi with it."""

    look: str
    base: str = UBUNTU
    torch: str = ""
    jupyter: str = ""
    vllm: str = ""
    triton: str = ""


NVIDIA = Images(
    look="nvidia-smi -L || ls -l /dev",
    torch="docker.io/pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
    jupyter="quay.io/jupyter/pytorch-notebook:cuda12-latest",
    vllm="docker.io/vllm/vllm-openai:v0.11.0",
    triton="nvcr.io/nvidia/tritonserver:25.12-py3",
)

# Makers as `dra.devices.vendors` names them. Without a device to look at, NVIDIA's are taken.
IMAGES = {
    "": NVIDIA,
    "nvidia": NVIDIA,
    "amd": Images(
        look="rocm-smi || ls -l /dev/kfd /dev/dri",
        base="docker.io/rocm/rocm-terminal:latest",
        torch="docker.io/rocm/pytorch:latest",
        vllm="docker.io/rocm/vllm:latest",
    ),
    "intel": Images(look="ls -l /dev/dri"),
    "gaudi": Images(look="hl-smi || ls -l /dev/accel"),
    "tpu": Images(look="ls -l /dev/vfio /dev/accel*", vllm="docker.io/vllm/vllm-tpu:latest"),
    "other": Images(look="ls -l /dev"),
}
