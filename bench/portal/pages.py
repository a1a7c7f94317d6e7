"""CPU time and queries of every page and list of the API, for each of its readers."""

from __future__ import annotations

import gc
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace
from typing import Any

from django.db import connection
from django.http.response import HttpResponseBase
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import set_script_prefix

from bench.costs import costs_of
from bench.measure import Result, nanoseconds_run
from bench.portal.addresses import Address, addresses
from bench.portal.work import counted
from core.garbage import exempt_permanent_objects
from portal.serving import when_ready
from teams.models import User

# Requests that are not counted: psycopg prepares a statement when it has run five times, and PostgreSQL plans
# it for its values five times more.
WARM_UP = 10
ENOUGH = 5  # samples, after which a slow page …
PATIENCE = 2.0  # … is requested for at most so many seconds
ROW = re.compile(rb"<(?:tr|li|option)\b")


def results(devices: int, repeat: int, only: str, *, profiled: bool = True) -> Iterator[Result]:
    """
    Yield a line per address and reader; the first requests of each warm the process and are not counted.

    A line that misses its budget gets a profile, unless `profiled` is false.
    """
    set_script_prefix("/")
    clients: dict[str, Client] = {}
    with portal_process():
        for address in addresses():
            name = f"pages: {address.name}"
            for reader in address.readers if only in name else ():
                client = clients.setdefault(reader, signed_in(reader))
                result = page_result(client, address, name, reader, devices, repeat)
                if profiled and result.misses:
                    result.profile = costs_of(partial(request, client, address, headers_of(client, address)))
                yield result


@contextmanager
def portal_process(*, is_worker: bool = False) -> Iterator[None]:
    """Collect garbage as processes of the portal do, not as the process that has built its data."""
    thresholds = gc.get_threshold()
    if is_worker:
        exempt_permanent_objects()
    else:
        when_ready(SimpleNamespace(LISTENERS=()))
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)


def page_result(
    client: Client, address: Address, name: str, reader: str, devices: int, repeat: int
) -> Result:
    """Measure one address as one reader."""
    headers = headers_of(client, address)
    with CaptureQueriesContext(connection) as queries:
        response = request(client, address, headers)
        query_count = len(queries)
    notes = [] if response.status_code < 400 else [f"{name}: status {response.status_code} for {reader}."]
    if address.poll and response.status_code != 304:
        notes.append(f"{name}: status {response.status_code} instead of 304 for {reader}.")
    for _ in range(WARM_UP):
        request(client, address, headers)
    walls, processor = sampled(lambda: request(client, address, headers), repeat)
    work = counted(lambda: request(client, address, headers))
    return Result(
        name,
        devices,
        reader,
        walls,
        budget=address.budget.p95,
        median_budget=address.budget.median,
        max_queries=address.budget.queries,
        processor=processor,
        queries=query_count,
        size=len(content_of(response)),
        rows=rows_of(response),
        notes=notes,
        steps=work.steps,
        visits=work.visits,
    )


def headers_of(client: Client, address: Address) -> dict[str, str]:
    """Request the address once; return the headers of further requests, of a poll with the entity tag."""
    headers = {"HX-Request": "true"} if address.fragment else {}
    response = request(client, address, headers)
    return headers | {"If-None-Match": response.headers.get("ETag", "")} if address.poll else headers


def rows_of(response: HttpResponseBase) -> int:
    """Return how many rows a response has: items of a JSON list, lines of a CSV, else those of its HTML."""
    content, content_type = content_of(response), response.headers.get("Content-Type", "")
    if content_type.startswith("application/json"):
        document = json.loads(content)
        items = document.get("results", ()) if isinstance(document, dict) else document
        return len(items)
    if content_type.startswith("text/csv"):
        return content.count(b"\n")
    return len(ROW.findall(content))


def content_of(response: HttpResponseBase) -> bytes:
    """Return the content; of a stream what `request` has read."""
    content: bytes = getattr(response, "beginning" if response.streaming else "content", b"")
    return content


def signed_in(username: str) -> Client:
    client = Client(SERVER_NAME="127.0.0.1")
    user = User.objects.get(username=username)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def request(client: Client, address: Address, headers: dict[str, str]) -> HttpResponseBase:
    """Send the request; of a stream read the first part only."""
    response: Any
    if address.body is not None:
        response = client.post(address.url, address.body, content_type="application/json")
    else:
        response = client.get(address.url, headers=headers)
    if response.streaming:
        response.beginning = next(iter(response.streaming_content), b"")
        response.close()
    return response  # type: ignore[no-any-return]


def sampled(run: Callable[[], object], repeat: int) -> tuple[list[float], list[float]]:
    """Return milliseconds of wall-clock time, and of CPU time of this thread and the database's process."""
    walls: list[float] = []
    processor: list[float] = []
    backend = backend_pid()
    deadline = time.perf_counter() + PATIENCE
    while len(walls) < repeat and (len(walls) < ENOUGH or time.perf_counter() < deadline):
        wall_start, thread_start = time.perf_counter(), time.thread_time()
        backend_start = nanoseconds_run(backend)
        run()
        walls.append(1000 * (time.perf_counter() - wall_start))
        thread_time = time.thread_time() - thread_start
        processor.append(1000 * thread_time + (nanoseconds_run(backend) - backend_start) / 1e6)
    return walls, processor


def backend_pid() -> int:
    """Return the id of the PostgreSQL process that serves this connection."""
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)
