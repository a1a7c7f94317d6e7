"""The report: page and CSV, of the whole fleet for platform admins, of their teams for leads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_http_methods, require_safe

from claims.models import Claim, Profile, Transition
from core.attempt import Attempt
from core.errors import Forbidden, Invalid
from core.listing import csv_response, wants_csv
from core.saved_filters import saved_query
from core.times import FIRST_YEAR, LAST_YEAR
from inventory.models import Cluster
from teams.access import is_platform_admin, memberships_of, user_of
from teams.models import Role, Team, User
from teams.sessions import installation_for
from usage.budget_graph import month_budgets
from usage.claim_rankings import LAST_DAYS, ORDERS
from usage.closing import closable, close_month, closed_until, require_admin, why_not
from usage.cost import Cost
from usage.daily import DAY, utc_day
from usage.energy import Energy
from usage.fleet_report import (
    CAPACITY_TYPES,
    NO_CAPACITY,
    NO_MODEL,
    FleetReport,
    GroupBy,
    Period,
    fleet_report,
    month_of,
)
from usage.ledger_sums import LONGEST_OF_ALL, EntryScope
from usage.models import SavedReport
from usage.reports import Month, closed_month
from usage.spend_chart import HOURS, unit_of

LONGEST = timedelta(days=366)
SHOWN = 50  # rows of the table, as of lists; the CSV has all
NARROWED = ("team", "person", "profile", "cluster", "model", "capacity")  # by what a report is narrowed
KEPT = ("by", "sort", *NARROWED, "unit", "per")  # of an address, when another range is chosen
GROUPS = [(group.value, group.label) for group in GroupBy]
UNITS, BARS = ("hours", "money"), ("day", "week")  # of the graph
SPANS = {f"{days}d": days for days in LAST_DAYS}
TOO_LONG = (
    f"Choose at most {LONGEST_OF_ALL.days} days, or a team, to group by claim or to choose a cluster, model "
    "or capacity type."
)


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
    sort = forms.ChoiceField(required=False, choices=[(order, order) for order in ORDERS])
    team = forms.ModelChoiceField(Team.objects.all(), required=False, to_field_name="slug")
    person = forms.ModelChoiceField(User.objects.all(), required=False, to_field_name="username")
    profile = forms.ModelChoiceField(Profile.objects.all(), required=False, to_field_name="slug")
    cluster = forms.ModelChoiceField(Cluster.objects.all(), required=False, to_field_name="name")
    model = forms.CharField(required=False, max_length=185)
    capacity = forms.ChoiceField(
        required=False, choices=[(key or NO_CAPACITY, label) for key, label in CAPACITY_TYPES.items()]
    )
    unit = forms.ChoiceField(required=False, choices=[(unit, unit) for unit in UNITS])
    per = forms.ChoiceField(required=False, choices=[(span, span) for span in BARS])
    page = forms.IntegerField(required=False, min_value=1, max_value=100_000)

    def __init__(self, data: QueryDict, reader: User) -> None:
        super().__init__(data)
        self.teams = None if is_platform_admin(reader) else led_teams(reader)
        if self.teams is not None:  # a lead chooses among what the report of their teams names
            claims = Claim.objects.filter(team__in=self.teams).order_by()
            transfers = Transition.objects.filter(
                team__in=self.teams, previous_owner__isnull=False
            ).order_by()
            people = claims.values("requested_by").union(transfers.values("previous_owner"))
            offered: dict[str, QuerySet[Any]] = {
                "team": Team.objects.filter(pk__in=self.teams),
                "person": User.objects.filter(pk__in=people),
                "profile": Profile.objects.filter(pk__in=claims.values("profile_version__profile")),
                "cluster": Cluster.objects.filter(pk__in=claims.values("cluster")),
            }
            for name, rows in offered.items():
                self.fields[name].queryset = rows  # type: ignore[attr-defined]

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

    @property
    def chosen(self) -> dict[str, Any]:
        """Return what was chosen, nothing if a part of it is wrong."""
        return self.cleaned_data if self.is_valid() else {}

    @property
    def scope(self) -> EntryScope:
        """Return which entries count: what of `NARROWED` was chosen, of the teams of a lead."""
        team, person, profile, cluster, model, capacity = (self.chosen.get(name) for name in NARROWED)
        return EntryScope(
            [team.pk] if team else self.teams,
            person and person.pk,
            profile and profile.pk,
            cluster and cluster.pk,
            ("" if model == NO_MODEL else model) if model else None,
            ("" if capacity == NO_CAPACITY else capacity) if capacity else None,
        )

    @property
    def is_of_teams(self) -> bool:
        """Return whether all claims of the teams count, as for their budgets."""
        return self.scope == EntryScope(self.scope.teams)

    @property
    def order(self) -> str:
        return self.chosen.get("sort") or ORDERS[0]

    @property
    def is_too_long(self) -> bool:
        """Return whether the entries of all teams are asked for over more days than are added up at once."""
        period, scope = self.period(utc_day(timezone.now())), self.scope
        reads_entries = self.group_by is GroupBy.CLAIM or not scope.is_all
        return reads_entries and scope.is_of_all_claims and period.end - period.first > LONGEST_OF_ALL

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
        return GroupBy(self.chosen.get("by") or GroupBy.TEAM)


def led_teams(reader: User) -> list[UUID]:
    """Return the teams that the reader leads. Raises Forbidden without one."""
    leads = memberships_of(reader).filter(role__in=(Role.LEAD, Role.OWNER), team__archived_at=None)
    teams = list(leads.values_list("team", flat=True))
    if not teams:
        raise Forbidden("The report is for platform admins and for leads of teams.")
    return teams


@require_safe
def report(request: HttpRequest) -> HttpResponseBase:
    reader, now = user_of(request), timezone.now()
    today = utc_day(now)
    form = ReportForm(request.GET, reader)
    period, group_by, status = form.period(today), form.group_by, 200 if form.is_valid() else 422
    if form.is_too_long:
        form.add_error("by", TOO_LONG)  # which takes back all that was chosen
        period, group_by, status = form.period(today), form.group_by, 422
    if wants_csv(request):
        found = fleet_report(period, group_by, now=now, order=form.order, scope=form.scope)
        return csv_response(f"report-{found.period.first}-{group_by}", CSV_HEADS, csv_rows(found, group_by))
    number = form.chosen.get("page") or 1
    found = fleet_report(
        *(period, group_by),
        now=now,
        most=SHOWN,
        offset=(number - 1) * SHOWN,
        order=form.order,
        scope=form.scope,
    )
    is_month = period == month_of(period.first)
    is_all = form.scope.is_all
    next_to_close = closable(now=now) if is_all else None
    usual = unit_of(found.parts.fleet, None)
    budgets = None
    if period == month_of(today) and form.is_of_teams:
        budgets = month_budgets(form.scope.teams, installation_for(request).currency, now=now)
    page = {
        "form": form,
        "report": found,
        "chosen": period,
        "group_by": group_by,
        "groups": GROUPS,
        "is_all": is_all,
        "has_money": usual != HOURS,
        "unit": usual if form.chosen.get("unit") == "money" else HOURS,
        "per": form.chosen.get("per") or BARS[0],
        "budgets": budgets,
        "is_admin": form.teams is None,
        "only": [
            (name, CAPACITY_TYPES.get(form.chosen[name], form.chosen[name]), {name: None, "page": None})
            for name in NARROWED
            if form.chosen.get(name)
        ],
        "pages": Paging(number, SHOWN, found.row_count),
        "saved": list(SavedReport.objects.filter(user=reader)),
        "query": saved_query(request.GET),
        "kept": [(name, request.GET[name]) for name in KEPT if form.chosen.get(name)],
        "is_month": is_month,
        "closed": closed_month(period.first) if is_month else None,
        "to_close": next_to_close if next_to_close and period == month_of(next_to_close.first) else None,
        "this_month": month_of(today),
        "last_month": month_of(month_of(today).first - DAY),
        "earlier": month_of(period.first - DAY) if is_month else None,
        "later": month_of(period.end) if is_month and period.end <= today else None,
    }
    return render(request, "usage/report.html", page, status=status)


@dataclass(frozen=True, slots=True)
class Paging:
    """Which page of the rows is shown."""

    number: int
    size: int
    rows: int

    @property
    def previous(self) -> int | None:
        return self.number - 1 if self.number > 1 else None

    @property
    def next(self) -> int | None:
        return self.number + 1 if self.number * self.size < self.rows else None


@require_http_methods(["GET", "HEAD", "POST"])
def close(request: HttpRequest) -> HttpResponse:
    """Say what closing a month means; close it on POST."""
    require_admin(user_of(request))
    now = timezone.now()
    text = request.POST.get("month", request.GET.get("month", ""))
    month = Month.parse(text) if text else closable(now=now) or Month.current(now).previous
    attempt = Attempt()
    if request.method == "POST":
        with attempt:
            closed = close_month(by=user_of(request), month=month)
            messages.success(request, f"{closed} is closed.")
            return redirect(f"{reverse('usage:report')}?month={month}")
    problem = attempt.problem or why_not(month, now=now)
    found = fleet_report(month_of(month.first), GroupBy.TEAM, now=now, most=1)
    page = {"month": month, "report": found, "problem": problem, "is_first": closed_until() is None}
    return render(request, "usage/close.html", page, status=attempt.status)


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
    *("kwh", "kwh_estimated", "co2_kg"),
)


def csv_rows(found: FleetReport, group_by: GroupBy) -> Iterator[list[object]]:
    """
    Yield a row per group and currency, then those of the rest of the fleet; together they are the fleet. Then
    follow the corrections of closed months that are booked in the period.

    Hours and energy are in the first row of a group only, so that columns add up. An empty amount is
    "no rate", an empty energy "no telemetry", empty CO₂ that no cluster says its grams per kWh.
    """
    for row in found.rows:
        parts = row.parts
        yield from _csv_lines(
            *(group_by, row.label, found.period, row.cost, [parts.used, parts.idle, parts.no_telemetry]),
            parts.energy,
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


def energy_cells(energy: Energy | None) -> list[object]:
    if energy is None:
        return ["", "", ""]
    grams = "" if energy.kilograms is None else f"{energy.kilograms:.6f}"
    return [f"{energy.kilowatt_hours:.6f}", f"{energy.estimated_kilowatt_hours:.6f}", grams]


def _csv_lines(
    of: str,
    label: str,
    period: Period,
    cost: Cost,
    parts: Sequence[Cost],
    energy: Energy | None = None,
) -> Iterator[list[object]]:
    padding = [""] * (3 - len(parts))
    hours: list[object] = [
        cost.exact_hours,
        *(part.exact_hours for part in parts),
        *padding,
        cost.exact_unpriced,
    ]
    used = energy_cells(energy)
    for currency, amount in cost.amounts.items() or [("", "")]:
        amounts = [part.amounts.get(currency, "") for part in parts]
        yield [of, label, period.first, period.last, currency, *hours, amount, *amounts, *padding, *used]
        hours, used = [""] * len(hours), [""] * len(used)
