"""Manifests and commands to copy that use a claim: kinds, notes, scripts, placement."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from textwrap import wrap

from claims.models import Claim
from claims.plans.plan import CLAIM_LABEL, claim_use, delivery_kind
from cluster.kinds import INFERENCE_SERVICE, NOTEBOOK, PYTORCH_JOB, Kind
from dra import cuda, workloads
from dra.manifests import to_yaml
from dra.objects import Manifest
from dra.placement import Placement, claim_placement
from dra.workloads import ASSUMED, ClaimUse, WorkloadOptions, templates
from dra.workloads.pods import IMAGES, has_weights, name_of
from dra.workloads.templates import MODEL
from inventory.cluster_snapshot import current_snapshot

type Vendor = Callable[[ClaimUse, WorkloadOptions], list[Manifest]]


class SnippetGroup(StrEnum):
    """What somebody wants to do with the devices."""

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
    `image` names the column of `dra.workloads.pods.IMAGES` that it runs, "" for none. `made` are its
    manifests, None for scripts. `served` is the kind that an operator has to bring.
    """

    key: str
    title: str
    group: SnippetGroup
    image: str = ""
    language: str = "yaml"
    made: Vendor | None = None
    served: Kind | None = None

    def offered(self, use: ClaimUse, options: WorkloadOptions, kinds: Sequence[str]) -> bool:
        """Say whether the cluster serves what it needs, and whether an image for these devices is known."""
        if self.served and f"{self.served.api_version}/{self.served.plural}" not in kinds:
            return False
        return not self.image or bool(self.runs(use, options))

    def runs(self, use: ClaimUse, options: WorkloadOptions) -> str:
        """Return the image that its container runs, "" for none."""
        return (options.image or str(getattr(IMAGES[use.vendor], self.image))) if self.image else ""


KINDS = (
    SnippetKind("pod", "Pod", SnippetGroup.RUN, "base", made=workloads.pod),
    SnippetKind("job", "Job", SnippetGroup.RUN, "base", made=workloads.job),
    SnippetKind("deployment", "Deployment", SnippetGroup.RUN, "base", made=workloads.deployment),
    SnippetKind("statefulset", "StatefulSet", SnippetGroup.RUN, "base", made=workloads.stateful_set),
    SnippetKind("jupyter", "JupyterLab", SnippetGroup.NOTEBOOK, "jupyter", made=workloads.jupyter),
    SnippetKind(
        "kubeflow-notebook",
        "Kubeflow Notebook",
        SnippetGroup.NOTEBOOK,
        "jupyter",
        made=workloads.notebook,
        served=NOTEBOOK,
    ),
    SnippetKind(
        "jupyterhub",
        "JupyterHub values",
        SnippetGroup.NOTEBOOK,
        "jupyter",
        made=lambda use, options: [templates.values(use, options)],
    ),
    SnippetKind("jupyterhub-config", "JupyterHub Python", SnippetGroup.NOTEBOOK, "jupyter", "python"),
    SnippetKind("notebook", "Notebook cell", SnippetGroup.NOTEBOOK, language="python"),
    SnippetKind("vllm", "vLLM", SnippetGroup.SERVE, "vllm", made=workloads.vllm),
    SnippetKind("triton", "Triton", SnippetGroup.SERVE, "triton", made=workloads.triton),
    SnippetKind(
        "kserve",
        "KServe InferenceService",
        SnippetGroup.SERVE,
        "vllm",
        made=workloads.inference_service,
        served=INFERENCE_SERVICE,
    ),
    SnippetKind(
        "pytorchjob",
        "PyTorchJob",
        SnippetGroup.TRAIN,
        "torch",
        made=workloads.pytorch_job,
        served=PYTORCH_JOB,
    ),
    SnippetKind("kubectl", "kubectl", SnippetGroup.SHELL, "base", "shell"),
)


WIDTH = 98
SINGLE = ("pod", "jupyter", "kubeflow-notebook")  # kinds of one pod
HUB = ("jupyterhub", "jupyterhub-config")
LOADERS = ("vllm", "kserve")  # fetch a model where none is mounted


def commented(text: str, notes: list[str]) -> str:
    """Return the text below its notes; "#" begins a comment in YAML, Python and shell."""
    lines = [f"# {line}" for note in notes for line in wrap(note, WIDTH)]
    return "\n".join([*lines, text]) if lines else text


def notes_of(kind: SnippetKind, use: ClaimUse, options: WorkloadOptions) -> list[str]:
    """Return sentences without line breaks."""
    return [*_sharing(kind, use), *_serving(kind, use, options), *_choices(kind, use, options)]


def _sharing(kind: SnippetKind, use: ClaimUse) -> Iterator[str]:
    if kind.key in HUB:
        yield f"The hub has to run in namespace {use.namespace}: a pod finds claims of its own only."
    if use.template:
        yield f"Template: each pod gets a claim of its own, and {use.parallel} may exist at once."
    elif kind.key in SINGLE:
        yield "Named claim: other pods that name it share its devices."
    else:
        yield (f"Named claim: all pods share the devices of {use.name}; more pods get no more devices.")


def _serving(kind: SnippetKind, use: ClaimUse, options: WorkloadOptions) -> Iterator[str]:
    if kind.key in LOADERS and not has_weights(options):
        yield f"Without weights of yours it fetches {MODEL}."
    if kind.key == "triton" and not has_weights(options):
        yield "Without weights it starts with no model; mount a model repository."
    if kind.key == "kserve":
        yield "KServe runs it as a plain Deployment: Knative refuses claims."
    if kind.key == "jupyter":
        yield "Its token is in the log; reach it with kubectl port-forward."


def _choices(kind: SnippetKind, use: ClaimUse, options: WorkloadOptions) -> Iterator[str]:
    if options.capacity == ASSUMED:
        yield "On-demand is an assumption: no label of these nodes says how they are paid for."
    if options.isolated and kind.key in HUB:
        yield "The network of its pods is closed by the chart (singleuser.networkPolicy), not here."
    elif options.isolated:
        yield "Isolated: of all outside it reaches DNS alone, so what it loads has to be mounted."
    if not use.vendor:
        yield "The portal sees no device that matches now; the image suits NVIDIA's."


# Waits by long polling: the answer comes as soon as the claim has changed.
CELL = """\
import os, requests

portal = requests.Session()
portal.headers["Authorization"] = f"Bearer {{os.environ['DRAGOMAN_TOKEN']}}"
address = {address!r}
claim = portal.get(address).json()
while claim["state"] in ("requested", "approved", "provisioned"):
    print(portal.get(address + "explain/").json()["sentence"])
    claim = portal.get(address, params={{"wait": 25, "version": claim["version"]}}).json()
for device in claim["allocations"]:
    print(device["node_name"], device["device"], device["product"], device["uuid"])
"""


def script_of(key: str, claim: Claim, use: ClaimUse, options: WorkloadOptions, *, base_url: str) -> str:
    """Return the text of "kubectl", "notebook" or "jupyterhub-config"."""
    if key == "kubectl":
        return commands(claim, use, options)
    if key == "notebook":
        return CELL.format(address=f"{base_url}/api/v1/claims/{claim.pk}/")
    return templates.config(use, options)


def commands(claim: Claim, use: ClaimUse, options: WorkloadOptions) -> str:
    """Return kubectl for each step: look, run, reach, read, clear away."""
    kubectl = f"kubectl -n {quote(use.namespace)}"
    (pod, *_policy) = workloads.pod(use, options)
    name, shell = pod["metadata"]["name"], name_of(use, "shell")
    inner = pod["spec"]
    (container,) = inner["containers"]
    inner["containers"] = [container | {"name": shell, "stdin": True, "tty": True, "command": ["sh"]}]
    overrides = quote(json.dumps({"apiVersion": "v1", "spec": inner}))
    return "\n".join(
        [
            "# What is granted, and what is held",
            f"{kubectl} get {delivery_kind(claim.delivery).plural} {quote(claim.name)} -o yaml",
            f"{kubectl} get resourceclaims -l {CLAIM_LABEL}={claim.pk}",
            "# The manifest of the tab Pod",
            f"{kubectl} apply -f {claim.name}-pod.yaml",
            f"{kubectl} wait --for=condition=Ready pod/{name} --timeout=10m",
            f"{kubectl} logs -f {name}",
            "# A shell with the devices, gone when you leave it",
            f"{kubectl} run {shell} -it --rm --restart=Never --image={quote(container['image'])} \\",
            f"  --overrides={overrides}",
            "# Devices go back when the last pod is gone",
            f"{kubectl} delete pod {name}",
            "",
        ]
    )


ENDINGS = {"yaml": "yaml", "python": "py", "shell": "sh"}


@dataclass(frozen=True, slots=True)
class Snippet:
    """`image` is what its container runs, "" for none; `filename` is the name under which it is saved."""

    key: str
    title: str
    language: str  # "yaml", "shell", "python"
    text: str
    group: SnippetGroup
    filename: str
    image: str


def snippets_of(
    claim: Claim, *, base_url: str, options: WorkloadOptions | None = None, vendor: str = ""
) -> list[Snippet]:
    """
    Return the snippets that the cluster of the claim can take.

    `base_url` is that of the portal, without a slash at its end; `vendor` is that of the devices that match.
    """
    use, chosen = claim_use(claim, vendor=vendor), options or WorkloadOptions()
    served = claim.cluster.discovery.get("kinds") or ()
    return [
        _made(kind, claim, use, chosen, base_url=base_url)
        for kind in KINDS
        if kind.offered(use, chosen, served)
    ]


def _made(
    kind: SnippetKind, claim: Claim, use: ClaimUse, options: WorkloadOptions, *, base_url: str
) -> Snippet:
    if kind.made is None:
        text = script_of(kind.key, claim, use, options, base_url=base_url)
    else:
        text = to_yaml(*kind.made(use, options))
    if kind.image and kind.language != "shell":
        text = commented(text, notes_of(kind, use, options))
    return Snippet(
        kind.key,
        str(kind.title),
        kind.language,
        text,
        kind.group,
        f"{claim.name}-{kind.key}.{ENDINGS[kind.language]}",
        kind.runs(use, options),
    )


NVIDIA = "nvidia"  # whose devices say what of CUDA they run


def placement_of(claim: Claim) -> Placement:
    """Look at the mirror of the claim's cluster for what the claim could get."""
    return claim_placement(current_snapshot(claim.cluster), claim.spec)


def check_of(snippet: Snippet, options: WorkloadOptions, found: Placement) -> cuda.CudaCheck | None:
    """Judge the CUDA version of the image: the one that is named, else the one in its tag; None for none."""
    version = options.cuda or cuda.image_cuda_version(snippet.image)
    if not version or not snippet.image or found.vendor != NVIDIA:
        return None
    return cuda.check(version, found.gpus)
