"""The page of a profile, its versions, and the editor with its live match."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Q
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
from claims.catalogue.sharing import cautions, isolation_of
from claims.catalogue.versions import between, drafts_with, held, live_claims, proposed, versions_of
from claims.catalogue.views import card_of
from claims.match_page import dropped_page, funnel_rows, relaxation_rows
from claims.models import Approval, Profile, ProfileVersion
from claims.models.profile import ProfileQuerySet
from claims.states import FINAL, ClaimState
from core import undo
from core.errors import Conflict, PortalError
from core.listing import Column, Listing
from core.times import duration
from dra import match, validation
from dra.canonical import in_key_order
from dra.help import find_relaxations
from dra.manifests import to_yaml
from dra.objects import Json, device_requests
from inventory.cluster_snapshot import current_snapshot
from inventory.freshness import OF_DEVICES, ages
from inventory.models import Cluster, DeviceClass
from teams.access import is_platform_admin, user_of

OFFERED, RETIRED = "offered", "retired"
NAMED = 20  # claims that the page of retiring names; a link leads to all


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
        choices=Approval.choices,
        empty_label="Any approval",
    )

    class Meta:
        model = Profile
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_state(self, rows: ProfileQuerySet, name: str, value: str) -> ProfileQuerySet:
        return rows.filter(retired_at__isnull=value == OFFERED)


def of_version(name: str) -> Any:
    """Return what reads a column of the current version; nothing where there is no version yet."""
    return lambda profile: getattr(profile.current, name, None)


COLUMNS: list[Column[Profile]] = [
    Column("profile", "Profile", lambda profile: profile.slug, sort="title", fixed=True),
    Column("title", "Title", lambda profile: profile.title, sort="title", shown=False),
    Column("version", "Version", of_version("number"), sort="current__number"),
    Column("approval", "Approval", of_version("approval"), sort="current__approval"),
    Column(
        "delivered",
        "Delivered as",
        lambda profile: ", ".join(profile.current.deliveries) if profile.current else None,
    ),
    Column("most", "Max devices", of_version("max_devices"), "current__max_devices", numeric=True),
    Column(
        "longest",
        "Longest",
        lambda profile: duration(profile.current.max_duration) if profile.current else None,
        sort="current__max_duration",
        numeric=True,
    ),
    Column("live", "Live claims", lambda profile: profile.live, sort="live", numeric=True),  # type: ignore[attr-defined]
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
        raise PermissionDenied("Only a platform admin edits the catalogue.")


@require_safe
def profiles(request: HttpRequest) -> HttpResponseBase:
    """Every profile, retired ones last, with how many claims live on it."""
    require_admin(request)
    live = Count("versions__claims", filter=~Q(versions__claims__state__in=FINAL), distinct=True)
    rows = Profile.objects.select_related("current").annotate(live=live)
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
        "empty_text": "People ask for GPUs by profile: a claim specification with a title and limits.",
        "empty_url": reverse("claims:profile_new"),
        "empty_action": "New profile",
    }
    return listing.respond("claims/catalogue/profiles.html", page)


@require_safe
def profile(request: HttpRequest, slug: str) -> HttpResponse:
    """What a profile asks of the cluster, in full: its specification, its classes and its versions."""
    profile = get_object_or_404(Profile.objects.visible_to(request.user).select_related("current"), slug=slug)
    page: dict[str, Any] = {
        "profile": profile,
        "version": profile.current,
        "is_admin": is_platform_admin(request.user),
    }
    if profile.current:
        (entry,) = entries(user_of(request), [profile])
        page |= {
            "card": card_of(entry),
            "entry": entry,
            "isolation": isolation_of(entry.sharing),
            "cautions": cautions(profile.current.spec),
            "limits": limits_in_words(profile.current),
            "classes": device_class_specs(profile.current, {kind.cluster_id for kind in entry.kinds}),
        }
    return render(request, "claims/catalogue/profile.html", page | versions_page(profile))


@require_safe
def profile_diff(request: HttpRequest, slug: str, before: int, after: int) -> HttpResponse:
    """What version `after` has other than version `before`, whichever is the newer."""
    profile = get_object_or_404(Profile.objects.visible_to(request.user).select_related("current"), slug=slug)
    versions = profile.versions.select_related("created_by")
    old, new = (get_object_or_404(versions, number=number) for number in (before, after))
    page = {
        "profile": profile,
        "old": old,
        "new": new,
        "names": (f"v{before}", f"v{after}"),
        "difference": between(old, new),
        "numbers": list(profile.versions.values_list("number", flat=True)),
    }
    return render(request, "claims/catalogue/profile_diff.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_retire(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask on GET, with who has claims and requests on it that go on; retire on POST, with an undo."""
    require_admin(request)
    profile = get_object_or_404(Profile, slug=slug)
    if request.method == "POST":
        services.retire_profile(by=user_of(request), profile=profile)
        undo.offer(
            request,
            f"{profile} is retired; nobody can ask for it any more.",
            reverse("claims:profile_restore", args=[profile.slug]),
        )
        return redirect("claims:profiles")
    live = live_claims(profile).select_related("team", "requested_by")
    counts = live.aggregate(all=Count("pk"), waiting=Count("pk", filter=Q(state=ClaimState.REQUESTED)))
    page = {
        "profile": profile,
        "live": counts["all"] - counts["waiting"],
        "waiting": counts["waiting"],
        "drafts": drafts_with(profile),
        "claims": live[:NAMED],
        "more": max(counts["all"] - NAMED, 0),
    }
    return render(request, "claims/catalogue/profile_retire.html", page)


@require_POST
def profile_restore(request: HttpRequest, slug: str) -> HttpResponse:
    """Put a retired profile back into the catalogue."""
    require_admin(request)
    profile = services.restore_profile(by=user_of(request), profile=get_object_or_404(Profile, slug=slug))
    messages.success(request, f"{profile} is in the catalogue again.")
    return redirect("claims:profiles")


def versions_page(profile: Profile) -> dict[str, Any]:
    """Return every version, newest first, and the current specification as YAML."""
    spec = profile.current.spec if profile.current else {}
    return {
        "versions": versions_of(profile),
        "spec_yaml": to_yaml(in_key_order(spec)) if spec else "",
    }


def device_class_specs(version: ProfileVersion, clusters: set[Any]) -> list[tuple[str, str]]:
    """
    Return the device classes that a version names, each as a cluster of the reader has it: its spec as YAML,
    with the CEL that its devices have to meet.
    """
    names = {ask.class_name for ask in device_requests(version.spec)}
    rows = DeviceClass.objects.filter(name__in=names, cluster__in=clusters, gone_at=None)
    classes = {row.name: to_yaml({"spec": row.raw.get("spec") or {}}) for row in rows.order_by("-name")}
    return sorted(classes.items())


SOURCES = ("device_class", "spec_yaml", "source", "count", "memory_gib", "compute", "domain", "product")


@require_POST
def profile_match(request: HttpRequest) -> HttpResponse:
    """The panel for what has been typed so far; with `step`, the devices that this step leaves out."""
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only a platform admin edits the catalogue.")
    page = match_page(sent_spec(ProfileForm(request.POST)), request.POST)
    if "step" not in request.POST:
        return render(request, "claims/catalogue/_profile_match.html", page)
    text = request.POST["step"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not page["matched"] or not 0 < number < len(page["funnel"]):
        raise Http404
    cluster, row = page["match_cluster"], page["funnel"][number]
    spec, wanted = page["matched_spec"], request.POST.get("page", "1")
    page["left_out"] = dropped_page(request.user, cluster, current_snapshot(cluster), spec, row, wanted)
    page["editor"], page["live"] = True, "HX-Request" in request.headers
    return render(request, "claims/dropped.html#rows" if page["live"] else "claims/dropped.html", page)


def sent_spec(form: ProfileForm) -> tuple[Json | None, list[str]]:
    """Return the spec that a sent form describes; None, and why, where it describes none."""
    form.is_valid()
    wrong = [str(error) for name in SOURCES for error in form.errors.get(name, [])]
    spec: Json = form.cleaned_data.get("spec") or {}
    wrong = wrong or [problem.message for problem in validation.problems(spec)]
    return (None, wrong) if wrong else (spec, [])


def match_page(described: tuple[Json | None, list[str]], data: QueryDict) -> dict[str, Any]:
    """Return what the panel shows of a spec in the cluster that `data` names, or in the first."""
    spec, wrong = described
    clusters = list(Cluster.objects.filter(enabled=True).defer("credentials").order_by("name"))
    named = data.get("match_cluster")
    cluster = next((one for one in clusters if one.name == named), clusters[0] if clusters else None)
    page: dict[str, Any] = {
        "match_clusters": clusters,
        "match_cluster": cluster,
        "matched": None,
        "wrong": wrong,
    }
    if cluster is None or spec is None:
        return page
    snapshot = current_snapshot(cluster)
    found = match.preview(snapshot, spec)
    helps = [] if found.fits else find_relaxations(snapshot, spec, baseline=found)
    (age,) = ages(OF_DEVICES, cluster=cluster)
    return page | {
        "matched": found,
        "matched_spec": spec,
        "funnel": funnel_rows(found),
        "helps": relaxation_rows(helps),
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
    difference = proposed(current, definition.spec, definition.limits)
    uses = held(profile)
    return {
        "profile": profile,
        "restores": profile.retired_at is not None,
        "current": current,
        "number": current.number + 1,
        "names": (f"v{current.number}", f"v{current.number + 1}"),
        "their_names": (f"v{base.number}", f"v{current.number}"),
        "difference": difference,
        "theirs": between(base, current) if base != current else None,
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
    return page | versions_page(profile) | {"findings": catalogue_report().of(profile)}


def described_spec(form: ProfileForm, profile: Profile | None) -> tuple[Json | None, list[str]]:
    """Return the spec that is being edited, or that of the current version; None, and why, if none."""
    if form.is_bound:
        return sent_spec(form)
    return (profile.current.spec if profile and profile.current else None), []


def sent_base(request: HttpRequest) -> int | None:
    """Return the number of the version with which the form was opened."""
    text = request.POST.get("base", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
