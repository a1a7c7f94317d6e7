"""
Reports that people save under a name, and the mail of the monthly ones: the last month as CSV, once a month.

What a report shows is decided by the reader's role when it is read or sent, never by what was saved.
"""

from __future__ import annotations

from datetime import date, datetime
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.db.models import Q
from django.http import QueryDict
from django.urls import reverse
from django.utils.text import slugify

from core.errors import Conflict, Forbidden, Invalid
from core.listing import csv_text
from core.saved_filters import saved_query, valid_name
from core.transactions import service
from notify.mail import Unsent, send_file
from teams.models import User
from usage.cost import cost_text
from usage.daily import stored_until, utc_day
from usage.fleet_report import fleet_report
from usage.fleet_views import CSV_HEADS, ReportForm, csv_rows
from usage.models import SavedReport
from usage.reports import Month

MOST = 20  # for one person
MAX_QUERY = 500
SALT = "usage.saved_reports.unsubscribe"
RANGE = ("month", "range", "since", "until")  # the mail always has the last month
SENT_AT_ONCE = 100


@service
def save_report(*, by: User, name: str, query: str, monthly: bool, now: datetime) -> SavedReport:
    """
    Save the query of a report under a name; the same name again replaces it. Raises Invalid, Conflict.

    The first mail of a monthly one comes on the next first of a month.
    """
    text, name = saved_query(QueryDict(query)), valid_name(name)
    if len(text) > MAX_QUERY or not ReportForm(QueryDict(text), by).is_valid():
        raise Invalid("This report cannot be shown, so it cannot be saved.", field="query")
    if SavedReport.objects.filter(user=by).exclude(name=name).count() >= MOST:
        raise Conflict(f"You have saved {MOST} reports. Delete one first.")
    mailed = last_month(now)
    saved, _made = SavedReport.objects.update_or_create(
        user=by, name=name, defaults={"query": text, "monthly": monthly, "mailed_for": mailed}
    )
    return saved


@service
def set_monthly(*, saved: SavedReport, monthly: bool, now: datetime) -> None:
    """Begin or stop to mail it, from the next first of a month on."""
    SavedReport.objects.filter(pk=saved.pk).exclude(monthly=monthly).update(
        monthly=monthly, mailed_for=last_month(now)
    )


def last_month(now: datetime) -> date:
    """Return the first day of the last month (UTC) that is over."""
    return Month.current(now).previous.first


def unsubscribe_url(saved: SavedReport) -> str:
    return reverse("usage:report_unsubscribe", args=[signing.dumps(str(saved.pk), salt=SALT)])


def saved_of(token: str) -> SavedReport | None:
    """Return the report of a link to unsubscribe; None if the link is wrong, or the report was deleted."""
    try:
        return SavedReport.objects.filter(pk=UUID(signing.loads(token, salt=SALT))).first()
    except (signing.BadSignature, ValueError):
        return None


def mail_reports(now: datetime) -> None:
    """
    Mail the last month of each monthly report that has not had it, once its last day is stored.

    A report is marked before it is sent, so of two workers one sends; one that dies in between loses a mail
    and sends none twice. It is tried again if the email server was not reachable.
    """
    month, until = last_month(now), stored_until()
    if not settings.MAIL_URL or until is None or until < utc_day(now).replace(day=1):
        return
    due = SavedReport.objects.filter(Q(mailed_for=None) | Q(mailed_for__lt=month), monthly=True)
    due = due.filter(user__is_active=True).exclude(user__email="")
    for saved in due.select_related("user").order_by("pk")[:SENT_AT_ONCE]:
        before = saved.mailed_for
        if not due.filter(pk=saved.pk, mailed_for=before).update(mailed_for=month):
            continue
        try:
            _send(saved, Month(month), now)
        except Forbidden:  # leads no team any more
            SavedReport.objects.filter(pk=saved.pk).update(monthly=False)
        except Unsent as failure:
            if failure.is_temporary:
                SavedReport.objects.filter(pk=saved.pk).update(mailed_for=before)


def _send(saved: SavedReport, month: Month, now: datetime) -> None:
    """Send one report. Raises Forbidden for a reader who may not see it any more, and Unsent."""
    query = QueryDict(saved.query, mutable=True)
    for name in RANGE:
        query.pop(name, None)
    query["month"] = str(month)
    form = ReportForm(query, saved.user)
    if not form.is_valid():  # such as a team that the reader does not lead any more
        raise Forbidden("This report cannot be shown any more.")
    found = fleet_report(
        form.period(utc_day(now)), form.group_by, now=now, order=form.order, scope=form.scope
    )
    parts = found.parts
    lines = [
        f"{saved.name}: {month.title} by {form.group_by}",
        f"Allocated: {cost_text(parts.allocated)}, {parts.allocated.hours:,} GPU-hours",
        f"Used: {cost_text(parts.used)}",
        f"Idle: {cost_text(parts.idle)}",
        f"No telemetry: {cost_text(parts.no_telemetry)}",
    ]
    if form.scope.is_all:
        lines.append(f"Fleet: {cost_text(parts.fleet)}, of which nobody held {cost_text(parts.unallocated)}")
    send_file(
        to=saved.user.email,
        subject=f"{saved.name}, {month.title}",
        body="\n".join(lines),
        link=f"{reverse('usage:report')}?{query.urlencode()}",
        unsubscribe=unsubscribe_url(saved),
        name=f"{slugify(saved.name) or 'report'}-{month}.csv",
        content=csv_text(CSV_HEADS, csv_rows(found, form.group_by)),
    )
