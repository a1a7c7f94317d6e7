"""Set, change and end budgets, and add to one for a period. Platform admins only; every change is a row."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

from django.utils import timezone

from claims.budgets.use import hours_text, limit_words, more_budget, period_words, refresh, utc_day
from claims.models import AtLimit, Budget, BudgetExtra, BudgetTerms
from claims.quotas.services import lock_team
from core.errors import Conflict, Invalid
from core.models import Installation
from core.text import money
from core.times import FIRST_YEAR, LAST_YEAR
from core.transactions import service
from teams.access import require_admin
from teams.models import Team, User, record_change

TERMS = ("first", "last", "amount", "hours", "at_limit")
MAX_TITLE = 60
MOST = Decimal(10) ** 11  # money or GPU-hours


def set_budget(
    *,
    by: User,
    team: Team,
    title: str = "",
    first: date | None = None,
    last: date | None = None,
    amount: Decimal | None = None,
    hours: Decimal | None = None,
    at_limit: str = AtLimit.NOTIFY,
    reason: str = "",
) -> Budget:
    """
    Set a budget of a team: of each month from that of `first` on (by default the current one), or with a
    `title` from `first` to `last`.

    Raises Forbidden, Invalid, and Conflict if the team is archived or has an open budget of this title.
    """
    require_admin(by)
    title, today = title.strip(), utc_day(timezone.now())
    first = first or today
    if last is None:
        first = first.replace(day=1)
    require_terms(title=title, first=first, last=last, amount=amount, hours=hours, at_limit=at_limit)
    with service:
        if lock_team(team).archived_at:
            raise Conflict(f"{team} is archived. Restore it first.")
        if Budget.objects.open().filter(team=team, title=title).exists():
            which = f"a budget “{title}”" if title else "a monthly budget"
            raise Conflict(f"{team} has {which} already. Change that one, or end it first.")
        budget = Budget.objects.create(
            team=team,
            title=title,
            first=first,
            last=last,
            amount=amount,
            currency=Installation.load().currency,
            hours=hours,
            at_limit=at_limit,
            set_by=by,
        )
        _keep_terms(budget, by, reason)
        words = (
            f"added: {limit_words(budget)} {period_words(budget)}, at 100 % {budget.get_at_limit_display()}"
        )
        record_change(by=by, of=budget, change=words, reason=reason.strip())
        refresh([budget], now=timezone.now())
    return budget


def change_budget(
    *,
    by: User,
    budget: Budget,
    first: date | None = None,
    last: date | None = None,
    amount: Decimal | None = None,
    hours: Decimal | None = None,
    at_limit: str = AtLimit.NOTIFY,
    reason: str = "",
) -> Budget:
    """
    Give a budget these terms from now on; `first` None keeps its begin. Past months keep theirs.

    Raises Forbidden, Invalid, and Conflict if it has been ended.
    """
    require_admin(by)
    with service:
        current = _lock_open(budget)
        first = first or current.first
        if current.is_monthly:
            first, last = first.replace(day=1), None
        require_terms(
            title=current.title, first=first, last=last, amount=amount, hours=hours, at_limit=at_limit
        )
        before = _values(current)
        for name, value in zip(TERMS, (first, last, amount, hours, at_limit), strict=True):
            setattr(current, name, value)
        current.set_by, current.set_at = by, timezone.now()
        rows = [
            (label, old, new)
            for (label, old), (_label, new) in zip(before, _values(current), strict=True)
            if old != new
        ]
        if not rows:
            return current
        current.save(update_fields=[*TERMS, "set_by", "set_at"])
        _keep_terms(current, by, reason)
        change = ", ".join(f"{label} {old} → {new}" for label, old, new in rows)
        record_change(by=by, of=current, change=change, values=rows, reason=reason.strip())
        refresh([current], now=timezone.now())
    return current


@service
def end_budget(*, by: User, budget: Budget, reason: str = "") -> None:
    """End a budget: from now on it limits nothing. Ending it twice is ending it once. Raises Forbidden."""
    require_admin(by)
    lock_team(budget.team)
    ended = Budget.objects.open().filter(pk=budget.pk).update(ended_at=timezone.now(), ended_by=by)
    if ended:
        record_change(by=by, of=budget, change=f"ended: {limit_words(budget)}", reason=reason.strip())


def add_extra(
    *,
    by: User,
    budget: Budget,
    amount: Decimal = Decimal(0),
    hours: Decimal = Decimal(0),
    first: date | None = None,
    reason: str = "",
) -> BudgetExtra:
    """
    Add money or GPU-hours for the period that begins on `first`, by default the current one.

    Call it in a transaction. Raises Forbidden, Invalid for what the budget does not limit, Conflict if it has
    been ended.
    """
    require_admin(by)
    current = _lock_open(budget)
    require_extra(current, amount=amount, hours=hours)
    first = first or current.period(utc_day(timezone.now()))[0]
    extra = BudgetExtra.objects.create(
        budget=current, first=first, amount=amount, hours=hours, by=by, reason=reason.strip()
    )
    words = extra_words(current, amount, hours)
    change, values = f"added {words} for the period from {first}", [("Extra", "–", words)]
    action = "budget.extra_added"
    record_change(by=by, of=current, change=change, values=values, reason=reason.strip(), action=action)
    refresh([current], now=timezone.now())
    return extra


def require_extra(budget: Budget, *, amount: Decimal, hours: Decimal) -> None:
    """Raise Invalid unless this adds to what the budget limits."""
    if min(amount, hours) < 0 or max(amount, hours) >= MOST or not (amount or hours):
        raise Invalid("Add an amount of money or of GPU-hours above 0.")
    if amount and budget.amount is None:
        raise Invalid(f"{budget} limits GPU-hours, not money. Request GPU-hours.")
    if hours and budget.hours is None:
        raise Invalid(f"{budget} limits money, not GPU-hours. Request money.")


def extra_words(budget: Budget, amount: Decimal, hours: Decimal) -> str:
    return more_budget(budget.currency, amount, hours)


def require_terms(
    *,
    title: str,
    first: date,
    last: date | None,
    amount: Decimal | None,
    hours: Decimal | None,
    at_limit: str,
) -> None:
    """Raise Invalid unless these are the terms of a budget."""
    if amount is None and hours is None:
        raise Invalid("A budget limits money, GPU-hours, or both. Give an amount or GPU-hours.")
    for value in (amount, hours):
        if value is not None and not 0 < value < MOST:
            raise Invalid(f"A budget is more than 0 and less than {MOST:,}; it is {value}.")
    if len(title) > MAX_TITLE:
        raise Invalid("The name of a budget has at most 60 characters.")
    if bool(title) != (last is not None):
        raise Invalid(
            "A budget from a first to a last day has a name, and that of each month has none. "
            "Give both a name and a last day, or neither."
        )
    for day in (first, last or first):
        if not FIRST_YEAR < day.year < LAST_YEAR:
            raise Invalid(f"A date lies between {FIRST_YEAR + 1} and {LAST_YEAR - 1}; {day} was sent.")
    if last is not None and last < first:
        raise Invalid(f"The budget ends on {last}, before it begins on {first}.")
    if at_limit not in AtLimit:
        raise Invalid(f"What happens at 100 % is one of {', '.join(AtLimit.values)}; “{at_limit}” was sent.")


def _lock_open(budget: Budget) -> Budget:
    """Lock the budgets of the team; return the current row. Raises Conflict if the budget has been ended."""
    lock_team(budget.team)
    current = Budget.objects.select_related("team", "ended_by").get(pk=budget.pk)
    if current.ended_at is not None:
        who = current.ended_by.label if current.ended_by else "somebody"
        raise Conflict(f"{who} has ended this budget.")
    return current


def _values(budget: Budget) -> list[tuple[str, str]]:
    return [
        ("from", str(budget.first)),
        ("until", str(budget.last or "–")),
        ("amount", "–" if budget.amount is None else money(Decimal(budget.amount), budget.currency)),
        ("GPU-hours", "–" if budget.hours is None else hours_text(Decimal(budget.hours))),
        ("at 100 %", AtLimit(budget.at_limit).label),
    ]


def _keep_terms(budget: Budget, by: User, reason: str) -> None:
    BudgetTerms.objects.create(
        budget=budget,
        since=budget.set_at,
        by=by,
        currency=budget.currency,
        reason=reason.strip(),
        **{name: getattr(budget, name) for name in TERMS},
    )
