"""The list of claims that have ended and whose pods still run."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_safe
from django_filters import FilterSet

from claims.access import reason_not_to_release
from claims.claim_filters import profile_filter, team_filter
from claims.delivery.eviction import holding_pods, is_due
from claims.models import Claim, ClaimQuerySet, Profile
from claims.observation.observations import observe
from core.listing import Column, Listing, sum_of_columns
from core.text import counted
from inventory.states import EndPolicy
from teams.access import is_platform_admin, reader_roles, user_of
from teams.models import Role
from usage.cost import cost_text
from usage.models import IdlePeriod, SizeCheck
from usage.overstay import Overstay, overstaying, overstays_of, sum_of

NAMED_PODS = 3


class OverstayFilter(FilterSet):
    team, profile = team_filter(), profile_filter(method="by_profile")

    class Meta:
        model = Claim
        fields: tuple[str, ...] = ()
        form = forms.Form

    def by_profile(self, claims: ClaimQuerySet, name: str, value: Profile) -> ClaimQuerySet:
        return claims.with_profile(value.slug)


def amounts(cost: Any) -> str:
    return " + ".join(str(amount) for amount in cost.amounts.values())


COLUMNS: list[Column[Any]] = [
    Column("claim", "Claim", lambda row: row.name, sort="name", fixed=True),
    Column("owner", "Owner", lambda row: row.requested_by.username, sort="requested_by__username"),
    Column("team", "Team", lambda row: row.team.slug, sort="team__slug", shown=False),
    Column("ended", "Ended", lambda row: row.state_since, sort="state_since"),
    Column("pods", "Pods", lambda row: " ".join(pod.name for pod in row.pods)),
    Column("devices", "Devices", lambda row: row.overstay.devices, numeric=True),
    Column("cost", "Cost since", lambda row: amounts(row.overstay.cost), numeric=True),
    Column("price", "Per hour", lambda row: amounts(row.overstay.per_hour), numeric=True),
    Column(
        "currency", "Currency", lambda row: " + ".join(row.overstay.cost.amounts), numeric=False, shown=False
    ),
    Column("policy", "End policy", lambda row: row.end_policy, fixed=True),
]


class Overstays:
    """What every claim of a list holds since its end, read once."""

    def __init__(self, listing: Listing[Claim], now: datetime) -> None:
        self.listing, self.now = listing, now

    @cached_property
    def by_claim(self) -> dict[UUID, Overstay]:
        return overstays_of(self.listing.rows, now=self.now)

    @property
    def sum(self) -> Overstay:
        return sum_of(self.by_claim.values())


@require_safe
def overstay(request: HttpRequest) -> HttpResponseBase:
    user, now, roles = user_of(request), timezone.now(), reader_roles(request)

    def prepare(rows: list[Any]) -> None:
        seen = observe(rows)
        for row in rows:
            role = Role.OWNER if user.is_superuser else roles.get(row.team)
            row.overstay = figures.by_claim[row.pk]
            row.pods = holding_pods(seen[row.pk])
            row.more_pods = max(len(row.pods) - NAMED_PODS, 0)
            may_evict = bool(row.pods) and not reason_not_to_release(user, row, role)
            row.may_evict = may_evict and row.end_policy != EndPolicy.RUN and not is_due(row)

    found = overstaying(user, now)
    listing: Listing[Claim] = Listing(
        request,
        found.select_related("team", "cluster", "requested_by", "profile_version__profile"),
        columns=COLUMNS,
        title="Ended claims whose pods still run",
        filters=OverstayFilter,
        search=("name", "requested_by__username"),
        sort="ended",
        prepare=prepare,
    )
    figures = Overstays(listing, now)
    context = {
        "sum": lambda: figures.sum,
        "listing_foot": lambda: sum_row(listing, figures),
        "idle": IdlePeriod.objects.visible_to(user).lasting().count,
        "oversized": SizeCheck.objects.visible_to(user).oversized().count,
        "is_admin": is_platform_admin(user),
        "empty_icon": "circle-check",
        "empty_title": "No pod outlives its claim",
        "empty_text": (
            "A claim is listed here from five minutes after its end while its pods still hold devices."
        ),
    }
    return listing.respond("usage/overstay.html", context)


def sum_row(listing: Listing[Claim], figures: Overstays) -> SafeString:
    """Draw the sum of all rows that match the filters; nothing for fewer than two."""
    if listing.total < 2:
        return SafeString("")
    found = figures.sum
    cells = {
        "claim": counted(listing.total, "claim"),
        "devices": str(found.devices),
        "cost": cost_text(found.cost),
        "price": cost_text(found.per_hour),
    }
    return sum_of_columns(listing.columns, cells)
