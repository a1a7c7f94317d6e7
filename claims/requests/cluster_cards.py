"""The clusters of the request form: what each has for the request, and which one "any that fits" takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from claims.requests.forms import RequestForm
from claims.requests.preview import PlannedMatch
from claims.requests.suggestions import ClusterFit
from inventory.models import Cluster

FITS, WAITS, NONE = "good", "warn", "3"  # colours of a verdict
ICONS = {FITS: "circle-check", WAITS: "clock", NONE: "minus"}


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


def cluster_cards(form: RequestForm, result: PlannedMatch | None = None) -> list[ClusterCard]:
    """
    Return a card for each cluster of the reader, "any that fits" first if there are several.

    Stored figures are of one profile each and cannot tell whether profiles together have a node in common:
    such a request has a verdict only in the cluster of the panel, that of its `result`.
    """
    clusters = list(form.choices.clusters.values())
    fits = form.fits if form.is_bound and {"team", "profile"} <= form.cleaned_data.keys() else []
    together = form.cleaned_data.get("together") if fits else None
    judged = {
        fit.cluster.pk: _card_together(fit.cluster, result) if together else _card(fit, form) for fit in fits
    }
    team = form.cleaned_data.get("team") if form.is_bound else None
    cards = []
    for cluster in clusters:
        if team is not None and (team.pk, cluster.pk) not in form.choices.places:
            cards.append(ClusterCard(cluster, NONE, "no namespace", f"{team} does not work here."))
        else:
            cards.append(judged.get(cluster.pk, ClusterCard(cluster)))
    if len(clusters) == 1:
        return cards
    return [_any_together(fits[0].cluster, result) if together else _any(fits), *cards]


def _any_together(best: Cluster, result: PlannedMatch | None) -> ClusterCard:
    card = _card_together(best, result)
    chosen = f"{best} is chosen. {card.text}" if card.verdict else f"{best} has the most room. {card.text}"
    return replace(card, cluster=None, text=chosen)


def _card_together(cluster: Cluster, result: PlannedMatch | None) -> ClusterCard:
    """Return what the panel says of profiles together, in its cluster; elsewhere no verdict."""
    if cluster.read_only:
        return _read_only(cluster)
    if result is None or result.plan.cluster != cluster:
        return ClusterCard(cluster, text="Choose it to see in the summary whether the profiles fit together.")
    if result.match.nodes_that_fit is None:
        return ClusterCard(cluster, NONE, "unknown", result.match.problem)
    if result.match.fits:
        return ClusterCard(cluster, FITS, "fits now", "All the profiles fit together.")
    return ClusterCard(cluster, WAITS, "not now", result.match.problem)


def _read_only(cluster: Cluster) -> ClusterCard:
    return ClusterCard(cluster, NONE, "read-only", "The portal creates no claims here.")


def _any(fits: Sequence[ClusterFit]) -> ClusterCard:
    if not fits:
        return ClusterCard(None, text="The cluster where the request fits best; of several, the cheapest.")
    best = fits[0]
    if best.option is not None:
        text = f"{best.cluster} is chosen{_why(best, fits)}: {_free(best)}."
        return ClusterCard(None, FITS, "fits now", text)
    text = f"{best.cluster} comes closest. You can still send the request: pods wait for devices."
    return ClusterCard(None, WAITS, "not now", text)


def _why(best: ClusterFit, fits: Sequence[ClusterFit]) -> str:
    """Return why the first of those that fit equally is chosen, if it is for its price."""
    equal = [fit for fit in fits if fit.option == best.option and fit.price is not None]
    if best.price is None or all(fit.price == best.price for fit in equal):
        return ""
    return f" for its price, the lowest of {len(equal)} clusters where it fits now"


def _card(fit: ClusterFit, form: RequestForm) -> ClusterCard:
    if fit.cluster.read_only:
        return _read_only(fit.cluster)
    if fit.option:
        title = form.cleaned_data["alternatives"][fit.option - 1].title
        return ClusterCard(fit.cluster, FITS, "fits now", f"With the alternative {title}.")
    if fit.matching is None or fit.free is None:
        return ClusterCard(fit.cluster, NONE, "unknown", "Free devices have not been counted yet.")
    if not fit.matching:
        return ClusterCard(fit.cluster, NONE, "no match", "No device of this profile.")
    if fit.option is None:
        return ClusterCard(fit.cluster, WAITS, "not now", f"{_free(fit).capitalize()}.")
    return ClusterCard(fit.cluster, FITS, "fits now", f"{_free(fit).capitalize()}.")


def _free(fit: ClusterFit) -> str:
    """Return "31 of 96 free, at most 5 for one claim"."""
    if fit.free is None or fit.matching is None:
        return "free devices have not been counted yet"
    return f"{fit.free} of {fit.matching} free" + (f", at most {fit.most} for one claim" if fit.most else "")
