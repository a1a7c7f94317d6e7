"""The clusters of the request form: what each has for the request, and which one "any that fits" takes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from claims.requests.cluster_choice import HELD, ClusterFit
from claims.requests.forms import RequestForm
from claims.requests.verdict import OVER_BUDGET, Verdict
from core.text import counted
from dra.match import Preview
from inventory.models import Cluster

FITS, WAITS, REFUSED, NONE = "good", "warn", "bad", "3"  # colours of a verdict
FITS_NOW, NOT_NOW, NEVER = "fits now", "not now", "never"
STILL = "You can still send the request: pods wait for devices."
ICONS = {FITS: "circle-check", WAITS: "clock", REFUSED: "alert-circle", NONE: "minus"}


@dataclass(frozen=True, slots=True)
class ClusterCard:
    """
    One choice of the field "Cluster": `cluster` is None for any that fits. `verdict` is "" as long as there
    is no request to judge, and `text` has the figures.
    """

    cluster: Cluster | None
    colour: str = NONE
    verdict: str = ""
    text: str = ""

    @property
    def value(self) -> str:
        return self.cluster.name if self.cluster else ""

    @property
    def icon(self) -> str:
        return ICONS[self.colour]


def cluster_cards(
    form: RequestForm, verdict: Verdict | None = None, over_budget: Collection[UUID] = ()
) -> list[ClusterCard]:
    """
    Return a card for each cluster of the reader, "any that fits" first if there are several.

    A `verdict` that refuses the request is that of each card; but a budget refuses it only in the clusters
    where it costs too much, `over_budget`.
    Profiles that cannot be combined in one claim have no verdict; the panel says why.
    """
    clusters = list(form.choices.clusters.values())
    fits = form.fits if form.is_bound and {"team", "profile"} <= form.cleaned_data.keys() else []
    if fits and form.cleaned_data.get("together") and not any(fit.together for fit in fits):
        fits = []
    judged = {fit.cluster.pk: _card(fit, form) for fit in fits}
    team = form.cleaned_data.get("team") if form.is_bound else None
    cards = []
    for cluster in clusters:
        if team is not None and (team.pk, cluster.pk) not in form.choices.places:
            cards.append(ClusterCard(cluster, NONE, "no namespace", f"{team} does not work here."))
        else:
            cards.append(judged.get(cluster.pk, ClusterCard(cluster)))
    cards = cards if len(clusters) == 1 else [_any(fits), *cards]
    if verdict is None:
        return cards
    by_budget = verdict.accepted or verdict.label == OVER_BUDGET
    label = OVER_BUDGET if by_budget else verdict.label
    refused = label[:1].lower() + label[1:]
    return [
        replace(card, colour=REFUSED, verdict=refused, text=card.text.replace(STILL, "").strip())
        if card.verdict in (FITS_NOW, NOT_NOW)
        and (not by_budget or (card.cluster or fits[0].cluster).pk in over_budget)
        else card
        for card in cards
    ]


def _any(fits: Sequence[ClusterFit]) -> ClusterCard:
    if not fits:
        return ClusterCard(None, text="The cluster where the request fits best; of several, the cheapest.")
    best = fits[0]
    if best.option is not None:
        figures = _together(best.together) if best.together else f"{_free(best)}."
        return ClusterCard(None, FITS, FITS_NOW, f"Uses {best.cluster}{_why(best, fits)}: {figures}")
    if best.together and best.possible is False:
        text = "No cluster has a node that could take all the profiles. Send a separate request for each."
        return ClusterCard(None, NONE, "no match", text)
    if best.possible is False:
        return ClusterCard(None, NONE, NEVER, "No cluster could host it, even with every device free.")
    return ClusterCard(None, WAITS, NOT_NOW, f"{best.cluster} comes closest. {STILL}")


def _why(best: ClusterFit, fits: Sequence[ClusterFit]) -> str:
    """Return why the first of those that fit equally is chosen, if it is for its price."""
    equal = [fit for fit in fits if fit.option == best.option and fit.price is not None]
    if best.price is None or all(fit.price == best.price for fit in equal):
        return ""
    return f" for its price, the lowest of {len(equal)} clusters where it fits now"


def _card(fit: ClusterFit, form: RequestForm) -> ClusterCard:
    if fit.cluster.read_only:
        return ClusterCard(fit.cluster, NONE, "read-only", "The portal creates no claims here.")
    if fit.together:
        return _card_together(fit, fit.together)
    if fit.option:
        title = form.cleaned_data["alternatives"][fit.option - 1].title
        return ClusterCard(fit.cluster, FITS, FITS_NOW, f"With the alternative {title}.")
    if fit.matching is None or fit.free is None:
        return ClusterCard(fit.cluster, NONE, "unknown", "Free devices have not been counted yet.")
    if not fit.matching:
        return ClusterCard(fit.cluster, NONE, "no match", "No device of this profile.")
    if fit.option is None and fit.possible is False:
        text = f"{_free(fit).capitalize()}. Even with every device free it would not fit here."
        return ClusterCard(fit.cluster, NONE, NEVER, text)
    if fit.option is None:
        return ClusterCard(fit.cluster, WAITS, NOT_NOW, f"{_free(fit).capitalize()}.")
    return ClusterCard(fit.cluster, FITS, FITS_NOW, f"{_free(fit).capitalize()}.")


def _card_together(fit: ClusterFit, result: Preview) -> ClusterCard:
    if result.fits:
        return ClusterCard(fit.cluster, FITS, FITS_NOW, _together(result).capitalize())
    if fit.possible is None:
        return ClusterCard(fit.cluster, NONE, "unknown", result.problem)
    if fit.possible:
        return ClusterCard(fit.cluster, WAITS, NOT_NOW, result.problem)
    if result.reason in HELD:
        text = f"{result.problem} Even with every device free, no node could take all the profiles."
        return ClusterCard(fit.cluster, NONE, "no match", text)
    return ClusterCard(fit.cluster, NONE, "no match", result.problem)


def _together(result: Preview) -> str:
    """Return "all the profiles fit together, on 3 nodes."."""
    return f"all the profiles fit together, on {counted(result.nodes_that_fit or 0, 'node')}."


def _free(fit: ClusterFit) -> str:
    """Return "31 of 96 free, at most 5 for one claim"."""
    if fit.free is None or fit.matching is None:
        return "free devices have not been counted yet"
    return f"{fit.free} of {fit.matching} free" + (f", up to {fit.most} per claim" if fit.most else "")
