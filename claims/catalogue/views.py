"""Pages of the catalogue: cards, table, comparison."""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import capfirst
from django.views.decorators.http import require_safe

from claims.budgets.cards import BudgetCard, left_of_budgets
from claims.catalogue.definition import limits_in_words
from claims.catalogue.forms import CatalogueForm
from claims.catalogue.groups import fitting_first, grouped, profiles_in_use
from claims.catalogue.listing import (
    CatalogueEntry,
    DeviceKind,
    catalogue,
    counted_at,
    entries,
    filtered_entries,
)
from claims.catalogue.sharing import isolation_sentences
from claims.catalogue.versions import canonical_yaml
from claims.match_page import spec_text
from claims.models import Delivery, Profile, TeamNamespace
from core.listing import escape_formula
from core.markup import joined, markup
from core.templatetags.ui import icon, meter
from core.text import DASH, gib
from core.times import duration
from dra.objects import Json, alternatives, requests
from inventory.freshness import OF_DEVICES, Age, ages
from teams.access import is_platform_admin, reader_roles, team_rows_where, user_of
from teams.models import Role


@dataclass(frozen=True)
class Card:
    """An entry and its spec in words."""

    entry: CatalogueEntry
    asks_for: str
    deliveries: str
    sharing: str


@require_safe
def catalogue_page(request: HttpRequest) -> HttpResponse:
    """
    Cards, grouped by purpose, or a table. Every filter is a query parameter and works without JavaScript;
    `format=csv` returns the filtered profiles as CSV. Unless the reader sorts, what fits now stands first.
    """
    query = request.GET
    offered = [entry for entry in catalogue(user_of(request)) if entry.profile.retired_at is None]
    form = CatalogueForm(query, models={product for entry in offered for product in entry.products})
    matching = filtered_entries(offered, form.filters, form.order or "title")
    if not form.order:
        matching = fitting_first(matching, profiles_in_use([team.pk for team in reader_roles(request)]))
    shown = [entry_card(entry) for entry in matching]
    if query.get("format") == "csv":
        return as_csv(shown)
    page = {
        "cards": shown,
        "open_groups": grouped(
            (card for card in shown if card.entry.may_request), lambda card: card.entry.profile
        ),
        "locked_cards": [card for card in shown if not card.entry.may_request],
        "form": form,
        "total": len(offered),
        "counted_at": counted_at(offered),
        "open": sum(entry.may_request for entry in offered),
        "picked": set(query.getlist("profile")),
        "as_table": query.get("view") == "table",
        "ages": stale_ages(request),
        "is_admin": is_platform_admin(request.user),
        "budgets": budgets_left(request, offered),
    }
    return render(request, "claims/catalogue/catalogue.html", page)


def budgets_left(request: HttpRequest, offered: Sequence[CatalogueEntry]) -> list[BudgetCard]:
    """Return the current budgets of the reader's teams; no query if none of them has one."""
    budgeted = offered[0].budgeted if offered else frozenset()
    mine = [team.pk for team in reader_roles(request) if team.pk in budgeted]
    return left_of_budgets(mine, now=timezone.now())


def stale_ages(request: HttpRequest) -> list[Age]:
    """Return the ages of the stale clusters in which the cards count devices."""
    stale = [age for age in ages(OF_DEVICES) if age.is_stale]
    if not stale:
        return []
    teams = team_rows_where(request.user, at_least=Role.MEMBER).order_by().values("pk")
    counted_in = set(TeamNamespace.objects.filter(team__in=teams).values_list("cluster", flat=True))
    return [age for age in stale if age.cluster.pk in counted_in]


def entry_card(entry: CatalogueEntry) -> Card:
    deliveries = [str(label) for value, label in Delivery.choices if value in entry.version.deliveries]
    either = any(len(alternatives(request)) > 1 for request in requests(entry.version.spec))
    sharing = (" or " if either else " and ").join(str(mode.label) for mode in entry.sharing)
    return Card(entry, spec_text(entry.version.spec), ", ".join(deliveries), sharing)


HEAD = (
    '<div class="dg-row dg-between dg-start"><h3><a href="{}" title="{}, {} v{}">{}</a></h3>'
    '<span class="dg-fig m dg-n" title="Price per device and hour, now">{}<small>{}</small></span></div>'
)
FACTS = (
    '<p class="dg-s dg-2 text-truncate" title="{}">{}</p><dl class="dg-dl dg-s"><dt>Memory</dt><dd>{}</dd>'
    '<dt>Model</dt><dd class="text-truncate" title="{}">{}</dd>'
    '<dt>Sharing</dt><dd class="text-truncate">{}, {}</dd>'
    '<dt>Approval</dt><dd class="text-truncate" title="{}">{}</dd></dl>'
)
ACTIONS = (
    '<div class="dg-row">{}'
    '<a class="btn btn-sm btn-ghost btn-icon" href="{}" aria-label="Spec of {}" title="Spec">{}</a>'
    '<label class="dg-row dg-g4 dg-end"><input type="checkbox" form="compare" name="profile" value="{}"{}> '
    'Compare<span class="dg-sr"> {}</span></label></div>'
)
REQUEST = '<a class="btn btn-sm btn-soft" href="{}?profile={}">Request<span class="dg-sr"> {}</span></a>'
CARD = (
    '<article class="card dg-pc{}"><div class="card-body">{}</div><div class="card-body">{}</div><hr>'
    '<div class="card-body">{}{}{}</div>'
    "</article>"
)
PER_HOUR = " / h"
NO_PROFILE = "no-such-profile"  # in an address that gets the slug of each profile


def profile_cards(
    cards: Iterable[Card], picked: Collection[str], price_text: Callable[[Iterable[DeviceKind]], str]
) -> SafeString:
    """Return the profiles as cards: what each gives in four facts, what is free, and the actions."""
    address, request_url = reverse("claims:profile", args=[NO_PROFILE]), reverse("claims:request")
    see_quotas = markup('<a class="btn btn-sm" href="{}">See quotas</a>', reverse("claims:quotas"))
    spec_icon, drawn = icon("code"), []
    for card in cards:
        entry, profile, version = card.entry, card.entry.profile, card.entry.version
        url = address.replace(NO_PROFILE, profile.slug)
        price, *per_hour = price_text(entry.kinds).partition(PER_HOUR)
        named = (url, profile.title, profile.slug, version.number, profile.title, price, "".join(per_hour))
        head = markup(HEAD, *named)
        most = "1 device" if version.max_devices == 1 else f"up to {version.max_devices}"
        models = (", ".join(entry.products), entry.models or DASH)
        shared = (capfirst(card.sharing), most)
        approval = (entry.approval_sentence, entry.who.brief)
        facts = markup(FACTS, profile.use, profile.use, memory_text(entry), *models, *shared, *approval)
        button = see_quotas
        if entry.may_request:
            button = markup(REQUEST, request_url, profile.slug, profile.title)
        checked = mark_safe(" checked") if profile.slug in picked else ""
        actions = markup(ACTIONS, button, url, profile.title, spec_icon, profile.slug, checked, profile.title)
        off = "" if entry.may_request else " off"
        drawn.append(markup(CARD, off, head, facts, free_text(entry), free_meter(entry), actions))
    return joined("", drawn)


def memory_text(entry: CatalogueEntry) -> str:
    """Return "80 GiB", or "40 GiB to 80 GiB" where devices differ."""
    if entry.memory and entry.max_memory != entry.memory:
        return f"{gib(entry.memory)} to {gib(entry.max_memory)}"
    return gib(entry.memory)


def free_text(entry: CatalogueEntry) -> SafeString:
    """Return how many devices are free and how long requests waited, or why it may not be requested."""
    if entry.reason:
        locked = '<p class="dg-row dg-s" title="{}">{}<span class="text-truncate">{}</span></p>'
        return markup(locked, entry.reason, icon("lock", "s"), entry.reason)
    free: str = "No matching device"
    if entry.total is None:
        free = "Free devices unknown"
    elif entry.total:
        free = markup("<b>{}</b> free of {}", entry.free, entry.total)
    waits, waited = entry.waits.device, ""
    if waits.median is not None and waits.p90 is not None:
        waited = markup(WAITED, icon("clock", "s"), duration(waits.median), duration(waits.p90))
    return markup('<p class="dg-row dg-between dg-s"><span>{}</span>{}</p>', free, waited)


WAITED = (
    '<span class="dg-2" title="Time from approval to the first device, past 30 days">{} {}'
    '<span class="dg-3">, 90 % within {}</span></span>'
)


def free_meter(entry: CatalogueEntry) -> SafeString | str:
    if not entry.total:
        return ""
    label = f"{entry.free} of {entry.total} devices are free"
    return meter(entry.total, label=label, size="thin", taken=entry.held)


def as_csv(cards: Sequence[Card]) -> HttpResponse:
    """Return one line per profile; unknown values are empty, memory is in bytes, waits are in words."""
    response = HttpResponse(content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = 'attachment; filename="catalogue.csv"'
    writer = csv.writer(response)
    names = (
        *(
            "profile",
            "title",
            "version",
            "use",
            "purpose",
            "models",
            "memory at least",
            "sharing",
            "spec in words",
        ),
        *("price per hour", "free", "total", "wait median", "wait 90 %", "decision median", "decision 90 %"),
        *("max devices", "default duration", "max duration", "approval", "why not"),
    )
    writer.writerow(names)
    for card in cards:
        entry, version = card.entry, card.entry.version
        waits = (entry.waits.device.median, entry.waits.device.p90)
        decisions = (entry.waits.decision.median, entry.waits.decision.p90)
        cells = (
            *(entry.profile.slug, entry.profile.title, version.number),
            *(entry.profile.use, entry.profile.purpose),
            *(", ".join(entry.products), entry.memory, card.sharing, card.asks_for),
            *(entry.price, entry.free, entry.total),
            *(None if span is None else duration(span) for span in (*waits, *decisions)),
            *(version.max_devices, duration(version.default_duration), duration(version.max_duration)),
            *(entry.approval_sentence, entry.reason),
        )
        writer.writerow([escape_formula(cell) for cell in cells])
    return response


MAX_COMPARED = 3


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """One fact of each profile; `differs` if the cells are not all equal."""

    label: str
    cells: Sequence[str]
    differs: bool


@dataclass(frozen=True, slots=True)
class SpecLine:
    text: str
    differs: bool  # missing from another spec


@require_safe
def catalogue_compare(request: HttpRequest) -> HttpResponse:
    """Compare the first three of `profile=` that the reader may see; ask for two if there are fewer."""
    slugs = list(dict.fromkeys(request.GET.getlist("profile")))
    visible = Profile.objects.visible_to(user_of(request)).filter(
        slug__in=slugs, current__isnull=False, retired_at=None
    )
    by_slug = {entry.profile.slug: entry_card(entry) for entry in entries(user_of(request), visible)}
    cards = [by_slug[slug] for slug in slugs if slug in by_slug]
    shown = cards[:MAX_COMPARED]
    page = {
        "cards": shown,
        "rows": comparison_rows(shown),
        "specs": spec_columns([card.entry.version.spec for card in shown]),
        "price_differs": len({card.entry.price for card in shown}) > 1,
        "counted_at": counted_at(card.entry for card in shown),
        "left_out": [card.entry.profile.title for card in cards[MAX_COMPARED:]],
        "ages": stale_ages(request),
    }
    return render(request, "claims/catalogue/catalogue_compare.html", page)


def comparison_rows(cards: Sequence[Card]) -> list[ComparisonRow]:
    """Return the facts that are text; the template adds free devices, price and waits."""
    facts: list[tuple[str, Callable[[Card], str]]] = [
        ("Purpose", lambda card: card.entry.profile.get_purpose_display()),
        ("Model", lambda card: ", ".join(card.entry.products) or "—"),
        ("Memory", lambda card: memory_text(card.entry)),
        ("Sharing", lambda card: card.sharing),
        ("Isolation", lambda card: " ".join(isolation_sentences(card.entry.sharing))),
        ("Requests", lambda card: card.asks_for),
    ]
    rows = [(label, [in_words(card) for card in cards]) for label, in_words in facts]
    limits = [limits_in_words(card.entry.version) for card in cards]
    rows += [(row[0][0], [value for _label, value in row]) for row in zip(*limits, strict=True)]
    rows.append(("Approval", [card.entry.approval_sentence for card in cards]))
    return [ComparisonRow(label, cells, len(set(cells)) > 1) for label, cells in rows]


def spec_columns(specs: Sequence[Json]) -> list[list[SpecLine]]:
    """Return the lines of each spec as YAML, with those marked that another spec does not have."""
    texts = [canonical_yaml(spec).splitlines() for spec in specs]
    common = set(texts[0]).intersection(*texts[1:]) if texts else set()
    return [[SpecLine(line, line not in common) for line in lines] for lines in texts]
