"""Three clusters with one contract: in memory, simulated, and real."""

import itertools
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_socket

from cluster.credentials import from_kubeconfig
from cluster.kube import KubeGateway
from cluster.protocol import NAMESPACE, RESOURCE_QUOTA, Gateway, Manifest, Refused
from demo.controlplane.client import eventually
from demo.controlplane.harness import ControlPlane
from tests import patience
from tests.fakes import FakeGateway

COUNTED = "count/resourceclaims.resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Bench:
    """
    A cluster to try the contract on: `portal` works as the portal, `admin` may do everything.

    `someone` may do nothing. `namespace` is new for every test. `forget` makes the past expire.
    """

    portal: Gateway
    admin: Gateway
    someone: Gateway
    namespace: str
    forget: Callable[[], None]

    def claim(self, name: str, *, count: int = 1, **labels: str) -> Manifest:
        fields = {"deviceClassName": "gpu.nvidia.com", "count": count}
        return {
            "metadata": {"name": name, "namespace": self.namespace, "labels": labels},
            "spec": {"devices": {"requests": [{"name": "gpu", "exactly": fields}]}},
        }

    def event(self, name: str, *, uid: str) -> Manifest:
        """An Event about a pod of this uid."""
        about = {"apiVersion": "v1", "kind": "Pod", "namespace": self.namespace, "name": "pod", "uid": uid}
        return {
            "metadata": {"name": name, "namespace": self.namespace},
            "involvedObject": about,
            "reason": "FailedScheduling",
            "message": "0/1 nodes are available: 1 cannot allocate all claims.",
            "type": "Warning",
        }

    def limit_claims(self, most: int) -> None:
        """Set a quota and wait until the cluster acts on it: it does so when it has counted what is used."""
        quota = {
            "metadata": {"name": "claims", "namespace": self.namespace},
            "spec": {"hard": {COUNTED: str(most)}},
        }
        self.admin.create(RESOURCE_QUOTA, quota)
        if isinstance(self.admin, FakeGateway):
            return  # it acts on a quota at once

        def counted() -> bool:
            found = self.admin.get(RESOURCE_QUOTA, "claims", namespace=self.namespace)
            return bool(found and found.get("status", {}).get("used"))

        eventually(counted, subject="Kubernetes counts by the quota")


_numbers = itertools.count(1)


@pytest.fixture(params=["fake", "simulated", pytest.param("real", marks=pytest.mark.controlplane)])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    namespace = f"contract-{next(_numbers)}"
    match request.param:
        case "fake":
            portal, admin, someone, forget = fake_gateways()
        case "simulated":
            portal, admin, someone, forget = simulated_gateways(request.getfixturevalue("simulator"))
        case _:
            portal, admin, someone, forget = real_gateways(request.getfixturevalue("controlplane"))
    admin.create(NAMESPACE, {"metadata": {"name": namespace}})
    yield Bench(portal, admin, someone, namespace, forget)
    for gateway in (portal, admin, someone):
        gateway.close()


type Gateways = tuple[Gateway, Gateway, Gateway, Callable[[], None]]


class Powerless(FakeGateway):
    def _asked(self, verb: str, kind: object = None, name: str = "") -> None:
        plural = getattr(kind, "plural", "")
        raise Refused(f"The credentials may not {verb} {plural}.", verb=verb, resource=plural)


def fake_gateways() -> Gateways:
    fake = FakeGateway()
    fake.denied = {("create", "pods")}
    return fake, fake, Powerless(), fake.compact


def real_gateways(plane: ControlPlane) -> Gateways:
    portal, admin, someone = (
        KubeGateway(from_kubeconfig(plane.kubeconfig(user))) for user in ("portal", "admin", "eve")
    )
    return portal, admin, someone, lambda: plane.restart("kube-apiserver")


def simulated_gateways(address: str) -> Gateways:
    portal, admin, someone = (
        KubeGateway(from_kubeconfig(simulated_kubeconfig(address, token)))
        for token in ("simulator-portal", "simulator-admin", "nobody")
    )
    return portal, admin, someone, lambda: None


def simulated_kubeconfig(address: str, token: str) -> str:
    return f"""
apiVersion: v1
kind: Config
clusters: [{{name: fra-1, cluster: {{server: "{address}/clusters/fra-1"}}}}]
users: [{{name: it, user: {{token: {token}}}}}]
contexts: [{{name: fra-1, context: {{cluster: fra-1, user: it}}}}]
current-context: fra-1
"""


@pytest.fixture(scope="session")
def simulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The simulator as its own process; yields its address."""
    pytest_socket.enable_socket()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log: Path = tmp_path_factory.mktemp("simulator") / "log"
    command = [sys.executable, "-m", "simulator", "--port", str(port)]
    address = f"http://127.0.0.1:{port}"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as process:
        try:
            wait_for(f"{address}/healthz", process, log)
            yield address
        finally:
            process.terminate()
            process.wait(patience.EXIT)


def wait_for(address: str, process: "subprocess.Popen[bytes]", log: Path) -> None:
    ends = time.monotonic() + patience.PROGRAM_READY
    while True:
        try:
            if httpx.get(address, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass
        if process.poll() is not None or time.monotonic() > ends:
            pytest.fail(f"The simulator did not start:\n{log.read_text()}")
        time.sleep(0.05)
