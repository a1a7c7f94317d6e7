"""Pages: the activity of a team, for its members; of all teams, for platform admins."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any, cast

from django import forms
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.utils.http import urlencode
from django.views.decorators.http import require_safe

from core.listing import csv_stream, wants_csv
from core.origin import Source
from core.times import FIRST_YEAR, LAST_YEAR, local_text
from portal.activity.entries import (
    ACTIONS,
    OF_PLATFORM,
    ActivityEntry,
    Filter,
    Position,
    all_entries,
    parse_id,
    read_entries,
)
from portal.activity.links import with_links
from teams.access import is_platform_admin, people_in, team_for, user_of
from teams.models import Role, Team

PER_PAGE = 50
RANGES = {  # key → label, words, span
    "24h": ("24 h", "last 24 hours", timedelta(days=1)),
    "7d": ("7 d", "last 7 days", timedelta(days=7)),
    "30d": ("30 d", "last 30 days", timedelta(days=30)),
}
RANGE_LABELS = [(key, label) for key, (label, _words, _span) in RANGES.items()]
DEFAULT_RANGE = "7d"


class ActivityForm(forms.Form):
    """The filters. An own range is from the start of `since` to the end of `until`, in the reader's zone."""

    q = forms.CharField(label="Search", required=False, max_length=100)
    who = forms.CharField(label="Who", required=False, max_length=80)
    action = forms.ChoiceField(label="Action", required=False)
    source = forms.ChoiceField(
        label="From where", required=False, choices=[("", "Any source"), *Source.choices]
    )
    range = forms.ChoiceField(required=False, choices=RANGE_LABELS, label="Range")
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))

    def __init__(self, data: Any, *, team: Team | None) -> None:
        super().__init__(data)
        actions = [(key, one.label) for key, one in ACTIONS.items() if team is None or key not in OF_PLATFORM]
        cast(forms.ChoiceField, self.fields["action"]).choices = [("", "Any action"), *actions]

    def clean_since(self) -> date | None:
        return _possible(self.cleaned_data["since"])

    def clean_until(self) -> date | None:
        return _possible(self.cleaned_data["until"])

    def clean(self) -> dict[str, Any]:
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        if since and until and since > until:
            self.add_error("until", f"The range ends on {until}, before it begins on {since}.")
        return self.cleaned_data

    @property
    def has_own_range(self) -> bool:
        return bool(self.cleaned_data.get("since") or self.cleaned_data.get("until"))

    @property
    def range_key(self) -> str:
        """The key of the chosen range, "" for an own one."""
        return "" if self.has_own_range else self.cleaned_data.get("range") or DEFAULT_RANGE

    def chosen(self, team: Team | None, now: datetime) -> Filter:
        """Return the filter; a field with an error is left out. Call it after `is_valid`."""
        fields: dict[str, Any] = {
            name: self.cleaned_data.get(name) or "" for name in ("q", "who", "action", "source")
        }
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        if self.has_own_range:
            start = _midnight(since) if since else None
            end = _midnight(until + timedelta(days=1)) if until else None
        else:
            start, end = now - RANGES[self.range_key][2], None
        return Filter(team=team.pk if team else None, since=start, until=end, **fields)


def _possible(day: date | None) -> date | None:
    if day and not FIRST_YEAR < day.year < LAST_YEAR:
        raise forms.ValidationError(f"A date lies between {FIRST_YEAR + 1} and {LAST_YEAR - 1}.")
    return day


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))


@require_safe
def team_activity(request: HttpRequest, slug: str) -> HttpResponseBase:
    return _activity(request, team_for(request.user, slug))


@require_safe
def platform_activity(request: HttpRequest) -> HttpResponseBase:
    """Show all teams; 404 for everybody but platform admins."""
    if not is_platform_admin(request.user):
        raise Http404
    return _activity(request, None)


def _activity(request: HttpRequest, team: Team | None) -> HttpResponseBase:
    form = ActivityForm(request.GET, team=team)
    form.is_valid()
    chosen = form.chosen(team, timezone.now())
    only = request.GET.get("entry", "")
    if only:
        if parse_id(only) is None:
            raise Http404
        chosen = Filter(team=chosen.team, entry=only)
    if wants_csv(request):
        name = f"activity-{team.slug}" if team else "activity"
        return csv_stream(name, CSV_HEADS, (csv_cells(entry) for entry in all_entries(chosen)))
    text = request.GET.get("before", "")
    before = Position.parse(text) if text else None
    read = read_entries(chosen, limit=PER_PAGE + 1, before=before)
    entries = with_links(read[:PER_PAGE], user_of(request))
    if only and not entries:
        raise Http404
    days = groupby(entries, key=lambda entry: timezone.localtime(entry.at).date())
    page = {
        "team": team,
        "form": form,
        "days": _counted([(day, list(rows)) for day, rows in days], before=before, more=len(read) > PER_PAGE),
        "count": len(entries),
        "open": only or request.GET.get("open", ""),
        "only": bool(only),
        "today": timezone.localdate(),
        "ranges": RANGE_LABELS,
        "range_words": RANGES[form.range_key][1] if form.range_key else "own range",
        "is_filtered": any(request.GET.get(name) for name in form.fields),
        "people": people_in(team, at_least=Role.VIEWER) if team else (),
        "here": _address(request, "open"),
        "csv_url": f"?{_address(request, 'open', 'before', format='csv')}",
        "range_url": f"?{_address(request, 'open', 'before', 'entry', 'range', 'since', 'until', 'format')}",
        "newest_url": f"?{_address(request, 'open', 'before')}" if before else "",
        "older_url": f"?{_address(request, 'open', before=str(entries[-1].position))}"
        if len(read) > PER_PAGE
        else "",
    }
    return render(request, "activity/activity.html", page)


type Day = tuple[date, list[ActivityEntry]]


def _counted(
    days: list[Day], *, before: Position | None, more: bool
) -> list[tuple[date, list[ActivityEntry], str]]:
    """Return each day with its entries and their number, with a "+" if other pages have some of the day."""
    cut = {*([0] if before else []), *([len(days) - 1] if more else [])}
    return [
        (day, rows, f"{len(rows)}{'+' if place in cut else ''}") for place, (day, rows) in enumerate(days)
    ]


def _address(request: HttpRequest, *drop: str, **changes: str) -> str:
    """Return the query of this page with changes, to which a template adds "&"."""
    kept = {
        name: str(value) for name, value in request.GET.items() if name not in {*drop, *changes} and value
    }
    return urlencode({**kept, **changes})


CSV_HEADS = (
    "Time",
    "Who",
    "Did what",
    "To what",
    "Text",
    "Reason",
    "Team",
    "From where",
    "Token or cluster",
    "Entry",
)


def csv_cells(entry: ActivityEntry) -> list[object]:
    return [
        timezone.localtime(entry.at).isoformat(timespec="seconds"),
        entry.who,
        entry.verb,
        entry.name,
        local_text(entry.text),
        entry.reason,
        entry.team,
        entry.source.label,
        entry.place,
        entry.id,
    ]
