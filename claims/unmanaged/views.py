"""Pages of unmanaged claims and templates: lists, details, adoption."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import quote

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.http import require_http_methods, require_safe
from django_filters import ChoiceFilter, FilterSet

from claims.access import NO_CLAIM
from claims.claim_filters import cluster_filter, team_filter
from claims.models import Profile, TeamNamespace
from claims.observation.observations import consumer_references, device_holdings
from claims.observation.unmanaged import (
    ORIGINS,
    UnmanagedClaim,
    requested_devices,
    unmanaged_objects,
)
from claims.unmanaged import services
from claims.unmanaged.services import adoption_lines, fitting_profiles, namespace_team
from core.attempt import Attempt, posted
from core.inputs import DurationText, PersonField, TitleField
from core.listing import Column, Listing
from core.markup import joined, markup
from core.prepared import Prepared, by_keys
from core.templatetags.ui import short_id
from core.times import ago
from dra import quota
from dra.manifests import spec_hash, to_yaml
from inventory.freshness import ages
from inventory.models import ResourceClaim, ResourceClaimTemplate
from teams.access import people_in, user_of
from teams.models import Role, User

STATES = [
    (state, state)
    for state in ("pending", "allocated", "allocated,reserved", "deleted", "deleted,allocated,reserved")
]


SEARCHED = "name", "namespace", "uid"


class TemplateFilter(FilterSet):
    team, cluster = team_filter(method="by_team"), cluster_filter()

    class Meta:
        fields: tuple[str, ...] = ()  # of claims and of templates
        form = forms.Form

    def by_team(self, rows: QuerySet[Any], name: str, value: Any) -> QuerySet[Any]:
        return rows.filter(team=value.slug)


class UnmanagedFilter(TemplateFilter):
    origin = ChoiceFilter(label="Origin", choices=list(ORIGINS.items()), empty_label="Any origin")
    state = ChoiceFilter(label="State", choices=STATES, empty_label="Any state")


def _allocated_at(row: ResourceClaim) -> str | None:
    return row.allocated_at.isoformat() if row.allocated_at else None


def _created_at(row: ResourceClaim | ResourceClaimTemplate) -> str | None:
    return row.created_at.isoformat() if row.created_at else None


COLUMNS: list[Column[Any]] = [
    Column("name", "ResourceClaim", lambda row: row.name, sort="name", fixed=True),
    Column("origin", "Origin", lambda row: ORIGINS[row.origin], sort="origin"),
    Column("state", "State", lambda row: row.state, sort="state"),
    Column("requested", "Requested devices", requested_devices, numeric=True),
    Column("held", "Held", lambda row: len(device_holdings(row)), numeric=True),
    Column("pods", "Pods", lambda row: len(consumer_references(row)), numeric=True),
    Column("since", "Allocated", _allocated_at, sort="allocated_at"),
    Column("team", "Team", lambda row: row.team, sort="team"),
    Column("namespace", "Namespace", lambda row: row.namespace, sort="namespace"),
    Column("cluster", "Cluster", lambda row: row.cluster.name, sort="cluster__name"),
    Column("created", "Created", _created_at, sort="created_at"),
    Column("uid", "UID", lambda row: row.uid, shown=False),
]
TEMPLATE_COLUMNS: list[Column[Any]] = [
    Column("name", "Template", lambda row: row.name, sort="name", fixed=True),
    *(
        column
        for column in COLUMNS
        if column.name in ("requested", "team", "namespace", "cluster", "created")
    ),
    Column("uid", "UID", lambda row: row.uid, shown=False),
]


class ObjectRow(NamedTuple):
    """What a row shows; a template has no more than `requested`, the devices that one claim can hold."""

    pk: int
    uid: str
    name: str
    namespace: str
    cluster: str
    team: str
    created_at: datetime | None
    requested: int
    origin: str = ""
    state: str = ""
    allocated_at: datetime | None = None
    held: int = 0
    pods: int = 0


PLACES = TeamNamespace.objects.filter(cluster=OuterRef("cluster"), namespace=OuterRef("namespace"))
SHARED = (
    "pk",
    "uid",
    "name",
    "namespace",
    "cluster__name",
    Subquery(PLACES.values("team__slug")),
    "created_at",
)
DEVICES, PODS = "raw__status__allocation__devices__results", "raw__status__reservedFor"
CLAIM_ROWS = by_keys(
    lambda key: ResourceClaim.objects.filter(pk=key).values_list(
        *SHARED, "raw__spec", "origin", "state", "allocated_at", DEVICES, PODS
    ),
    int,
)
TEMPLATE_ROWS = by_keys(
    lambda key: ResourceClaimTemplate.objects.filter(pk=key).values_list(*SHARED, "raw__spec__spec"), int
)


def object_rows(query: Prepared, keys: Sequence[int]) -> list[ObjectRow]:
    """Return the rows in the order of `keys`, which a query has chosen that the reader may see."""
    rows = {row[0]: _object_row(*row) for row in (query.rows(list(keys)) if keys else ())}
    return [rows[key] for key in keys if key in rows]


def _object_row(
    pk: int, uid: str, name: str, namespace: str, cluster: str, team: str, created_at: datetime | None,
    spec: str | None, origin: str = "", state: str = "", allocated_at: datetime | None = None,
    *lists: str | None,
) -> ObjectRow:  # fmt: skip
    requested = quota.devices(json.loads(spec or "{}") or {})
    counts = [len(json.loads(text or "[]") or ()) for text in lists]
    object_ = (pk, uid, name, namespace, cluster, team, created_at, requested)
    return ObjectRow(*object_, origin, state, allocated_at, *counts)


# The cells behind the name, by the names of their columns and in their order.
CELLS: dict[str, Callable[[ObjectRow], SafeString]] = {
    "origin": lambda row: markup('<td><span class="dg-tag">{}</span></td>', ORIGINS[row.origin]),
    "state": lambda row: markup('<td class="mr"><span class="dg-id">{}</span></td>', row.state),
    "requested": lambda row: markup('<td class="dg-n" data-l="Requested devices">{}</td>', row.requested),
    "held": lambda row: markup('<td class="dg-n mr" data-l="Held">{}</td>', row.held),
    "pods": lambda row: markup('<td class="dg-n" data-l="Pods">{}</td>', row.pods),
    "since": lambda row: markup('<td class="dg-nowrap mr" data-l="Allocated">{}</td>', ago(row.allocated_at)),
    "team": lambda row: markup('<td data-l="Team">{}</td>', row.team),
    "namespace": lambda row: markup(
        '<td class="mr" data-l="Namespace"><span class="dg-id">{}</span></td>', row.namespace
    ),
    "cluster": lambda row: markup('<td data-l="Cluster">{}</td>', row.cluster),
    "created": lambda row: markup('<td class="dg-nowrap mr" data-l="Created">{}</td>', ago(row.created_at)),
    "uid": lambda row: markup('<td class="dg-nowrap">{}</td>', short_id(row.uid)),
}


def table_rows(page: str, rows: Iterable[ObjectRow], shows: Mapping[str, bool]) -> SafeString:
    """Return a `<tr>` per row, with a cell for each shown column; `page` is that of one object."""
    address = reverse(page, args=[NO_CLAIM])
    shown = [cell for column, cell in CELLS.items() if shows.get(column)]
    name = '<td class="wide"><a class="dg-link dg-break" href="{}">{}</a></td>'

    def cells(row: ObjectRow) -> Iterator[SafeString]:
        yield markup(name, address.replace(str(NO_CLAIM), quote(row.uid)), row.name)
        for cell in shown:
            yield cell(row)

    return joined("\n", (markup("<tr>{}</tr>", joined("", cells(row))) for row in rows))


@require_safe
def claims(request: HttpRequest) -> HttpResponseBase:
    listing = listing_for(
        request, ResourceClaim, COLUMNS, UnmanagedFilter, CLAIM_ROWS, title="Unmanaged claims"
    )
    return listing.respond(
        "claims/unmanaged/unmanaged_claims.html",
        {
            "rows": lambda: table_rows("claims:unmanaged_claim", listing.loaded, listing.shows),
            "ages": ages(("resourceclaims", "pods")),
            "empty_icon": "circle-check",
            "empty_title": "No unmanaged claims",
            "empty_text": "Every ResourceClaim in your teams' namespaces belongs to a claim of the portal.",
        },
    )


@require_safe
def templates(request: HttpRequest) -> HttpResponseBase:
    listing = listing_for(
        request,
        ResourceClaimTemplate,
        TEMPLATE_COLUMNS,
        TemplateFilter,
        TEMPLATE_ROWS,
        title="Unmanaged templates",
    )
    return listing.respond(
        "claims/unmanaged/unmanaged_templates.html",
        {
            "rows": lambda: table_rows("claims:unmanaged_template", listing.loaded, listing.shows),
            "ages": ages(("resourceclaimtemplates",)),
            "empty_icon": "circle-check",
            "empty_title": "No unmanaged templates",
            "empty_text": "Every template in your teams' namespaces belongs to a claim of the portal.",
        },
    )


def listing_for(
    request: HttpRequest,
    model: type[ResourceClaim] | type[ResourceClaimTemplate],
    columns: list[Column[Any]],
    filters: type[TemplateFilter],
    rows: Prepared,
    *,
    title: str,
) -> Listing[Any]:
    """Return the listing of unmanaged objects of this model that the user may see, newest first."""
    return Listing(
        request,
        unmanaged_objects(model, request.user),
        columns=columns,
        title=title,
        filters=filters,
        search=SEARCHED,
        sort="-created",
        load=partial(object_rows, rows),
    )


def unmanaged_claim(request: HttpRequest, uid: str) -> ResourceClaim:
    row = unmanaged_objects(ResourceClaim, request.user).filter(uid=uid).first()
    if row is None:
        raise Http404
    return row


def object_yaml(row: ResourceClaim | ResourceClaimTemplate) -> str:
    """Return the object in the key order of kubectl; the database stores no order."""
    order = ("apiVersion", "kind", "metadata", "spec", "status")
    return to_yaml({key: row.raw[key] for key in order if key in row.raw})


@require_safe
def claim(request: HttpRequest, uid: str) -> HttpResponse:
    row = unmanaged_claim(request, uid)
    page = {
        "row": row,
        "unmanaged": UnmanagedClaim(row),
        "yaml": object_yaml(row),
        "may_adopt": user_of(request).is_platform_admin and UnmanagedClaim(row).is_adoptable,
        "ages": ages(("resourceclaims", "pods"), cluster=row.cluster),
    }
    return render(request, "claims/unmanaged/unmanaged_claim.html", page)


@require_safe
def template(request: HttpRequest, uid: str) -> HttpResponse:
    row = unmanaged_objects(ResourceClaimTemplate, request.user).filter(uid=uid).first()
    if row is None:
        raise Http404
    page = {
        "row": row,
        "requested_devices": requested_devices(row),
        "yaml": object_yaml(row),
        "ages": ages(("resourceclaimtemplates",), cluster=row.cluster),
    }
    return render(request, "claims/unmanaged/unmanaged_template.html", page)


class AdoptForm(forms.Form):
    """`people` are the members of the team, `profiles` those whose device classes fit."""

    owner = PersonField(User.objects.none(), to_field_name="username", label="Owner")
    profile = TitleField(
        Profile.objects.none(), to_field_name="slug", label="Profile", empty_label="Choose a profile"
    )
    duration = DurationText(label="Ends after", help_text="From now on, for example 24h or 3d.")
    reason = forms.CharField(
        required=False, max_length=500, label="Reason", help_text="Kept in the history of the claim."
    )
    over_quota = forms.BooleanField(required=False, label="Adopt although over quota")

    def __init__(
        self,
        data: QueryDict | None = None,
        *,
        people: list[User],
        profiles: list[Profile],
        initial: dict[str, object] | None = None,
    ) -> None:
        super().__init__(data, initial=initial)
        members = User.objects.filter(pk__in=[person.pk for person in people])
        fitting = Profile.objects.filter(pk__in=[profile.pk for profile in profiles])
        cast("forms.ModelChoiceField[User]", self.fields["owner"]).queryset = members
        cast("forms.ModelChoiceField[Profile]", self.fields["profile"]).queryset = fitting


@require_http_methods(["GET", "HEAD", "POST"])
def adopt(request: HttpRequest, uid: str) -> HttpResponse:
    """Show the effect on quotas on GET; adopt on POST. 403 for everybody but platform admins."""
    row = unmanaged_claim(request, uid)
    if not user_of(request).is_platform_admin:
        raise PermissionDenied("Only a platform admin may adopt a claim.")
    if not UnmanagedClaim(row).is_adoptable:
        raise Http404
    team = namespace_team(row)
    fitting = fitting_profiles(row, team)
    people = people_in(team, at_least=Role.MEMBER)
    first = fitting[0] if fitting else None
    initial: dict[str, object] = {"profile": first and first.slug}
    if first and first.current:
        initial["duration"] = first.current.default_duration
    form = AdoptForm(posted(request), people=people, profiles=fitting, initial=initial)
    page = {
        "row": row,
        "unmanaged": UnmanagedClaim(row),
        "team": team,
        "form": form,
        "fitting": fitting,
        "same": [profile for profile in fitting if _is_same_spec(row, profile)],
        "alike": [profile for profile in fitting if not _is_same_spec(row, profile)],
        "lines": adoption_lines(row, team, first) if first else [],
        "people": people,
    }
    with Attempt(form) as attempt:
        if form.is_valid():
            made = services.adopt(row=row, by=user_of(request), **form.cleaned_data)
            messages.success(request, f"{made} is now a claim of the portal.")
            return redirect("claims:detail", made.pk)
    page["refusal"] = attempt.refusal
    return render(request, "claims/unmanaged/adopt.html", page, status=attempt.status)


def _is_same_spec(row: ResourceClaim, profile: Profile) -> bool:
    """Return whether the object has exactly the spec of the profile."""
    return profile.current is not None and spec_hash(row.raw.get("spec") or {}) == profile.current.spec_hash
