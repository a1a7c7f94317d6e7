"""A simulated cluster behind real HTTP on a loopback port, and what people send to it."""

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
import pytest_socket
import uvicorn
from starlette.applications import Starlette
from starlette.types import Receive, Scope, Send

from simulator.api import TOKENS
from simulator.app import make_app
from simulator.cluster import SimulatedCluster
from simulator.registry import WriteOptions
from simulator.resources import QUOTAS as QUOTA_KIND
from simulator.resources import Manifest
from simulator.world import populate
from tests import patience

NOW = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
DRA = "/apis/resource.k8s.io/v1"
CLAIMS = f"{DRA}/namespaces/vision/resourceclaims"
TEMPLATES = f"{DRA}/namespaces/vision/resourceclaimtemplates"
PODS = "/api/v1/namespaces/vision/pods"
QUOTAS = "/api/v1/namespaces/vision/resourcequotas"
JOBS = "/apis/batch/v1/namespaces/vision/jobs"
APPLY = {"content-type": "application/apply-patch+yaml"}
MERGE = {"content-type": "application/merge-patch+json"}


@dataclass(slots=True)
class Server:
    """The cluster lives in the server's thread: `do` runs there, between two requests."""

    base: str
    cluster: SimulatedCluster
    loop: asyncio.AbstractEventLoop

    def client(self, user: str = "admin") -> httpx.Client:
        return httpx.Client(
            base_url=f"{self.base}/clusters/{self.cluster.name}",
            headers={"Authorization": f"Bearer {TOKENS.get(user, user)}"},
            trust_env=False,
        )

    def do[Result](self, deed: Callable[[], Result]) -> Result:
        async def now() -> Result:
            return deed()

        return asyncio.run_coroutine_threadsafe(now(), self.loop).result(10)

    def step(self, seconds: int = 1) -> None:
        """Let simulated seconds pass."""

        def pass_time() -> None:
            for _ in range(seconds):
                self.cluster.step()

        self.do(pass_time)


@pytest.fixture
def now() -> list[datetime]:
    """What the clock shows; a test may put another time in."""
    return [NOW]


class Switch:
    """One listening server for all tests; each test puts its own application behind it."""

    def __init__(self) -> None:
        self.app: Starlette | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.app is not None
        await self.app(scope, receive, send)


@pytest.fixture(scope="session")
def listener() -> Iterator[tuple[Switch, str, asyncio.AbstractEventLoop]]:
    switch, loop = Switch(), asyncio.new_event_loop()
    config = uvicorn.Config(switch, lifespan="off", log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    pytest_socket.enable_socket()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve(sockets=[listening])))
        thread.start()
        yield switch, f"http://127.0.0.1:{listening.getsockname()[1]}", loop
        server.should_exit = True
        thread.join(60)
    loop.close()


@pytest.fixture
def make_server(now, listener) -> Iterator[Callable[..., Server]]:
    switch, base, loop = listener
    living: list[AbstractAsyncContextManager[Any]] = []

    def start(cluster: SimulatedCluster | None = None, *, speed: float = 0.0) -> Server:
        cluster = cluster or SimulatedCluster("lab", seed=1, now=lambda: now[0])
        switch.app = make_app([cluster], speed=speed)
        life = switch.app.router.lifespan_context(switch.app)
        asyncio.run_coroutine_threadsafe(life.__aenter__(), loop).result(10)
        living.append(life)
        return Server(base, cluster, loop)

    yield start
    for life in living:
        asyncio.run_coroutine_threadsafe(life.__aexit__(None, None, None), loop).result(10)


@pytest.fixture
def server(make_server) -> Server:
    """An empty cluster with the namespace `vision`; no time passes unless a test lets it."""
    started: Server = make_server()
    with started.client() as root:
        assert root.post("/api/v1/namespaces", json={"metadata": {"name": "vision"}}).status_code == 201
    return started


@pytest.fixture
def root(server) -> Iterator[httpx.Client]:
    with server.client("admin") as client:
        yield client


@pytest.fixture
def portal(server) -> Iterator[httpx.Client]:
    with server.client("portal") as client:
        yield client


@pytest.fixture
def fleet(make_server, now) -> Server:
    """fra-1 without tenants and quotas: every device is free that is well."""
    cluster = SimulatedCluster("fra-1", seed=7, now=lambda: now[0], tenants=False)
    populate(cluster.registry, "fra-1")
    cluster.registry.delete(QUOTA_KIND, "vision", "gpus", {}, WriteOptions())
    started: Server = make_server(cluster)
    return started


@pytest.fixture
def engineer(fleet) -> Iterator[httpx.Client]:
    with fleet.client("admin") as client:
        yield client


def make_claim(name: str, **fields: Any) -> Manifest:
    exactly = {"deviceClassName": "gpu.nvidia.com", **fields}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def make_template(name: str, labels: dict[str, str] | None = None, **fields: Any) -> Manifest:
    given = {"metadata": {"labels": labels}} if labels else {}
    return {"metadata": {"name": name}, "spec": {**given, "spec": make_claim(name, **fields)["spec"]}}


def make_pod(name: str, *, claim: str = "", template: str = "", run_seconds: int | None = None) -> Manifest:
    reference = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    annotations = {} if run_seconds is None else {"simulator.dragoman.dev/run-seconds": str(run_seconds)}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "main", "image": "work:1", "resources": {"claims": [{"name": "gpu"}]}}],
            "resourceClaims": [{"name": "gpu", **reference}],
        },
    }


def on_product(name: str) -> list[dict[str, Any]]:
    expression = f'device.attributes["gpu.nvidia.com"].?productName.orValue("").startsWith("{name}")'
    return [{"cel": {"expression": expression}}]


def created(response: httpx.Response) -> Manifest:
    assert response.status_code == 201, response.text
    body: Manifest = response.json()
    return body


def events_of(client: httpx.Client, path: str, **query: Any) -> list[dict[str, Any]]:
    """Watch until the server ends it, and return its events."""
    asked = {"watch": "1", "timeoutSeconds": "1", **query}
    with client.stream("GET", path, params=asked) as response:
        assert response.status_code == 200
        return [json.loads(line) for line in response.iter_lines()]


def eventually[Result](look: Callable[[], Result], seconds: float = patience.EVENT) -> Result:
    """Return what `look` sees as soon as that is something."""
    ends = time.monotonic() + seconds
    while not (seen := look()) and time.monotonic() < ends:
        time.sleep(0.02)
    return seen


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)
