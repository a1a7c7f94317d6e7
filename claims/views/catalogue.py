"""The catalogue: what may be asked for, what of it is free now, and why not."""

from __future__ import annotations

from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from claims.catalogue import CatalogueEntry, catalogue
from claims.models import Approval, TeamNamespace
from claims.models.profile import Delivery
from claims.views.words import condition_of
from dra.objects import asks
from inventory.freshness import OF_DEVICES, Age, ages
from teams.access import asker, is_platform_admin, teams_where
from teams.models import Role

SORTS = {
    "title": lambda card: card.entry.profile.title.lower(),
    "free": lambda card: -(card.entry.free or 0),
    "devices": lambda card: -card.entry.version.max_devices,
}


@dataclass(frozen=True)
class Card:
    """An entry with its specification in words."""

    entry: CatalogueEntry
    asks_for: str
    deliveries: str

    @property
    def taken(self) -> int:
        return (self.entry.total or 0) - (self.entry.free or 0)

    def matches(self, words: list[str]) -> bool:
        profile = self.entry.profile
        text = " ".join(
            [profile.title, profile.slug, profile.use, self.asks_for, *self.entry.products]
        ).lower()
        return all(word in text for word in words)


@require_safe
def catalogue_page(request: HttpRequest) -> HttpResponse:
    """Cards, or a table to compare; every filter stands in the address and works without JavaScript."""
    query = request.GET
    cards = [card_of(entry) for entry in catalogue(asker(request)) if entry.profile.retired_at is None]
    picked = set(query.getlist("pick"))
    shown = [card for card in cards if card.matches(query.get("q", "").lower().split())]
    if query.get("free"):
        shown = [card for card in shown if card.entry.free]
    if query.get("automatic"):
        shown = [card for card in shown if asks_nobody(card.entry)]
    if query.get("view") == "compare" and picked:
        shown = [card for card in shown if card.entry.profile.slug in picked]
    sort = query.get("sort") if query.get("sort") in SORTS else "title"
    page = {
        "cards": sorted(shown, key=SORTS[sort or "title"]),
        "total": len(cards),
        "open": sum(card.entry.may_request for card in cards),
        "picked": picked,
        "sort": sort,
        "sorts": [("title", _("name")), ("free", _("free now")), ("devices", _("most devices"))],
        "view": query.get("view"),
        "as_table": query.get("view") in ("table", "compare"),
        "ages": ages_of(request),
        "is_admin": is_platform_admin(request.user),
    }
    return render(request, "claims/catalogue.html", page)


def ages_of(request: HttpRequest) -> list[Age]:
    """Return the ages of those clusters that the cards count in and that are stale."""
    mine = set(
        TeamNamespace.objects.filter(team__in=teams_where(request.user, at_least=Role.MEMBER)).values_list(
            "cluster", flat=True
        )
    )
    return [age for age in ages(OF_DEVICES) if age.cluster.pk in mine and age.is_stale]


def card_of(entry: CatalogueEntry) -> Card:
    parts = []
    for ask in asks(entry.version.spec):
        conditions = [condition_of(text) or _("a CEL selector") for text in ask.expressions]
        parts.append(", ".join([ask.class_name, *conditions]))
    deliveries = [str(label) for value, label in Delivery.choices if value in entry.version.deliveries]
    return Card(entry, _(", or ").join(dict.fromkeys(parts)), ", ".join(deliveries))


def asks_nobody(entry: CatalogueEntry) -> bool:
    return entry.version.approval == Approval.AUTOMATIC or entry.version.automatic_devices > 0
