"""
The REST API of an MLflow tracking server (https://mlflow.org/docs/latest/rest-api.html).

A secret goes to the server for which it was given, and nowhere else: redirects are not followed. What the
server says is bounded and made printable before it is stored or shown. Errors are raised outside of the
`except` that found them, because those of httpx hold the request with its headers.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import batched
from typing import Any, Self
from urllib.parse import urlsplit

import httpx
from django.views.decorators.debug import sensitive_variables

from core.errors import Invalid, PortalError
from dra.workload_parts import CLAIM_TAG
from usage.sources import TelemetrySource, client_of

# Written by the portal.
HOURS_TAG, COST_TAG, CURRENCY_TAG = "dragoman.gpu_hours", "dragoman.cost", "dragoman.currency"
OWN_TAGS = (HOURS_TAG, COST_TAG, CURRENCY_TAG)
PAGE = 1000  # runs or experiments of one answer
SEARCHED = 200  # experiments in one search
MAX_PAGES = 100
MAX_BYTES = 64 * 1024 * 1024
TIMEOUT = 10.0  # seconds for one answer
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LAST = datetime(2200, 1, 1, tzinfo=UTC)


class TrackingUnavailable(PortalError):
    """The server does not respond, or not as MLflow does. The message has no secret."""

    code = "tracking-unavailable"
    status = 503
    title = "The tracking server cannot be read"

    @classmethod
    def of_response(cls, response: httpx.Response) -> Self:
        if response.is_redirect:
            host = urlsplit(response.headers.get("location", "")).hostname or "another path"
            return cls(
                f"The tracking server redirects to {host[:100]}. Redirects are not followed, so that no "
                "secret goes there; enter the final address."
            )
        if response.status_code in (401, 403):
            return cls(
                f"The tracking server denies access (status {response.status_code}). Check token or "
                "password, and that the account may read experiments and edit runs."
            )
        return cls(f"The tracking server returned status {response.status_code}.")


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run as MLflow returns it; `tags` are those of the portal that it has."""

    run_id: str
    experiment_id: str
    name: str
    status: str
    started_at: datetime
    ended_at: datetime | None
    claim: str
    tags: dict[str, str]


def printable(value: object, most: int) -> str:
    """Return a text that PostgreSQL can store and a page can show."""
    return "".join(letter if letter.isprintable() else " " for letter in str(value or ""))[:most].strip()


def instant(milliseconds: object) -> datetime | None:
    """Return a time of MLflow, None without one. Raises ValueError for what no clock shows."""
    if milliseconds in (None, "", 0):
        return None
    try:
        when = EPOCH + timedelta(milliseconds=int(str(milliseconds)))
    except OverflowError:
        when = LAST
    if not EPOCH < when < LAST:
        raise ValueError("a time out of range")
    return when


class Mlflow:
    """Calls of one server within `budget` seconds. Each raises `TrackingUnavailable` with a sentence."""

    @sensitive_variables()
    def __init__(self, source: TelemetrySource, *, budget: float = 60.0) -> None:
        self._source = source
        self._until = time.monotonic() + budget

    def experiments(self) -> dict[str, str]:
        """Return the names of all active experiments by id."""
        rows = self._pages("experiments/search", {"view_type": "ACTIVE_ONLY"}, "experiments")
        return self._read(
            lambda: {str(row["experiment_id"]): printable(row.get("name"), 250) for row in rows}
        )

    def runs(self, experiments: Sequence[str], *, since: datetime) -> Iterator[FoundRun]:
        """Yield the runs of these experiments that name a claim and began at `since` or later."""
        milliseconds = (since - EPOCH) // timedelta(milliseconds=1)
        for some in batched(experiments, SEARCHED):
            search = {
                "experiment_ids": list(some),
                "filter": f"tags.`{CLAIM_TAG}` LIKE '%' AND attributes.start_time >= {milliseconds}",
                "run_view_type": "ACTIVE_ONLY",
                "order_by": ["attributes.start_time DESC"],
            }
            for row in self._pages("runs/search", search, "runs"):
                found = self._read(lambda row=row: run_of(row))  # type: ignore[misc]  # bound at once
                if found is not None:
                    yield found

    def write_tags(self, run_id: str, tags: dict[str, str]) -> None:
        pairs = [{"key": key, "value": value} for key, value in tags.items()]
        self._post("runs/log-batch", {"run_id": run_id, "tags": pairs})

    def delete_tag(self, run_id: str, key: str) -> None:
        self._post("runs/delete-tag", {"run_id": run_id, "key": key})

    def _pages(self, call: str, search: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
        token = ""
        for _page in range(MAX_PAGES):
            answer = self._post(
                call, search | {"max_results": PAGE} | ({"page_token": token} if token else {})
            )
            yield from self._read(lambda answer=answer: list(answer.get(name) or ()))  # type: ignore[misc]
            token = str(answer.get("next_page_token") or "")
            if not token:
                return
        raise TrackingUnavailable(f"The tracking server has more than {MAX_PAGES * PAGE:,} {name}.")

    def _read[Value](self, value: Callable[[], Value]) -> Value:
        try:
            return value()
        except (ValueError, KeyError, TypeError, AttributeError):
            pass
        raise TrackingUnavailable("The tracking server returned data in an unknown format.")

    @sensitive_variables()
    def _post(self, call: str, body: dict[str, Any]) -> dict[str, Any]:
        problem: TrackingUnavailable
        if time.monotonic() > self._until:
            raise TrackingUnavailable("The tracking server is slow; the rest follows in the next round.")
        url = f"{self._source.url.rstrip('/')}/api/2.0/mlflow/{call}"
        try:
            with client_of(self._source) as client, client.stream("POST", url, json=body) as response:
                if response.is_success:
                    answer = json.loads(limited(response))
                    return answer if isinstance(answer, dict) else {}
                problem = TrackingUnavailable.of_response(response)
        except Invalid as failure:
            problem = TrackingUnavailable(failure.message)
        except (httpx.ReadTimeout, TimeoutError):
            problem = TrackingUnavailable(f"The tracking server did not respond within {TIMEOUT:g} seconds.")
        except httpx.HTTPError as failure:
            untrusted = "CERTIFICATE_VERIFY_FAILED" in str(failure)
            problem = TrackingUnavailable(
                "The certificate of the tracking server is not trusted. Give the certificate of its CA."
                if untrusted
                else f"The tracking server cannot be reached ({type(failure).__name__})."
            )
        except ValueError:
            problem = TrackingUnavailable("The tracking server returned data in an unknown format.")
        raise problem


def limited(response: httpx.Response) -> bytes:
    """Return the body; raise ValueError for more than any answer has, TimeoutError if it takes too long."""
    until, body = time.monotonic() + TIMEOUT, bytearray()
    for chunk in response.iter_bytes():
        body += chunk
        if len(body) > MAX_BYTES:
            raise ValueError("too large")
        if time.monotonic() > until:
            raise TimeoutError
    return bytes(body)


def run_of(row: dict[str, Any]) -> FoundRun | None:
    """Return a run of an answer; None if it has no begin or names no claim."""
    info = row["info"]
    tags = {str(tag["key"]): str(tag["value"]) for tag in (row.get("data") or {}).get("tags") or ()}
    started = instant(info.get("start_time"))
    if started is None or CLAIM_TAG not in tags:
        return None
    return FoundRun(
        printable(info["run_id"], 64),
        printable(info["experiment_id"], 64),
        printable(info.get("run_name"), 250),
        printable(info.get("status"), 16),
        started,
        instant(info.get("end_time")),
        tags[CLAIM_TAG],
        {key: tags[key] for key in OWN_TAGS if key in tags},
    )
