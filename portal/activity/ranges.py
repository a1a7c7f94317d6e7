"""
What Activity and the audit log share: the filters, a range of time, and the page around their entries, which
is found by the instant and id of an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any, Protocol

from django import forms
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone
from django.utils.http import urlencode

from core.listing import csv_stream
from core.times import FIRST_YEAR, LAST_YEAR

RANGES = {  # key → label, words, span
    "24h": ("24 h", "last 24 hours", timedelta(days=1)),
    "7d": ("7 d", "last 7 days", timedelta(days=7)),
    "30d": ("30 d", "last 30 days", timedelta(days=30)),
}
RANGE_LABELS = [(key, label) for key, (label, _words, _span) in RANGES.items()]
DEFAULT_RANGE = "7d"


class RangeForm(forms.Form):
    """The filters. An own range is from the start of `since` to the end of `until`, in the reader's zone."""

    q = forms.CharField(label="Search", required=False, max_length=100)
    who = forms.CharField(label="Who", required=False, max_length=150)
    range = forms.ChoiceField(required=False, choices=RANGE_LABELS, label="Range")
    since = forms.DateField(label="From", required=False, widget=forms.DateInput({"type": "date"}))
    until = forms.DateField(label="To", required=False, widget=forms.DateInput({"type": "date"}))

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

    @property
    def range_words(self) -> str:
        return RANGES[self.range_key][1] if self.range_key else "own range"

    def span(self, now: datetime) -> tuple[datetime | None, datetime | None]:
        """Return begin and end of the range, None for an open end."""
        since, until = self.cleaned_data.get("since"), self.cleaned_data.get("until")
        if self.has_own_range:
            return (
                _midnight(since) if since else None,
                _midnight(until + timedelta(days=1)) if until else None,
            )
        return now - RANGES[self.range_key][2], None

    def texts(self, *names: str) -> dict[str, str]:
        """Return the values of these fields; a field with an error is left out. Call it after `is_valid`."""
        return {name: self.cleaned_data.get(name) or "" for name in names}


def _possible(day: date | None) -> date | None:
    if day and not FIRST_YEAR < day.year < LAST_YEAR:
        raise forms.ValidationError(f"A date lies between {FIRST_YEAR + 1} and {LAST_YEAR - 1}.")
    return day


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))


class _Entry(Protocol):
    @property
    def at(self) -> datetime: ...

    @property
    def position(self) -> object: ...


def by_day[T: _Entry](
    entries: list[T], *, cut_before: bool, cut_after: bool
) -> list[tuple[date, list[T], str]]:
    """Return each day with its entries and their number, with a "+" if other pages have some of the day."""
    grouped = groupby(entries, key=lambda entry: timezone.localtime(entry.at).date())
    days = [(day, list(rows)) for day, rows in grouped]
    cut = {*([0] if cut_before else []), *([len(days) - 1] if cut_after else [])}
    return [
        (day, rows, f"{len(rows)}{'+' if place in cut else ''}") for place, (day, rows) in enumerate(days)
    ]


def address(request: HttpRequest, *drop: str, **changes: str) -> str:
    """Return the query of this page with changes, to which a template adds "&"."""
    kept = {
        name: str(value) for name, value in request.GET.items() if name not in {*drop, *changes} and value
    }
    return urlencode({**kept, **changes})


def entries_page(
    request: HttpRequest,
    form: RangeForm,
    entries: Sequence[_Entry],
    *,
    only: str,
    is_first: bool,
    is_last: bool,
) -> dict[str, Any]:
    """Return the context of a page of entries; with `only` it is about that entry."""
    older = "" if is_last else f"?{address(request, 'open', before=str(entries[-1].position))}"
    return {
        "form": form,
        "days": by_day([*entries], cut_before=not is_first, cut_after=not is_last),
        "count": len(entries),
        "open": only or request.GET.get("open", ""),
        "only": bool(only),
        "today": timezone.localdate(),
        "ranges": RANGE_LABELS,
        "range_words": form.range_words,
        "is_filtered": any(request.GET.get(name) for name in form.fields),
        "here": address(request, "open"),
        "csv_url": f"?{address(request, 'open', 'before', format='csv')}",
        "range_url": f"?{address(request, 'open', 'before', 'entry', 'range', 'since', 'until', 'format')}",
        "newest_url": "" if is_first else f"?{address(request, 'open', 'before')}",
        "older_url": older,
    }


def entries_csv[T](
    name: str, columns: Mapping[str, Callable[[T], object]], entries: Iterable[T]
) -> HttpResponseBase:
    """Return the entries as a CSV file; `columns` are their heads with how to get the cell."""
    rows = ([cell(entry) for cell in columns.values()] for entry in entries)
    return csv_stream(name, [*columns], rows)
