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
from claims.catalogue.forms import CONDITIONS, FIELDS, YAML, ProfileForm, switched
from claims.catalogue.lint import catalogue_report
from claims.catalogue.listing import entries
from claims.catalogue.selectors import outside_fields, read
from claims.catalogue.services import LIMITS, problems_of
from claims.catalogue.sharing import cautions, isolation_of
from claims.catalogue.versions import between, drafts_with, held, live_claims, opens, proposed, versions_of
from claims.catalogue.views import card_of
from claims.match_page import dropped_page, funnel_of, helps_of
from claims.models import Approval, Delivery, Profile, ProfileVersion
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
from inventory.cluster_snapshot import snapshot_of
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
    found = get_object_or_404(Profile.objects.visible_to(request.user).select_related("current"), slug=slug)
    page: dict[str, Any] = {
        "profile": found,
        "version": found.current,
        "is_admin": is_platform_admin(request.user),
    }
    if found.current:
        (entry,) = entries(user_of(request), [found])
        page |= {
            "card": card_of(entry),
            "entry": entry,
            "isolation": isolation_of(entry.sharing),
            "cautions": cautions(found.current.spec),
            "classes": classes_of(found.current, {kind.cluster_id for kind in entry.kinds}),
        }
    return render(request, "claims/catalogue/profile.html", page | versions_page(found))


@require_safe
def profile_diff(request: HttpRequest, slug: str, before: int, after: int) -> HttpResponse:
    """What version `after` has other than version `before`, whichever is the newer."""
    found = get_object_or_404(Profile.objects.visible_to(request.user).select_related("current"), slug=slug)
    versions = found.versions.select_related("created_by")
    old, new = (get_object_or_404(versions, number=number) for number in (before, after))
    page = {
        "profile": found,
        "old": old,
        "new": new,
        "names": (f"v{before}", f"v{after}"),
        "difference": between(old, new),
        "numbers": list(found.versions.values_list("number", flat=True)),
    }
    return render(request, "claims/catalogue/profile_diff.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_retire(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask on GET, with who has claims and requests on it that go on; retire on POST, with an undo."""
    require_admin(request)
    found = get_object_or_404(Profile, slug=slug)
    if request.method == "POST":
        services.retire_profile(by=user_of(request), profile=found)
        undo.offer(
            request,
            f"{found} is retired; nobody can ask for it any more.",
            reverse("claims:profile_restore", args=[found.slug]),
        )
        return redirect("claims:profiles")
    live = live_claims(found).select_related("team", "requested_by")
    counts = live.aggregate(all=Count("pk"), waiting=Count("pk", filter=Q(state=ClaimState.REQUESTED)))
    page = {
        "profile": found,
        "live": counts["all"] - counts["waiting"],
        "waiting": counts["waiting"],
        "drafts": drafts_with(found),
        "claims": live[:NAMED],
        "more": max(counts["all"] - NAMED, 0),
    }
    return render(request, "claims/catalogue/profile_retire.html", page)


@require_POST
def profile_restore(request: HttpRequest, slug: str) -> HttpResponse:
    """Put a retired profile back into the catalogue."""
    require_admin(request)
    found = services.restore_profile(by=user_of(request), profile=get_object_or_404(Profile, slug=slug))
    messages.success(request, f"{found} is in the catalogue again.")
    return redirect("claims:profiles")


def versions_page(found: Profile) -> dict[str, Any]:
    """Return every version, newest first, and the current specification as YAML."""
    spec = found.current.spec if found.current else {}
    return {
        "versions": versions_of(found),
        "spec_yaml": to_yaml(in_key_order(spec)) if spec else "",
    }


def classes_of(version: ProfileVersion, clusters: set[Any]) -> list[tuple[str, str]]:
    """
    Return the device classes that a version names, each as a cluster of the reader has it: its spec as YAML,
    with the CEL that its devices have to meet.
    """
    names = {ask.class_name for ask in device_requests(version.spec)}
    rows = DeviceClass.objects.filter(name__in=names, cluster__in=clusters, gone_at=None)
    found = {row.name: to_yaml({"spec": row.raw.get("spec") or {}}) for row in rows.order_by("-name")}
    return sorted(found.items())


SOURCES = ("device_class", "spec_yaml", "source", "count", "memory_gib", "compute", "domain", "product")


@require_POST
def profile_match(request: HttpRequest) -> HttpResponse:
    """The panel for what has been typed so far; with `step`, the devices that this step leaves out."""
    if not is_platform_admin(request.user):
        raise PermissionDenied("Only a platform admin edits the catalogue.")
    page = match_page(spec_of(ProfileForm(request.POST)), request.POST)
    if "step" not in request.POST:
        return render(request, "claims/catalogue/_profile_match.html", page)
    text = request.POST["step"]
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not page["matched"] or not 0 < number < len(page["funnel"]):
        raise Http404
    cluster, row = page["match_cluster"], page["funnel"][number]
    spec, wanted = page["matched_spec"], request.POST.get("page", "1")
    page["left_out"] = dropped_page(request.user, cluster, snapshot_of(cluster), spec, row, wanted)
    page["editor"], page["live"] = True, "HX-Request" in request.headers
    return render(request, "claims/dropped.html#rows" if page["live"] else "claims/dropped.html", page)


def spec_of(form: ProfileForm) -> tuple[Json | None, list[str]]:
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
    snapshot = snapshot_of(cluster)
    found = match.preview(snapshot, spec)
    helps = [] if found.fits else find_relaxations(snapshot, spec, baseline=found)
    (age,) = ages(OF_DEVICES, cluster=cluster)
    return page | {
        "matched": found,
        "matched_spec": spec,
        "funnel": funnel_of(found),
        "helps": helps_of(helps),
        "age": age,
    }


ONLY_FORM = {"source", "spec_yaml", *CONDITIONS}
STEPS = {"csrfmiddlewaretoken", "base", "confirm", "edit", "switch", "check"}  # not fields of the form


@require_http_methods(["GET", "HEAD", "POST"])
def profile_new(request: HttpRequest) -> HttpResponse:
    require_admin(request)
    return edit(request, None)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_edit(request: HttpRequest, slug: str) -> HttpResponse:
    require_admin(request)
    profiles = Profile.objects.select_related("current__created_by")
    return edit(request, get_object_or_404(profiles, slug=slug))


def edit(request: HttpRequest, found: Profile | None) -> HttpResponse:
    """
    Show the form, the same the other way (`switch`), check it without JavaScript (`check`), go back to it
    from the question whether to save (`edit`), or save; nothing that was typed is lost on any of these ways.
    """
    if request.method != "POST":
        return editor(request, ProfileForm(profile=found), found)
    form = ProfileForm(request.POST, profile=found)
    if to := request.POST.get("switch"):
        other = switched(form, YAML if to == YAML else FIELDS)
        if other is None:
            return editor(request, form, found, status=422)
        turned = ProfileForm(profile=found, initial=other)
        return editor(request, turned, found, described=spec_of(form))
    if "check" in request.POST:
        return editor(request, form, found)
    if not form.is_valid():
        return editor(request, form, found, status=200 if "edit" in request.POST else 422)
    fields = fields_of(form)
    limits = {name: fields[name] for name in LIMITS}
    problems = problems_of(fields["slug"], fields["title"], fields["spec"], limits)
    if problems or "edit" in request.POST:
        for problem in problems:
            form.add_error(None, problem)
        return editor(request, form, found, status=200 if "edit" in request.POST else 422)
    if found and found.current and "confirm" not in request.POST:
        page = confirm_page(request, found, fields)
        if page["difference"]:
            return render(
                request, "claims/catalogue/profile_confirm.html", page, status=409 if page["theirs"] else 200
            )
    return save(request, form, found, fields)


def save(
    request: HttpRequest, form: ProfileForm, found: Profile | None, fields: dict[str, Any]
) -> HttpResponse:
    """Save; where somebody else has saved a version meanwhile, show both and ask again: 409."""
    base = base_of(request)
    try:
        version = services.save_profile(by=user_of(request), profile=found, base=base, **fields)
    except Conflict as refusal:
        if found is None or "current" not in refusal.extra:
            form.add_error(None, refusal.message)
            return editor(request, form, found, status=refusal.status)
        found.refresh_from_db()
        page = confirm_page(request, found, fields) | {"refusal": refusal.message}
        return render(request, "claims/catalogue/profile_confirm.html", page, status=refusal.status)
    except PortalError as refusal:
        for problem in refusal.extra.get("problems", [refusal.message]):
            form.add_error(None, problem)
        return editor(request, form, found, status=refusal.status)
    messages.success(request, f"{version.profile} is saved; its version is {version.number}.")
    return redirect("claims:profile_edit", version.profile.slug)


def confirm_page(request: HttpRequest, found: Profile, fields: dict[str, Any]) -> dict[str, Any]:
    """
    Return what is asked before a version is saved: how it differs from the current one, and on which versions
    claims live. `theirs` is what somebody else has saved since the form was opened.
    """
    current = found.current
    assert current is not None  # a profile without a version is saved without asking  # noqa: S101
    read_then = found.versions.filter(number=base_of(request) or current.number).first() or current
    before, after = opens(found, fields["teams"])
    lives = held(found)
    return {
        "profile": found,
        "current": current,
        "number": current.number + 1,
        "names": (f"v{current.number}", f"v{current.number + 1}"),
        "their_names": (f"v{read_then.number}", f"v{current.number}"),
        "difference": proposed(current, fields["spec"], {name: fields[name] for name in LIMITS}),
        "theirs": between(read_then, current) if read_then != current else None,
        "read_then": read_then,
        "opens": (before, after) if before != after else None,
        "held": lives,
        "waiting": sum(one.waiting for one in lives),
        "typed": [
            (name, value) for name, values in request.POST.lists() if name not in STEPS for value in values
        ],
    }


def editor(
    request: HttpRequest,
    form: ProfileForm,
    found: Profile | None,
    *,
    status: int = 200,
    described: tuple[Json | None, list[str]] | None = None,
) -> HttpResponse:
    """`described` is the spec that is being written, and what is wrong; left out, the form says it."""
    described = described or described_by(form, found)
    page = editor_page(form, found, described[0]) | match_page(described, request.POST)
    page["base"] = base_of(request) or (found.current.number if found and found.current else None)
    return render(request, "claims/catalogue/profile_edit.html", page, status=status)


def editor_page(form: ProfileForm, found: Profile | None, spec: Json | None) -> dict[str, Any]:
    classes = (
        DeviceClass.objects.filter(gone_at=None).order_by("name").values_list("name", flat=True).distinct()
    )
    shown = spec is not None and read(spec) is not None
    page: dict[str, Any] = {
        "form": form,
        "profile": found,
        "classes": classes,
        "as_yaml": form["source"].value() == YAML,
        "outside": outside_fields(spec) if spec is not None and shown else [],
    }
    return page | (versions_page(found) | {"findings": catalogue_report().of(found)} if found else {})


def described_by(form: ProfileForm, found: Profile | None) -> tuple[Json | None, list[str]]:
    """Return the spec that is being written, or that of the current version; None, and why, if none."""
    if form.is_bound:
        return spec_of(form)
    return (found.current.spec if found and found.current else None), []


def fields_of(form: ProfileForm) -> dict[str, Any]:
    """Return what the service takes: the specification instead of the two ways to write it."""
    fields = {name: value for name, value in form.cleaned_data.items() if name not in ONLY_FORM}
    return fields | {"deliveries": [one for one in Delivery.values if one in fields["deliveries"]]}


def base_of(request: HttpRequest) -> int | None:
    """Return the number of the version with which the form was opened."""
    text = request.POST.get("base", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None
