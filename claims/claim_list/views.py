"""The list of claims and its bulk actions."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django import forms
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_safe
from django_filters import ChoiceFilter, FilterSet, ModelChoiceFilter

from claims.access import may_request
from claims.claim_list import bulk
from claims.claim_list.bulk import BulkAction
from claims.claim_list.forms import ManyForm
from claims.models import Claim, ClaimQuerySet, Profile, names_profile
from claims.observation.observations import valid_ids as ids_of
from claims.requests.services import open_drafts
from claims.states import FINAL, LOOK, ClaimState
from core.errors import Invalid
from core.listing import Column, Listing
from core.times import duration
from inventory.models import Cluster
from teams.access import user_of
from teams.models import Role, Team, User

LIVE, OVER = "live", "over"
STATES = [(LIVE, "Not over"), (OVER, "Over"), *ClaimState.choices]


def teams_of(request: HttpRequest | None) -> QuerySet[Team]:
    return Team.objects.visible_to(request.user) if request else Team.objects.none()


def clusters_of(request: HttpRequest | None) -> QuerySet[Cluster]:
    """Only clusters in which a team of the reader works: the others are none of their business here."""
    return Cluster.objects.filter(team_namespaces__team__in=teams_of(request)).distinct()


def profiles_of(request: HttpRequest | None) -> QuerySet[Profile]:
    return Profile.objects.visible_to(request.user) if request else Profile.objects.none()


class ClaimFilter(FilterSet):
    state = ChoiceFilter(label="State", choices=STATES, method="by_state", empty_label="Any state")
    team = ModelChoiceFilter(label="Team", queryset=teams_of, to_field_name="slug", empty_label="Any team")
    cluster = ModelChoiceFilter(
        label="Cluster", queryset=clusters_of, to_field_name="name", empty_label="Any cluster"
    )
    profile = ModelChoiceFilter(
        label="Profile",
        method="by_profile",
        queryset=profiles_of,
        to_field_name="slug",
        empty_label="Any profile",
    )
    who = ChoiceFilter(label="Asked by", choices=[("me", "me")], method="by_person", empty_label="Anybody")

    class Meta:
        model = Claim
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_state(self, claims: ClaimQuerySet, name: str, value: str) -> ClaimQuerySet:
        if value == LIVE:
            return claims.live()
        return claims.filter(state__in=FINAL) if value == OVER else claims.filter(state=value)

    def by_profile(self, claims: ClaimQuerySet, name: str, value: Profile) -> ClaimQuerySet:
        return claims.with_profile(value.slug)

    def by_person(self, claims: ClaimQuerySet, name: str, value: str) -> ClaimQuerySet:
        return claims.filter(requested_by=self.request.user)


COLUMNS: list[Column[Claim]] = [
    Column("name", "Claim", lambda claim: claim.name, sort="name", fixed=True),
    Column("state", "State", lambda claim: claim.get_state_display(), sort="state"),
    Column("since", "Since", lambda claim: claim.state_since.isoformat(), sort="state_since"),
    Column(
        "profile",
        "Profile",
        lambda claim: claim.join_profiles(map(str, claim.versions)),
        sort="profile_version__profile__title",
    ),
    Column("devices", "Devices", lambda claim: claim.devices * claim.parallel, sort="devices", numeric=True),
    Column("team", "Team", lambda claim: claim.team.slug, sort="team__slug"),
    Column("who", "Asked by", lambda claim: claim.requested_by.username, sort="requested_by__username"),
    Column("cluster", "Cluster", lambda claim: claim.cluster.name, sort="cluster__name"),
    Column(
        "ends", "Ends", lambda claim: claim.expires_at and claim.expires_at.isoformat(), sort="expires_at"
    ),
    Column("namespace", "Namespace", lambda claim: claim.namespace, sort="namespace", shown=False),
    Column("delivery", "Delivery", lambda claim: claim.get_delivery_display(), sort="delivery", shown=False),
    Column("duration", "Duration", lambda claim: duration(claim.duration), sort="duration", shown=False),
    Column(
        "created", "Requested", lambda claim: claim.created_at.isoformat(), sort="created_at", shown=False
    ),
    Column("id", "Id", lambda claim: str(claim.pk), shown=False),
]


def listing_of(request: HttpRequest) -> Listing[Claim]:
    """Return the list that the address asks for."""
    return Listing(
        request,
        Claim.objects.visible_to(request.user).for_list(),
        columns=COLUMNS,
        title="Claims",
        filters=ClaimFilter,
        search=(
            "name",
            "reason",
            "requested_by__username",
            lambda word: names_profile(title__icontains=word),
        ),
        sort="-created",
    )


@require_safe
def claims(request: HttpRequest) -> HttpResponseBase:
    return listing_of(request).respond(
        "claims/claim_list/list.html",
        {
            "may_act": may_request(request),
            "actions": BulkAction.choices,
            "query": [(name, value) for name, values in request.GET.lists() for value in values],
            "look": {state: {"family": family, "icon": icon} for state, (family, icon) in LOOK.items()},
            "final": FINAL,
            "drafts": open_drafts(user_of(request)).count(),
            "empty_icon": "stack-2",
            "empty_title": "No claims yet",
            "empty_text": "Pick a profile, see what is free and who must approve before you ask.",
            "empty_url": reverse("claims:catalogue"),
            "empty_action": "Open the catalogue",
        },
    )


@require_http_methods(["GET", "HEAD", "POST"])
def several(request: HttpRequest) -> HttpResponse:
    """Preview on GET, do on POST; what cannot be done to one claim stands beside it."""
    said = request.POST if request.method == "POST" else request.GET
    try:
        claims = bulk.chosen(user_of(request), chosen_ids(request))
    except Invalid as refusal:
        return render(request, "claims/claim_list/many.html", {"refusal": refusal}, status=refusal.status)
    form = ManyForm(said, people=heirs_of(claims))
    page: dict[str, Any] = {"form": form, "claims": claims, "action": said.get("action", "")}
    if not claims or not form.is_valid():
        # Before somebody has said by how much or to whom, there is nothing wrong yet.
        status = 422 if request.method == "POST" else 200
        return render(request, "claims/claim_list/many.html", page, status=status)
    wish = dict(form.cleaned_data)
    wish["action"] = bulk.BulkAction(wish["action"])
    order = bulk.Order(**wish, key=said.get("key") or uuid.uuid4().hex)
    page |= {"order": order, "label": order.action.label}
    if request.method == "POST":
        page["results"] = results = bulk.do(user_of(request), claims, order)
        page["done"] = done = sum(not result.refusal for result in results)
        return render(
            request, "claims/claim_list/many.html", page, status=200 if done == len(results) else 409
        )
    lines = sorted(bulk.preview(user_of(request), claims, order), key=lambda line: bool(line.reason_not))
    page["lines"] = lines  # what can be done comes first
    page["ready"] = ready = [line for line in lines if not line.reason_not]
    page["devices"], page["pods"] = sum(line.devices for line in ready), sum(line.pods for line in ready)
    return render(request, "claims/claim_list/many.html", page)


def chosen_ids(request: HttpRequest) -> list[UUID]:
    """Return the claims that are ticked; with `all`, every claim that the list's own address asks for."""
    if request.method != "POST" and request.GET.get("all"):
        # One more than can be done at once: enough to say that it is too many.
        return list(listing_of(request).rows.values_list("pk", flat=True)[: bulk.MOST + 1])
    said = request.POST if request.method == "POST" else request.GET
    return list(dict.fromkeys(ids_of(said.getlist("claim"))))


def heirs_of(claims: Sequence[Claim]) -> QuerySet[User]:
    """Return who could own claims in any of the teams concerned; the preview says which they cannot have."""
    teams = Team.objects.filter(pk__in={claim.team_id for claim in claims})
    roles = [role for role in Role if role.rank >= Role.MEMBER.rank]
    members = User.objects.filter(is_active=True, memberships__team__in=teams, memberships__role__in=roles)
    return members.distinct().order_by("username")
