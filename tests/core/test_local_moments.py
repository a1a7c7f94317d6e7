"""Times in forms: what a form shows comes back as the instant that is stored, in every zone."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from pathlib import Path

import pytest
from django import forms
from django.urls import get_resolver
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from core.inputs import LocalMoment

ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC", "Asia/Kathmandu")
MOMENTS = (
    *(datetime(2027, 10, 31, hour, 30, tzinfo=UTC) for hour in (0, 1)),  # 02:30 in Berlin, twice
    datetime(2027, 3, 28, 1, 0, tzinfo=UTC),
    *(datetime(2027, 11, 7, hour, 30, tzinfo=UTC) for hour in (5, 6)),  # 01:30 in New York
    *(datetime(2027, 4, 3, 14, minute, tzinfo=UTC) for minute in (35, 50)),
    datetime(2027, 4, 3, 15, 5, tzinfo=UTC),  # 01:35 on Lord Howe, half an hour later again
    datetime(2027, 6, 1, 1, 30, 45, tzinfo=UTC),
    datetime(2027, 6, 1, 1, 30, 0, 123456, tzinfo=UTC),
)


def subclasses(kind: type) -> Iterator[type]:
    for one in kind.__subclasses__():
        yield one
        yield from subclasses(one)


def fields_with_a_time() -> list[tuple[str, forms.Field]]:
    get_resolver().url_patterns  # noqa: B018 - imports the forms of all pages
    return [
        (f"{form.__qualname__}.{name}", field)
        for form in subclasses(forms.BaseForm)
        if form.__module__.partition(".")[0] in {"claims", "usage", "inventory", "teams", "notify", "portal"}
        for name, field in getattr(form, "base_fields", {}).items()
        if isinstance(field, forms.DateTimeField)
    ]


def sent(html: str) -> dict[str, str]:
    """Return what a browser sends of the inputs of a page that nobody changes."""
    return {
        name: unescape(value)
        for name, value in re.findall(r'<input[^>]* name="([^"]+)"[^>]* value="([^"]*)"', html)
    }


def comes_back(field: forms.Field, moment: datetime) -> bool:
    form = type("One", (forms.Form,), {"at": field})
    again = form(sent(str(form(initial={"at": moment})["at"])))
    assert again.is_valid(), again.errors
    # A form that is shown again, because another field was refused, keeps it too.
    third = form(sent(str(again["at"])))
    assert third.is_valid(), third.errors
    return again.cleaned_data["at"] == third.cleaned_data["at"] == moment


def test_every_time_of_a_form_comes_back_as_it_is_stored():
    found = fields_with_a_time()
    assert len(found) >= 8
    assert [name for name, field in found if not isinstance(field, LocalMoment)] == []
    for zone in ZONES:
        with timezone.override(zone):
            wrong = [(name, at) for name, field in found for at in MOMENTS if not comes_back(field, at)]
            assert wrong == []


@given(st.sampled_from(ZONES), st.integers(946684800_000000, 4102444800_000000))
def test_any_time_comes_back_as_it_is_stored(zone, microseconds):
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)
    with timezone.override(zone):
        assert comes_back(LocalMoment(), moment)


def test_no_template_draws_a_time_by_hand():
    pages = Path("templates").rglob("*.html")
    assert [str(page) for page in pages if 'type="datetime-local"' in page.read_text()] == []


@pytest.mark.parametrize(
    ("zone", "typed", "instant"),
    [
        ("Europe/Berlin", "2027-10-31T02:30", datetime(2027, 10, 31, 0, 30, tzinfo=UTC)),
        ("Europe/Berlin", "2027-10-31T02:30+01:00", datetime(2027, 10, 31, 1, 30, tzinfo=UTC)),
        ("Europe/Berlin", "2027-06-01T03:30:45", datetime(2027, 6, 1, 1, 30, 45, tzinfo=UTC)),
        ("America/New_York", "2027-11-07 01:30", datetime(2027, 11, 7, 5, 30, tzinfo=UTC)),
        ("Australia/Lord_Howe", "2027-04-04T01:45", datetime(2027, 4, 3, 14, 45, tzinfo=UTC)),
    ],
)
def test_time_that_is_there_twice_is_the_first(zone, typed, instant):
    with timezone.override(zone):
        assert LocalMoment().clean(typed) == instant


@pytest.mark.parametrize(
    ("zone", "typed", "there"),
    [
        ("Europe/Berlin", "2027-03-28T02:30", "03:30"),
        ("America/New_York", "2027-03-14T02:05", "03:05"),
        ("Australia/Lord_Howe", "2027-10-03T02:15", "02:45"),
    ],
)
def test_time_that_is_not_there_is_refused_with_one_that_is(zone, typed, there):
    with timezone.override(zone), pytest.raises(forms.ValidationError, match=f"Enter {there}") as refusal:
        LocalMoment().clean(typed)
    assert typed.replace("T", " ") in refusal.value.message
    with timezone.override(zone):
        assert LocalMoment().clean(f"{typed[:11]}{there}")


def test_changed_time_goes_before_the_instant_beside_it():
    was = datetime(2027, 10, 31, 1, 30, 15, tzinfo=UTC)
    form = type("One", (forms.Form,), {"at": LocalMoment()})
    with timezone.override("Europe/Berlin"):
        shown = sent(str(form(initial={"at": was})["at"]))
        assert shown["at"] == "2027-10-31T02:30:15"
        for typed, instant in (
            ("2027-10-31T02:31", was + timedelta(minutes=-59, seconds=-15)),
            ("2027-10-31T02:30", was),  # a browser that leaves out the seconds
            ("", None),
        ):
            changed = form(shown | {"at": typed})
            assert changed.is_valid() is bool(typed)
            assert changed.cleaned_data.get("at") == instant
        damaged = form(shown | {"at_exact": "never"})
        assert damaged.is_valid()
