"""Changes of rates. A rate that applies cannot be changed, so that billed costs stay as they are."""

from datetime import datetime
from decimal import Decimal

from django.db.models import Q
from django.utils import timezone
from django.utils.formats import date_format

from core.errors import Conflict, Invalid
from core.times import require_date, utc_moment
from core.transactions import service
from inventory.models import Cluster
from teams.models import User, record_change
from usage import rate_matches
from usage.closing import lock_open_days, require_admin
from usage.models import Rate
from usage.rate_matches import require_expression


@service
def save_rate(
    *,
    by: User,
    title: str,
    per_hour: Decimal,
    currency: str,
    valid_from: datetime,
    valid_until: datetime | None = None,
    product: str = "",
    driver: str = "",
    cluster: Cluster | None = None,
    expression: str = "",
    rate: Rate | None = None,
) -> Rate:
    """
    Add a rate, or change one that does not apply yet.

    A new rate may start in the past, to price hours without a rate, but not in a closed month. Raises
    Forbidden for everybody but platform admins, Conflict for a rate that applies already or a closed month,
    Invalid for an expression that is no condition.
    """
    require_admin(by)
    require_date(valid_from)
    if valid_until is not None:
        require_date(valid_until)
        if valid_until <= valid_from:
            raise Invalid(f"A rate ends after it begins; {utc_moment(valid_until)} was sent.")
    expression = expression.strip()
    if expression:
        require_expression(expression)
    rate_matches.lock_matches()
    lock_open_days(valid_from)
    if per_hour < 0:
        raise Invalid(f"A price must not be negative; {per_hour} was sent.")
    fields = {
        "title": title,
        "per_hour": per_hour,
        "currency": currency.upper(),
        "valid_from": valid_from,
        "valid_until": valid_until,
        "product": product,
        "driver": driver,
        "cluster": cluster,
        "expression": expression,
    }
    if rate is None:
        added = Rate.objects.create(**fields)
        values = [("Rate", "–", _recorded(added))]
        record_change(by=by, of=added, change=f"added, from {utc_moment(valid_from)}", values=values)
        return added
    current = lock_pending(rate)
    before = _recorded(current)
    for name, value in fields.items():
        setattr(current, name, value)
    current.save(update_fields=list(fields))
    after = _recorded(current)
    if after != before:
        record_change(by=by, of=current, change="changed", values=[("Rate", before, after)])
    return current


def _recorded(rate: Rate) -> str:
    """Return what the history says of a rate."""
    condition = f", where {rate.expression}" if rate.expression else ""
    return f"{rate}, from {utc_moment(rate.valid_from)}{condition}"


@service
def remove_rate(*, by: User, rate: Rate) -> None:
    """Remove a rate that does not apply yet."""
    require_admin(by)
    record_change(by=by, of=rate, change="removed", values=[("Rate", _recorded(rate), "–")])
    lock_pending(rate).delete()


@service
def retire_rate(*, by: User, rate: Rate, until: datetime | None = None) -> Rate:
    """
    End a rate now, or at `until`: devices then have the price of the next rate that matches, or none.

    Raises Forbidden for everybody but platform admins, Conflict for a rate that has ended or does not apply
    yet, Invalid for an end in the past, which has been billed.
    """
    require_admin(by)
    now = timezone.now()
    end = until or now
    require_date(end)
    if end < now:
        raise Invalid(f"A rate ends now or later, as the past has been billed; {utc_moment(end)} was sent.")
    open_rates = Rate.objects.filter(Q(valid_until=None) | Q(valid_until__gt=now), pk=rate.pk)
    # An update: hours before its end keep their price, so no day is stored again.
    if not open_rates.filter(valid_from__lte=now, valid_from__lt=end).update(valid_until=end):
        current = Rate.objects.filter(pk=rate.pk).first()
        if current and current.valid_from > now:
            raise Conflict(f"“{current.title}” does not apply yet. Change or remove it instead.")
        raise Conflict(f"“{rate.title}” has ended already.")
    values = [("End", "–", utc_moment(end))]
    record_change(by=by, of=rate, change=f"retired, from {utc_moment(end)}", values=values)
    return Rate.objects.get(pk=rate.pk)


def lock_pending(rate: Rate) -> Rate:
    """Lock and return a rate that does not apply yet. Raises Conflict for any other."""
    current = Rate.objects.select_for_update(no_key=True, of=("self",)).filter(pk=rate.pk).first()
    if current is None:
        raise Conflict(f"The rate “{rate.title}” has been removed.")
    if current.valid_from <= timezone.now():
        since = date_format(timezone.localtime(current.valid_from), "DATETIME_FORMAT")
        raise Conflict(
            f"“{current.title}” has applied since {since} and has been billed. Add a new rate instead."
        )
    return current
