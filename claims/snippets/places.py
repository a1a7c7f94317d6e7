"""What the mirror says of the devices that a claim could get, and of an image on them."""

from __future__ import annotations

from claims.models import Claim
from claims.snippets.made import Snippet
from dra import cuda
from dra.landing import Landing, landing
from dra.workloads import Options
from inventory.picture import picture_of

NVIDIA = "nvidia"  # whose devices say what of CUDA they run


def landing_of(claim: Claim) -> Landing:
    """Look at the mirror of the claim's cluster for what the claim could get."""
    return landing(picture_of(claim.cluster), claim.spec)


def check_of(snippet: Snippet, options: Options, found: Landing) -> cuda.Check | None:
    """Judge the CUDA version of the image: the one that is named, else the one in its tag; None for none."""
    version = options.cuda or cuda.in_image(snippet.image)
    if not version or not snippet.image or found.maker != NVIDIA:
        return None
    return cuda.check(version, found.gpus)
