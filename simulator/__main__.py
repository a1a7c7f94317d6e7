"""`python -m simulator` serves the clusters; `python -m simulator kubeconfig` prints how to reach one."""

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
import yaml

from simulator.api import TOKENS
from simulator.app import make_app, opened_clusters
from simulator.cluster import SimulatedCluster
from simulator.world import RACKS


def kubeconfig(cluster: str, *, server: str, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": f"{server}/clusters/{cluster}"}}],
        "users": [{"name": "simulator", "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "simulator"}}],
        "current-context": cluster,
    }


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.command == "kubeconfig":
        server = arguments.server or f"http://127.0.0.1:{arguments.port}"
        yaml.safe_dump(
            kubeconfig(arguments.cluster, server=server.rstrip("/"), token=TOKENS[arguments.user]),
            sys.stdout,
            sort_keys=False,
        )
        return
    clusters = opened_clusters(
        RACKS, seed=arguments.seed, state=arguments.state, now=lambda: datetime.now(UTC)
    )
    app = make_app(clusters, speed=arguments.speed, state=arguments.state)
    config = uvicorn.Config(
        app, host=arguments.host, port=arguments.port, log_level="warning", timeout_graceful_shutdown=3
    )
    Server(config, clusters).run()


class Server(uvicorn.Server):
    """Ends the watches when it is told to stop; they would not end by themselves."""

    def __init__(self, config: uvicorn.Config, clusters: list[SimulatedCluster]) -> None:
        super().__init__(config)
        self.clusters = clusters

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
    parser.add_argument("--seed", type=int, default=7, help="two runs with one seed are alike")
    parser.add_argument("--speed", type=float, default=1.0, help="simulated seconds per second")
    parser.add_argument("--state", type=Path, help="folder that keeps the clusters between runs")
    parser.add_argument("--cluster", default="fra-1", choices=sorted(RACKS))
    parser.add_argument("--server", help="address for the kubeconfig, if not http://127.0.0.1:PORT")
    parser.add_argument("--user", default="portal", choices=sorted(TOKENS))
    return parser


if __name__ == "__main__":
    main()
