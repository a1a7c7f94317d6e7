"""Every kind of snippet: for what it is, who makes it, and where it is offered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from cluster.kinds import INFERENCE_SERVICE, NOTEBOOK, PYTORCH_JOB, Kind
from dra import workloads
from dra.objects import Manifest
from dra.workloads import Options, Use, hub
from dra.workloads.images import IMAGES

type Maker = Callable[[Use, Options], list[Manifest]]


class Group(StrEnum):
    """What somebody wants to do with the devices."""

    RUN = "run"
    NOTEBOOK = "notebook"
    SERVE = "serve"
    TRAIN = "train"
    SHELL = "shell"


GROUPS: dict[Group, Promise] = {
    Group.RUN: _("Run"),
    Group.NOTEBOOK: _("Notebook"),
    Group.SERVE: _("Serve"),
    Group.TRAIN: _("Train"),
    Group.SHELL: _("Command line"),
}


@dataclass(frozen=True, slots=True)
class SnippetKind:
    """
    `image` names the column of `dra.workloads.images` that it runs, "" for none. `made` are its manifests,
    None for what `claims.snippets.scripts` writes. `served` is the kind that an operator has to bring.
    """

    key: str
    title: str | Promise
    group: Group
    image: str = ""
    language: str = "yaml"
    made: Maker | None = None
    served: Kind | None = None

    def offered(self, use: Use, options: Options, kinds: Sequence[str]) -> bool:
        """Say whether the cluster serves what it needs, and whether an image for these devices is known."""
        if self.served and f"{self.served.api_version}/{self.served.plural}" not in kinds:
            return False
        return not self.image or bool(self.runs(use, options))

    def runs(self, use: Use, options: Options) -> str:
        """Return the image that its container runs, "" for none."""
        return (options.image or str(getattr(IMAGES[use.maker], self.image))) if self.image else ""


KINDS = (
    SnippetKind("pod", "Pod", Group.RUN, "base", made=workloads.pod),
    SnippetKind("job", "Job", Group.RUN, "base", made=workloads.job),
    SnippetKind("deployment", "Deployment", Group.RUN, "base", made=workloads.deployment),
    SnippetKind("statefulset", "StatefulSet", Group.RUN, "base", made=workloads.stateful_set),
    SnippetKind("jupyter", "JupyterLab", Group.NOTEBOOK, "jupyter", made=workloads.jupyter),
    SnippetKind(
        "kubeflow-notebook",
        "Kubeflow Notebook",
        Group.NOTEBOOK,
        "jupyter",
        made=workloads.notebook,
        served=NOTEBOOK,
    ),
    SnippetKind(
        "jupyterhub",
        _("JupyterHub values"),
        Group.NOTEBOOK,
        "jupyter",
        made=lambda use, options: [hub.values(use, options)],
    ),
    SnippetKind("jupyterhub-config", _("JupyterHub Python"), Group.NOTEBOOK, "jupyter", "python"),
    SnippetKind("notebook", _("Notebook cell"), Group.NOTEBOOK, language="python"),
    SnippetKind("vllm", "vLLM", Group.SERVE, "vllm", made=workloads.vllm),
    SnippetKind("triton", "Triton", Group.SERVE, "triton", made=workloads.triton),
    SnippetKind(
        "kserve",
        "KServe InferenceService",
        Group.SERVE,
        "vllm",
        made=workloads.inference_service,
        served=INFERENCE_SERVICE,
    ),
    SnippetKind(
        "pytorchjob", "PyTorchJob", Group.TRAIN, "torch", made=workloads.pytorch_job, served=PYTORCH_JOB
    ),
    SnippetKind("kubectl", "kubectl", Group.SHELL, "base", "shell"),
)
