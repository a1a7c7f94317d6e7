"""Durations in the API: every spelling of the form, and those that programs write."""

from datetime import timedelta

import pytest
from rest_framework.exceptions import ValidationError

from claims.api_types import SpelledDuration


@pytest.mark.parametrize(
    ("sent", "meant"),
    [
        ("4h", timedelta(hours=4)),
        ("1d 12h", timedelta(hours=36)),
        ("45 min", timedelta(minutes=45)),
        ("PT24H", timedelta(hours=24)),
        ("86400", timedelta(days=1)),
        (3600, timedelta(hours=1)),
    ],
)
def test_duration_formats_are_parsed(sent, meant):
    assert SpelledDuration().run_validation(sent) == meant


@pytest.mark.parametrize("sent", ["soon", "4 fortnights", "", {}, "-"])
def test_invalid_duration_is_refused_with_examples(sent):
    with pytest.raises(ValidationError, match="Enter a duration such as 24h"):
        SpelledDuration().run_validation(sent)
