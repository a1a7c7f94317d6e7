"""
Manifests and commands to copy that use a claim: the kinds, their notes, scripts, and the CUDA check.

`claim_snippets` is the entry. The manifests themselves come from `dra.workloads`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from shlex import quote
from textwrap import wrap

from django.db.models import Exists, Max, OuterRef

from claims.models import Claim, Delivery
from claims.plans.plan import CLAIM_LABEL, claim_use, delivery_kind
from cluster.protocol import INFERENCE_SERVICE, NOTEBOOK, PYTORCH_JOB, Kind
from core.text import counted
from dra import cuda, workloads
from dra.manifests import to_yaml
from dra.objects import Manifest
from dra.placement import Placement, claim_placement
from dra.workload_parts import (
    ASSUMED,
    IMAGES,
    PER_DEVICE,
    PER_PART,
    ClaimUse,
    WorkloadOptions,
    has_weights,
    workload_name,
)
from dra.workloads import MODEL
from inventory.cluster_snapshot import current_snapshot
from inventory.models import Device

type VendorContainers = Callable[[ClaimUse, WorkloadOptions], list[Manifest]]


class SnippetGroup(StrEnum):
    """What the devices are used for."""

    RUN = "run"
    NOTEBOOK = "notebook"
    SERVE = "serve"
    TRAIN = "train"
    SHELL = "shell"


GROUPS: dict[SnippetGroup, str] = {
    SnippetGroup.RUN: "Run",
    SnippetGroup.NOTEBOOK: "Notebook",
    SnippetGroup.SERVE: "Serve",
    SnippetGroup.TRAIN: "Train",
    SnippetGroup.SHELL: "Command line",
}


@dataclass(frozen=True, slots=True)
class SnippetKind:
    """
    A kind of snippet.

    `image` names its field of `dra.workload_parts.IMAGES`, "" for none. `manifests` creates its manifests,
    None for scripts. `requires` is a kind that the cluster must serve, from an operator.
    """

    key: str
    title: str
    group: SnippetGroup
    image: str = ""
    language: str = "yaml"
    manifests: VendorContainers | None = None
    requires: Kind | None = None

    def is_offered(self, use: ClaimUse, options: WorkloadOptions, kinds: Sequence[str]) -> bool:
        """Return whether the cluster serves the required kind and an image for the devices is known."""
        if self.requires and f"{self.requires.api_version}/{self.requires.plural}" not in kinds:
            return False
        return not self.image or bool(self.container_image(use, options))

    def container_image(self, use: ClaimUse, options: WorkloadOptions) -> str:
        """Return the image of its container, "" for none."""
        return (options.image or str(getattr(IMAGES[use.vendor], self.image))) if self.image else ""


KINDS = (
    SnippetKind("pod", "Pod", SnippetGroup.RUN, "base", manifests=workloads.pod),
    SnippetKind("job", "Job", SnippetGroup.RUN, "base", manifests=workloads.job),
    SnippetKind("deployment", "Deployment", SnippetGroup.RUN, "base", manifests=workloads.deployment),
    SnippetKind("statefulset", "StatefulSet", SnippetGroup.RUN, "base", manifests=workloads.stateful_set),
    SnippetKind("jupyter", "JupyterLab", SnippetGroup.NOTEBOOK, "jupyter", manifests=workloads.jupyter),
    SnippetKind(
        "kubeflow-notebook",
        "Kubeflow Notebook",
        SnippetGroup.NOTEBOOK,
        "jupyter",
        manifests=workloads.notebook,
        requires=NOTEBOOK,
    ),
    SnippetKind(
        "jupyterhub",
        "JupyterHub values",
        SnippetGroup.NOTEBOOK,
        "jupyter",
        manifests=lambda use, options: [workloads.values(use, options)],
    ),
    SnippetKind("jupyterhub-config", "JupyterHub Python", SnippetGroup.NOTEBOOK, "jupyter", "python"),
    SnippetKind("notebook", "Notebook cell", SnippetGroup.NOTEBOOK, language="python"),
    SnippetKind("vllm", "vLLM", SnippetGroup.SERVE, "vllm", manifests=workloads.vllm),
    SnippetKind("triton", "Triton", SnippetGroup.SERVE, "triton", manifests=workloads.triton),
    SnippetKind(
        "kserve",
        "KServe InferenceService",
        SnippetGroup.SERVE,
        "vllm",
        manifests=workloads.inference_service,
        requires=INFERENCE_SERVICE,
    ),
    SnippetKind(
        "pytorchjob",
        "PyTorchJob",
        SnippetGroup.TRAIN,
        "torch",
        manifests=workloads.pytorch_job,
        requires=PYTORCH_JOB,
    ),
    SnippetKind("kubectl", "kubectl", SnippetGroup.SHELL, "base", "shell"),
)


COMMENT_WIDTH = 98
REPEATED_KINDS = ("pod", "job", "deployment", "statefulset")  # of several device requests
SINGLE_POD_KINDS = ("pod", "jupyter", "kubeflow-notebook")
HUB_KINDS = ("jupyterhub", "jupyterhub-config")
MODEL_LOADERS = ("vllm", "kserve")  # download a model if none is mounted


def with_comments(text: str, notes: list[str]) -> str:
    """Return the text with the notes above it as comments; "#" works in YAML, Python and shell."""
    lines = [f"# {line}" for note in notes for line in wrap(note, COMMENT_WIDTH)]
    return "\n".join([*lines, text]) if lines else text


def snippet_notes(kind: SnippetKind, use: ClaimUse, options: WorkloadOptions) -> list[str]:
    """Return the notes for the top of a snippet, as sentences without line breaks."""
    return [
        *sharing_notes(kind, use),
        *serving_notes(kind, use, options),
        *size_notes(kind, use, options),
        *option_notes(kind, use, options),
    ]


def sharing_notes(kind: SnippetKind, use: ClaimUse) -> Iterator[str]:
    if kind.key in HUB_KINDS:
        yield f"Run the hub in namespace {use.namespace}: a pod can only use claims of its own namespace."
    if use.template:
        yield f"Template: each pod gets its own claim; at most {use.parallel} may exist at once."
    elif kind.key in SINGLE_POD_KINDS:
        yield "Named claim: other pods that refer to it share its devices."
    else:
        yield f"Named claim: all pods share the devices of {use.name}. More pods do not get more devices."


def serving_notes(kind: SnippetKind, use: ClaimUse, options: WorkloadOptions) -> Iterator[str]:
    if kind.key in MODEL_LOADERS and not has_weights(options):
        yield f"Without your own weights it downloads {MODEL}."
    if kind.key == "triton" and not has_weights(options):
        yield "Without weights it starts with no model. Mount a model repository."
    if kind.key == "kserve":
        yield "KServe runs it as a plain Deployment, because Knative rejects claims."
    if kind.key == "jupyter":
        yield "The token is in the log. Connect with kubectl port-forward."


def size_notes(kind: SnippetKind, use: ClaimUse, options: WorkloadOptions) -> Iterator[str]:
    """Yield what the portal assumes of a container's CPU and memory, and of the memory of a shared GPU."""
    cpus, gibibytes = PER_PART if use.partial else PER_DEVICE
    noun = "share or partition of a GPU" if use.partial else "device"
    size = f"{counted(cpus, 'CPU')} and {gibibytes} GiB of memory per {noun}"
    yield f"Requests {size}. Set what your program needs."
    if use.separate and kind.key in REPEATED_KINDS and not options.request:
        yield f"One container for each device request: {', '.join(name for name, _count in use.requests)}."
    if kind.key not in MODEL_LOADERS:
        return
    if use.memory_part is None:
        yield "Set --gpu-memory-utilization to the claim's part of the GPU's memory; the default is 0.9."
    elif not use.template:
        yield "If other pods use the claim too, divide --gpu-memory-utilization (default 0.9) among them."


def option_notes(kind: SnippetKind, use: ClaimUse, options: WorkloadOptions) -> Iterator[str]:
    if options.capacity == ASSUMED:
        yield "On-demand is assumed: these nodes have no capacity-type label."
    if options.isolated and kind.key in HUB_KINDS:
        yield "Set the network policy of its pods in the chart (singleuser.networkPolicy), not here."
    elif options.isolated:
        yield "Isolated: it reaches only DNS outside the pod. Mount everything that it loads."
    if not use.vendor:
        yield "No device matches now. The image is for NVIDIA devices."


# `wait` shows who acts next and why until pods may use the claim (clients/python).
NOTEBOOK_CELL = """\
# %pip install 'dragoman-client[notebook]'
# An API token is in DRAGOMAN_TOKEN, or sign in once: dragoman login {url}
from dragoman import Client

client = Client({url!r})
claim = client.get({claim!r})
claim.wait()
print(claim.why())
print(*claim.devices, sep="\\n")
"""


def script_text(key: str, claim: Claim, use: ClaimUse, options: WorkloadOptions, *, base_url: str) -> str:
    """Return the text of "kubectl", "notebook" or "jupyterhub-config"."""
    if key == "kubectl":
        return kubectl_commands(claim, use, options)
    if key == "notebook":
        return NOTEBOOK_CELL.format(url=base_url, claim=str(claim.pk))
    return workloads.config(use, options)


def kubectl_commands(claim: Claim, use: ClaimUse, options: WorkloadOptions) -> str:
    """Return kubectl commands: inspect the claim, run a pod, open a shell, delete the pod."""
    kubectl = f"kubectl -n {quote(use.namespace)}"
    (pod, *_policy) = workloads.pod(use, options)
    name, shell = pod["metadata"]["name"], workload_name(use, "shell")
    pod_spec = pod["spec"]
    container, *_others = pod_spec["containers"]
    pod_spec["containers"] = [container | {"name": shell, "stdin": True, "tty": True, "command": ["sh"]}]
    overrides = quote(json.dumps({"apiVersion": "v1", "spec": pod_spec}))
    return "\n".join(
        [
            "# The claim, and the devices that it holds",
            f"{kubectl} get {delivery_kind(claim.delivery).plural} {quote(claim.name)} -o yaml",
            f"{kubectl} get resourceclaims -l {CLAIM_LABEL}={claim.pk}",
            "# The manifest of the tab Pod",
            f"{kubectl} apply -f {claim.name}-pod.yaml",
            f"{kubectl} wait --for=condition=Ready pod/{name} --timeout=10m",
            f"{kubectl} logs -f {name}",
            "# A shell with the devices; its pod is deleted when you leave",
            f"{kubectl} run {shell} -it --rm --restart=Never --image={quote(container['image'])} \\",
            f"  --overrides={overrides}",
            "# The devices are freed when the last pod is gone",
            f"{kubectl} delete pod {name}",
            "",
        ]
    )


FILE_EXTENSIONS = {"yaml": "yaml", "python": "py", "shell": "sh"}


@dataclass(frozen=True)
class Snippet:
    """
    A snippet for one claim. `image` is the image of its container, "" for none.

    Its text is written when it is read: a page shows one of many snippets.
    """

    key: str
    title: str
    language: str  # "yaml", "shell", "python"
    write: Callable[[], str]
    group: SnippetGroup
    filename: str
    image: str

    @cached_property
    def text(self) -> str:
        return self.write()


def claim_snippets(
    claim: Claim,
    *,
    base_url: str,
    options: WorkloadOptions | None = None,
    placement: Placement | None = None,
) -> list[Snippet]:
    """
    Return the snippets that work in the claim's cluster.

    `base_url` is the portal's, without a trailing slash; `placement` has the matching devices.
    """
    use, options = claim_use(claim, placement), options or WorkloadOptions()
    kinds = claim.cluster.discovery.get("kinds") or ()
    return [
        make_snippet(kind, claim, use, options, base_url=base_url)
        for kind in KINDS
        if kind.is_offered(use, options, kinds)
    ]


def make_snippet(
    kind: SnippetKind, claim: Claim, use: ClaimUse, options: WorkloadOptions, *, base_url: str
) -> Snippet:
    def text() -> str:
        if kind.manifests is None:
            text = script_text(kind.key, claim, use, options, base_url=base_url)
        else:
            text = to_yaml(*kind.manifests(use, options))
        if kind.image and kind.language != "shell":
            text = with_comments(text, snippet_notes(kind, use, options))
        return text

    return Snippet(
        kind.key,
        str(kind.title),
        kind.language,
        text,
        kind.group,
        f"{claim.name}-{kind.key}.{FILE_EXTENSIONS[kind.language]}",
        kind.container_image(use, options),
    )


NVIDIA = "nvidia"  # the only vendor with CUDA


def placement_for(claim: Claim) -> Placement:
    """
    Return which devices and nodes of its cluster the claim could get. What limits memory is a part of the
    largest device that it holds, once it does; one query then.
    """
    placement = claim_placement(current_snapshot(claim.cluster), claim.spec)
    if not placement.memory or claim.delivery == Delivery.TEMPLATE:
        return placement
    place = {"driver": OuterRef("driver"), "pool": OuterRef("pool"), "device": OuterRef("name")}
    held = Device.objects.filter(
        Exists(claim.allocations.filter(ended_at=None, **place)), cluster=claim.cluster, gone_at=None
    )
    return replace(placement, memory=held.aggregate(most=Max("memory_bytes"))["most"] or placement.memory)


def cuda_check(snippet: Snippet, options: WorkloadOptions, placement: Placement) -> cuda.CudaCheck | None:
    """
    Check the CUDA version in `options`, else in the image tag, against the matching devices.

    None without a version, an image or NVIDIA devices.
    """
    version = options.cuda or cuda.image_cuda_version(snippet.image)
    if not version or not snippet.image or placement.vendor != NVIDIA:
        return None
    return cuda.check(version, placement.gpus)
