"""How long the server takes for each page and list, and how often it asks the database."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import set_script_prefix

from bench.measure import Result
from bench.portal.addresses import Address, addresses
from teams.models import User

BUDGET = 50.0  # ms
ENOUGH = 5  # samples, after which a slow page …
PATIENCE = 3.0  # … is not asked for longer than so many seconds


def results(devices: int, repeat: int, only: str) -> Iterator[Result]:
    """Yield a line per address and reader; the first request of each is not counted, it warms the process."""
    set_script_prefix("/")
    clients: dict[str, Client] = {}
    for address in addresses():
        name = f"pages: {address.name}"
        for who in address.who if only in name else ():
            client = clients.setdefault(who, _signed_in(who))
            ask = _asking(client, address)
            status = ask()
            with CaptureQueriesContext(connection) as queries:
                ask()
                count = len(queries)
            walls, ours = _sampled(ask, repeat)
            notes = [] if status < 400 else [f"{name}: answered {status} to {who}."]
            yield Result(name, devices, who, walls, budget=BUDGET, processor=ours, queries=count, notes=notes)


def _signed_in(who: str) -> Client:
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(username=who), backend="django.contrib.auth.backends.ModelBackend")
    return client


def _asking(client: Client, address: Address) -> Callable[[], int]:
    headers = {"HX-Request": "true"} if address.part else None

    def ask() -> int:
        response: Any
        if address.body is not None:
            response = client.post(address.url, address.body, content_type="application/json")
        else:
            response = client.get(address.url, headers=headers)
        if response.streaming:
            list(islice(response.streaming_content, 2))  # the head and the first row
            response.close()
        return int(response.status_code)

    return ask


def _sampled(ask: Callable[[], object], repeat: int) -> tuple[list[float], list[float]]:
    """
    Return milliseconds of the wall, and those that this thread and the database's process ran.

    The latter are 0 of the database where the system does not tell (other than Linux).
    """
    walls: list[float] = []
    ran: list[float] = []
    schedule = Path(f"/proc/{_backend()}/schedstat")
    until = time.perf_counter() + PATIENCE
    while len(walls) < repeat and (len(walls) < ENOUGH or time.perf_counter() < until):
        began, mine, theirs = time.perf_counter(), time.thread_time(), _nanoseconds(schedule)
        ask()
        walls.append(1000 * (time.perf_counter() - began))
        ran.append(1000 * (time.thread_time() - mine) + (_nanoseconds(schedule) - theirs) / 1e6)
    return walls, ran


def _backend() -> int:
    connection.ensure_connection()
    return int(connection.connection.info.backend_pid)


def _nanoseconds(schedule: Path) -> int:
    """Return for how long the process has run (Documentation/scheduler/sched-stats.rst)."""
    try:
        return int(schedule.read_text().split()[0])
    except OSError:
        return 0
