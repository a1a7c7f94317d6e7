"""The ASGI application: several clusters under /clusters/<name>/."""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from simulator import errors
from simulator.api import answer
from simulator.cluster import Cluster
from simulator.runner import living

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]


def make_app(clusters: Iterable[Cluster], *, speed: float = 1.0, state: Path | None = None) -> Starlette:
    """
    Serve these clusters, and let them live from start-up to shut-down of the application.

    With speed 0 no time passes, but controllers still react; `Cluster.step` then moves the world by hand.
    """
    by_name = {cluster.name: cluster for cluster in clusters}

    async def serve(request: Request) -> Response:
        cluster = by_name.get(request.path_params["cluster"])
        if cluster is None:
            return JSONResponse(errors.no_such_path().body(), 404)
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
