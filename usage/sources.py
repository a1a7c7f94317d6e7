"""
Reads a cluster's telemetry: samples of a dcgm-exporter or of Prometheus.

A dcgm-exporter has the text format of Prometheus
(https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format). Prometheus gets one instant
query per metric for all claims of a cluster. `max by` drops pod and container, so that pods that share a
device do not count twice; labels that a scrape renames (`exported_pod`, `Hostname`) are not used. Prometheus
leaves out series without a sample in the last five minutes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Self

import httpx

from core.errors import PortalError
from inventory.models import Cluster
from usage.samples import METRICS, Sample


class TelemetryUnavailable(PortalError):
    """The source does not respond, or not in its format. The message has no URL: it may hold a password."""

    code = "telemetry-unavailable"
    status = 503
    title = "Telemetry cannot be read"

    @classmethod
    def bad_status(cls, status: int) -> Self:
        return cls(f"The telemetry source returned status {status}.")

    @classmethod
    def unreachable(cls, failure: Exception) -> Self:
        kind = type(failure).__name__
        return cls(f"The telemetry source cannot be reached ({kind}).")

    @classmethod
    def malformed(cls, failure: Exception) -> Self:
        return cls(f"The telemetry source returned data in an unknown format: {str(failure)[:200]}.")

    @classmethod
    def refused(cls, why: str) -> Self:
        return cls(f"Prometheus rejected the query: {why[:200]}.")


TIMEOUT = httpx.Timeout(10.0, connect=3.0)
MAX_CHARACTERS = 1024 * 1024 * 1024  # 40,000 GPUs have some 300 million

LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
LINE = re.compile(
    r'(\w+)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*"(?:,\s*|(?=\})))*)\})?\s+(\S+)(?:\s+-?\d+)?\s*'
)
ESCAPE = re.compile(r"\\(.)")
UNESCAPED = {"n": "\n", "\\": "\\", '"': '"'}


def read_exporter(url: str) -> list[Sample]:
    """Return the samples of `METRICS` at `url`; raise `TelemetryUnavailable` with a sentence."""
    try:
        with httpx.stream("GET", url, timeout=TIMEOUT) as response:
            response.raise_for_status()
            return list(parse_exposition(limited(response.iter_lines())))
    except httpx.HTTPStatusError as failure:
        raise TelemetryUnavailable.bad_status(failure.response.status_code) from failure
    except httpx.HTTPError as failure:
        raise TelemetryUnavailable.unreachable(failure) from failure
    except (ValueError, KeyError) as failure:
        raise TelemetryUnavailable.malformed(failure) from failure


def limited(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines; raise ValueError for a response that is larger than any exporter's."""
    characters = 0
    for line in lines:
        characters += len(line)
        if characters > MAX_CHARACTERS:
            raise ValueError(f"more than {MAX_CHARACTERS} characters")
        yield line


def parse_exposition(lines: Iterable[str]) -> Iterator[Sample]:
    """
    Yield the samples of `METRICS`; raise ValueError for a malformed line of these.

    An exporter has some thirty metrics per device; other metrics are skipped. The regular expressions are ten
    times as fast as prometheus_client.parser; a test compares both.
    """
    for line in lines:
        if line.startswith(METRICS):
            match = LINE.fullmatch(line)
            if match is None:
                raise ValueError(f"line “{line[:60]}”")
            name, labels, value = match.groups()
            if name in METRICS:
                yield Sample(
                    name, {key: unescaped(text) for key, text in LABEL.findall(labels or "")}, float(value)
                )


def unescaped(text: str) -> str:
    """Return the value of a label without its escapes."""
    return ESCAPE.sub(lambda escape: UNESCAPED.get(escape[1], escape[0]), text) if "\\" in text else text


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
    """Return the PromQL of a metric: per claim, device and partition; per physical GPU without DRA labels."""
    return f"max by ({', '.join(LABELS)}) ({metric})"


def read_prometheus(url: str) -> list[Sample]:
    """Return the samples of `METRICS`; raise `TelemetryUnavailable` with a sentence."""
    series: list[Sample] = []
    try:
        with httpx.Client(timeout=TIMEOUT) as client:
            for metric in METRICS:
                response = client.post(f"{url.rstrip('/')}/api/v1/query", data={"query": query_for(metric)})
                series += parse_response(metric, response_body(response))
    except httpx.HTTPError as failure:
        raise TelemetryUnavailable.unreachable(failure) from failure
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise TelemetryUnavailable.malformed(failure) from failure
    return series


def read_source(cluster: Cluster) -> list[Sample]:
    """Return the samples of a cluster's source; raise `TelemetryUnavailable` with a sentence."""
    if cluster.prometheus_url:
        return read_prometheus(cluster.prometheus_url)
    return read_exporter(cluster.metrics_url)


def response_body(response: httpx.Response) -> dict[str, Any]:
    """Return the decoded body. Prometheus explains a rejected query in the body of a 400 or 422."""
    if response.status_code in (400, 422):
        raise TelemetryUnavailable.refused(str(response.json().get("error", "")))
    if response.status_code != httpx.codes.OK:
        raise TelemetryUnavailable.bad_status(response.status_code)
    body: dict[str, Any] = response.json()
    return body


def parse_response(metric: str, body: dict[str, Any]) -> Iterator[Sample]:
    """Yield the samples of an instant query: `data.result[]` with `metric` and `value: [time, "text"]`."""
    for row in body["data"]["result"]:
        yield Sample(metric, row["metric"], float(row["value"][1]))
