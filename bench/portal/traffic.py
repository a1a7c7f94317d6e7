"""
People who browse and poll over HTTP, and the memory of the processes that serve them.

Everybody opens a page, waits, polls twice what the page renews (`data-poll`, with its entity tag, as app.js
does), and opens the next one.
"""

from __future__ import annotations

import http.client
import json
import random
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from html import unescape
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.urls import resolve, reverse, set_script_prefix

from bench.measure import Result, family, memory, parent, seconds_run
from bench.portal import processes
from bench.portal.addresses import REQUEST, url_of
from bench.portal.pages import backend_pid, signed_in
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
WORKER_START = 5.0  # seconds until the worker waits for tasks
IDLE_SECONDS, IDLE = 5.0, 0.1  # a worker that has run all tasks uses less CPU time (s) in that time
LONGEST = 600.0  # seconds that they may take
COSTLY = 3  # pages that are named
RENEWED = re.compile(r"<[^>]*\bdata-poll=\"(\d+)\"[^>]*>")
VALUES = re.compile(r"\bhx-vals='([^']+)'")
ADDRESS, TAG = re.compile(r"\bhx-get=\"([^\"]+)\""), re.compile(r"\bdata-etag=\"([^\"]+)\"")


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
        groups = {"web": family(process.pid), "database": family(parent(backend_pid()))}
        before = {name: seconds_run(pids) for name, pids in groups.items()}
        own, start = time.process_time(), time.monotonic()
        with ThreadPoolExecutor(PEOPLE) as pool:
            for number, person in enumerate(people):
                pool.submit(person.browse, pages[READERS[number % len(READERS)]], start + SECONDS)
        seconds = time.monotonic() - start
        groups["database"] = family(groups["database"][0])  # connections have come and gone
        spent = {name: seconds_run(pids) - before[name] for name, pids in groups.items()}
        spent["clients"] = time.process_time() - own
        milliseconds = [time for person in people for _name, time in person.times]
        failed = sum(person.failed for person in people)
        shares = ", ".join(f"{name} {1000 * ran / len(milliseconds):.1f} ms" for name, ran in spent.items())
        cores = sum(spent.values()) / seconds
        note = (
            f"traffic: {len(milliseconds)} responses, {failed} failed; CPU time of each: {shares}; "
            f"{cores:.1f} cores together."
        )
        state = f"{PEOPLE} people"
        response = Result(
            "traffic: response", devices, state, _thinned(milliseconds), budget=LATENCY, notes=[note]
        )
        throughput = Result(
            "traffic: throughput",
            devices,
            state,
            [len(milliseconds) / seconds],
            "/s",
            THROUGHPUT,
            at_least=True,
        )
        for line in (response, throughput):
            line.profile = _slowest(people) if line.misses else []
            yield line
        with ThreadPoolExecutor(PEOPLE) as pool:  # so that every process has a snapshot
            preview = [url_of("claims:request_preview", **REQUEST)]
            for person in people:
                pool.submit(person.visit, preview)
        largest = max(memory([pid]) for pid in family(process.pid)[1:])
        yield Result("memory: web", devices, "largest process after traffic", [largest], "MiB", WEB)


def _slowest(people: Sequence[Person]) -> list[str]:
    """Return the pages that people waited longest for in all, with their share of all waiting."""
    by_name: defaultdict[str, list[float]] = defaultdict(list)
    for person in people:
        for name, milliseconds in person.times:
            by_name[name].append(milliseconds)
    total = sum(map(sum, by_name.values()))
    ordered = sorted(by_name.items(), key=lambda pair: -sum(pair[1]))
    return [
        f"{100 * sum(times) / total:.0f} % {name} ({len(times)} times, mean {statistics.mean(times):,.0f} ms)"
        for name, times in ordered[:COSTLY]
    ]


def _worker(devices: int, redis_url: str) -> Result:
    """Run every periodic task twice in a worker, as beat would start it."""
    with processes.worker(redis_url, "delivery,default", threads=4) as process:
        time.sleep(WORKER_START)
        fresh = memory(family(process.pid))
        with app.connection_for_write(redis_url.replace("unix://", "redis+socket://")) as connection:
            for entry in (*app.conf.beat_schedule.values(),) * 2:
                # What builds snapshots of clusters is routed to the worker `sync`.
                if app.amqp.router.route({}, entry["task"])["queue"].name == "default":
                    app.send_task(entry["task"], connection=connection, queue="default")
        _wait_until_idle(process.pid)
        size = memory(family(process.pid))
    result = Result("memory: worker", devices, "after every periodic task", [size], "MiB", WORKER)
    if result.misses:
        result.profile = [f"{fresh:.0f} MiB after its start", f"{size - fresh:.0f} MiB added by the tasks"]
    return result


def _wait_until_idle(pid: int) -> None:
    """Wait until a process has used less than `IDLE` in `IDLE_SECONDS`. Raises TimeoutError."""
    used = [0.0]

    def is_idle() -> bool:
        used.append(seconds_run(family(pid)))
        return used[-1] - used[-2] < IDLE

    processes.wait_until(is_idle, LONGEST, every=IDLE_SECONDS)


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
    times: list[tuple[str, float]] = field(default_factory=list)  # view and milliseconds of each response
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
            _tag, page = self._timed(connection, rng.choice(addresses))
            polled, tag = renewed(page)
            for _ in range(POLLS):
                time.sleep(rng.uniform(0, 2 * PAUSE))
                if polled and time.monotonic() < deadline:
                    tag = self._timed(connection, polled, tag)[0] or tag

    def _connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(str(urlsplit(self.url).netloc), timeout=30)

    def _timed(
        self, connection: http.client.HTTPConnection, address: str, tag: str | None = None
    ) -> tuple[str, str]:
        start = time.perf_counter()
        response = self._get(connection, address, tag)
        milliseconds = 1000 * (time.perf_counter() - start)
        self.times.append((resolve(urlsplit(address).path).view_name, milliseconds))
        return response

    def _get(
        self, connection: http.client.HTTPConnection, address: str, tag: str | None = None
    ) -> tuple[str, str]:
        """Return entity tag and text; with a tag it is a poll of htmx."""
        headers = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={self.session}"}
        if tag is not None:
            headers |= {"HX-Request": "true", "If-None-Match": tag}
        try:
            connection.request("GET", address, headers=headers)
            response = connection.getresponse()
            text = response.read().decode()
        except (OSError, http.client.HTTPException):
            self.failed += 1
            connection.close()
            return "", ""
        self.failed += response.status not in (200, 304)
        return response.headers.get("ETag", ""), text


def renewed(page: str) -> tuple[str, str]:
    """Return address and entity tag of what a page renews most often; no address if it renews nothing."""
    elements = [(int(match[1]), match[0]) for match in RENEWED.finditer(page)]
    for _seconds, element in sorted(elements):
        if address := ADDRESS.search(element):
            tag, values = TAG.search(element), VALUES.search(element)
            query = f"?{urlencode(json.loads(values[1]))}" if values else ""
            return unescape(address[1]) + query, unescape(tag[1]) if tag else ""
    return "", ""


def _thinned(samples: list[float]) -> list[float]:
    """Return the percentiles of many samples, which have the same median and 95th percentile."""
    ordered = sorted(samples)
    return [ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in range(1, 100)] or [
        0.0
    ]
