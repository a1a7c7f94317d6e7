"""Notices of how much of a budget is used: once per period at 50, 80 and 100 %."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.urls import reverse

from claims.budgets.effect import AT_LIMIT
from claims.budgets.use import run_out_sentence, use_sentence, utc_day
from claims.models import AtLimit, Budget, BudgetUse
from claims.webhook_events import tell_of_budget
from core.text import percent
from notify.models import NoticeKind
from notify.services import already_notified, notify, resolve_others
from teams.access import people_in
from teams.models import Role, User

THRESHOLDS = (1.0, 0.8, 0.5)  # shares of a budget, the highest first


def notify_of_use(uses: Iterable[BudgetUse], *, now: datetime) -> None:
    """
    Notify leads of the highest threshold that each budget has reached in its period, platform admins as well
    when it is used up. A threshold that was skipped is not notified of.
    """
    due = {}
    for use in uses:
        threshold = next((share for share in THRESHOLDS if use.share >= share), None)
        if threshold is not None and use.first <= utc_day(now) <= use.last:
            due[f"budget:{use.budget_id}:{use.first}:{threshold:.0%}"] = (threshold, use)
    notified = {key for key, _person in already_notified(due)} if due else set()
    for key, (threshold, use) in due.items():
        if key not in notified:
            _notify(key, threshold, use.budget, use, now)
    resolve_others("budget:", due)


def _notify(key: str, threshold: float, budget: Budget, use: BudgetUse, now: datetime) -> None:
    people = {person.pk: person for person in people_in(budget.team, at_least=Role.LEAD)}
    if threshold >= 1:
        admins = User.objects.filter(is_superuser=True, is_active=True)
        people |= {person.pk: person for person in admins}
    which = f"the budget “{budget.title}”" if budget.title else "the monthly budget"
    effect = f" {AT_LIMIT[AtLimit(budget.at_limit)]}" if threshold >= 1 else ""
    notify(
        people.values(),
        kind=NoticeKind.QUOTA,
        key=key,
        team_id=budget.team_id,
        title=f"{budget.team} has used {percent(use.share)} of {which}",
        body=f"{use_sentence(budget, use)} {run_out_sentence(use, now=now)}{effect}",
        url=reverse("claims:budget", args=[budget.pk]),
        important=threshold >= 1,
    )
    tell_of_budget(budget, share=float(use.share), threshold=threshold)
