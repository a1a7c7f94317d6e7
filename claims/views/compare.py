"""Up to three profiles side by side, with what differs marked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from claims.catalogue.differences import text_of
from claims.catalogue.entries import entries
from claims.catalogue.sharing import isolation_of
from claims.models import Profile
from claims.views.catalogue import Card, ages_of, card_of
from core.templatetags.ui import gib
from core.times import duration
from dra.objects import Json
from teams.access import asker

MOST = 3


@dataclass(frozen=True, slots=True)
class Row:
    """One fact of each profile; `differs` where they are not all the same."""

    label: str
    cells: Sequence[str]
    differs: bool


@dataclass(frozen=True, slots=True)
class SpecLine:
    text: str
    differs: bool  # not in the spec of each of the others


@require_safe
def catalogue_compare(request: HttpRequest) -> HttpResponse:
    """The first three of `profile=` that the reader may see; asks to pick where there are less than two."""
    slugs = list(dict.fromkeys(request.GET.getlist("profile")))
    visible = Profile.objects.visible_to(asker(request)).filter(
        slug__in=slugs, current__isnull=False, retired_at=None
    )
    found = {entry.profile.slug: card_of(entry) for entry in entries(asker(request), visible)}
    cards = [found[slug] for slug in slugs if slug in found]
    shown = cards[:MOST]
    page = {
        "cards": shown,
        "rows": rows_of(shown),
        "specs": spec_columns([card.entry.version.spec for card in shown]),
        "price_differs": len({card.entry.price for card in shown}) > 1,
        "left_out": [card.entry.profile.title for card in cards[MOST:]],
        "ages": ages_of(request),
    }
    return render(request, "claims/catalogue_compare.html", page)


def rows_of(cards: Sequence[Card]) -> list[Row]:
    """Return the facts that are words; what is free, price and waits the page draws itself."""
    facts: list[tuple[str, Callable[[Card], str]]] = [
        (_("Model"), lambda card: ", ".join(card.entry.products) or "—"),
        (_("Memory"), memory_of),
        (_("Sharing"), lambda card: card.sharing),
        (_("Isolation"), lambda card: " ".join(isolation_of(card.entry.sharing))),
        (_("Asks for"), lambda card: card.asks_for),
        (_("Most devices"), lambda card: str(card.entry.version.max_devices)),
        (_("Usual duration"), lambda card: duration(card.entry.version.default_duration)),
        (_("Longest duration"), lambda card: duration(card.entry.version.max_duration)),
        (_("Delivery"), lambda card: card.deliveries),
        (_("Approval"), lambda card: card.entry.approval_sentence),
    ]
    rows = [(label, [read(card) for card in cards]) for label, read in facts]
    return [Row(label, cells, len(set(cells)) > 1) for label, cells in rows]


def memory_of(card: Card) -> str:
    """Return "45 GiB", or "79.2 GiB – 80 GiB" where devices differ."""
    least, most = gib(card.entry.memory), gib(card.entry.memory_most)
    return least if least == most or card.entry.memory is None else f"{least} – {most}"


def spec_columns(specs: Sequence[Json]) -> list[list[SpecLine]]:
    """Return the lines of each spec as YAML; marked are those that some other spec does not have."""
    texts = [text_of(spec).splitlines() for spec in specs]
    common = set(texts[0]).intersection(*texts[1:]) if texts else set()
    return [[SpecLine(line, line not in common) for line in lines] for lines in texts]
