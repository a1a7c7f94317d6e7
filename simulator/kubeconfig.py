"""What a client needs to reach a simulated cluster."""

from typing import Any


def kubeconfig(cluster: str, *, port: int, token: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": f"http://127.0.0.1:{port}/clusters/{cluster}"}}],
        "users": [{"name": "simulator", "user": {"token": token}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": "simulator"}}],
        "current-context": cluster,
    }
