"""CPU time of what people write, and of exports to the last row."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse, set_script_prefix

from bench.costs import costs_of, sampled_costs
from bench.measure import Result, nanoseconds_run
from bench.portal.addresses import REQUEST
from bench.portal.pages import WARM_UP, backend_pid, portal_process, sampled, signed_in
from bench.portal.population import ADMIN, ENGINEER, LEAD
from bench.portal.work import COUNTED, counted
from claims.models import Approval, ApprovalRule, Claim, Profile
from claims.states import ClaimState

WRITE = 25.0  # ms
EXPORT = 5_000.0  # ms for 100,000 rows; fewer rows have less
ROWS = 100_000
EXPORT_MEMORY = 20.0  # MiB by which an export may lengthen the process, however many rows it has
SAMPLES = 10
PROFILED = 2  # further writes of a line that misses its budget
SAMPLED = 0.005  # seconds between two samples of an export


def results(devices: int, repeat: int, only: str) -> Iterator[Result]:
    """Yield the lines "writes" and "exports"."""
    set_script_prefix("/")
    if only in "writes: submit" or only in "writes: approve":
        with portal_process():
            yield from _decided_requests(devices, min(repeat, SAMPLES))
    for name, address in (("claims", reverse("claims:list")), ("devices", reverse("inventory:devices"))):
        path = f"exports: {name}, every row"
        if only in path:
            yield from _export(path, f"{address}?format=csv", devices)


def _decided_requests(devices: int, repeat: int) -> Iterator[Result]:
    """Submit requests that a lead decides on, and approve them; the claims stay."""
    lead, requests = signed_in(LEAD), Requests()
    yield _measured("writes: submit", ENGINEER, devices, requests.submit, repeat)
    others = WARM_UP + 1 + COUNTED + PROFILED
    waiting = requests.undecided(repeat + others)

    def approve() -> None:
        claim = waiting.pop()
        _post(lead, reverse("claims:approve", args=[claim.pk]), {"spec_hash": claim.spec_hash})

    yield _measured("writes: approve", LEAD, devices, approve, min(repeat, len(waiting) - others))


class Requests:
    """Requests that an engineer submits and that need one approval, of a lead."""

    def __init__(self) -> None:
        self.engineer = signed_in(ENGINEER)
        self.keys: list[str] = []
        ruled = ApprovalRule.objects.exclude(profile=None).values("profile")
        profiles = Profile.objects.filter(current__approval=Approval.LEAD, current__automatic_devices=0)
        slugs = profiles.exclude(pk__in=ruled).order_by("slug").values_list("slug", flat=True)
        self.fields = REQUEST | {"profile": slugs[0], "delivery": "claim", "reason": "A benchmark."}

    def submit(self) -> None:
        self.keys.append(str(uuid4()))
        _post(self.engineer, reverse("claims:request"), self.fields | {"key": self.keys[-1]})

    def undecided(self, count: int) -> list[Claim]:
        """Return so many undecided requests, after submitting those that are missing."""
        while len(self.keys) < count:
            self.submit()
        return list(Claim.objects.filter(key__in=self.keys, state=ClaimState.REQUESTED))


def _post(client: Client, address: str, fields: dict[str, object]) -> None:
    response = client.post(address, fields)
    if response.status_code != 302:
        raise RuntimeError(f"POST {address}: status {response.status_code} instead of 302.")


def _measured(path: str, reader: str, devices: int, write: Callable[[], None], repeat: int) -> Result:
    """The first writes warm the process and its connection, the next one counts the queries."""
    for _ in range(WARM_UP):
        write()
    with CaptureQueriesContext(connection) as queries:
        write()
        query_count = len(queries)
    walls, processor = sampled(write, repeat)
    work = counted(write)
    result = Result(
        path,
        devices,
        reader,
        walls,
        budget=WRITE,
        processor=processor,
        queries=query_count,
        rows=1,
        steps=work.steps,
        visits=work.visits,
    )
    if result.misses:
        result.profile = costs_of(write, PROFILED)
    return result


def _export(path: str, address: str, devices: int) -> Iterator[Result]:
    client, backend = signed_in(ADMIN), backend_pid()
    client.get(f"{address}&q=warm")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall_start, thread_start = time.perf_counter(), time.thread_time()
    backend_start = nanoseconds_run(backend)
    with sampled_costs(SAMPLED) as costs:
        rows, size = _downloaded(client, address)
    processor = 1000 * (time.thread_time() - thread_start) + (nanoseconds_run(backend) - backend_start) / 1e6
    wall = 1000 * (time.perf_counter() - wall_start)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    work = counted(lambda: _downloaded(client, address))
    result = Result(
        path,
        devices,
        ADMIN,
        [wall],
        budget=EXPORT * max(rows / ROWS, 0.1),
        processor=[processor],
        size=size,
        rows=rows,
        steps=work.steps,
        visits=work.visits,
    )
    result.profile = costs.lines() if result.misses else []
    yield result
    yield Result(
        f"{path}, memory",
        devices,
        ADMIN,
        [max(grown, 0.0)],
        "MiB",
        EXPORT_MEMORY,
        rows=rows,
        notes=[f"{path}: {rows:,} rows."],
    )


def _downloaded(client: Client, address: str) -> tuple[int, int]:
    """Read the whole file; return how many lines and bytes it has."""
    response: Any = client.get(address)
    rows = size = 0
    for chunk in response.streaming_content if response.streaming else [response.content]:
        rows += chunk.count(b"\n")
        size += len(chunk)
    return rows, size
