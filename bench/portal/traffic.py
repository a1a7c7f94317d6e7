"""
People who browse and poll over HTTP, and the memory of the processes that serve them.

Everybody opens a page, waits, polls it twice as htmx does, and opens the next one.
"""

from __future__ import annotations

import http.client
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from django.conf import settings
from django.urls import reverse, set_script_prefix

from bench.measure import Result, family, memory, seconds_run
from bench.portal import processes
from bench.portal.addresses import REQUEST, url_of
from bench.portal.pages import signed_in
from bench.portal.population import ADMIN, ENGINEER, LEAD, READERS
from claims.models import Claim
from claims.states import ClaimState
from portal.celery import app

PEOPLE = 32
SECONDS = 20.0
PAUSE = 0.2  # seconds on average between two requests of a person
POLLS = 2  # per page
LATENCY = 400.0  # ms
THROUGHPUT = 60.0  # requests per second
WEB, WORKER = 300.0, 200.0  # MiB
WORKER_SECONDS = 15.0  # until the worker has run every periodic task


def results(devices: int, only: str) -> Iterator[Result]:
    """Yield the lines "traffic" and "memory of web and worker"."""
    set_script_prefix("/")
    with processes.broker() as redis_url:
        if only in "traffic: 32 people" or only in "memory: web":
            yield from _traffic(devices, redis_url)
        if only in "memory: worker":
            yield _worker(devices, redis_url)


def _traffic(devices: int, redis_url: str) -> Iterator[Result]:
    with processes.web(redis_url) as (process, url):
        cookies = {
            reader: signed_in(reader).cookies[settings.SESSION_COOKIE_NAME].value for reader in READERS
        }
        people = [Person(url, cookies[READERS[n % len(READERS)]], n) for n in range(PEOPLE)]
        pages = {reader: pages_of(reader) for reader in READERS}
        for reader in READERS:  # every page once, so that the process is warm
            Person(url, cookies[reader], 0).visit(pages[reader])
        pids = family(process.pid)
        ran, deadline = seconds_run(pids), time.monotonic() + SECONDS
        with ThreadPoolExecutor(PEOPLE) as pool:
            for number, person in enumerate(people):
                pool.submit(person.browse, pages[READERS[number % len(READERS)]], deadline)
        ran = seconds_run(pids) - ran
        milliseconds = [time for person in people for time in person.milliseconds]
        rate = len(milliseconds) / SECONDS
        failed = sum(person.failed for person in people)
        share = 100 * ran / SECONDS
        note = f"traffic: {len(milliseconds)} responses, {failed} failed, web ran {share:.0f} % of a core."
        state = f"{PEOPLE} people"
        yield Result(
            "traffic: response", devices, state, _thinned(milliseconds), budget=LATENCY, notes=[note]
        )
        yield Result("traffic: throughput", devices, state, [rate], "/s", THROUGHPUT, at_least=True)
        Person(url, cookies[ENGINEER], 0).visit([url_of("claims:request_preview", **REQUEST)])
        yield Result("memory: web", devices, "after traffic", [memory(pids)], "MiB", WEB)


def _worker(devices: int, redis_url: str) -> Result:
    """Run every periodic task twice in a worker, as beat would start it."""
    with processes.worker(redis_url, "delivery,default", threads=4) as process:
        with app.connection_for_write(redis_url.replace("unix://", "redis+socket://")) as connection:
            for entry in (*app.conf.beat_schedule.values(),) * 2:
                queue = "sync" if entry["task"].startswith("inventory.") else "default"
                if queue == "default":
                    app.send_task(entry["task"], connection=connection, queue=queue)
        time.sleep(WORKER_SECONDS)
        size = memory(family(process.pid))
    return Result("memory: worker", devices, "after every periodic task", [size], "MiB", WORKER)


def pages_of(reader: str) -> list[str]:
    """Return what somebody opens, most of it more than once."""
    claims = Claim.objects.filter(state=ClaimState.ALLOCATED)
    own = list(claims.filter(requested_by__username=ENGINEER).values_list("pk", flat=True)[:5])
    if reader != ENGINEER:
        own = list(claims.order_by("-pk").filter(team__slug=REQUEST["team"]).values_list("pk", flat=True)[:5])
    addresses = [
        *[reverse("home")] * 4,
        *[reverse("claims:list")] * 2,
        url_of("claims:list", state="live"),
        *(reverse("claims:detail", args=[pk]) for pk in own),
        reverse("claims:catalogue"),
        reverse("inventory:fleet"),
        reverse("notify:list"),
    ]
    if reader in (LEAD, ADMIN):
        addresses += [reverse("claims:approvals")] * 3
    else:
        addresses += [url_of("claims:request", profile=REQUEST["profile"])] * 2
    return addresses


@dataclass(slots=True)
class Person:
    """One signed-in browser with its connection."""

    url: str
    session: str
    seed: int
    milliseconds: list[float] = field(default_factory=list)
    failed: int = 0

    def visit(self, addresses: Sequence[str]) -> None:
        connection = self._connection()
        for address in addresses:
            self._get(connection, address)

    def browse(self, addresses: Sequence[str], deadline: float) -> None:
        """Open pages in random order and poll until the deadline (monotonic seconds)."""
        rng = random.Random(self.seed)  # noqa: S311, nothing secret
        connection = self._connection()
        while time.monotonic() < deadline:
            address = rng.choice(addresses)
            self._timed(connection, address)
            polled = f"{address}live/" if address.count("-") >= 4 else reverse("home_live")
            tag = ""
            for _ in range(POLLS):
                time.sleep(rng.uniform(0, 2 * PAUSE))
                tag = self._timed(connection, polled, tag)

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(urlsplit(self.url).netloc), timeout=30)

    def _timed(self, connection: http.client.HTTPConnection, address: str, tag: str | None = None) -> str:
        start = time.perf_counter()
        tag = self._get(connection, address, tag)
        self.milliseconds.append(1000 * (time.perf_counter() - start))
        return tag

    def _get(self, connection: http.client.HTTPConnection, address: str, tag: str | None = None) -> str:
        headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={self.session}"}
        if tag is not None:
            headers |= {"HX-Request": "true", "If-None-Match": tag}
        try:
            connection.request("GET", address, headers=headers)
            response = connection.getresponse()
            response.read()
        except (OSError, http.client.HTTPException):
            self.failed += 1
            connection.close()
            return ""
        self.failed += response.status not in (200, 304)
        return response.headers.get("ETag", "")


def _thinned(samples: list[float]) -> list[float]:
    """Return the percentiles of many samples, which have the same median and 95th percentile."""
    ordered = sorted(samples)
    return [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in range(1, 100)] or [
        0.0
    ]
