"""`python -m simulator` serves the clusters; `python -m simulator kubeconfig` prints how to reach one."""

import argparse
import asyncio
import base64
import socket
import ssl
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
import yaml

from simulator import certificates
from simulator.api import TOKENS
from simulator.app import make_app, opened_clusters
from simulator.cluster import SimulatedCluster
from simulator.world import RACKS


def kubeconfig(cluster: str, *, server: str, token: str, authority: bytes = b"") -> dict[str, Any]:
    trusted = {"certificate-authority-data": base64.b64encode(authority).decode()} if authority else {}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": f"{server}/clusters/{cluster}"} | trusted}],
        "users": [{"name": "simulator", "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "simulator"}}],
        "current-context": cluster,
    }


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.command == "kubeconfig":
        tls = arguments.tls_port and arguments.tls
        server = arguments.server or (
            f"https://127.0.0.1:{arguments.tls_port}" if tls else f"http://127.0.0.1:{arguments.port}"
        )
        authority = (arguments.tls / certificates.AUTHORITY).read_bytes() if tls else b""
        config = kubeconfig(
            arguments.cluster, server=server.rstrip("/"), token=TOKENS[arguments.user], authority=authority
        )
        yaml.safe_dump(config, sys.stdout, sort_keys=False)
        return
    clusters = opened_clusters(
        RACKS, seed=arguments.seed, state=arguments.state, now=lambda: datetime.now(UTC)
    )
    app = make_app(clusters, speed=arguments.speed, state=arguments.state)
    settings = uvicorn.Config(
        app, host=arguments.host, port=arguments.port, log_level="warning", timeout_graceful_shutdown=3
    )
    Server(settings, clusters, tls=(arguments.tls, arguments.tls_port) if arguments.tls else None).run()


class Server(uvicorn.Server):
    """
    Ends the watches when it is told to stop; they would not end by themselves. With `tls`, a folder of
    certificates and a port, it serves the same over TLS too.
    """

    def __init__(
        self, config: uvicorn.Config, clusters: list[SimulatedCluster], *, tls: tuple[Path, int] | None = None
    ) -> None:
        super().__init__(config)
        self.clusters, self.tls = clusters, tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.tls is None:
            return
        folder, port = self.tls
        certificates.ensure(folder)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / certificates.SERVER)
        loop = asyncio.get_running_loop()
        self.servers.append(await loop.create_server(self._protocol, self.config.host, port, ssl=context))

    def _protocol(self) -> asyncio.Protocol:
        made: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return made

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        for cluster in self.clusters:
            cluster.store.close()
        super().handle_exit(sig, frame)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="simulator", description="Kubernetes clusters with GPUs, to play with."
    )
    parser.add_argument("command", nargs="?", choices=["serve", "kubeconfig"], default="serve")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen; the tokens guard nothing")
    parser.add_argument("--port", type=int, default=9001)
    parser.add_argument("--tls", type=Path, help="folder of its certificates; made if it is empty")
    parser.add_argument("--tls-port", type=int, default=9443, help="where TLS is served, with --tls")
    parser.add_argument("--seed", type=int, default=7, help="two runs with one seed are alike")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per second")
    parser.add_argument("--state", type=Path, help="folder that keeps the clusters between runs")
    parser.add_argument("--cluster", default="fra-1", choices=sorted(RACKS))
    parser.add_argument("--server", help="address for the kubeconfig, if not http://127.0.0.1:PORT")
    parser.add_argument("--user", default="portal", choices=sorted(TOKENS))
    return parser


if __name__ == "__main__":
    main()
