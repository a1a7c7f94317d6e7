"""Durations as people write them, and selectors in words."""

import re
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from claims.match_page import selector_text
from core.times import parse_duration, spell_duration


@given(st.integers(min_value=1, max_value=10**6))
def test_a_spelled_duration_reads_back_as_itself(minutes):
    assert parse_duration(spell_duration(timedelta(minutes=minutes))) == timedelta(minutes=minutes)


@pytest.mark.parametrize("text", ["", "soon", "24", "h", "-3h", "3h!", "1e3h"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (
            'device.capacity["gpu.nvidia.com"].?memory.orValue(quantity("0"))'
            '.compareTo(quantity("79Gi")) >= 0',
            "memory ≥ 79 GiB",
        ),
        ('device.attributes["gpu.nvidia.com"].?profile.orValue("") == "1g.10gb"', "slice 1g.10gb"),
        ('device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA L4"', "NVIDIA L4"),
        ('device.attributes["gpu.nvidia.com"].?brand.orValue("") == "Tesla"', "brand Tesla"),
        ('device.attributes["gpu.nvidia.com"].?brand.orValue("").size() == 2', ""),
    ],
)
def test_a_usual_selector_is_told_in_words(expression, words):
    assert selector_text(expression) == words
