"""Times and durations as people read and write them: in text, and as `<time>` elements for pages."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from html import escape

from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from core.errors import Invalid
from core.text import DASH

FIRST_YEAR, LAST_YEAR = 1970, 2200
UTC_MOMENT = re.compile(r"\b[A-Z][a-z]{2} (\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d) UTC\b")  # of `utc_moment`
DAYS = "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"
MONTHS = "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"
# The symbols of the SI brochure, which are the same in every language.
KINDS = {kind: format_html(' data-time="{}"', kind) if kind else "" for kind in ("", "relative", "elapsed")}
UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
MINUTES = {"m": 1, "min": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
DURATION_PART = re.compile(r"(\d{1,5})\s*(min|[mhdw])")
DURATION = re.compile(rf"(?:\s*{DURATION_PART.pattern}\s*)+")
MAX_DURATION = timedelta(days=36_500)  # beyond a hundred years the end of a claim would be no date


def duration(span: timedelta, *, parts: int = 2) -> str:
    """Return "3 d 7 h", "17 h 34 min", "13 min" or "2 s": the largest `parts` units, without a sign."""
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


def parse_duration(text: str) -> timedelta:
    """Return the duration of "24h", "3d 12h" or "45 min". Raises ValueError for any other text."""
    lower = text.lower()
    if not DURATION.fullmatch(lower):
        raise ValueError(text)
    minutes = sum(int(number) * MINUTES[unit] for number, unit in DURATION_PART.findall(lower))
    if minutes > MAX_DURATION // timedelta(minutes=1):
        raise ValueError(text)
    return timedelta(minutes=minutes)


def spell_duration(span: timedelta) -> str:
    """Return the shortest spelling that `parse_duration` reads back: "24h", "3d", "1d 12h", "45min"."""
    minutes = int(span.total_seconds()) // 60
    if minutes <= MINUTES["d"]:
        days, rest = 0, minutes
    else:
        days, rest = divmod(minutes, MINUTES["d"])
    hours, left = divmod(rest, 60)
    parts = [f"{number}{unit}" for number, unit in ((days, "d"), (hours, "h"), (left, "min")) if number]
    return " ".join(parts) or "0min"


def relative(instant: datetime, *, now: datetime | None = None) -> str:
    """Return "in 3 d 7 h" or "2 d 3 h ago"."""
    span = instant - (now or timezone.now())
    if abs(span) < timedelta(seconds=1):
        return "now"
    words = duration(span)
    return f"in {words}" if span > timedelta(0) else f"{words} ago"


def moment(instant: datetime) -> str:
    """Return "Fri 20 Nov 2026, 18:00" in the reader's zone."""
    return moment_in(instant, None)


def moment_in(instant: datetime, zone: tzinfo | None) -> str:
    """Return "Fri 20 Nov 2026, 18:00" in a zone, None for the reader's."""
    return _in_words(timezone.localtime(instant, zone))


def _in_words(local: datetime) -> str:
    """Return DATETIME_FORMAT of core.formats; `strftime` takes four times as long, twice for each row."""
    day, month = DAYS[local.weekday()], MONTHS[local.month - 1]
    return f"{day} {local.day} {month} {local.year}, {local.hour:02}:{local.minute:02}"


def utc_moment(instant: datetime) -> str:
    """Return "Fri 20 Nov 2026, 17:00 UTC", for stored text, which `local_times` shows."""
    return f"{moment_in(instant, UTC)} UTC"


def local_text(text: str) -> str:
    """Return a stored text with its moments in the reader's zone, as "Fri 20 Nov 2026, 18:00 CET"."""
    return _with_moments(text, lambda instant: f"{moment(instant)} {timezone.localtime(instant).tzname()}")


def local_times(text: object) -> SafeString:
    """Show a stored text with its moments in the reader's zone, the zone on hover."""
    return mark_safe(_with_moments(escape(str(text)), at))  # noqa: S308 - escaped


def _with_moments(text: str, show: Callable[[datetime], str]) -> str:
    def shown(match: re.Match[str]) -> str:
        try:
            return show(datetime.strptime(match[1], "%d %b %Y, %H:%M").replace(tzinfo=UTC))
        except (ValueError, OverflowError):  # somebody typed it: "31 Feb"
            return match[0]

    return UTC_MOMENT.sub(shown, text)


def ago(instant: datetime | None) -> str:
    """Show "in 3 d 7 h" or "2 d 3 h ago", the absolute time on hover; the page keeps it current."""
    return time_element(instant, relative(instant), "relative") if instant else DASH


def elapsed(instant: datetime | None) -> str:
    """Show "2 d 3 h", the time since or until, for sentences that say which."""
    return time_element(instant, duration(instant - timezone.now()), "elapsed") if instant else DASH


def at(instant: datetime | None) -> str:
    """Show "Fri 20 Nov 2026, 18:00" in the reader's zone, the zone on hover."""
    return time_element(instant, moment(instant)) if instant else DASH


def at_day(instant: datetime | None) -> str:
    """Show the date of a UTC midnight, where days of billing begin, anything else as `at`."""
    if instant is None or instant.timestamp() % 86400:
        return at(instant)
    return time_element(instant, instant.astimezone(UTC).strftime("%a %-d %b %Y"))


def at_short(instant: datetime | None) -> str:
    """Show "Fri 20 Nov, 18:00" for something near, with the year only if it is another one."""
    if instant is None:
        return DASH
    text, year = moment(instant), timezone.localtime(instant).year
    is_this_year = year == timezone.localtime(timezone.now()).year
    return time_element(instant, text.replace(f" {year},", ",") if is_this_year else text)


def time_element(instant: datetime, text: str, kind: str = "") -> SafeString:
    """Return `<time>` around `text`. The page keeps the text of a `kind` current: "relative", "elapsed"."""
    local = timezone.localtime(instant)
    title = escape(f"{_in_words(local)} {local.tzname() or ''}")
    return mark_safe(  # noqa: S308 - all of it is ours, or escaped
        f'<time datetime="{instant.isoformat(timespec="seconds")}" title="{title}"{KINDS[kind]}>'
        f"{escape(text)}</time>"
    )


def require_date(instant: datetime | None) -> None:
    """
    Raise Invalid for a year outside the range that can be shown.

    The first and last days of the calendar do not exist in every zone, and a day after the last one fails.
    """
    if instant is not None and not FIRST_YEAR <= instant.year <= LAST_YEAR:
        raise Invalid(f"A date lies between {FIRST_YEAR} and {LAST_YEAR}; the year {instant.year} was sent.")
