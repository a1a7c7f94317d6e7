"""The list of claims and its bulk actions."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from operator import mul
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Exists, OuterRef, QuerySet, TextField, Value
from django.db.models.functions import Concat
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe

from claims.access import may_request
from claims.claim_filters import ClaimFilter, ClaimSearch
from claims.claim_list import bulk
from claims.claim_list.bulk import BulkAction
from claims.claim_list.rows import claim_rows, table_rows
from claims.models import (
    Alternative,
    Claim,
    Delivery,
    join_profiles,
)
from claims.requests.services import open_drafts
from claims.states import ClaimState
from core.errors import Invalid
from core.inputs import DurationText, PersonField, valid_ids
from core.listing import Column, Listing
from core.prepared import Prepared, Statement
from core.times import duration
from teams.access import user_of
from teams.models import Role, Team, User

# "train-80 v3" of a claim, and of each of its alternatives in their order.
VERSION = "profile_version__profile__slug", "profile_version__number"
ALTERNATIVES = Alternative.objects.filter(claim=OuterRef("pk")).order_by("position")
VERSIONS = ArraySubquery(
    ALTERNATIVES.values_list(Concat(VERSION[0], Value(" v"), VERSION[1], output_field=TextField()))
)
TOGETHER = Exists(ALTERNATIVES.filter(together=True).order_by())


def same(value: object) -> object:
    return value


def profiles(slug: str, number: int, versions: list[str], together: object) -> str:
    return join_profiles(versions, together=bool(together)) or f"{slug} v{number}"


def column(
    name: str, label: str, field: str, value: Callable[..., object] = same, **more: Any
) -> Column[Claim]:
    """Return a column that shows one field and sorts by it."""
    return Column(name, label, value, sort=field, fields=(field,), **more)


def isoformat(instant: datetime | None) -> str | None:
    return instant.isoformat() if instant else None


COLUMNS: list[Column[Claim]] = [
    column("name", "Claim", "name", fixed=True),
    column("state", "State", "state", dict(ClaimState.choices).__getitem__),
    column("since", "Since", "state_since", isoformat),
    Column(
        "profile",
        "Profile",
        profiles,
        sort="profile_version__profile__title",
        fields=(*VERSION, VERSIONS, TOGETHER),
    ),
    Column("devices", "Devices", mul, sort="devices", numeric=True, fields=("devices", "parallel")),
    column("team", "Team", "team__slug"),
    column("who", "Requested by", "requested_by__username"),
    column("cluster", "Cluster", "cluster__name"),
    column("ends", "Ends", "expires_at", isoformat),
    column("namespace", "Namespace", "namespace", shown=False),
    column("delivery", "Delivery", "delivery", dict(Delivery.choices).__getitem__, shown=False),
    column("duration", "Duration", "duration", duration, shown=False),
    column("created", "Requested", "created_at", isoformat, shown=False),
    Column("id", "Id", str, shown=False, fields=("pk",)),
]


def claim_listing(request: HttpRequest) -> Listing[Claim]:
    """Return the list with the filters, columns and order of the address."""
    search = ClaimSearch(request.user)
    return Listing(
        request,
        Claim.objects.visible_to(request.user),
        load=claim_rows,
        columns=COLUMNS,
        title="Claims",
        filters=ClaimFilter,
        search=(search,),
        sort="-created",
        scan_once=lambda: search.is_narrow,
    )


def _count_drafts(person: UUID) -> Statement:
    text, values = open_drafts(User(pk=person)).order_by().values("pk").query.sql_with_params()
    return f"SELECT COUNT(*) FROM ({text}) drafts", values  # noqa: S608


OPEN_DRAFTS = Prepared(_count_drafts, UUID)


@require_safe
def claim_list(request: HttpRequest) -> HttpResponseBase:
    listing, may_act = claim_listing(request), may_request(request)
    return listing.respond(
        "claims/claim_list/list.html",
        {
            "may_act": may_act,
            "rows": lambda: table_rows(listing.loaded, listing.shows, may_act=may_act),
            "actions": BulkAction.choices,
            "query": [(name, value) for name, values in request.GET.lists() for value in values],
            "drafts": OPEN_DRAFTS.rows(request.user.pk)[0][0],
            "empty_icon": "stack-2",
            "empty_title": "No claims yet",
            "empty_text": "Choose a profile. The form shows what is free and who approves.",
            "empty_url": reverse("claims:catalogue"),
            "empty_action": "Open the catalogue",
        },
    )


class BulkForm(forms.Form):
    """`by` is required to extend, `to` to transfer; `people` are the eligible owners."""

    action = forms.ChoiceField(choices=BulkAction.choices, label="Action")
    by = DurationText(required=False, label="Extend by", help_text="For example 24h or 3d.")
    to = PersonField(User.objects.none(), to_field_name="username", required=False, label="New owner")
    reason = forms.CharField(
        required=False,
        max_length=500,
        label="Reason",
        help_text="Shown in the history of each claim.",
    )

    def __init__(self, data: QueryDict, *, people: QuerySet[User]) -> None:
        super().__init__(data)
        cast("forms.ModelChoiceField[User]", self.fields["to"]).queryset = people

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        action = cleaned.get("action")
        if action == BulkAction.EXTEND and not cleaned.get("by") and "by" not in self.errors:
            self.add_error("by", "Enter the length of the extension, for example 24h or 3d.")
        if action == BulkAction.TRANSFER and not cleaned.get("to") and "to" not in self.errors:
            self.add_error("to", "Choose a new owner.")
        return cleaned


@require_http_methods(["GET", "HEAD", "POST"])
def bulk_actions(request: HttpRequest) -> HttpResponse:
    """Preview on GET, run on POST; each claim shows its effect or the reason of a refusal."""
    data = request.POST if request.method == "POST" else request.GET
    try:
        claims = bulk.selected_claims(user_of(request), selected_ids(request))
    except Invalid as refusal:
        return render(request, "claims/claim_list/bulk.html", {"refusal": refusal}, status=refusal.status)
    form = BulkForm(data, people=eligible_owners(claims))
    page: dict[str, Any] = {"form": form, "claims": claims, "action": data.get("action", "")}
    if not claims or not form.is_valid():
        # On GET, a missing length or owner is not an error yet.
        status = 422 if request.method == "POST" else 200
        return render(request, "claims/claim_list/bulk.html", page, status=status)
    fields = form.cleaned_data | {"action": BulkAction(form.cleaned_data["action"])}
    bulk_request = bulk.BulkRequest(**fields, key=data.get("key") or uuid.uuid4().hex)
    page |= {"bulk_request": bulk_request, "label": bulk_request.action.label}
    if request.method == "POST":
        page["results"] = results = bulk.run(user_of(request), claims, bulk_request)
        page["done"] = done = sum(not result.refusal for result in results)
        return render(
            request, "claims/claim_list/bulk.html", page, status=200 if done == len(results) else 409
        )
    previews = bulk.preview(user_of(request), claims, bulk_request)
    page["previews"] = sorted(previews, key=lambda preview: bool(preview.obstacle))
    page["possible"] = possible = [preview for preview in previews if not preview.obstacle]
    page["devices"] = sum(preview.devices for preview in possible)
    page["pods"] = sum(preview.pods for preview in possible)
    return render(request, "claims/claim_list/bulk.html", page)


def selected_ids(request: HttpRequest) -> list[UUID]:
    """Return the ids of the selected claims; with `all`, of every claim that matches the list's filters."""
    if request.method != "POST" and request.GET.get("all"):
        # One more than the maximum is enough to refuse.
        return list(claim_listing(request).rows.values_list("pk", flat=True)[: bulk.MAX_CLAIMS + 1])
    data = request.POST if request.method == "POST" else request.GET
    return list(dict.fromkeys(valid_ids(data.getlist("claim"))))


def eligible_owners(claims: Sequence[Claim]) -> QuerySet[User]:
    """Return the members who may own claims in any team of these claims; the preview checks each claim."""
    teams = Team.objects.filter(pk__in={claim.team_id for claim in claims})
    roles = [role for role in Role if role.rank >= Role.MEMBER.rank]
    members = User.objects.filter(is_active=True, memberships__team__in=teams, memberships__role__in=roles)
    return members.distinct().order_by("username")
