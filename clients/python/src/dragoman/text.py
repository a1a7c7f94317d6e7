"""Words for people: states, spans of time, durations of a request."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

STATES = {
    "requested": "Waiting for approval",
    "approved": "Approved",
    "provisioned": "Ready for a pod",
    "allocated": "Allocated",
    "releasing": "Releasing",
    "released": "Released",
    "denied": "Denied",
    "withdrawn": "Withdrawn",
    "expired": "Expired",
    "failed": "Failed",
}
UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def aligned(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a table as text, a row on each line, its columns below their titles."""
    lines = [titles, *(["" if cell is None else str(cell) for cell in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(titles))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def state_label(state: str) -> str:
    return STATES.get(state, state)


def span(seconds: float) -> str:
    """Return "3 d 7 h", "13 min" or "2 s": the two largest units."""
    left, words = int(abs(seconds)), []
    for size, unit in UNITS:
        count, rest = divmod(left, size)
        if count:
            words.append(f"{count} {unit}")
        elif words:
            break
        left = rest
        if len(words) == 2 or (words and size <= 60):
            break
    return " ".join(words) or "0 s"


_skew = timedelta(0)  # of the clock of this machine, behind that of the portal
SMALL_SKEW = timedelta(seconds=5)


def set_clock(date: str) -> None:
    """Follow the clock of the portal: `date` is the Date header of an answer."""
    global _skew
    try:
        skew = parsedate_to_datetime(date) - datetime.now(timezone.utc)
    except (ValueError, TypeError):  # without a date, or without a zone
        return
    _skew = skew if abs(skew) > SMALL_SKEW else timedelta(0)


def now() -> datetime:
    """Return the time of the portal, as far as its last answer says."""
    return datetime.now(timezone.utc) + _skew


def ago(moment: datetime | None) -> str:
    if moment is None:
        return ""
    seconds = (now() - moment).total_seconds()
    return f"{span(seconds)} ago" if seconds >= 0 else f"in {span(seconds)}"


def duration_value(hours: float | None, duration: str | timedelta | None) -> int | str | None:
    """
    Return the duration of a request as the API takes it: seconds, or a text such as "1d 12h".

    Raises ValueError if both are given.
    """
    if hours is not None and duration is not None:
        raise ValueError("Give hours or duration, not both.")
    if hours is not None:
        return round(hours * 3600)
    return round(duration.total_seconds()) if isinstance(duration, timedelta) else duration
