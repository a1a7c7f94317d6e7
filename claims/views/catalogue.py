"""The catalogue: what may be asked for, what of it is free now, and why not."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from claims.catalogue.entries import CatalogueEntry, catalogue
from claims.catalogue.filter import narrowed
from claims.forms.catalogue import CatalogueForm
from claims.models import TeamNamespace
from claims.models.profile import Delivery
from claims.views.words import asks_in_words
from core.listing import harmless
from core.times import duration
from dra.objects import alternatives, requests
from inventory.freshness import OF_DEVICES, Age, ages
from teams.access import asker, is_platform_admin, teams_where
from teams.models import Role


@dataclass(frozen=True)
class Card:
    """An entry with its specification in words."""

    entry: CatalogueEntry
    asks_for: str
    deliveries: str
    sharing: str


@require_safe
def catalogue_page(request: HttpRequest) -> HttpResponse:
    """
    Cards or a table; every filter stands in the address and works without JavaScript. `format=csv` gives
    what is shown as CSV.
    """
    query = request.GET
    every = [entry for entry in catalogue(asker(request)) if entry.profile.retired_at is None]
    form = CatalogueForm(query, models={product for entry in every for product in entry.products})
    shown = [card_of(entry) for entry in narrowed(every, form.wanted, form.order)]
    if query.get("format") == "csv":
        return as_csv(shown)
    page = {
        "cards": shown,
        "form": form,
        "total": len(every),
        "open": sum(entry.may_request for entry in every),
        "picked": set(query.getlist("profile")),
        "as_table": query.get("view") == "table",
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
    deliveries = [str(label) for value, label in Delivery.choices if value in entry.version.deliveries]
    either = any(len(alternatives(request)) > 1 for request in requests(entry.version.spec))
    sharing = (_(" or ") if either else _(" and ")).join(str(mode.label) for mode in entry.sharing)
    return Card(entry, asks_in_words(entry.version.spec), ", ".join(deliveries), sharing)


def as_csv(cards: Sequence[Card]) -> HttpResponse:
    """Return one line per profile; what is unknown is empty, memory in bytes, waits in words."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="catalogue.csv"'
    writer = csv.writer(response)
    names = (
        *("profile", "title", "version", "use", "models", "memory at least", "sharing", "asks for"),
        *("price per hour", "free", "total", "wait median", "wait 90 %", "decision median", "decision 90 %"),
        *("most devices", "usual duration", "longest duration", "approval", "why not"),
    )
    writer.writerow(names)
    for card in cards:
        entry, version = card.entry, card.entry.version
        waits = (entry.waits.device.median, entry.waits.device.most)
        decisions = (entry.waits.decision.median, entry.waits.decision.most)
        cells = (
            *(entry.profile.slug, entry.profile.title, version.number, entry.profile.use),
            *(", ".join(entry.products), entry.memory, card.sharing, card.asks_for),
            *(entry.price, entry.free, entry.total),
            *(None if span is None else duration(span) for span in (*waits, *decisions)),
            *(version.max_devices, duration(version.default_duration), duration(version.max_duration)),
            *(entry.approval_sentence, entry.reason),
        )
        writer.writerow([harmless(cell) for cell in cells])
    return response
