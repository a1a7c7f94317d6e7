"""
The manifests of every workload as files: `python -m tests.dra.workload_manifests` writes them anew.

Who changes what people are handed looks at the difference of these files.
"""

from pathlib import Path

from dra import workloads
from dra.manifests import to_yaml
from dra.workload_parts import ClaimUse, WorkloadOptions

GOLDEN = Path(__file__).parent / "golden"
MAKERS = {
    "pod": workloads.pod,
    "job": workloads.job,
    "deployment": workloads.deployment,
    "stateful-set": workloads.stateful_set,
    "jupyter": workloads.jupyter,
    "triton": workloads.triton,
    "vllm": workloads.vllm,
    "notebook": workloads.notebook,
    "pytorch-job": workloads.pytorch_job,
    "inference-service": workloads.inference_service,
}
USUAL = ClaimUse("sam2", "vision", requests=(("gpu", 2),), vendor="nvidia"), WorkloadOptions()
CHOSEN = (
    ClaimUse("sweep", "vision", template=True, parallel=3, requests=(("gpu", 2), ("nic", 1)), vendor="amd"),
    WorkloadOptions(
        request="gpu",
        pods=2,
        completions=7,
        port=9000,
        priority="low",
        tolerate=("gpu=yes:NoSchedule", "spot:NoExecute"),
        capacity="karpenter.sh/capacity-type=spot",
        isolated=True,
        weights_claim="models",
    ),
)


def written() -> dict[str, str]:
    """Return each file's text by its name."""
    made = {}
    for name, make in MAKERS.items():
        for kind, (use, options) in (("usual", USUAL), ("chosen", CHOSEN)):
            made[f"{name}-{kind}.yaml"] = to_yaml(*make(use, options))
    for kind, (use, options) in (("usual", USUAL), ("chosen", CHOSEN)):
        made[f"jupyterhub-{kind}.py.txt"] = workloads.config(use, options)
        made[f"jupyterhub-{kind}.yaml"] = to_yaml(workloads.values(use, options))
    return made


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name, text in written().items():
        (GOLDEN / name).write_text(text)
