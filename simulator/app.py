"""
The ASGI application: clusters under /clusters/<name>/, the loop that advances time, and their files.

A cluster is one JSON file, replaced as a whole, so that a kill leaves either the old one or the new one.
"""

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from simulator.api import answer
from simulator.cluster import SimulatedCluster
from simulator.resources import no_such_path
from simulator.world import populate


def save(cluster: SimulatedCluster, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{cluster.name}.json"
    fresh = target.with_suffix(".new")
    with fresh.open("w") as file:
        file.write(json.dumps(cluster.dump()))
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(target)


def load(cluster: SimulatedCluster, folder: Path) -> bool:
    """Fill `cluster` from its file; return False if there is none."""
    path = folder / f"{cluster.name}.json"
    if not path.exists():
        return False
    cluster.restore(json.loads(path.read_text()))
    return True


log = logging.getLogger("simulator")

AFTER_FAILURE = 5.0  # seconds
BEAT = 1.0  # seconds between two looks at the clock
SAVE_EVERY = 15.0  # seconds; it is saved at the end in any case
WARM_UP = 1800  # simulated seconds that a new cluster has lived when it is first seen
MAX_STEPS = 200  # per beat: after the machine has slept, the clusters catch up slowly


def opened_clusters(
    names: Iterable[str], *, seed: int, state: Path | None, now: Callable[[], datetime]
) -> list[SimulatedCluster]:
    """Return the clusters as they were left in `state`, or new ones."""
    clusters = []
    for number, name in enumerate(names):
        cluster = SimulatedCluster(name, seed=seed + number, now=now)
        if state and load(cluster, state):
            cluster.store.skip_ahead()
        else:
            _grow(cluster)
        clusters.append(cluster)
    return clusters


def _grow(cluster: SimulatedCluster) -> None:
    """Let a new cluster have a past, so that its claims are not all of one age."""
    now = cluster.store.now
    began = now() - timedelta(seconds=WARM_UP)
    cluster.store.now = lambda: began + timedelta(seconds=cluster.context.tick)
    populate(cluster.registry, cluster.name)
    for _ in range(WARM_UP):
        cluster.step()
    cluster.store.now = now
    cluster.store.compact()  # what was before cannot be watched


@asynccontextmanager
async def living(
    clusters: list[SimulatedCluster], *, speed: float, state: Path | None
) -> AsyncIterator[None]:
    """Let time pass for the clusters, `speed` simulated seconds per second, until the end of the block."""
    tasks = [asyncio.create_task(_live(cluster, speed), name=cluster.name) for cluster in clusters]
    if state:
        tasks.append(asyncio.create_task(_keep(clusters, state)))
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)
        if state:
            for cluster in clusters:
                save(cluster, state)


async def _live(cluster: SimulatedCluster, speed: float) -> None:
    woken = asyncio.Event()
    unsubscribe = cluster.store.subscribe(woken)
    try:
        while True:
            try:
                await _pass_time(cluster, speed, woken)
            except Exception:
                # An object that a controller cannot stand must not stop the cluster.
                log.exception("A controller of %s failed; it tries again.", cluster.name)
                await asyncio.sleep(AFTER_FAILURE)
    finally:
        unsubscribe()


async def _pass_time(cluster: SimulatedCluster, speed: float, woken: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    owed, last = 0.0, loop.time()
    while True:
        woken.clear()
        cluster.settle()
        with suppress(TimeoutError):
            await asyncio.wait_for(woken.wait(), BEAT)
        owed = min(owed + (loop.time() - last) * speed, MAX_STEPS)
        last = loop.time()
        while owed >= 1:
            cluster.step()
            owed -= 1
            await asyncio.sleep(0)


async def _keep(clusters: list[SimulatedCluster], state: Path) -> None:
    saved = dict.fromkeys(clusters, 0)
    while True:
        for cluster in clusters:
            if saved[cluster] != cluster.store.revision:
                saved[cluster] = cluster.store.revision
                try:
                    save(cluster, state)
                except OSError as problem:
                    log.error("The state of %s cannot be saved: %s", cluster.name, problem)
        await asyncio.sleep(SAVE_EVERY)


METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def make_app(
    clusters: Iterable[SimulatedCluster], *, speed: float = 1.0, state: Path | None = None
) -> Starlette:
    """
    Serve these clusters, and let them live from start-up to shut-down of the application.

    With speed 0 no time passes, but controllers still react; `Cluster.step` then moves the world by hand.
    """
    by_name = {cluster.name: cluster for cluster in clusters}

    async def serve(request: Request) -> Response:
        cluster = by_name.get(request.path_params["cluster"])
        if cluster is None:
            return JSONResponse(no_such_path().body(), 404)
        return await answer(cluster, request.path_params["path"], request)

    async def health(_request: Request) -> Response:
        return PlainTextResponse("ok")

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with living(list(by_name.values()), speed=speed, state=state):
            yield

    return Starlette(
        routes=[
            Route("/healthz", health),
            Route("/clusters/{cluster}/{path:path}", serve, methods=METHODS),
        ],
        lifespan=lifespan,
    )
