"""Dates with the weekday, times of 24 hours: "Fri 20 Nov 2026, 18:00"."""

DATE_FORMAT = "D j M Y"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "D j M Y, H:i"
SHORT_DATE_FORMAT = "j M Y"
SHORT_DATETIME_FORMAT = "D j M, H:i"
