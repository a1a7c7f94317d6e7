"""The report of the whole fleet, for platform admins: page and CSV."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Any

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from core.errors import Conflict, Invalid
from core.listing import csv_response, wants_csv
from core.times import FIRST_YEAR, LAST_YEAR
from teams.access import user_of
from usage.closing import closable, close_month, closed_until, require_admin, why_not
from usage.cost import Cost
from usage.daily import DAY, utc_day
from usage.fleet_report import FleetReport, GroupBy, Period, fleet_report, month_of
from usage.reports import Month, closed_month

LONGEST = timedelta(days=366)
SHOWN = 100  # rows of the table; the CSV has all
GROUPS = [(group.value, group.name.capitalize()) for group in GroupBy]
SPANS = {"7d": 7, "30d": 30}


class ReportForm(forms.Form):
    """
    What the report is about: a month (2026-11), the last days, or days from `since` to `until`, by default
    from the first of that month and to yesterday.
    """

    month = forms.CharField(required=False, max_length=7)
    range = forms.ChoiceField(required=False, choices=[(key, key) for key in SPANS])
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))
    by = forms.ChoiceField(required=False, choices=GROUPS)

    def clean_month(self) -> date | None:
        text = self.cleaned_data["month"]
        try:
            return Month.parse(text).first if text else None
        except Invalid as refusal:
            raise forms.ValidationError(refusal.message) from refusal

    def clean(self) -> dict[str, Any]:
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        if since is None and until is not None:
            since = until.replace(day=1)
        if until is None and since is not None:
            until = max(since, utc_day(timezone.now()) - DAY)
        if since is not None and until is not None:
            self.cleaned_data |= {"since": since, "until": until}
            if since > until:
                self.add_error("until", f"The range ends on {until}, before it begins on {since}.")
            elif until - since >= LONGEST:
                self.add_error("until", f"The range has {(until - since).days + 1} days; the most are 366.")
            elif not FIRST_YEAR < since.year <= until.year < LAST_YEAR:
                self.add_error("since", f"A date lies between {FIRST_YEAR + 1} and {LAST_YEAR - 1}.")
        return self.cleaned_data

    def period(self, today: date) -> Period:
        """Return the chosen days; the current month without a valid choice."""
        chosen = self.cleaned_data if self.is_valid() else {}
        if chosen.get("since"):
            return Period(chosen["since"], chosen["until"] + DAY)
        if chosen.get("range"):
            return Period(today - SPANS[chosen["range"]] * DAY, today)
        return month_of(chosen.get("month") or today)

    @property
    def group_by(self) -> GroupBy:
        chosen = self.cleaned_data.get("by") if self.is_valid() else ""
        return GroupBy(chosen or GroupBy.TEAM)


@require_safe
def report(request: HttpRequest) -> HttpResponseBase:
    require_admin(user_of(request))
    now = timezone.now()
    today = utc_day(now)
    form = ReportForm(request.GET)
    period, group_by = form.period(today), form.group_by
    found = fleet_report(period, group_by, now=now, most=None if wants_csv(request) else SHOWN)
    if wants_csv(request):
        name = f"report-{found.period.first}-{group_by}"
        return csv_response(name, CSV_HEADS, csv_rows(found, group_by))
    is_month = period == month_of(period.first)
    next_to_close = closable(now=now)
    page = {
        "form": form,
        "report": found,
        "chosen": period,
        "group_by": group_by,
        "groups": GROUPS,
        "is_month": is_month,
        "closed": closed_month(period.first) if is_month else None,
        "to_close": next_to_close if next_to_close and period == month_of(next_to_close.first) else None,
        "this_month": month_of(today),
        "last_month": month_of(month_of(today).first - DAY),
        "earlier": month_of(period.first - DAY) if is_month else None,
        "later": month_of(period.end) if is_month and period.end <= today else None,
    }
    return render(request, "usage/report.html", page, status=200 if form.is_valid() else 422)


@require_http_methods(["GET", "HEAD", "POST"])
def close(request: HttpRequest) -> HttpResponse:
    """Say what closing a month means; close it on POST."""
    require_admin(user_of(request))
    now = timezone.now()
    text = request.POST.get("month", request.GET.get("month", ""))
    month = Month.parse(text) if text else closable(now=now) or Month.current(now).previous
    status, problem = 200, why_not(month, now=now)
    if request.method == "POST":
        try:
            closed = close_month(by=user_of(request), month=month)
        except Conflict as refusal:
            status, problem = refusal.status, refusal.message
        else:
            messages.success(request, f"{closed} is closed.")
            return redirect(f"{reverse('usage:report')}?month={month}")
    found = fleet_report(month_of(month.first), GroupBy.TEAM, now=now, most=1)
    page = {"month": month, "report": found, "problem": problem, "is_first": closed_until() is None}
    return render(request, "usage/close.html", page, status=status)


CSV_HEADS = (
    *("group", "name", "first_day", "last_day", "currency", "hours", "hours_used", "hours_idle"),
    *(
        "hours_no_telemetry",
        "hours_without_rate",
        "amount",
        "amount_used",
        "amount_idle",
        "amount_no_telemetry",
    ),
)


def csv_rows(found: FleetReport, group_by: GroupBy) -> Iterator[list[object]]:
    """
    Yield a row per group and currency, then those of the rest of the fleet; together they are the fleet. Then
    follow the corrections of closed months that are booked in the period.

    Hours are in the first row of a group only, so that columns add up. An empty amount is "no rate".
    """
    for row in found.rows:
        parts = row.parts
        yield from _csv_lines(
            group_by, row.label, found.period, row.cost, [parts.used, parts.idle, parts.no_telemetry]
        )
    rest = found.parts
    for label, cost in (
        ("unmanaged claims", rest.unmanaged),
        ("out of service", rest.out_of_service),
        ("unallocated", rest.unallocated),
    ):
        yield from _csv_lines("fleet", label, found.period, cost, [])
    for row in found.rows:
        if row.parts.corrections != Cost():
            yield from _csv_lines("correction", row.label, found.period, row.parts.corrections, [])


def _csv_lines(
    of: str, label: str, period: Period, cost: Cost, parts: Sequence[Cost]
) -> Iterator[list[object]]:
    padding = [""] * (3 - len(parts))
    hours: list[object] = [
        cost.exact_hours,
        *(part.exact_hours for part in parts),
        *padding,
        cost.exact_unpriced,
    ]
    for currency, amount in cost.amounts.items() or [("", "")]:
        amounts = [part.amounts.get(currency, "") for part in parts]
        yield [of, label, period.first, period.last, currency, *hours, amount, *amounts, *padding]
        hours = [""] * len(hours)
