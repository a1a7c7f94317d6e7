"""The list beside every card of the inbox: tabs, search, pages, CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from claims.approval.inbox import TABS, Inbox, Item, Search, Tab
from claims.models import Profile
from core.listing import Echo, harmless
from teams.access import asker
from teams.models import Team

PER_PAGE = 25
KEPT = ("tab", "q", "team", "profile", "page")  # what the address keeps while one goes from card to card


def list_of(request: HttpRequest) -> dict[str, Any]:
    """Return the page of rows that the address asks for, and how many each tab has."""
    user = asker(request)
    sought = search_of(request)
    inbox = Inbox(user, sought)
    waiting = inbox.waiting()
    chosen = tab_of(request)
    counts: dict[Tab, int] = {tab: len(inbox.of_tab(tab, waiting)) for tab in TABS if tab != "decided"}
    titles = {"mine": _("Mine"), "team": _("My teams"), "all": _("All"), "decided": _("Decided")}
    rows = inbox.tab("decided") if chosen == "decided" else inbox.of_tab(chosen, waiting)
    page = Paginator(rows, PER_PAGE).get_page(request.GET.get("page"))
    query = request.GET.copy()
    for name in set(query) - set(KEPT):
        del query[name]
    return {
        "tab": chosen,
        "tabs": [(tab, titles[tab], counts.get(tab)) for tab in TABS if tab != "all" or user.is_superuser],
        "page": page,
        "rows": page.object_list,
        "query": query.urlencode(),
        "search": sought,
        "sought": any((sought.words, sought.team, sought.profile)),
        "teams": Team.objects.visible_to(user),
        "profiles": Profile.objects.visible_to(user),
        "keeps_reasons": user.is_superuser or bool(inbox.desk.leads),
    }


def tab_of(request: HttpRequest) -> Tab:
    return next((tab for tab in TABS if tab == request.GET.get("tab")), "mine")


def search_of(request: HttpRequest) -> Search:
    named = [request.GET.get(name, "").strip()[:200] for name in ("q", "team", "profile")]
    return Search(*named)


def as_csv(request: HttpRequest) -> HttpResponse:
    """Return every row of the tab that the address asks for, not only a page of it."""
    tab = tab_of(request)
    rows = Inbox(asker(request), search_of(request)).tab(tab)
    response = HttpResponse(lines(rows[:]), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="approvals-{tab}.csv"'
    return response


def lines(rows: list[Item] | Any) -> Iterator[str]:
    writer = csv.writer(Echo())
    heads = (_("Kind"), _("Name"), _("What"), _("Team"), _("Asked by"), _("Asked at"), _("Age"), _("Answer"))
    yield writer.writerow([*heads, _("Decided by"), _("Decided at")])
    for row in rows:
        cells = (
            *(row.label, row.title, row.what, row.team.slug, row.asked_by.username),
            *(row.asked_at.isoformat(), "" if row.answer else row.age_label, row.answer),
            row.decided_by.username if row.decided_by else "",
            row.decided_at.isoformat() if row.decided_at else "",
        )
        yield writer.writerow([harmless(cell) for cell in cells])
