"""The request form, the panel beside it with the preview of the request, and the import of a manifest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from claims.access import require_member
from claims.catalogue.forms import YAML
from claims.catalogue.groups import fitting_first, grouped
from claims.catalogue.listing import CatalogueEntry, counted_at, counted_entries
from claims.match_page import dropped_page, funnel_rows, relaxation_rows
from claims.models import Approval, Claim, Delivery, Draft, Profile
from claims.plans.changes import current_parts, request_again_url
from claims.quotas.quota_usage import QuotaUsage, team_usage
from claims.requests.budget_check import clusters_over_budget
from claims.requests.cluster_cards import cluster_cards
from claims.requests.cluster_choice import ClusterFit
from claims.requests.draft_views import draft_query, draft_url, keep_in_session, restore_from_session
from claims.requests.forms import FormChoices, ManifestForm, RequestForm, prefill_problems, sent_profiles
from claims.requests.manifest_import import ImportedClaim, ProfileMatch, import_for
from claims.requests.preview import PlannedMatch, RequestPreview, can_change_count, planned_match, preview
from claims.requests.services import open_drafts, request_claim
from claims.requests.suggestions import blockers_for
from claims.states import ClaimState
from core.errors import Forbidden, Invalid, PortalError
from core.idempotency import on_form
from dra.manifests import to_yaml
from dra.quota import devices
from inventory.freshness import OF_DEVICES, Age, ages, ages_for
from inventory.models import Cluster
from teams.access import reader_roles, team_for, user_of
from teams.models import Role, Team

LINK_FIELDS = ("reason",)  # in a link to the request, besides the preview fields
# Buttons that show the form again without sending it; those of APPLY change it as a line of the panel says.
APPLY = ("use", "use_devices", "use_parallel", "use_profile", "use_first")
REDISPLAY_BUTTONS = ("check", "more", "drop", *APPLY)
TEAM_COOKIE = "team"  # the team that the user has selected
# The fields on which the preview depends.
PREVIEW_FIELDS = (
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
    Show the form, filled from the address or a draft; preview it without JavaScript (`check`), or send it.

    A viewer gets 403 before they fill it in. If the session has ended, the typed fields are restored after
    signing in again.
    """
    if not request.user.is_authenticated:
        if request.method == "POST":
            keep_in_session(request)
        return redirect_to_login(reverse("claims:request") if request.POST else request.get_full_path())
    choices = reader_choices(request, request.POST if request.method == "POST" else None)
    user = require_member(request, choices.teams if request.method != "POST" else None)
    if request.method != "POST":
        if (draft := restore_from_session(request)) is not None:
            return redirect(draft_url(draft))
        return new_request_page(request, choices)
    slug = request.POST.get("team", "")
    if slug and slug not in choices.teams:
        team_for(user, slug, at_least=Role.MEMBER)  # says why not
    data = with_applied(without_removed_row(request.POST))
    form = RequestForm(data, user=user, choices=choices)
    if any(name in data for name in REDISPLAY_BUTTONS):
        return form_response(request, form, data=data)
    if not form.is_valid():
        return form_response(request, form, data=request.POST, status=422)
    return send_request(request, form)


def new_request_page(request: HttpRequest, choices: FormChoices) -> HttpResponse:
    """Show the form with these choices, filled from the address or from the draft in the address."""
    user, draft = user_of(request), None
    prefill: QueryDict = request.GET
    if "draft" in prefill:
        draft = get_object_or_404(open_drafts(user), pk=uuid_or_404(request.GET.get("draft", "")))
        prefill = draft_query(draft)
    form = RequestForm(user=user, prefill=prefill, team=request.COOKIES.get(TEAM_COOKIE, ""), choices=choices)
    data = form_as_query(form)
    if "help" in request.GET:
        data["help"] = "1"
    problems = prefill_problems(prefill, user=user, choices=choices) if prefill else ()
    return form_response(request, form, data=data, problems=problems, draft=draft)


def reader_choices(request: HttpRequest, sent: QueryDict | None = None) -> FormChoices:
    """Return what the reader may choose from; of profiles only those that are `sent`, if that is enough."""
    user, teams = user_of(request), None
    if not user.is_superuser:
        roles = reader_roles(request)
        teams = [team for team, role in roles.items() if role.rank >= Role.MEMBER.rank]
    return FormChoices.of(user, teams, slugs=None if sent is None else sent_profiles(sent))


def uuid_or_404(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404 from None


def send_request(request: HttpRequest, form: RequestForm) -> HttpResponse:
    fields = {name: value for name, value in form.cleaned_data.items() if name != "duration_other"}
    begun = timezone.now()
    if not form["cluster"].value():  # sent again, another cluster may be the best one
        earlier = Claim.objects.filter(requested_by=user_of(request), key=fields["key"])
        fields["cluster"] = next(
            (row.cluster for row in earlier.select_related("cluster")), fields["cluster"]
        )
    try:
        claim = request_claim(by=user_of(request), **fields)
    except Forbidden:
        raise
    except PortalError as refusal:
        for problem in refusal.extra.get("problems") or [on_form(refusal, form).message]:
            form.add_error(None, problem)
        return form_response(request, form, data=request.POST, status=refusal.status)
    if claim.created_at < begun:  # a double click, or the browser's back button
        messages.info(request, "This request was already sent; no second claim was created.")
    elif claim.state == ClaimState.REQUESTED:
        messages.success(request, f"{claim} requested.")
    else:
        messages.success(request, f"{claim} approved automatically.")
    return redirect("claims:detail", claim.pk)


@require_safe
def request_preview(request: HttpRequest) -> HttpResponse:
    """Return only the panel, for the fields typed so far."""
    has_profile = bool(request.GET.get("profile"))
    choices = reader_choices(request, request.GET if has_profile else None)
    page = panel_context(request, request.GET, choices) | {"swaps": True}
    if not has_profile:
        entries = requestable_entries(request, choices)
        page["start"] = team_now(page["team"], entries, in_use(choices))
    return render(request, "claims/requests/request.html#panel", page)


@require_safe
def request_further(request: HttpRequest) -> HttpResponse:
    """Return only the rows of additional profiles, with one row added or removed."""
    data = without_removed_row(request.GET)
    form = RequestForm(data, user=user_of(request), choices=reader_choices(request))
    page = {"form": form, "further_rows": further_rows(form, data)}
    answer = render(request, "claims/requests/_request_further.html", page)
    answer["HX-Trigger-After-Settle"] = "further-changed"
    return answer


@require_safe
def request_dropped(request: HttpRequest, step: int) -> HttpResponse:
    """
    Show the devices that a step of the match drops, with reasons; as a page, or as rows for the panel.
    """
    page = panel_context(request, request.GET, reader_choices(request, request.GET), match_only=True)
    if page["panel"] is None:
        return render(request, "claims/dropped.html", page, status=422)
    if not 0 < step < len(page["funnel"]):
        raise Http404
    result: PlannedMatch = page["panel"]
    cluster, spec = result.plan.cluster, result.plan.spec
    row = page["funnel"][step]
    page |= {
        "left_out": dropped_page(
            request.user, cluster, result.snapshot, spec, row, request.GET.get("page", "1")
        ),
        "pages": query_without_page(request.GET),
    }
    fragment = "#rows" if request.headers.get("HX-Request") else ""
    return render(request, f"claims/dropped.html{fragment}", page)


def query_without_page(data: QueryDict) -> str:
    """Return the query of an address without the page number."""
    query = data.copy()
    query.pop("page", None)
    return query.urlencode()


def form_response(
    request: HttpRequest,
    form: RequestForm,
    *,
    data: QueryDict,
    status: int = 200,
    problems: Sequence[str] = (),
    draft: Draft | None = None,
) -> HttpResponse:
    """
    `problems` say what the form could not use of an address; `draft` is the one that is open. A form that was
    sent has read only the profiles that it names; to be shown, it needs all.
    """
    if form.is_bound:
        form.choices = reader_choices(request)
    shown = requestable_entries(request, form.choices)
    first, more = first_cards(shown, form)
    page = {
        "form": form,
        "draft": draft,
        "other_drafts": open_drafts(user_of(request)).exclude(key=form["key"].value() or "").count(),
        "prefill_problems": problems,
        "open_groups": grouped(first, lambda entry: entry.profile),
        "more_groups": grouped(more, lambda entry: entry.profile),
        "more": len(more),
        "locked_entries": [entry for entry in shown if not entry.may_request],
        "counted_at": counted_at(shown),
        "further_rows": further_rows(form, data),
        **panel_context(request, data, form.choices),
    }
    if not data.get("profile"):
        page["start"] = team_now(page["team"], shown, in_use(form.choices))
    return render(request, "claims/requests/request.html", page, status=status)


def requestable_entries(request: HttpRequest, choices: FormChoices) -> list[CatalogueEntry]:
    """Return the catalogue entries that the form shows: all but retired profiles."""
    profiles, teams = list(choices.profiles.values()), list(choices.teams.values())
    return counted_entries(user_of(request), profiles, teams, choices.places, choices.classes)


SHOWN_CARDS = 8  # the others are folded away, so that the fields below are on the first screen


def first_cards(
    shown: Sequence[CatalogueEntry], form: RequestForm
) -> tuple[list[CatalogueEntry], list[CatalogueEntry]]:
    """
    Return the entries that may be requested: those to show, with the chosen one, and those to fold away.
    """
    chosen = str(form["profile"].value())
    order = fitting_first((entry for entry in shown if entry.may_request), in_use(form.choices))
    first = order[:SHOWN_CARDS]
    if any(entry.profile.slug == chosen for entry in order[SHOWN_CARDS:]):
        first = [*first[:-1], next(entry for entry in order if entry.profile.slug == chosen)]
    return first, [entry for entry in order if entry not in first]


def in_use(choices: FormChoices) -> set[UUID]:
    """Return the profiles of which the reader's teams have live claims."""
    return {profile.pk for profile in choices.profiles.values() if getattr(profile, "used", False)}


@dataclass(frozen=True, slots=True)
class TeamNow:
    """What a team could request now, before a profile is chosen: profiles with free devices, its quota."""

    team: Team
    usages: Sequence[QuotaUsage]
    entries: Sequence[CatalogueEntry]


SHOWN_FREE = 6


def team_now(team: Team | None, shown: Sequence[CatalogueEntry], used: Collection[UUID]) -> TeamNow | None:
    """Return what the panel shows before a profile is chosen; None without a team."""
    if team is None:
        return None
    free = (entry for entry in shown if entry.may_request and entry.free)
    return TeamNow(team, team_usage([team]), fitting_first(free, used)[:SHOWN_FREE])


def further_rows(form: RequestForm, data: QueryDict) -> list[tuple[str, str]]:
    """Return (slug, count) of each row: the chosen additional profiles, and an empty row on `more`."""
    chosen: list[tuple[str, str]] = list(form["together"].value() or ())
    return [*chosen, ("", "1")] if "more" in data else chosen


def without_removed_row(data: QueryDict) -> QueryDict:
    """Return the sent fields without the additional profile whose `drop` button was pressed."""
    remaining = data.copy()
    rows = list(zip_longest(data.getlist("together"), data.getlist("together_devices"), fillvalue=""))
    index = data.get("drop", "")
    if index.isascii() and index.isdigit() and int(index[:4]) < len(rows):
        del rows[int(index[:4])]
        remaining.setlist("together", [slug for slug, _count in rows])
        remaining.setlist("together_devices", [count for _slug, count in rows])
    return remaining


def with_applied(data: QueryDict) -> QueryDict:
    """Change the fields as the pressed button says: another cluster, number, profile or order."""
    if "use" in data:
        data["cluster"] = data.get("use", "")
    if "use_devices" in data:
        data["devices"] = data.get("use_devices", "")
    if "use_parallel" in data:
        data["parallel"] = data.get("use_parallel", "")
    if "use_profile" in data:
        slug, _colon, data["devices"] = data.get("use_profile", "").partition(":")
        data["profile"] = slug
        data.setlist("alternatives", [row for row in data.getlist("alternatives") if row != slug])
    if "use_first" in data and (slug := data.get("use_first", "")) in data.getlist("alternatives"):
        others = [row for row in data.getlist("alternatives") if row != slug]
        data.setlist("alternatives", [data.get("profile", ""), *others])
        data["profile"] = slug
    return data


def form_as_query(form: RequestForm) -> QueryDict:
    """Return the fields that an unbound form would send now."""
    data = QueryDict(mutable=True)
    for field in form:
        value = field.value()
        if field.name == "alternatives":
            data.setlist(field.name, value or [])
        elif field.name == "together":
            data.setlist(field.name, [slug for slug, _count in value or ()])
            data.setlist("together_devices", [count for _slug, count in value or ()])
        elif value not in (None, ""):
            data[field.name] = str(value)
    return data


def panel_context(
    request: HttpRequest, data: QueryDict, choices: FormChoices, *, match_only: bool = False
) -> dict[str, Any]:
    """
    Return the context of the panel: the preview of `data`, if `match_only` only its plan and match, or what
    is missing, field by field.
    """
    form = RequestForm(data, user=user_of(request), choices=choices)
    chosen: dict[str, Any] = {"chosen": chosen_alternatives(form), "team": form.cleaned_data.get("team")}
    if duration := form.cleaned_data.get("duration"):
        chosen["until"] = timezone.now() + duration
    if not data.get("profile"):
        missing = ["Choose a profile to see what matches, the price and who approves."]
        return {"panel": None, "missing": missing, "cluster_cards": cluster_cards(form)} | chosen
    if not form.is_valid():
        missing = [
            f"{form.fields[name].label}: {error}"
            for name in PREVIEW_FIELDS
            for error in form.errors.get(name, [])
        ]
        missing += [str(error) for error in form.errors.get("duration_other", [])]
        if missing:
            return {"panel": None, "missing": missing, "cluster_cards": cluster_cards(form)} | chosen
    fields = {name: form.cleaned_data[name] for name in PREVIEW_FIELDS}
    try:
        if match_only:
            del fields["replaces"]  # it changes the charge, not the match
            return match_context(request, planned_match(by=user_of(request), **fields), data)
        result = preview(by=user_of(request), **fields, with_help="help" in data)
    except PortalError as refusal:
        cards = cluster_cards(form)
        return {"panel": None, "missing": [refusal.message], "cluster_cards": cards} | chosen
    form_url = request.build_absolute_uri(reverse("claims:request"))
    helps = relaxation_rows(result.help, with_count=can_change_count(result.plan))
    chosen["until"] = timezone.now() + result.plan.duration  # the profile's, where none was chosen
    medians = [getattr(option.profile, "usual_decision", None) for option in result.plan.options]
    chosen["usual_decision"] = max(filter(None, medians), default=None)
    places, replaces = [cluster.pk for cluster in form.choices.clusters.values()], fields["replaces"]
    over = clusters_over_budget(result.plan, result.budget_lines, places, replaces=replaces)
    return {
        **match_context(request, result, data),
        "cluster_cards": cluster_cards(form, result.verdict, over),
        "could_fit": result.could_fit,
        "other_clusters": better_clusters(form.fits, result),
        "helps": [row for row in helps if row.devices],
        "fixed_helps": [row for row in helps if not row.devices],
        "with_help": "help" in data,
        "link": f"{form_url}?{preview_query(data, *LINK_FIELDS)}",
        **chosen,
    }


def better_clusters(fits: Sequence[ClusterFit], result: RequestPreview) -> list[ClusterFit]:
    """
    Return other clusters to offer for a request that would be accepted and does not fit where it is: those
    where it fits now; for profiles together, else those where it could fit if it could not here.
    """
    if result.match.fits or not result.verdict.accepted:
        return []
    others = [fit for fit in fits if fit.cluster != result.plan.cluster and not fit.cluster.read_only]
    fitting = [fit for fit in others if fit.option is not None]
    return fitting or [fit for fit in others if fit.together and fit.possible and not result.could_fit]


def match_context(request: HttpRequest, result: PlannedMatch, data: QueryDict) -> dict[str, Any]:
    """Return the part of the context that a planned match has."""
    query = preview_query(data)
    age = partial(age_of, request, result.plan.cluster)  # read by the frame, if there is one
    return {"panel": result, "funnel": funnel_rows(result.match), "query": query, "age": age}


def age_of(request: HttpRequest, cluster: Cluster) -> Age:
    of_cluster = [age for age in ages_for(request) if age.cluster == cluster]
    (age,) = of_cluster or ages(OF_DEVICES, cluster=cluster)  # of one that was disabled this moment
    return age


def chosen_alternatives(form: RequestForm) -> list[Profile]:
    """Return the selected alternatives in their order, even if other fields are invalid."""
    form.is_valid()
    return list(form.cleaned_data.get("alternatives") or ())


def preview_query(data: QueryDict, *more: str) -> str:
    """Return the preview fields, and `more` fields, as a query string."""
    query = QueryDict(mutable=True)
    for name in (*PREVIEW_FIELDS, "together_devices", "duration_other", *more):
        if any(data.getlist(name)):
            query.setlist(name, data.getlist(name))
    return query.urlencode()


@require_safe
def request_blockers(request: HttpRequest) -> HttpResponse:
    """Show claims that would free enough devices; as a page, or as lines for the panel."""
    page = panel_context(request, request.GET, reader_choices(request, request.GET), match_only=True)
    result: PlannedMatch | None = page["panel"]
    if result is None:
        return render(request, "claims/requests/blockers.html", page, status=422)
    page["blockers"] = blockers_for(request.user, result.plan.cluster, result.snapshot, result.plan.spec)
    fragment = "#rows" if request.headers.get("HX-Request") else ""
    return render(request, f"claims/requests/blockers.html{fragment}", page)


@require_safe
def request_like_last(request: HttpRequest) -> HttpResponse:
    """Lead to the request form with the newest request of the reader filled in, or to the empty form."""
    user = user_of(request)
    own = Claim.objects.visible_to(user).filter(requested_by=user, origin=Claim.Origin.PORTAL)
    claim = own.with_profiles().select_related("team", "cluster", "profile_version__profile")
    newest = claim.order_by("-created_at", "-pk").first()
    return redirect(request_again_url(newest, current_parts(newest, ())) if newest else "claims:request")


@dataclass(frozen=True, slots=True)
class ImportOption:
    """A profile match, and the address of the request form filled with it."""

    match: ProfileMatch
    url: str


@dataclass(frozen=True, slots=True)
class ImportChoices:
    """One claim of the file with its matches; `editor` are the fields of a new profile."""

    claim: ImportedClaim
    exact: list[ImportOption]
    combination_url: str  # "" if there is no combination
    nearest: list[ImportOption]
    editor: list[tuple[str, object]]


@require_http_methods(["GET", "HEAD", "POST"])
def request_import(request: HttpRequest) -> HttpResponse:
    """Show the form for a manifest; on POST the matching profiles. Nothing is created."""
    user = require_member(request)
    if request.method != "POST":
        return render(request, "claims/requests/request_import.html", {"form": ManifestForm()})
    form = ManifestForm(request.POST, request.FILES)
    page: dict[str, Any] = {"form": form}
    if form.is_valid():
        try:
            found = import_for(user, form.cleaned_data["manifest"], form.cleaned_data["source"])
        except Invalid as refusal:
            form.add_error(None, refusal.message)
        else:
            page["found"], page["claims"] = found, [import_choices(claim) for claim in found.claims]
    return render(
        request, "claims/requests/request_import.html", page, status=200 if form.is_valid() else 422
    )


def import_choices(claim: ImportedClaim) -> ImportChoices:
    return ImportChoices(
        claim,
        exact=[ImportOption(match, form_url(claim, [match])) for match in claim.exact],
        combination_url=form_url(claim, claim.combination.parts) if claim.combination else "",
        nearest=[ImportOption(match, form_url(claim, [match])) for match in claim.nearest],
        editor=editor_fields(claim),
    )


def form_url(claim: ImportedClaim, parts: Sequence[ProfileMatch]) -> str:
    """Return the address of the request form with these profiles combined."""
    first, *others = parts
    fields: list[tuple[str, object]] = [
        ("profile", first.profile.slug),
        ("devices", first.similarity.count),
        ("delivery", claim.delivery),
    ]
    if claim.parallel > 1:
        fields.append(("parallel", claim.parallel))
    for match in others:
        fields += [("together", match.profile.slug), ("together_devices", match.similarity.count)]
    if claim.name:
        fields.append(("name", claim.name))
    return f"{reverse('claims:request')}?{urlencode(fields)}"


def editor_fields(claim: ImportedClaim) -> list[tuple[str, object]]:
    """Return the fields that fill the profile editor with the spec of the file."""
    return [
        ("edit", "1"),
        ("source", YAML),
        ("spec_yaml", to_yaml(claim.spec)),
        ("slug", claim.name[:40]),
        ("title", claim.name[:80]),
        ("max_devices", devices(claim.spec) or 1),
        ("approval", Approval.LEAD.value),
        ("default_duration", "24h"),
        ("max_duration", "14d"),
        ("grace", "0h"),
        ("extension", "0h"),
        ("automatic_devices", 0),
        *(("deliveries", value) for value in Delivery.values),
    ]
