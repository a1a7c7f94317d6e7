"""A team that holds devices, what they cost, and an exporter to read."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import Any

import pytest
import time_machine

from claims.catalogue.listing import DeviceKind
from claims.models import Allocation, Claim
from claims.states import ClaimState
from inventory.models import Cluster
from teams.models import Team, User
from tests.factories import (
    make_allocation,
    make_claim,
    make_cluster,
    make_profile,
    make_quota,
    make_team,
    make_user,
)
from usage import right_size
from usage.models import Rate, Rollup
from usage.samples import BUCKET

NOON = datetime(2026, 11, 17, 12, 0, tzinfo=UTC)
H100 = "NVIDIA H100 80GB HBM3"


@pytest.fixture
def at_noon() -> Iterator[None]:
    """Stop the clock at NOON."""
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture
def alice(db: None) -> User:
    return make_user("alice")


@pytest.fixture
def bob(db: None) -> User:
    return make_user("bob")


@pytest.fixture
def lena(db: None) -> User:
    return make_user("lena")


@pytest.fixture
def eve(db: None) -> User:
    return make_user("eve")


@pytest.fixture
def root(db: None) -> User:
    return make_user("root", admin=True)


@pytest.fixture
def vision(alice: User, bob: User, lena: User) -> Team:
    return make_team("vision", leads=(lena,), members=(alice,), viewers=(bob,))


@pytest.fixture
def fra(vision: Team) -> Cluster:
    return make_cluster("fra-1", teams=(vision,))


@pytest.fixture
def claim(vision: Team, alice: User, fra: Cluster) -> Claim:
    return make_claim(
        vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False, name="sam2-finetune"
    )


_devices = count()


def hold(claim: Claim, started: datetime, ended: datetime | None = None, **fields: Any) -> Allocation:
    """Make `claim` hold an H100, each time another one unless `fields` say which."""
    number = next(_devices)
    values = {
        "object_uid": f"uid-{claim.pk}",
        "pool": "fra1-h100-03",
        "device": f"gpu-{number}",
        "node_name": "fra1-h100-03",
        "product": H100,
        "uuid": f"GPU-{number:08d}",
        "memory_bytes": 80 * 2**30,
        **fields,
    }
    return make_allocation(claim, started, ended, **values)


def price(per_hour: str, *, since: datetime = datetime(2026, 1, 1, tzinfo=UTC), **fields: Any) -> Rate:
    values = {"title": "H100", "currency": "EUR", **fields}
    return Rate.objects.create(per_hour=Decimal(per_hour), valid_from=since, **values)


def measure(
    held: Allocation,
    start: datetime,
    activities: list[float | None],
    *,
    memory: int | None = 2**30,
    samples: int = 10,
) -> None:
    """Write one rollup per entry from `start` on, five minutes each; None leaves a gap."""
    Rollup.objects.bulk_create(
        Rollup(
            claim=held.claim,
            driver=held.driver,
            pool=held.pool,
            device=held.device,
            bucket=start + index * timedelta(minutes=5),
            samples=samples,
            activity=activity,
            memory_bytes=memory,
            power_watts=300.0,
        )
        for index, activity in enumerate(activities)
        if activity is not None
    )


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Return a function that serves bodies over HTTP on loopback, by path, and says at which address."""
    servers: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[str, str], tuple[int, str]]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def reply(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                status, body = answer(self.path, self.rfile.read(length).decode())
                self.send_response(status)
                self.end_headers()
                self.wfile.write(body.encode())

            do_GET = do_POST = reply

            def log_message(self, *args: object) -> None:
                """Keep quiet: the test says what went wrong."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


GIB = 2**30
DAY = 288  # rollups


@pytest.fixture
def offered(monkeypatch, fra, alice, vision):
    """Return a function that offers profiles of some kinds of devices, at the prices that rates give them."""
    make_quota(vision, 8)
    price("2.80", product="H100")
    price("0.60", product="L4")

    def offer(**profiles):
        """A profile has one kind, or a list of them: product, fraction, compute and GiB."""
        entries = {}
        for slug, given in profiles.items():
            profile = make_profile(slug.replace("_", "-"), max_devices=4)
            entries[profile.pk] = [
                DeviceKind(fra.pk, "gpu.nvidia.com", product, Fraction(fraction), gib * GIB, compute)
                for product, fraction, compute, gib in (given if isinstance(given, list) else [given])
            ]
        real = right_size.catalogue

        def with_kinds(user):
            found = []
            for entry in real(user):
                if kinds := entries.get(entry.profile.pk):
                    whole = {"L4": Decimal("0.60")}
                    costs = [
                        whole.get(kind.product, Decimal("2.80"))
                        * kind.fraction.numerator
                        / kind.fraction.denominator
                        for kind in kinds
                    ]
                    found.append(replaced(entry, kinds, max(costs)))
            return found

        monkeypatch.setattr(right_size, "catalogue", with_kinds)

    return offer


def replaced(entry, kinds, cost):
    return replace(entry, kinds=frozenset(kinds), price=cost, free=14, reason="")


@pytest.fixture
def used(claim):
    """Return a function that lets the claim use a device for a day."""

    def use(activity, gib, rollups=DAY):
        held = hold(claim, NOON - rollups * BUCKET)
        measure(held, held.started_at, [activity] * rollups, memory=round(gib * GIB))
        return held

    return use
