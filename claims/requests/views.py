"""The request form, and the panel beside it that says what a request would come to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from claims.access import require_member
from claims.catalogue.listing import CatalogueEntry, catalogue
from claims.match_page import dropped_page, funnel_rows, relaxation_rows
from claims.models import Claim, Draft, Profile
from claims.requests.draft_views import address_of, prefill_of, remember, take_over
from claims.requests.forms import RequestForm, complaints
from claims.requests.preview import RequestPreview, preview
from claims.requests.services import open_drafts, request_claim
from claims.requests.suggestions import blockers_for
from claims.states import ClaimState
from core.errors import Forbidden, PortalError
from inventory.freshness import OF_DEVICES, ages
from teams.access import team_for, user_of
from teams.models import Role

SAID = ("reason",)  # what a link to the request says beside what the panel depends on
ONLY_SHOWN = ("check", "more", "drop")  # buttons that show the form again and send nothing
TEAM_COOKIE = "team"  # the team that the reader has chosen to see
# What the panel depends on: changing anything else asks for nothing.
WORKED_OUT = (
    "team",
    "cluster",
    "profile",
    "alternatives",
    "together",
    "devices",
    "parallel",
    "delivery",
    "duration",
    "name",
    "replaces",
)


@login_not_required
@require_http_methods(["GET", "HEAD", "POST"])
def request_form(request: HttpRequest) -> HttpResponse:
    """
    Show the form, filled from the address or a draft; check it without JavaScript (`check`), or send it.

    A viewer may not ask at all, and hears so before filling it in. What somebody sends whose session has
    ended meanwhile is there again after they have signed in.
    """
    if not request.user.is_authenticated:
        if request.method == "POST":
            remember(request)
        return redirect_to_login(reverse("claims:request") if request.POST else request.get_full_path())
    user = require_member(request)
    if request.method != "POST":
        if (kept := take_over(request)) is not None:
            return redirect(address_of(kept))
        return fresh_page(request)
    if request.POST.get("team"):
        team_for(user, request.POST["team"], at_least=Role.MEMBER)
    form = RequestForm(data := without_dropped(request.POST), user=user)
    if any(name in data for name in ONLY_SHOWN):
        return form_page(request, form, data=data)
    if not form.is_valid():
        return form_page(request, form, data=request.POST, status=422)
    return send(request, form)


def fresh_page(request: HttpRequest) -> HttpResponse:
    """Show the form as the address fills it, or the draft that the address names."""
    user, draft = user_of(request), None
    prefill: QueryDict = request.GET
    if "draft" in prefill:
        draft = get_object_or_404(open_drafts(user), pk=uuid_or_404(request.GET.get("draft", "")))
        prefill = prefill_of(draft)
    form = RequestForm(user=user, prefill=prefill, team=request.COOKIES.get(TEAM_COOKIE, ""))
    data = as_data(form)
    if "help" in request.GET:
        data["help"] = "1"
    return form_page(request, form, data=data, told=complaints(prefill, user=user), draft=draft)


def uuid_or_404(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None


def send(request: HttpRequest, form: RequestForm) -> HttpResponse:
    wish = {name: value for name, value in form.cleaned_data.items() if name != "duration_other"}
    sent = Claim.objects.filter(requested_by=user_of(request), key=wish["key"]).exists()
    try:
        claim = request_claim(by=user_of(request), **wish)
    except Forbidden:
        raise
    except PortalError as refusal:
        for problem in refusal.extra.get("problems", [refusal.message]):
            form.add_error(None, problem)
        return form_page(request, form, data=request.POST, status=refusal.status)
    if sent:  # a double click, or the button of the browser that leads back
        messages.info(
            request, "This form had been sent already, and nothing is asked twice: here is its claim."
        )
    elif claim.state == ClaimState.REQUESTED:
        messages.success(request, f"{claim} is requested.")
    else:
        messages.success(request, f"{claim} is approved by a rule.")
    return redirect("claims:detail", claim.pk)


@require_safe
def request_preview(request: HttpRequest) -> HttpResponse:
    """The panel alone, for what has been typed so far."""
    return render(request, "claims/requests/request.html#panel", panel_of(request, request.GET))


@require_safe
def request_further(request: HttpRequest) -> HttpResponse:
    """The rows of further profiles alone: with one more, or with one less."""
    data = without_dropped(request.GET)
    form = RequestForm(data, user=user_of(request))
    page = {"form": form, "further": further_of(form, data)}
    answer = render(request, "claims/requests/_request_further.html", page)
    answer["HX-Trigger-After-Settle"] = "further-changed"
    return answer


@require_safe
def request_dropped(request: HttpRequest, step: int) -> HttpResponse:
    """
    The devices that one step of the funnel leaves out, and why; a page of its own, or the rows for the panel.
    """
    page = panel_of(request, request.GET)
    if page["panel"] is None:
        return render(request, "claims/dropped.html", page, status=422)
    if not 0 < step < len(page["funnel"]):
        raise Http404
    found: RequestPreview = page["panel"]
    cluster, spec = found.plan.cluster, found.plan.spec
    row = page["funnel"][step]
    page |= {
        "left_out": dropped_page(
            request.user, cluster, found.snapshot, spec, row, request.GET.get("page", "1")
        ),
        "pages": without_page(request.GET),
    }
    fragment = "#rows" if request.headers.get("HX-Request") else ""
    return render(request, f"claims/dropped.html{fragment}", page)


def without_page(data: QueryDict) -> str:
    """Return the query of an address, save the number of the page."""
    query = data.copy()
    query.pop("page", None)
    return query.urlencode()


def form_page(
    request: HttpRequest,
    form: RequestForm,
    *,
    data: QueryDict,
    status: int = 200,
    told: Sequence[str] = (),
    draft: Draft | None = None,
) -> HttpResponse:
    """`told` is what the form could not take; `draft` the one that is open."""
    page = {
        "form": form,
        "draft": draft,
        "other_drafts": open_drafts(user_of(request)).exclude(key=form["key"].value() or "").count(),
        "told": told,
        "cards": offered(request),
        "further": further_of(form, data),
        **panel_of(request, data),
    }
    return render(request, "claims/requests/request.html", page, status=status)


def offered(request: HttpRequest) -> list[CatalogueEntry]:
    """Return the cards of profiles; retired ones are for the editor alone."""
    return [entry for entry in catalogue(user_of(request)) if entry.profile.retired_at is None]


def further_of(form: RequestForm, data: QueryDict) -> list[tuple[str, str]]:
    """Return the rows of further profiles as they are shown: those that were chosen, and an empty one."""
    chosen: list[tuple[str, str]] = list(form["together"].value() or ())
    return [*chosen, ("", "1")] if "more" in data else chosen


def without_dropped(data: QueryDict) -> QueryDict:
    """Return what was sent, without the further profile whose button `drop` was pressed."""
    kept = data.copy()
    rows = list(zip_longest(data.getlist("together"), data.getlist("together_devices"), fillvalue=""))
    place = data.get("drop", "")
    if place.isascii() and place.isdigit() and int(place[:4]) < len(rows):
        del rows[int(place[:4])]
        kept.setlist("together", [slug for slug, _count in rows])
        kept.setlist("together_devices", [count for _slug, count in rows])
    return kept


def as_data(form: RequestForm) -> QueryDict:
    """Return what an unsent form would send if it were sent now."""
    data = QueryDict(mutable=True)
    for bound in form:
        value = bound.value()
        if bound.name == "alternatives":
            data.setlist(bound.name, value or [])
        elif bound.name == "together":
            data.setlist(bound.name, [slug for slug, _count in value or ()])
            data.setlist("together_devices", [count for _slug, count in value or ()])
        elif value not in (None, ""):
            data[bound.name] = str(value)
    return data


def panel_of(request: HttpRequest, data: QueryDict) -> dict[str, Any]:
    """Work out what would come of `data`; what stands in the way is said instead, field by field."""
    form = RequestForm(data, user=user_of(request))
    named = {"chosen": chosen_alternatives(form)}
    if not data.get("profile"):
        missing = ["Choose a profile to see what matches and is free now."]
        return {"panel": None, "missing": missing} | named
    if not form.is_valid():
        missing = [
            f"{form.fields[name].label}: {error}"
            for name in WORKED_OUT
            for error in form.errors.get(name, [])
        ]
        missing += [str(error) for error in form.errors.get("duration_other", [])]
        if missing:
            return {"panel": None, "missing": missing} | named
    wish = {name: form.cleaned_data[name] for name in WORKED_OUT}
    try:
        found = preview(by=user_of(request), **wish, with_help="help" in data)
    except PortalError as refusal:
        return {"panel": None, "missing": [refusal.message]} | named
    (age,) = ages(OF_DEVICES, cluster=found.plan.cluster)
    return {
        "panel": found,
        "funnel": funnel_rows(found.match),
        "helps": relaxation_rows(found.help),
        "asked_for_more": "help" in data,
        "query": query_of(data),
        "link": f"{request.build_absolute_uri(reverse('claims:request'))}?{query_of(data, *SAID)}",
        "age": age,
    } | named


def chosen_alternatives(form: RequestForm) -> list[Profile]:
    """Return the alternatives that are ticked, in their order, whatever else is wrong with the form."""
    form.is_valid()
    return list(form.cleaned_data.get("alternatives") or ())


def query_of(data: QueryDict, *more: str) -> str:
    """Return the wish, and `more` fields, as the query of an address."""
    query = QueryDict(mutable=True)
    for name in (*WORKED_OUT, "together_devices", "duration_other", *more):
        if any(data.getlist(name)):
            query.setlist(name, data.getlist(name))
    return query.urlencode()


@require_safe
def request_endings(request: HttpRequest) -> HttpResponse:
    """Answer with a page of its own, or with the lines for the panel of the request form."""
    page = panel_of(request, request.GET)
    found: RequestPreview | None = page["panel"]
    if found is None:
        return render(request, "claims/requests/endings.html", page, status=422)
    page["scattered"] = blockers_for(request.user, found.plan.cluster, found.snapshot, found.plan.spec)
    fragment = "#rows" if request.headers.get("HX-Request") else ""
    return render(request, f"claims/requests/endings.html{fragment}", page)
