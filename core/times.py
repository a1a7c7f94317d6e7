"""Durations and relative times as people read them: at most two units, the larger first."""

from datetime import datetime, timedelta

from django.utils import timezone

from core.errors import Invalid

FIRST_YEAR, LAST_YEAR = 1970, 2200
# The symbols of the SI brochure, which are the same in every language.
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))


def duration(span: timedelta, *, parts: int = 2) -> str:
    """Return "3 d 7 h", "17 h 34 min", "13 min", "2 s". Seconds only below a minute; no sign."""
    left = abs(int(span.total_seconds()))
    if left >= 60:
        left -= left % 60
    words: list[str] = []
    for symbol, seconds in UNITS:
        count, rest = divmod(left, seconds)
        if count:
            words.append(f"{count} {symbol}")
        elif words:
            break  # "3 d 12 min" pretends to be exact
        left = rest
        if len(words) == parts:
            break
    return " ".join(words) or "0 s"


def relative(moment: datetime, *, now: datetime | None = None) -> str:
    """Return "in 3 d 7 h" or "2 d 3 h ago"."""
    span = moment - (now or timezone.now())
    if abs(span) < timedelta(seconds=1):
        return "now"
    words = duration(span)
    return f"in {words}" if span > timedelta(0) else f"{words} ago"


def require_date(moment: datetime | None) -> None:
    """
    Raise Invalid for an instant that nobody means.

    At the ends of the calendar there is none in another zone, nor one a day later: what keeps such an instant
    cannot be shown any more.
    """
    if moment is not None and not FIRST_YEAR <= moment.year <= LAST_YEAR:
        raise Invalid(f"A date lies between {FIRST_YEAR} and {LAST_YEAR}; the year {moment.year} was sent.")
