"""What the section with the manifests of a claim shows."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest
from django.utils.translation import gettext as _

from claims.forms.snippet import SnippetForm, in_nodes
from claims.manifests import use_of
from claims.models import Claim
from claims.snippets import GROUPS, Snippet, check_of, landing_of, snippets_of
from dra import cuda
from dra.landing import Landing
from dra.workloads import ASSUMED, Options

# How severe a verdict is → colour family and icon.
LOOKS = {
    cuda.Level.OK: ("held", "circle-check"),
    cuda.Level.UNKNOWN: ("unknown", "help"),
    cuda.Level.WARNING: ("wait", "alert-triangle"),
    cuda.Level.ERROR: ("bad", "alert-circle"),
}


def snippets_page(request: HttpRequest, claim: Claim, key: str) -> dict[str, Any]:
    """Return the context of the section; an unknown `key` shows the first snippet."""
    found = landing_of(claim)
    form = SnippetForm(request.GET, use=use_of(claim, maker=found.maker), landing=found)
    chosen = form.options() if not form.is_bound or form.is_valid() else Options()
    base_url = request.build_absolute_uri("/").rstrip("/")
    every = snippets_of(claim, base_url=base_url, options=chosen, maker=found.maker)
    shown = next((one for one in every if one.key == key), every[0])
    check = check_of(shown, chosen, found)
    kept = urlencode(form.chosen(), doseq=True)
    return {
        "snippet": shown,
        "snippets": [one for one in every if one.group == shown.group],
        "snippet_groups": first_of_groups(every, shown),
        "snippet_form": form,
        "snippet_chosen": chosen.chosen,
        "snippet_options": f"?{kept}" if kept else "",
        "snippet_kept": f"&{kept}" if kept else "",
        "snippet_query": urlencode({"snippet": shown.key, **form.chosen()}, doseq=True),
        "snippet_check": check,
        "snippet_parts": [(one, *LOOKS[one.verdict.level]) for one in check.parts] if check else [],
        "snippet_places": places_sentence(found, chosen),
    }


def first_of_groups(every: list[Snippet], shown: Snippet) -> list[tuple[str, str, bool]]:
    """Return (title, key of its first snippet, whether it is open) of each use that has snippets."""
    firsts = {one.group: one.key for one in reversed(every)}
    return [
        (str(title), firsts[group], group == shown.group)
        for group, title in GROUPS.items()
        if group in firsts
    ]


def places_sentence(found: Landing, chosen: Options) -> str:
    """Say how many nodes take the pods as they stand; "" where there is nothing to count."""
    if found.problem or not found.nodes:
        return ""
    labels = None if not chosen.capacity else ["" if chosen.capacity == ASSUMED else chosen.capacity]
    number = found.open_to(chosen.tolerate, labels)
    return _("%(open)d of %(nodes)s with matching devices take these pods by taints and labels.") % {
        "open": number,
        "nodes": in_nodes(found.nodes),
    }
