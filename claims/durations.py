"""Durations as people write them: "24h", "3d 12h", "45 min". The same spelling works in an address."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

MINUTES = {"m": 1, "min": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
PART = re.compile(r"(\d{1,5})\s*(min|[mhdw])")
WHOLE = re.compile(rf"(?:\s*{PART.pattern}\s*)+")
LONGEST = timedelta(days=36_500)  # beyond a hundred years the end of a claim would be no date


def parse(text: str) -> timedelta:
    """Return the duration that `text` spells; ValueError if it spells none, or one beyond LONGEST."""
    lower = text.lower()
    if not WHOLE.fullmatch(lower):
        raise ValueError(text)
    minutes = sum(int(number) * MINUTES[unit] for number, unit in PART.findall(lower))
    if minutes > LONGEST // timedelta(minutes=1):
        raise ValueError(text)
    return timedelta(minutes=minutes)


def spell(duration: timedelta) -> str:
    """Return the shortest spelling that `parse` reads back: "24h", "3d", "1d 12h", "45min"."""
    minutes = int(duration.total_seconds()) // 60
    if minutes <= MINUTES["d"]:
        days, rest = 0, minutes
    else:
        days, rest = divmod(minutes, MINUTES["d"])
    hours, left = divmod(rest, 60)
    parts = [f"{number}{unit}" for number, unit in ((days, "d"), (hours, "h"), (left, "min")) if number]
    return " ".join(parts) or "0min"


class DurationText(forms.CharField):
    """A text field of a duration; empty is None."""

    default_error_messages = {"invalid": "Enter a duration such as 24h, 3d or 1d 12h."}

    def to_python(self, value: Any) -> Any:
        text = super().to_python(value)
        if not text:
            return None
        try:
            return parse(text)
        except ValueError as error:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from error

    def prepare_value(self, value: Any) -> Any:
        return spell(value) if isinstance(value, timedelta) else value
