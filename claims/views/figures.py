"""
The strip of figures on top of a claim: what it is, how long it has been so, when it ends.

Times that run are `<time>` elements, which the page keeps current; nothing has to move for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from claims.life.extensions import deleted_at, in_grace
from claims.models import Claim
from claims.models.profile import Delivery
from claims.states import FINAL, ClaimState
from claims.views.facts import Facts
from core.templatetags.ui import ago, at, elapsed
from core.times import duration


@dataclass(frozen=True)
class Figure:
    """Texts for a template, safe where they hold markup."""

    label: str
    value: str
    sub: str


def figures_of(facts: Facts) -> list[Figure]:
    """Return four figures, always in the same order: since, ends, size, held now."""
    claim = facts.claim
    return [since(claim), ends(claim), size(claim), held_now(facts)]


def since(claim: Claim) -> Figure:
    sub = format_html(_("since {when}"), when=at(claim.state_since))
    return Figure(str(claim.get_state_display()), elapsed(claim.state_since), sub)


def ends(claim: Claim) -> Figure:
    if claim.state in FINAL:
        return Figure(_("Ended"), duration(claim.state_since - claim.created_at), _("after it was asked for"))
    if in_grace(claim):
        sub = format_html(_("its time ended {when}"), when=at(claim.expires_at))
        return Figure(_("Grace ends"), ago(deleted_at(claim)), sub)
    if claim.expires_at is not None:
        return Figure(_("Ends"), ago(claim.expires_at), at(claim.expires_at))
    if claim.decide_by is not None and claim.state == ClaimState.REQUESTED:
        sub = format_html(_("from approval; the request expires {when}"), when=at(claim.decide_by))
        return Figure(_("Duration"), duration(claim.duration), sub)
    return Figure(_("Duration"), duration(claim.duration), _("from approval"))


def size(claim: Claim) -> Figure:
    if claim.delivery == Delivery.TEMPLATE:
        sub = ngettext("per pod, %(n)d pod at once", "per pod, %(n)d pods at once", claim.parallel)
        return Figure(_("Devices"), str(claim.devices), sub % {"n": claim.parallel})
    return Figure(_("Devices"), str(claim.devices), _("named claim, pods may share it"))


def held_now(facts: Facts) -> Figure:
    products = sorted({row.allocation.product for row in facts.held if row.allocation.product})
    sub = ", ".join(products) if facts.held else _("nothing is billed")
    return Figure(_("Held now"), str(len(facts.held)), sub)
