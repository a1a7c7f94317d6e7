"""
How much of a GPU a profile gives, and whom it is shared with, read off its claim specification.

The settings are those of the DRA driver for NVIDIA GPUs (`sharing.strategy` of GpuConfig and of
MigDeviceConfig); shares of capacity are of Kubernetes (KEP-5075).
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from django.db.models import TextChoices
from django.utils.translation import gettext_lazy as _

from dra.cel.idioms import comparisons
from dra.objects import Ask, Json, asks

PARTITION_CLASSES = ("mig.", "partition.")
PARTITION_TYPES = ("mig", "partition", "amdgpu-partition")
SHAREABLE = "allowMultipleAllocations"


class Sharing(TextChoices):
    """In the order in which the catalogue offers them."""

    EXCLUSIVE = "exclusive", _("whole GPU")
    PARTITION = "partition", _("partition")
    SHARE = "share", _("share of capacity")
    TIME_SLICED = "time-sliced", _("time-sliced")
    MPS = "mps", _("MPS")


ISOLATION = {
    Sharing.EXCLUSIVE: _("Nobody else computes on the GPU while the claim holds it."),
    Sharing.PARTITION: _("A part of a GPU with memory and compute of its own; others have the other parts."),
    Sharing.SHARE: _("Others may hold the rest of the same GPU; the driver says what keeps them apart."),
    Sharing.TIME_SLICED: _(
        "The containers of a claim take turns; nothing limits how much of its memory each takes."
    ),
    Sharing.MPS: _("The containers of a claim compute side by side; one that fails may end the others."),
}


def sharing_of(spec: Json, fractions: Iterable[Fraction] = ()) -> list[Sharing]:
    """
    Return how devices of `spec` are had, in the order of `Sharing`; several where its alternatives differ.

    `fractions` are the parts of whole GPUs that its matching devices make up: where each is less than 1, the
    devices are partitions whatever their class is called.
    """
    parts = list(fractions)
    cut = bool(parts) and all(part < 1 for part in parts)
    found = {_of(ask, spec, cut=cut) for ask in asks(spec)}
    return [one for one in Sharing if one in found]


def isolation_of(modes: Iterable[Sharing]) -> list[str]:
    """Return a sentence on each: what keeps others out."""
    return [str(ISOLATION[mode]) for mode in modes]


def _of(ask: Ask, spec: Json, *, cut: bool) -> Sharing:
    strategy = _strategy(ask, spec)
    if strategy == "MPS":
        return Sharing.MPS
    if strategy == "TimeSlicing":
        return Sharing.TIME_SLICED
    if ask.capacity or any(SHAREABLE in text for text in ask.expressions):
        return Sharing.SHARE
    return Sharing.PARTITION if cut or _is_partition(ask) else Sharing.EXCLUSIVE


def _strategy(ask: Ask, spec: Json) -> str:
    """Return the `sharing.strategy` of the last setting for this request; the driver takes the last."""
    found = ""
    for config in (spec.get("devices") or {}).get("config") or ():
        parameters = (config.get("opaque") or {}).get("parameters") or {}
        named = config.get("requests") or ()
        if not named or ask.request in named or ask.result_name in named:
            found = str((parameters.get("sharing") or {}).get("strategy") or found)
    return found


def _is_partition(ask: Ask) -> bool:
    if ask.class_name.startswith(PARTITION_CLASSES):
        return True
    return any(
        read.ref is not None
        and read.ref[2] == "type"
        and read.sign == "=="
        and read.wanted in PARTITION_TYPES
        for text in ask.expressions
        for read in comparisons(text)
    )
