"""
The same series over the HTTP API of Prometheus: one instant query per metric for every claim of a cluster.

`max by` drops pod and container, so that pods sharing a device do not count twice; nothing here depends on
what a scrape renames (`exported_pod`, `Hostname`). Prometheus leaves out what it last saw five minutes ago.
"""

from collections.abc import Iterator
from typing import Any

import httpx

from usage.errors import TelemetryUnavailable
from usage.exporter import TIMEOUT
from usage.samples import METRICS, Series

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


def read(url: str) -> list[Series]:
    """Return the series of `METRICS`; raise `TelemetryUnavailable` with a sentence."""
    series: list[Series] = []
    try:
        with httpx.Client(timeout=TIMEOUT) as client:
            for metric in METRICS:
                answer = client.post(f"{url.rstrip('/')}/api/v1/query", data={"query": query_for(metric)})
                series += parse(metric, body_of(answer))
    except httpx.HTTPError as failure:
        raise TelemetryUnavailable.unreachable(failure) from failure
    except (ValueError, KeyError, TypeError, AttributeError) as failure:
        raise TelemetryUnavailable.malformed(failure) from failure
    return series


def body_of(answer: httpx.Response) -> dict[str, Any]:
    """Return the decoded answer. Prometheus explains a refusal in the body of a 400 or 422."""
    if answer.status_code in (400, 422):
        raise TelemetryUnavailable.refused(str(answer.json().get("error", "")))
    if answer.status_code != httpx.codes.OK:
        raise TelemetryUnavailable.status_of(answer.status_code)
    body: dict[str, Any] = answer.json()
    return body


def parse(metric: str, body: dict[str, Any]) -> Iterator[Series]:
    """Yield the series of an instant query: `data.result[]` with `metric` and `value: [time, "text"]`."""
    for row in body["data"]["result"]:
        yield Series(metric, row["metric"], float(row["value"][1]))
