"""The page of a profile, its versions, and the editor with its live match."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, OuterRef, Q, Subquery, Value
from django.db.models.functions import Coalesce
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_filters import ChoiceFilter, FilterSet

from claims.catalogue import services
from claims.catalogue.definition import ProfileDefinition, limits_in_words
from claims.catalogue.forms import FIELDS, YAML, ProfileForm, switched_values
from claims.catalogue.lint import catalogue_report
from claims.catalogue.listing import entries
from claims.catalogue.selectors import conditions_in, yaml_only_parts
from claims.catalogue.services import definition_problems
from claims.catalogue.sharing import cautions, isolation_sentences
from claims.catalogue.versions import (
    draft_count,
    live_claims,
    live_versions,
    proposed_difference,
    version_difference,
    versions_with_claim_counts,
)
from claims.catalogue.views import budgets_left, entry_card
from claims.match_page import dropped_page, funnel_rows, relaxation_rows
from claims.models import Approval, Profile, ProfileVersion, Purpose
from claims.models.profile import ProfileQuerySet
from claims.states import ClaimState
from core import undo
from core.errors import Conflict, PortalError
from core.listing import Column, Listing
from core.text import as_options
from core.times import duration
from dra import match, validation
from dra.manifests import in_key_order, to_yaml
from dra.objects import Json, device_requests
from dra.relaxations import find_relaxations
from inventory.cluster_snapshot import current_snapshot
from inventory.freshness import OF_DEVICES, ages
from inventory.models import Cluster, DeviceClass
from teams.access import is_platform_admin, user_of

OFFERED, RETIRED = "offered", "retired"
MAX_NAMED = 20  # claims that the page for retiring names; a link leads to all


class ProfileFilter(FilterSet):
    state = ChoiceFilter(
        label="State",
        choices=[(OFFERED, "In the catalogue"), (RETIRED, "Retired")],
        method="by_state",
        empty_label="Any state",
    )
    approval = ChoiceFilter(
        label="Approval",
        field_name="current__approval",
        choices=as_options(Approval.choices),
        empty_label="Any approval",
    )

    purpose = ChoiceFilter(label="Purpose", choices=Purpose.choices, empty_label="Any purpose")

    class Meta:
        model = Profile
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_state(self, rows: ProfileQuerySet, name: str, value: str) -> ProfileQuerySet:
        return rows.filter(retired_at__isnull=value == OFFERED)


def version_column(name: str) -> Any:
    """Return a function that reads a column of the current version, None if there is no version."""
    return lambda profile: getattr(profile.current, name, None)


COLUMNS: list[Column[Profile]] = [
    Column("profile", "Profile", lambda profile: profile.slug, sort="title", fixed=True),
    Column("title", "Title", lambda profile: profile.title, sort="title", shown=False),
    Column("purpose", "Purpose", lambda profile: profile.get_purpose_display(), sort="purpose"),
    Column("version", "Version", version_column("number"), sort="current__number"),
    Column("approval", "Approval", version_column("approval"), sort="current__approval"),
    Column(
        "delivered",
        "Delivery",
        lambda profile: ", ".join(profile.current.deliveries) if profile.current else None,
    ),
    Column("most", "Max devices", version_column("max_devices"), "current__max_devices", numeric=True),
    Column(
        "longest",
        "Max duration",
        lambda profile: duration(profile.current.max_duration) if profile.current else None,
        sort="current__max_duration",
        numeric=True,
    ),
    Column("live", "Live claims", lambda profile: profile.live, sort="live", numeric=True),
    Column(
        "retired",
        "Retired",
        lambda profile: profile.retired_at and profile.retired_at.isoformat(),
        sort="retired_at",
        shown=False,
    ),
    Column("restore", "", lambda profile: None, fixed=True),
]


def require_admin(request: HttpRequest) -> None:
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only a platform admin can edit the catalogue.")


@require_safe
def profiles(request: HttpRequest) -> HttpResponseBase:
    """List every profile with its number of live claims, retired ones last."""
    require_admin(request)
    claims = live_claims(OuterRef("pk")).order_by().values(one=Value(1))
    live = claims.annotate(count=Count("pk", distinct=True)).values("count")
    rows = Profile.objects.select_related("current").annotate(live=Coalesce(Subquery(live), 0))
    listing = Listing(
        request,
        rows.order_by(F("retired_at").desc(nulls_first=True), "title"),
        columns=COLUMNS,
        title="Profiles",
        filters=ProfileFilter,
        search=("slug", "title", "use"),
    )
    page = {
        "report": catalogue_report(),
        "empty_icon": "layout-grid",
        "empty_title": "No profile yet",
        "empty_text": "A profile is a claim spec with a title and limits. People request GPUs through it.",
        "empty_url": reverse("claims:profile_new"),
        "empty_action": "New profile",
    }
    return listing.respond("claims/catalogue/profiles.html", page)


@require_safe
def profile(request: HttpRequest, slug: str) -> HttpResponse:
    """Show a profile: its spec, its limits, its device classes and its versions."""
    profile = get_object_or_404(Profile.objects.visible_to(request.user).select_related("current"), slug=slug)
    page: dict[str, Any] = {
        "profile": profile,
        "version": profile.current,
        "is_admin": is_platform_admin(request.user),
    }
    if profile.current:
        (entry,) = entries(user_of(request), Profile.objects.filter(pk=profile.pk))
        page |= {
            "card": entry_card(entry),
            "entry": entry,
            "budgets": budgets_left(request, [entry]),
            "isolation": isolation_sentences(entry.sharing),
            "cautions": cautions(profile.current.spec),
            "limits": limits_in_words(profile.current),
            "classes": device_class_specs(profile.current, {kind.cluster_id for kind in entry.kinds}),
        }
    return render(request, "claims/catalogue/profile.html", page | versions_page(profile))


@require_safe
def profile_diff(request: HttpRequest, slug: str, before: int, after: int) -> HttpResponse:
    """Show how version `after` differs from version `before`; either can be the newer one."""
    profile = get_object_or_404(Profile.objects.visible_to(request.user).select_related("current"), slug=slug)
    versions = profile.versions.select_related("created_by")
    old, new = (get_object_or_404(versions, number=number) for number in (before, after))
    page = {
        "profile": profile,
        "old": old,
        "new": new,
        "names": (f"v{before}", f"v{after}"),
        "difference": version_difference(old, new),
        "numbers": list(profile.versions.values_list("number", flat=True)),
    }
    return render(request, "claims/catalogue/profile_diff.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_retire(request: HttpRequest, slug: str) -> HttpResponse:
    """Confirm on GET, with the claims, requests and drafts of the profile; retire on POST, with an undo."""
    require_admin(request)
    profile = get_object_or_404(Profile, slug=slug)
    if request.method == "POST":
        services.retire_profile(by=user_of(request), profile=profile)
        undo.offer(
            request,
            f"{profile} is retired. Nobody can request it any more.",
            reverse("claims:profile_restore", args=[profile.slug]),
        )
        return redirect("claims:profiles")
    live = live_claims(profile).select_related("team", "requested_by")
    counts = live.aggregate(all=Count("pk"), waiting=Count("pk", filter=Q(state=ClaimState.REQUESTED)))
    page = {
        "profile": profile,
        "live": counts["all"] - counts["waiting"],
        "waiting": counts["waiting"],
        "drafts": draft_count(profile),
        "claims": live[:MAX_NAMED],
        "more": max(counts["all"] - MAX_NAMED, 0),
    }
    return render(request, "claims/catalogue/profile_retire.html", page)


@require_POST
def profile_restore(request: HttpRequest, slug: str) -> HttpResponse:
    """Restore a retired profile to the catalogue."""
    require_admin(request)
    profile = services.restore_profile(by=user_of(request), profile=get_object_or_404(Profile, slug=slug))
    messages.success(request, f"{profile} is in the catalogue again.")
    return redirect("claims:profiles")


def versions_page(profile: Profile) -> dict[str, Any]:
    """Return every version, newest first, and the current spec as YAML."""
    spec = profile.current.spec if profile.current else {}
    return {
        "versions": versions_with_claim_counts(profile),
        "spec_yaml": to_yaml(in_key_order(spec)) if spec else "",
    }


def device_class_specs(version: ProfileVersion, clusters: set[Any]) -> list[tuple[str, str]]:
    """
    Return the device classes that a version names, each with its spec as YAML, as one of `clusters` has it.
    """
    names = {request.class_name for request in device_requests(version.spec)}
    rows = DeviceClass.objects.filter(name__in=names, cluster__in=clusters, gone_at=None)
    classes = {row.name: to_yaml({"spec": row.raw.get("spec") or {}}) for row in rows.order_by("-name")}
    return sorted(classes.items())


SOURCES = ("device_class", "spec_yaml", "source", "count", "memory_gib", "compute", "domain", "product")


@require_POST
def profile_match(request: HttpRequest) -> HttpResponse:
    """Render the match of the spec in the form; with `step`, the devices that this step excludes."""
    require_admin(request)
    page = match_page(sent_spec(ProfileForm(request.POST)), request.POST)
    if "step" not in request.POST:
        return render(request, "claims/catalogue/_profile_match.html", page)
    text = request.POST["step"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not page["matched"] or not 0 < number < len(page["funnel"]):
        raise Http404
    cluster, row = page["match_cluster"], page["funnel"][number]
    spec, page_number = page["matched_spec"], request.POST.get("page", "1")
    page["left_out"] = dropped_page(request.user, cluster, current_snapshot(cluster), spec, row, page_number)
    page["editor"], page["live"] = True, "HX-Request" in request.headers
    return render(request, "claims/dropped.html#rows" if page["live"] else "claims/dropped.html", page)


def sent_spec(form: ProfileForm) -> tuple[Json | None, list[str]]:
    """Return the spec of a sent form and no problems, or None and its problems."""
    form.is_valid()
    problems = [str(error) for name in SOURCES for error in form.errors.get(name, [])]
    spec: Json = form.cleaned_data.get("spec") or {}
    problems = problems or [problem.message for problem in validation.problems(spec)]
    return (None, problems) if problems else (spec, [])


def match_page(described: tuple[Json | None, list[str]], data: QueryDict) -> dict[str, Any]:
    """Return the match of a spec in the cluster that `data` names, or in the first one."""
    spec, problems = described
    clusters = list(Cluster.objects.filter(enabled=True).defer("credentials").order_by("name"))
    named = data.get("match_cluster")
    chosen = [cluster for cluster in clusters if cluster.name == named] or clusters
    cluster = chosen[0] if chosen else None
    page: dict[str, Any] = {
        "match_clusters": clusters,
        "match_cluster": cluster,
        "matched": None,
        "problems": problems,
    }
    if cluster is None or spec is None:
        return page
    snapshot = current_snapshot(cluster)
    preview = match.preview(snapshot, spec)
    relaxations = [] if preview.fits else find_relaxations(snapshot, spec, baseline=preview)
    (age,) = ages(OF_DEVICES, cluster=cluster)
    return page | {
        "matched": preview,
        "matched_spec": spec,
        "funnel": funnel_rows(preview),
        "helps": relaxation_rows(relaxations),
        "age": age,
    }


BUTTONS = {
    "csrfmiddlewaretoken",
    "base",
    "confirm",
    "restore",
    "edit",
    "switch",
    "check",
}  # not fields of the form


@require_http_methods(["GET", "HEAD", "POST"])
def profile_new(request: HttpRequest) -> HttpResponse:
    require_admin(request)
    return edit(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_edit(request: HttpRequest, slug: str) -> HttpResponse:
    require_admin(request)
    profiles = Profile.objects.select_related("current__created_by")
    return edit(request, get_object_or_404(profiles, slug=slug))


def edit(request: HttpRequest, profile: Profile | None) -> HttpResponse:
    """
    Show the form, switch between fields and YAML (`switch`), check without JavaScript (`check`), return from
    the confirmation (`edit`), or save. Every step keeps what was typed.
    """
    if request.method != "POST":
        return editor(request, ProfileForm(profile=profile), profile)
    form = ProfileForm(request.POST, profile=profile)
    if to := request.POST.get("switch"):
        values = switched_values(form, YAML if to == YAML else FIELDS)
        if values is None:
            return editor(request, form, profile, status=422)
        switched = ProfileForm(profile=profile, initial=values)
        return editor(request, switched, profile, described=sent_spec(form))
    if "check" in request.POST:
        return editor(request, form, profile)
    if not form.is_valid():
        return editor(request, form, profile, status=200 if "edit" in request.POST else 422)
    definition = form.definition()
    problems = definition_problems(definition)
    if problems or "edit" in request.POST:
        for problem in problems:
            form.add_error(None, problem)
        return editor(request, form, profile, status=200 if "edit" in request.POST else 422)
    if profile and profile.current and not is_confirmed(request, profile):
        page = confirm_page(request, profile, definition)
        if page["difference"] or page["restores"]:
            changed = page["theirs"] or "confirm" in request.POST
            return render(
                request, "claims/catalogue/profile_confirm.html", page, status=409 if changed else 200
            )
    return save(request, form, profile, definition)


def is_confirmed(request: HttpRequest, profile: Profile) -> bool:
    """Return whether the confirmation was sent, and said that saving restores a retired profile."""
    return "confirm" in request.POST and (profile.retired_at is None or "restore" in request.POST)


def save(
    request: HttpRequest, form: ProfileForm, profile: Profile | None, definition: ProfileDefinition
) -> HttpResponse:
    """Save. If somebody else saved a version meanwhile, show both and ask again: 409."""
    restores = profile is not None and profile.retired_at is not None
    try:
        version = services.save_profile(
            by=user_of(request), profile=profile, definition=definition, base=sent_base(request)
        )
    except Conflict as refusal:
        if profile is None or "current" not in refusal.extra:
            form.add_error(None, refusal.message)
            return editor(request, form, profile, status=refusal.status)
        profile.refresh_from_db()
        page = confirm_page(request, profile, definition) | {"refusal": refusal.message}
        return render(request, "claims/catalogue/profile_confirm.html", page, status=refusal.status)
    except PortalError as refusal:
        for problem in refusal.extra.get("problems", [refusal.message]):
            form.add_error(None, problem)
        return editor(request, form, profile, status=refusal.status)
    saved = f"{version.profile} is saved; its version is {version.number}."
    if restores:
        saved = f"{saved} It was retired and is in the catalogue again."
    messages.success(request, saved)
    return redirect("claims:profile_edit", version.profile.slug)


def confirm_page(request: HttpRequest, profile: Profile, definition: ProfileDefinition) -> dict[str, Any]:
    """
    Return what the confirmation shows: how the version differs from the current one, and the versions of live
    claims. `theirs` is what somebody else saved since the form was opened.
    """
    current = profile.current
    assert current is not None  # a profile without a version is saved without asking  # noqa: S101
    base = profile.versions.filter(number=sent_base(request) or current.number).first() or current
    before = sorted(team.slug for team in profile.teams.all())
    after = list(definition.teams)
    difference = proposed_difference(current, definition.spec, definition.limits)
    uses = live_versions(profile)
    return {
        "profile": profile,
        "restores": profile.retired_at is not None,
        "current": current,
        "number": current.number + 1,
        "names": (f"v{current.number}", f"v{current.number + 1}"),
        "their_names": (f"v{base.number}", f"v{current.number}"),
        "difference": difference,
        "theirs": version_difference(base, current) if base != current else None,
        "base": base,
        "teams": (before, after) if before != after else None,
        "uses": uses,
        "waiting": sum(use.waiting for use in uses),
        "typed": [
            (name, value) for name, values in request.POST.lists() if name not in BUTTONS for value in values
        ],
    }


def editor(
    request: HttpRequest,
    form: ProfileForm,
    profile: Profile | None,
    *,
    status: int = 200,
    described: tuple[Json | None, list[str]] | None = None,
) -> HttpResponse:
    """`described` is the spec and what is wrong with it; left out, it is read from the form."""
    described = described or described_spec(form, profile)
    page = editor_page(form, profile, described[0]) | match_page(described, request.POST)
    page["base"] = sent_base(request) or (profile.current.number if profile and profile.current else None)
    return render(request, "claims/catalogue/profile_edit.html", page, status=status)


def editor_page(form: ProfileForm, profile: Profile | None, spec: Json | None) -> dict[str, Any]:
    classes = DeviceClass.objects.filter(gone_at=None).order_by("name").values_list("name", flat=True)
    shown = spec is not None and conditions_in(spec) is not None
    page: dict[str, Any] = {
        "form": form,
        "profile": profile,
        "classes": classes.distinct(),
        "as_yaml": form["source"].value() == YAML,
        "yaml_only": yaml_only_parts(spec) if spec is not None and shown else [],
    }
    if profile is None:
        return page
    return page | versions_page(profile) | {"findings": catalogue_report().findings_for(profile)}


def described_spec(form: ProfileForm, profile: Profile | None) -> tuple[Json | None, list[str]]:
    """Return the spec that is being edited, or that of the current version; None, and why, if none."""
    if form.is_bound:
        return sent_spec(form)
    return (profile.current.spec if profile and profile.current else None), []


def sent_base(request: HttpRequest) -> int | None:
    """Return the number of the version with which the form was opened."""
    text = request.POST.get("base", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
