"""What a reader should know of a manifest before pasting it: comment lines at its top."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from django.utils.translation import gettext as _

from claims.snippets.kinds import SnippetKind
from dra.workloads import ASSUMED, Options, Use
from dra.workloads.pods import has_weights
from dra.workloads.servers import MODEL

WIDTH = 98
SINGLE = ("pod", "jupyter", "kubeflow-notebook")  # kinds of one pod
HUB = ("jupyterhub", "jupyterhub-config")
LOADERS = ("vllm", "kserve")  # fetch a model where none is mounted


def commented(text: str, notes: list[str]) -> str:
    """Return the text below its notes; "#" begins a comment in YAML, Python and shell."""
    lines = [f"# {line}" for note in notes for line in wrap(note, WIDTH)]
    return "\n".join([*lines, text]) if lines else text


def notes_of(kind: SnippetKind, use: Use, options: Options) -> list[str]:
    """Return sentences without line breaks."""
    return [*_sharing(kind, use), *_serving(kind, use, options), *_choices(kind, use, options)]


def _sharing(kind: SnippetKind, use: Use) -> Iterator[str]:
    if kind.key in HUB:
        yield _("The hub has to run in namespace %(namespace)s: a pod finds claims of its own only.") % {
            "namespace": use.namespace
        }
    if use.template:
        yield _("Template: each pod gets a claim of its own, and %(most)d may exist at once.") % {
            "most": use.parallel
        }
    elif kind.key in SINGLE:
        yield _("Named claim: other pods that name it share its devices.")
    else:
        yield _("Named claim: all pods share the devices of %(claim)s; more pods get no more devices.") % {
            "claim": use.name
        }


def _serving(kind: SnippetKind, use: Use, options: Options) -> Iterator[str]:
    if kind.key in LOADERS and not has_weights(options):
        yield _("Without weights of yours it fetches %(model)s.") % {"model": MODEL}
    if kind.key == "triton" and not has_weights(options):
        yield _("Without weights it starts with no model; mount a model repository.")
    if kind.key == "kserve":
        yield _("KServe runs it as a plain Deployment: Knative refuses claims.")
    if kind.key == "jupyter":
        yield _("Its token is in the log; reach it with kubectl port-forward.")


def _choices(kind: SnippetKind, use: Use, options: Options) -> Iterator[str]:
    if options.capacity == ASSUMED:
        yield _("On-demand is an assumption: no label of these nodes says how they are paid for.")
    if options.isolated and kind.key in HUB:
        yield _("The network of its pods is closed by the chart (singleuser.networkPolicy), not here.")
    elif options.isolated:
        yield _("Isolated: of all outside it reaches DNS alone, so what it loads has to be mounted.")
    if not use.maker:
        yield _("The portal sees no device that matches now; the image suits NVIDIA's.")
