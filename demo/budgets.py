"""Budgets and a goal of the demo: 40, 85 and 104 % are used, whatever the claims have cost so far."""

from __future__ import annotations

from decimal import ROUND_DOWN, Decimal

from django.utils import timezone

from claims.budgets.extra import request_extra
from claims.budgets.services import set_budget
from claims.budgets.use import SpendingPeriod, utc_day
from claims.models import AtLimit, Budget
from claims.quotas.services import deny_quota_request
from core.models import Installation
from teams.models import Team, User
from teams.services import change_team
from usage.spending import spending

# team → share that is used, in percent, and what happens at 100 %
SHARES = {
    "vision": (40, AtLimit.NOTIFY),
    "nlp": (85, AtLimit.APPROVAL),
    "robotics": (104, AtLimit.RECLAIM),
}
GOAL = 70  # of vision, in percent
FIRST = Decimal(1000)  # on the first day of a month nobody has spent anything yet


def set_budgets() -> None:
    """Set the monthly budgets that are missing."""
    now, admin = timezone.now(), User.objects.get(username="admin")
    currency = Installation.load().currency
    for slug, (percent, at_limit) in SHARES.items():
        team = Team.objects.get(slug=slug)
        if Budget.objects.open().filter(team=team).exists():
            continue
        today = utc_day(now)
        (spent,) = spending([SpendingPeriod(team.pk, today.replace(day=1), today)], now=now)
        used = spent.amounts.get(currency, Decimal(0))
        amount = (used * 100 / percent).quantize(Decimal("0.10"), ROUND_DOWN) or FIRST
        budget = set_budget(by=admin, team=team, amount=amount, at_limit=at_limit, reason="A sample budget.")
        if slug == "vision":
            _ask_in_vain(budget, admin)
        if slug == "nlp":
            request_extra(
                by=User.objects.get(username="ines"),
                budget=budget,
                amount=Decimal(500),
                reason="The evaluation for the release runs until the end of the month.",
                key="demo-extra-budget",
            )


def set_goal() -> None:
    """Set the efficiency goal of one team."""
    admin = User.objects.get(username="admin")
    change_team(by=admin, team=Team.objects.get(slug="vision"), efficiency_goal=GOAL)


def _ask_in_vain(budget: Budget, admin: User) -> None:
    """A request that an admin has denied."""
    denied = request_extra(
        by=User.objects.get(username="lead"),
        budget=budget,
        amount=Decimal(300),
        reason="A second run of the ablation.",
        key="demo-denied-budget",
    )
    deny_quota_request(quota_request=denied, by=admin, reason="The budget lasts beyond this month.")
