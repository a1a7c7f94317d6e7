"""The profiles of the catalogue for those who keep it, and the page of one profile for all who may see it."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, F, Q
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe
from django_filters import ChoiceFilter, FilterSet

from claims import services
from claims.catalogue.cautions import cautions
from claims.catalogue.entries import entries
from claims.catalogue.lint import catalogue_report
from claims.catalogue.profile_change import between, drafts_with, live_claims, versions_of
from claims.catalogue.sharing import isolation_of
from claims.models import Approval, Profile, ProfileVersion
from claims.models.profile import ProfileQuerySet
from claims.states import FINAL, ClaimState
from claims.views.catalogue import card_of
from core import undo
from core.listing import Column, Listing
from core.times import duration
from dra.manifests import to_yaml
from dra.objects import asks
from dra.reading_order import in_reading_order
from inventory.models import DeviceClass
from teams.access import asker, is_platform_admin

OFFERED, RETIRED = "offered", "retired"
NAMED = 20  # claims that the page of retiring names; a link leads to all


class ProfileFilter(FilterSet):
    state = ChoiceFilter(
        label=gettext_lazy("State"),
        choices=[(OFFERED, gettext_lazy("In the catalogue")), (RETIRED, gettext_lazy("Retired"))],
        method="by_state",
        empty_label=gettext_lazy("Any state"),
    )
    approval = ChoiceFilter(
        label=gettext_lazy("Approval"),
        field_name="current__approval",
        choices=Approval.choices,
        empty_label=gettext_lazy("Any approval"),
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
    Column("profile", gettext_lazy("Profile"), lambda profile: profile.slug, sort="title", fixed=True),
    Column("title", gettext_lazy("Title"), lambda profile: profile.title, sort="title", shown=False),
    Column("version", gettext_lazy("Version"), of_version("number"), sort="current__number"),
    Column("approval", gettext_lazy("Approval"), of_version("approval"), sort="current__approval"),
    Column(
        "delivered",
        gettext_lazy("Delivered as"),
        lambda profile: ", ".join(profile.current.deliveries) if profile.current else None,
    ),
    Column(
        "most", gettext_lazy("Most devices"), of_version("max_devices"), "current__max_devices", numeric=True
    ),
    Column(
        "longest",
        gettext_lazy("Longest"),
        lambda profile: duration(profile.current.max_duration) if profile.current else None,
        sort="current__max_duration",
        numeric=True,
    ),
    Column("live", gettext_lazy("Live claims"), lambda profile: profile.live, sort="live", numeric=True),  # type: ignore[attr-defined]
    Column(
        "retired",
        gettext_lazy("Retired"),
        lambda profile: profile.retired_at and profile.retired_at.isoformat(),
        sort="retired_at",
        shown=False,
    ),
    Column("restore", "", lambda profile: None, fixed=True),
]


def require_admin(request: HttpRequest) -> None:
    if not is_platform_admin(request.user):
        raise PermissionDenied(_("Only a platform admin edits the catalogue."))


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
        title=_("Profiles"),
        filters=ProfileFilter,
        search=("slug", "title", "use"),
    )
    page = {
        "report": catalogue_report(),
        "empty_icon": "layout-grid",
        "empty_title": _("No profile yet"),
        "empty_text": _("People ask for GPUs by profile: a claim specification with a title and limits."),
        "empty_url": reverse("claims:profile_new"),
        "empty_action": _("New profile"),
    }
    return listing.respond("claims/profiles.html", page)


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
        (entry,) = entries(asker(request), [found])
        page |= {
            "card": card_of(entry),
            "entry": entry,
            "isolation": isolation_of(entry.sharing),
            "cautions": cautions(found.current.spec),
            "classes": classes_of(found.current, {kind.cluster_id for kind in entry.kinds}),
        }
    return render(request, "claims/profile.html", page | versions_page(found))


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
    return render(request, "claims/profile_diff.html", page)


@require_http_methods(["GET", "HEAD", "POST"])
def profile_retire(request: HttpRequest, slug: str) -> HttpResponse:
    """Ask on GET, with who has claims and requests on it that go on; retire on POST, with an undo."""
    require_admin(request)
    found = get_object_or_404(Profile, slug=slug)
    if request.method == "POST":
        services.retire_profile(by=asker(request), profile=found)
        undo.offer(
            request,
            _("%(profile)s is retired; nobody can ask for it any more.") % {"profile": found},
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
    return render(request, "claims/profile_retire.html", page)


@require_POST
def profile_restore(request: HttpRequest, slug: str) -> HttpResponse:
    """Put a retired profile back into the catalogue."""
    require_admin(request)
    found = services.restore_profile(by=asker(request), profile=get_object_or_404(Profile, slug=slug))
    messages.success(request, _("%(profile)s is in the catalogue again.") % {"profile": found})
    return redirect("claims:profiles")


def versions_page(found: Profile) -> dict[str, Any]:
    """Return every version, newest first, and the current specification as YAML."""
    spec = found.current.spec if found.current else {}
    return {
        "versions": versions_of(found),
        "spec_yaml": to_yaml(in_reading_order(spec)) if spec else "",
    }


def classes_of(version: ProfileVersion, clusters: set[Any]) -> list[tuple[str, str]]:
    """
    Return the device classes that a version names, each as a cluster of the reader has it: its spec as YAML,
    with the CEL that its devices have to meet.
    """
    names = {ask.class_name for ask in asks(version.spec)}
    rows = DeviceClass.objects.filter(name__in=names, cluster__in=clusters, gone_at=None)
    found = {row.name: to_yaml({"spec": row.raw.get("spec") or {}}) for row in rows.order_by("-name")}
    return sorted(found.items())
