"""
Workloads that use a claim, as manifests. Pure: the same claim and options give the same manifests.

A maker of a kind takes (`Use`, `Options`) and returns the documents in the order in which they are applied.
"""

from dra.workloads.operators import inference_service, notebook, pytorch_job
from dra.workloads.plain import deployment, job, pod, stateful_set
from dra.workloads.servers import jupyter, triton, vllm
from dra.workloads.use import ASSUMED, Options, Use, devices_of, pods_of, requests_of

__all__ = [
    "ASSUMED",
    "Options",
    "Use",
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
