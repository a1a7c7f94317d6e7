from datetime import UTC, datetime, timedelta

import pytest
from django.utils.formats import date_format
from hypothesis import given
from hypothesis import strategies as st

from core.times import duration, moment, relative

NOW = datetime(2026, 11, 17, 10, 24, tzinfo=UTC)


@pytest.mark.parametrize(
    ("span", "words"),
    [
        (timedelta(0), "0 s"),
        (timedelta(seconds=2), "2 s"),
        (timedelta(seconds=59.9), "59 s"),
        (timedelta(seconds=61), "1 min"),
        (timedelta(minutes=13), "13 min"),
        (timedelta(hours=17, minutes=34), "17 h 34 min"),
        (timedelta(days=3, hours=7, minutes=36), "3 d 7 h"),
        (timedelta(days=3, minutes=12), "3 d"),
        (-timedelta(hours=5, minutes=10), "5 h 10 min"),
    ],
)
def test_a_duration_has_its_two_largest_units(span, words):
    assert duration(span) == words


def test_more_units_on_request():
    assert duration(timedelta(days=2, hours=3, minutes=12), parts=3) == "2 d 3 h 12 min"


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=4000)))
def test_shown_duration_never_exceeds_the_real_one(span):
    sizes = {"d": 86_400, "h": 3600, "min": 60, "s": 1}
    words = duration(span).split()
    shown = sum(int(count) * sizes[unit] for count, unit in zip(words[::2], words[1::2], strict=True))
    assert shown <= span.total_seconds()
    assert span.total_seconds() - shown < max(sizes[words[1]], 1)


@pytest.mark.parametrize(
    ("moment", "words"),
    [
        (NOW + timedelta(days=3, hours=7), "in 3 d 7 h"),
        (NOW - timedelta(minutes=6), "6 min ago"),
        (NOW, "now"),
        (NOW + timedelta(milliseconds=900), "now"),
    ],
)
def test_relative_times_say_which_way(moment, words):
    assert relative(moment, now=NOW) == words


def test_moment_is_written_as_the_format_of_dates_and_times_says():
    for month in range(1, 13):
        instant = datetime(2026, month, 2 * month, 9, 5, tzinfo=UTC)
        assert moment(instant) == date_format(instant, "DATETIME_FORMAT")
