"""
Where measurements come from: a dcgm-exporter read directly, or Prometheus.

A dcgm-exporter read directly: the text format of Prometheus over HTTP.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format

The same series over the HTTP API of Prometheus: one instant query per metric for every claim of a cluster.

`max by` drops pod and container, so that pods sharing a device do not count twice; nothing here depends on
what a scrape renames (`exported_pod`, `Hostname`). Prometheus leaves out what it last saw five minutes ago.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from usage.samples import METRICS, Sample, TelemetryUnavailable

TIMEOUT = httpx.Timeout(10.0, connect=3.0)
LARGEST = 1024 * 1024 * 1024  # characters; 40,000 boards give some 300 million

LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
LINE = re.compile(
    r'(\w+)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*"(?:,\s*|(?=\})))*)\})?\s+(\S+)(?:\s+-?\d+)?\s*'
)
ESCAPE = re.compile(r"\\(.)")
UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


def read_exporter(url: str) -> list[Sample]:
    """Return the series of `METRICS` at `url`; raise `TelemetryUnavailable` with a sentence."""
    try:
        with httpx.stream("GET", url, timeout=TIMEOUT) as answer:
            answer.raise_for_status()
            return list(parse_exposition(limited(answer.iter_lines())))
    except httpx.HTTPStatusError as failure:
        raise TelemetryUnavailable.bad_status(failure.response.status_code) from failure
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


def parse_exposition(lines: Iterable[str]) -> Iterator[Sample]:
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
                yield Sample(
                    name, {key: plain(text) for key, text in LABEL.findall(labels or "")}, float(value)
                )


def plain(text: str) -> str:
    """Undo the escapes of a label's value."""
    return ESCAPE.sub(lambda found: UNESCAPED.get(found[1], found[0]), text) if "\\" in text else text


LABELS = (
    "dra_claim_namespace",
    "dra_claim_name",
    "dra_driver_name",
    "dra_pool_name",
    "dra_device_name",
    "dra_mig_device_uuid",
    "UUID",
    "GPU_I_ID",
    "GPU_I_PROFILE",
)


def query_for(metric: str) -> str:
    """Return the PromQL of a metric: per claim, device and partition; per board where no claim is named."""
    return f"max by ({', '.join(LABELS)}) ({metric})"


def read_prometheus(url: str) -> list[Sample]:
    """Return the series of `METRICS`; raise `TelemetryUnavailable` with a sentence."""
    series: list[Sample] = []
    try:
        with httpx.Client(timeout=TIMEOUT) as client:
            for metric in METRICS:
                answer = client.post(f"{url.rstrip('/')}/api/v1/query", data={"query": query_for(metric)})
                series += parse_answer(metric, response_body(answer))
    except httpx.HTTPError as failure:
        raise TelemetryUnavailable.unreachable(failure) from failure
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise TelemetryUnavailable.malformed(failure) from failure
    return series


def response_body(answer: httpx.Response) -> dict[str, Any]:
    """Return the decoded answer. Prometheus explains a refusal in the body of a 400 or 422."""
    if answer.status_code in (400, 422):
        raise TelemetryUnavailable.refused(str(answer.json().get("error", "")))
    if answer.status_code != httpx.codes.OK:
        raise TelemetryUnavailable.bad_status(answer.status_code)
    body: dict[str, Any] = answer.json()
    return body


def parse_answer(metric: str, body: dict[str, Any]) -> Iterator[Sample]:
    """Yield the series of an instant query: `data.result[]` with `metric` and `value: [time, "text"]`."""
    for row in body["data"]["result"]:
        yield Sample(metric, row["metric"], float(row["value"][1]))
