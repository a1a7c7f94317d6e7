"""What workloads are made from: a claim as pods use it, and what the person chose beside it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields

from dra.objects import Ask, Json, alternatives, requests

# RFC 1123 subdomain, as names of PriorityClasses and volume claims are.
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
# Characters of an image reference with tag and digest (OCI distribution spec); nothing that ends a string.
REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]*", re.ASCII)
QUALIFIED = r"(?:[a-z0-9.-]+/)?[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
TAINT = re.compile(rf"({QUALIFIED})(?:=({VALUE})?)?:(NoSchedule|NoExecute|PreferNoSchedule)", re.ASCII)
LABEL = re.compile(rf"({QUALIFIED})=({VALUE})", re.ASCII)
CUDA = re.compile(r"(\d{1,2})\.(\d{1,2})(?:\.\d{1,3})?", re.ASCII)
ASSUMED = "assumed"  # on-demand, because no label says otherwise
LONGEST_NAME, LONGEST_REFERENCE = 253, 512
MOST_PODS, MOST_COMPLETIONS, LAST_PORT = 1024, 100_000, 65_535


@dataclass(frozen=True, slots=True)
class Use:
    """
    A claim as pods use it.

    `name` is that of the ResourceClaim, which all pods share, or with `template` that of the
    ResourceClaimTemplate, which makes a claim for each of up to `parallel` pods. `requests` are (name,
    devices), None where their number is known only once they are allocated. `maker` is a key of
    `dra.workloads.images.IMAGES`.
    """

    name: str
    namespace: str
    template: bool = False
    parallel: int = 1
    requests: tuple[tuple[str, int | None], ...] = ()
    maker: str = ""


@dataclass(frozen=True, slots=True)
class Options:
    """
    What the person chose; empty and 0 mean "as usual". `ValueError` for what could break out of a manifest.

    `request` is the only request that the container sees. `pods` run at once, `completions` are the pods of a
    Job in all. `port` is what the own image serves. `tolerate` holds taints as kubectl writes them,
    "key=value:NoSchedule". `capacity` is a label of nodes, "key=value", or `ASSUMED`. `restricted` is the Pod
    Security Standard, `isolated` a NetworkPolicy that closes all but what the server needs. Weights come from
    a volume claim or from an image, not both. `cuda` is the version in the image, "12.9".
    """

    image: str = ""
    request: str = ""
    pods: int = 0
    completions: int = 0
    port: int = 0
    priority: str = ""
    tolerate: tuple[str, ...] = ()
    capacity: str = ""
    restricted: bool = True
    isolated: bool = False
    weights_claim: str = ""
    weights_image: str = ""
    cuda: str = ""

    def __post_init__(self) -> None:
        shapes = {
            "image": (REFERENCE, LONGEST_REFERENCE),
            "weights_image": (REFERENCE, LONGEST_REFERENCE),
            "request": (SUBDOMAIN, LONGEST_NAME),
            "priority": (SUBDOMAIN, LONGEST_NAME),
            "weights_claim": (SUBDOMAIN, LONGEST_NAME),
            "cuda": (CUDA, 9),
        }
        for name, (shape, longest) in shapes.items():
            text = getattr(self, name)
            if text and (len(text) > longest or not shape.fullmatch(text)):
                raise ValueError(f"“{text}” cannot be the {name} of a manifest.")
        if wrong := [one for one in self.tolerate if not TAINT.fullmatch(one)]:
            raise ValueError(f"“{wrong[0]}” is not a taint such as gpu=yes:NoSchedule.")
        if self.capacity not in ("", ASSUMED) and not LABEL.fullmatch(self.capacity):
            raise ValueError(f"“{self.capacity}” is not a label such as karpenter.sh/capacity-type=spot.")
        if self.weights_claim and self.weights_image:
            raise ValueError("Weights come from a volume claim or from an image, not from both.")
        for name, most in (("pods", MOST_PODS), ("completions", MOST_COMPLETIONS), ("port", LAST_PORT)):
            if not 0 <= getattr(self, name) <= most:
                raise ValueError(f"{name} has to be from 0 to {most}.")

    @property
    def chosen(self) -> int:
        """How many options differ from the usual."""
        usual = Options()
        return sum(getattr(self, one.name) != getattr(usual, one.name) for one in fields(self))


def pods_of(use: Use, options: Options) -> int:
    """Return how many pods run at once: what was chosen, else a claim each, or one pod of a named claim."""
    return options.pods or (use.parallel if use.template else 1)


def devices_of(use: Use, options: Options) -> int | None:
    """
    Return how many devices the container sees; None where that cannot be told.

    Of several requests some are not GPUs (a NIC, say), so they are not added up.
    """
    counts = [count for name, count in use.requests if options.request in ("", name)]
    return counts[0] if len(counts) == 1 else None


def requests_of(spec: Json) -> tuple[tuple[str, int | None], ...]:
    """Return the requests of a claim's spec with their devices, for `Use`."""
    return tuple((str(one.get("name") or ""), _count(alternatives(one))) for one in requests(spec))


def _count(asked: Sequence[Ask]) -> int | None:
    counts = {None if ask.all else ask.count for ask in asked}
    return counts.pop() if len(counts) == 1 else None
