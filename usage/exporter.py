"""
A dcgm-exporter read directly: the text format of Prometheus over HTTP.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

import re
from collections.abc import Iterable, Iterator

import httpx

from usage.errors import TelemetryUnavailable
from usage.samples import METRICS, Series

TIMEOUT = httpx.Timeout(10.0, connect=3.0)
LARGEST = 1024 * 1024 * 1024  # characters; 40,000 boards give some 300 million

LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
LINE = re.compile(
    r'(\w+)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*"(?:,\s*|(?=\})))*)\})?\s+(\S+)(?:\s+-?\d+)?\s*'
)
ESCAPE = re.compile(r"\\(.)")
UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


def read(url: str) -> list[Series]:
    """Return the series of `METRICS` at `url`; raise `TelemetryUnavailable` with a sentence."""
    try:
        with httpx.stream("GET", url, timeout=TIMEOUT) as answer:
            answer.raise_for_status()
            return list(parse(limited(answer.iter_lines())))
    except httpx.HTTPStatusError as failure:
        raise TelemetryUnavailable.status_of(failure.response.status_code) from failure
    except httpx.HTTPError as failure:
        raise TelemetryUnavailable.unreachable(failure) from failure
    except (ValueError, KeyError) as failure:
        raise TelemetryUnavailable.malformed(failure) from failure


def limited(lines: Iterable[str]) -> Iterator[str]:
    """Pass lines on, and stop at an answer that no exporter gives."""
    seen = 0
    for line in lines:
        seen += len(line)
        if seen > LARGEST:
            raise ValueError(f"more than {LARGEST} characters")
        yield line


def parse(lines: Iterable[str]) -> Iterator[Series]:
    """
    Yield the series of `METRICS` in the text format; raise ValueError for a line of theirs that is not in it.

    An exporter tells some thirty metrics of every device and four are wanted: the others are not looked at.
    These expressions read the rest ten times as fast as prometheus_client.parser; a test compares the two.
    """
    for line in lines:
        if line.startswith(METRICS):
            found = LINE.fullmatch(line)
            if found is None:
                raise ValueError(f"line “{line[:60]}”")
            name, labels, value = found.groups()
            if name in METRICS:
                yield Series(
                    name, {key: plain(text) for key, text in LABEL.findall(labels or "")}, float(value)
                )


def plain(text: str) -> str:
    """Undo the escapes of a label's value."""
    return ESCAPE.sub(lambda found: UNESCAPED.get(found[1], found[0]), text) if "\\" in text else text
