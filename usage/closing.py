"""
Closing a month (UTC): its entries, its activity and the sums of its report are final from then on.

Months are closed in order, and not reopened: what was exported stays true. What becomes known later, as the
end of an allocation in a cluster that could not be read, is booked as corrections in the open month
(`usage.daily`). A rate cannot begin in a closed month, so a price is never the reason of a correction.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta

from django.utils import timezone

from core.errors import Conflict, Forbidden
from core.times import utc_moment
from core.transactions import service
from teams.access import is_platform_admin
from teams.models import User, record_change
from usage.daily import SETTLED_AFTER, lock_days, midnight
from usage.models import ClosedMonth, StoredDays
from usage.reports import Month, closed_month


def require_admin(by: User) -> None:
    if not is_platform_admin(by):
        raise Forbidden("Only platform admins change prices, close months and read the report of the fleet.")


def closed_until() -> date | None:
    """Return the first day of the first open month; None if no month is closed."""
    return StoredDays.objects.values_list("closed_until", flat=True).first()


def closes_from(month: Month) -> datetime:
    """Return when a month may be closed: its last day is stored then."""
    return month.next.start + SETTLED_AFTER


@service
def close_month(*, by: User, month: Month) -> ClosedMonth:
    """
    Close a month, and with the first one all months before.

    Raises Forbidden for everybody but platform admins, and Conflict for a month that is closed, is not over,
    has days that are not stored, or follows an open month.
    """
    require_admin(by)
    _require_over(month, now=timezone.now())
    _require_next(month, lock_days() if StoredDays.objects.exists() else None)
    closed = ClosedMonth.objects.create(month=month.first, by=by)
    StoredDays.objects.update(closed_until=month.next.first)
    record_change(by=by, of=closed, change="closed", values=[("Month", "open", "closed")])
    return closed


def why_not(month: Month, *, now: datetime) -> str:
    """Return why this month cannot be closed now; empty if it can."""
    try:
        _require_over(month, now=now)
        _require_next(month, StoredDays.objects.first())
    except Conflict as refusal:
        return refusal.message
    return ""


def _require_over(month: Month, *, now: datetime) -> None:
    if now < closes_from(month):
        raise Conflict(f"{month.title} can be closed from {utc_moment(closes_from(month))} on.")


def _require_next(month: Month, days: StoredDays | None) -> None:
    """Raise Conflict unless this month is the next to be closed, and its days are stored."""
    if days is None:
        raise Conflict("Nothing was held yet, so there is no month to close.")
    if days.closed_until and month.first < days.closed_until:
        closed = closed_month(month.first)
        how = f" on {utc_moment(closed.closed_at)} by {closed.by.label}" if closed else ""
        raise Conflict(f"{month.title} was closed{how}.")
    if days.closed_until and month.first > days.closed_until:
        raise Conflict(f"Close {Month.of(days.closed_until).title} first: months are closed in order.")
    if days.until < month.next.first:
        raise Conflict(
            f"The days from {days.until:%-d %b %Y} on are being computed again. Try again in a few minutes."
        )


def closable(*, now: datetime) -> Month | None:
    """Return the next month to close if it may be closed now: without a closed one, the last that is over."""
    until = closed_until()
    month = Month.of(until) if until else Month.current(now - SETTLED_AFTER).previous
    return month if closes_from(month) <= now else None


def lock_open_days(since: datetime) -> None:
    """
    Hold up the closing of months until the transaction ends; raise Conflict if `since` is in a closed one.
    """
    if not StoredDays.objects.exists():
        return
    until = lock_days().closed_until
    if until and since < midnight(until):
        last = Month.of(until - timedelta(days=1))
        raise Conflict(
            f"{last.title} and the months before are closed. "
            f"A rate can apply from {utc_moment(midnight(until))} on."
        )
