"""
Workloads that use a claim, as manifests. Pure functions.

A builder of a kind takes (`ClaimUse`, `WorkloadOptions`) and returns the documents in the order of applying.
"""

from dra.workloads.builders import (
    deployment,
    inference_service,
    job,
    jupyter,
    notebook,
    pod,
    pytorch_job,
    stateful_set,
    triton,
    vllm,
)
from dra.workloads.parts import ASSUMED, ClaimUse, WorkloadOptions, devices_of, pods_of, requests_of

__all__ = [
    "ASSUMED",
    "ClaimUse",
    "WorkloadOptions",
    "deployment",
    "devices_of",
    "inference_service",
    "job",
    "jupyter",
    "notebook",
    "pod",
    "pods_of",
    "pytorch_job",
    "requests_of",
    "stateful_set",
    "triton",
    "vllm",
]
