"""
What a team could stop paying for: idle claims, and those for which a cheaper profile would have been enough.

Both are stored (`usage.idle.periods`, `usage.oversized`). A claim that is idle is listed once, as idle.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, QuerySet
from django.urls import reverse

from claims.access import reason_not_to_release
from core.prepared import PreparedObjects
from core.text import counted, money
from core.times import duration
from teams.models import Role, Team, User
from usage.cost import hourly_price
from usage.idle.views import UNREAD
from usage.models import IdlePeriod, SizeCheck
from usage.oversized import evidence_text
from usage.right_size import successor_url

MOST = 100  # of each kind that are read; a team has few
SHOWN = 4
RELATED = ("claim__team", "claim__requested_by", "claim__profile_version__profile")

UNSHOWN = [f"claim__{name}" for name in UNREAD]


def _idle_of(team: UUID) -> QuerySet[IdlePeriod]:
    rows = IdlePeriod.objects.lasting().filter(team=team).order_by("since")
    return rows.select_related(*RELATED).defer(*UNSHOWN)[:MOST]


def _oversized_of(team: UUID) -> QuerySet[SizeCheck]:
    idle = IdlePeriod.objects.lasting().filter(claim=OuterRef("claim"))
    rows = SizeCheck.objects.oversized().filter(~Exists(idle), team=team).order_by("-saves")
    return rows.select_related(*RELATED, "profile").defer(*UNSHOWN)[:MOST]


IDLE: PreparedObjects[IdlePeriod] = PreparedObjects(_idle_of, UUID)
OVERSIZED: PreparedObjects[SizeCheck] = PreparedObjects(_oversized_of, UUID)

type IdleMoney = Callable[[UUID], str]  # of a claim in the month, as text


@dataclass(frozen=True, slots=True)
class WastedClaim:
    """
    A claim, why it wastes, what that has cost, and what acting saves per hour; None without a rate. `action`
    and `url` are the button, empty for a reader who may not act.
    """

    claim: Any
    evidence: str
    idle: str
    saves: Decimal | None
    currency: str
    action: str
    url: str

    @property
    def saving(self) -> str:
        return "no rate" if self.saves is None else f"saves {hourly_price(self.saves, self.currency)} / h"


@dataclass(frozen=True, slots=True)
class TopWaste:
    """The claims that would save most, and the sums of all: what acting on each would save per hour."""

    shown: list[WastedClaim]
    count: int
    saves: Mapping[str, Decimal]  # per hour, by currency, of those shown


def top_waste(team: Team, user: User, role: Role | None, idle_money: IdleMoney, *, now: datetime) -> TopWaste:
    """Return what wastes most; two queries."""
    wasted = [*_idle(team, user, role, now), *_oversized(team, role, idle_money)]
    wasted.sort(key=lambda one: (-(one.saves or 0), one.claim.name))
    saves: dict[str, Decimal] = defaultdict(Decimal)
    shown = wasted[:SHOWN]
    for one in shown:
        if one.saves is not None:
            saves[one.currency] += one.saves
    return TopWaste(shown, len(wasted), saves)


def _idle(team: Team, user: User, role: Role | None, now: datetime) -> list[WastedClaim]:
    found = []
    for row in IDLE.objects(team.pk):
        claim, may_release = row.claim, not reason_not_to_release(user, row.claim, role)
        hours = Decimal((now - row.since).total_seconds()) / 3600
        cost = None if row.per_hour is None else row.per_hour * hours
        found.append(
            WastedClaim(
                claim,
                f"{claim.profile_version.profile.title}, {counted(row.devices, 'device')}, "
                f"idle for {duration(now - row.since)}",
                "no rate" if cost is None else f"{money(cost, row.currency)} idle",
                row.per_hour,
                row.currency,
                "Release…" if may_release else "",
                reverse("claims:release", args=[claim.pk]) if may_release else "",
            )
        )
    return found


def _oversized(team: Team, role: Role | None, idle_money: IdleMoney) -> list[WastedClaim]:
    may_request = role is not None and role.rank >= Role.MEMBER.rank
    found = []
    for row in OVERSIZED.objects(team.pk):
        if row.profile is None:
            continue  # never: a constraint of the table
        held = row.claim.profile_version.profile.title
        found.append(
            WastedClaim(
                row.claim,
                f"{evidence_text(row)}: {held} → {row.profile.title}",
                idle_money(row.claim_id),
                row.saves,
                row.currency,
                "Resize…" if may_request else "",
                successor_url(row.claim_id, row.profile.slug, row.devices) if may_request else "",
            )
        )
    return found
