"""
The page of a team: who used what in the last 30 days, live claims, quota, cost of the month, and who may
change what. A fixed number of queries for any number of people, claims and quotas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Subquery
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.approvals.authority import join_names
from claims.budgets.cards import team_cards
from claims.models import Claim
from claims.quotas.quota_usage import team_usage
from claims.states import ClaimState
from core.grafana import Dashboard, dashboard_url
from core.listing import csv_response, wants_csv
from core.prepared import Prepared
from inventory.models.device import gpu_where
from portal.home.parts import team_claims
from teams.access import is_platform_admin, role_in, team_for, user_of
from teams.models import Membership, Role, Team, User
from usage.daily import utc_day
from usage.month_spend import month_spend
from usage.people import DAYS, Use, team_use
from usage.rates import RateCard

SHOWN_PEOPLE = 50


def _live(team: UUID) -> QuerySet[Claim, Any]:
    """Return (person, live claims, requests without a decision, GPUs and parts held now) of a team."""
    held = Q(allocations__ended_at=None) & gpu_where("device", of="allocations__")
    live = Claim.objects.live().filter(team=team).order_by().values_list("requested_by")
    return live.annotate(
        claims=Count("pk", distinct=True),
        waiting=Count("pk", distinct=True, filter=Q(state=ClaimState.REQUESTED)),
        held=Count("allocations", distinct=True, filter=held),
    )


LIVE = Prepared(_live, UUID)


@dataclass(frozen=True, slots=True)
class Person:
    """A person of the team, or one who left it (`role` is None) and whose claims are in its figures."""

    user: User
    role: Role | None
    use: Use
    claims: int
    held: int

    @property
    def role_name(self) -> str:
        return self.role.label if self.role else "not a member"

    @property
    def may_request(self) -> bool:
        return self.role is not None and self.role.rank >= Role.MEMBER.rank


def users_of(team: Team, others: Iterable[UUID]) -> list[Any]:
    """Return the members with their `role`, these other people, and the active platform admins; one query."""
    membership = Membership.objects.filter(user=OuterRef("pk"), team=team)
    admins = Q(is_superuser=True, is_active=True)
    users = User.objects.filter(Exists(membership) | admins | Q(pk__in=list(others)))
    return list(users.annotate(role=Subquery(membership.values("role"))).order_by("username"))


def people_of(
    users: Iterable[Any], uses: dict[UUID, Use], live: dict[UUID, tuple[int, int, int]]
) -> list[Person]:
    """Return members and those with figures, highest cost first, then by user name."""
    people = []
    for user in users:
        claims, _waiting, held = live.get(user.pk, (0, 0, 0))
        use = uses.get(user.pk, Use())
        if user.role or use.cost.held or claims:
            people.append(Person(user, Role(user.role) if user.role else None, use, claims, held))
    return sorted(
        people, key=lambda one: (-sum(one.use.cost.exact.values()), -one.use.cost.held, not one.may_request)
    )


@require_safe
def team_page(request: HttpRequest, slug: str) -> HttpResponse:
    team, now = team_for(request.user, slug), timezone.now()
    use = team_use(team, today=utc_day(now))
    live = {person: tuple(counts) for person, *counts in LIVE.rows(team.pk)}
    users = users_of(team, {*use.people, *live})
    people = people_of(users, dict(use.people), live)
    if wants_csv(request):
        return people_csv(team, people)
    card, role = RateCard.load(), role_in(request.user, team)
    page = {
        "team": team,
        "month": month_spend(team, user_of(request), card, now=now),
        "days": DAYS,
        "use": use,
        "top": max((max(one.use.devices) for one in people), default=0) or 1,
        "people": people[:SHOWN_PEOPLE],
        "more": len(people[SHOWN_PEOPLE:]),
        "members": sum(one.role is not None and not one.user.is_service_account for one in people),
        "counts": [sum(column) for column in zip(*live.values(), strict=True)] or [0, 0, 0],
        "claims": team_claims(team, card, now=now),
        "quotas": team_usage([team]),
        "budgets": team_cards(team, now=now),
        "grafana_url": grafana_url(team),
        "may_set_budget": is_platform_admin(request.user),
        "may_change": role == Role.OWNER,
        "may_decide": role in (Role.LEAD, Role.OWNER),
        "may_request": role is not None and role.rank >= Role.MEMBER.rank,
        "owners": join_names(one.user for one in people if one.role == Role.OWNER),
        "deciders": join_names(one.user for one in people if one.role in (Role.LEAD, Role.OWNER)),
        "admins": join_names(user for user in users if user.is_superuser and user.is_active),
    }
    return render(request, "teams/team.html", page)


def grafana_url(team: Team) -> str:
    """Return the dashboard of the namespaces of the team; the query is only made where there is a Grafana."""
    if not settings.GRAFANA_URL:
        return ""
    namespaces = team.namespaces.order_by("namespace").values_list("namespace", flat=True).distinct()
    return dashboard_url(Dashboard.TEAM, [("namespace", namespace) for namespace in namespaces])


def people_csv(team: Team, people: Sequence[Person]) -> HttpResponse:
    """Return a line per person and currency; hours and devices are in the first line of a person only."""
    heads = (
        *("User name", "Name", "Role", "Devices held now", "Live claims", "GPU-hours"),
        *("Hours without a rate", "Utilization", "Cost", "Idle cost", "Currency"),
    )
    rows = []
    for one in people:
        use, amounts, idle = one.use, one.use.cost.amounts, one.use.idle.amounts
        facts: list[object] = [one.held, one.claims, use.cost.hours, use.cost.unpriced, use.percent]
        for currency in amounts or [""]:
            money = (amounts.get(currency), idle.get(currency), currency)
            rows.append((one.user.username, one.user.label, one.role_name, *facts, *money))
            facts = [None] * len(facts)
    return csv_response(f"team-{team.slug}", heads, rows)
