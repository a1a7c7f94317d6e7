"""
Whether devices for a waiting pod are there now by the portal's own picture, beside what the scheduler says.

The picture knows devices, claims, taints and nodes, and nothing of the rest of a pod. Where it and the
scheduler disagree both are told, and neither is called wrong: each looked at another moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.explain.scheduler import Said
from claims.models import Claim
from core.times import duration
from dra import match
from inventory.freshness import Age
from inventory.picture import picture_of

SHOWN = 3  # names of nodes


@dataclass(frozen=True, slots=True)
class Fit:
    """`agrees` is None where one of the two cannot be told; `sentence` says both."""

    preview: match.Preview
    agrees: bool | None
    sentence: str


def fit_now(claim: Claim, said: Said | None, age: Age | None) -> Fit:
    """Look at the picture of this moment for one claim of the spec."""
    preview = match.preview(picture_of(claim.cluster), claim.spec)
    agrees = agreement(preview, said)
    return Fit(preview, agrees, _sentence(preview, said, _old(age), agrees=agrees))


def agreement(preview: match.Preview, said: Said | None) -> bool | None:
    """Compare. Nodes that fit may be those that the scheduler rules out for what is not devices."""
    if said is None:
        return None
    if any(part.count is None for part in said.parts):  # about the pod as a whole
        return True if preview.problem else None
    if preview.nodes_that_fit is None or not said.out_for_devices:
        return None
    return preview.nodes_that_fit <= said.out_for_other


def _sentence(preview: match.Preview, said: Said | None, old: str, *, agrees: bool | None) -> str:
    if preview.nodes_that_fit is None and not agrees:
        return _("Whether it fits cannot be told from the portal's picture: %(why)s") % {
            "why": preview.problem
        }
    if preview.problem:
        same = _("The portal's picture, %(old)s, shows the same: %(why)s")
        alone = _("By the portal's picture, %(old)s: %(why)s")
        return (same if agrees else alone) % {"old": old, "why": preview.problem}
    count = preview.nodes_that_fit or 0
    there = ngettext(
        "By the portal's picture, %(old)s, the claim fits on %(n)d node now: %(nodes)s.",
        "By the portal's picture, %(old)s, the claim fits on %(n)d nodes now: %(nodes)s.",
        count,
    ) % {"old": old, "n": count, "nodes": _names(preview.nodes, count)}
    return f"{there} {_beside(said, agrees=agrees)}".strip()


def _beside(said: Said | None, *, agrees: bool | None) -> str:
    """Say how the scheduler comes to another answer."""
    if agrees is False:
        return _("The scheduler says that nothing fits; it tries again when something changes.")
    if said is not None and said.out_for_other:
        return _("The scheduler keeps the pod from nodes for other reasons than devices, which may be those.")
    return ""


def _names(nodes: Sequence[str], count: int) -> str:
    return ", ".join(nodes[:SHOWN]) + (" …" if count > SHOWN else "")


def _old(age: Age | None) -> str:
    if age is None or age.seen_at is None:
        return _("whose age is not known")

    return _("%(span)s old") % {"span": duration(timezone.now() - age.seen_at)}
