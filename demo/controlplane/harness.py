"""
A whole control plane as a context manager: five programs, people, and machines with GPUs.

A program runs in the background with its output in a file until it is stopped. Flags tried on 1.37.1.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from demo.controlplane import machines
from demo.controlplane.build import folder as folder_of_binaries
from demo.controlplane.client import (
    ADMIN,
    PROGRAM_READY,
    Client,
    ClientIdentity,
    eventually,
    everybody,
    kubeconfig,
    rights,
    tokens_csv,
)

SECONDS_TO_END = 10
# Linux can end a child with its parent, however that ended; elsewhere only `stop` does. A parent that ended
# before `setpriv` had asked for this is not noticed by the kernel, so the child then looks whose it is.
DIE_WITH_PARENT = (
    ["setpriv", "--pdeathsig", "KILL", "--", "sh", "-c", 'test "$PPID" = "$0" && exec "$@"']
    if shutil.which("setpriv")
    else []
)


@dataclass(slots=True)
class Program:
    """
    One program of the control plane.

    Start it from the thread that lives longest: on Linux it dies with that one.
    """

    name: str
    command: list[str]
    log: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started.")
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*DIE_WITH_PARENT, *([str(os.getpid())] if DIE_WITH_PARENT else []), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a Ctrl-C is for us: we end the programs in order
            )

    def stop(self, *, kill: bool = False) -> None:
        if self._process is None:
            return
        if self.running:
            self._process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        try:
            self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def last_lines(self, count: int = 15) -> str:
        return (
            "\n".join(self.log.read_text(errors="replace").splitlines()[-count:]) if self.log.exists() else ""
        )


def free_ports(count: int) -> list[int]:
    """
    Return loopback ports that nobody listens on.

    From below the range that outgoing connections take theirs from, so that a program which is restarted
    finds its port still free.
    """
    ports: list[int] = []
    candidates = random.sample(range(20_000, 32_000), 200)
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError("This machine has no free loopback ports between 20000 and 32000.")


ETCD, APISERVER, CONTROLLERS = "etcd", "kube-apiserver", "kube-controller-manager"
SCHEDULER, KWOK = "kube-scheduler", "kwok"
PORTS = 5  # etcd, API server, peers of etcd, scheduler, controller manager
STAGES = Path(__file__).parent / "kwok"


def etcd_command(binary: Path, folder: Path, port: int, peer_port: int) -> list[str]:
    return [
        str(binary),
        f"--data-dir={folder / 'etcd'}",
        f"--listen-client-urls=http://127.0.0.1:{port}",
        f"--advertise-client-urls=http://127.0.0.1:{port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer_port}",
        f"--initial-cluster=default=http://127.0.0.1:{peer_port}",
        "--unsafe-no-fsync",  # the data lives as long as the tests
        "--log-level=warn",
    ]


def apiserver_command(binary: Path, folder: Path, port: int, etcd_port: int) -> list[str]:
    return [
        str(binary),
        f"--etcd-servers=http://127.0.0.1:{etcd_port}",
        f"--cert-dir={folder / 'certificates'}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        "--service-cluster-ip-range=10.96.0.0/16",
        f"--service-account-key-file={folder / 'service-account.pub'}",
        f"--service-account-signing-key-file={folder / 'service-account.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        # No kubelet mounts tokens here, and no node lifecycle controller would take the not-ready taint away.
        "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
        "--endpoint-reconciler-type=none",
        # Watches end and time out within the patience of a test.
        "--min-request-timeout=300",
    ]


def served_over_https(kubeconfig: Path, port: int) -> list[str]:
    """Return the flags with which a program serves its metrics to whoever may `get` /metrics."""
    return [
        f"--secure-port={port}",
        "--bind-address=127.0.0.1",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-tolerate-lookup-failure=true",  # there are no client certificates
    ]


def controllers_command(binary: Path, folder: Path, port: int) -> list[str]:
    kubeconfig = folder / "controller-manager.kubeconfig"
    return [
        str(binary),
        f"--kubeconfig={kubeconfig}",
        f"--service-account-private-key-file={folder / 'service-account.key'}",
        "--leader-elect=false",
        *served_over_https(kubeconfig, port),
        "--controllers=*,-nodeipam,-nodelifecycle",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
    ]


def scheduler_command(binary: Path, folder: Path, port: int) -> list[str]:
    kubeconfig = folder / "scheduler.kubeconfig"
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 200, "burst": 400},
        "leaderElection": {"leaderElect": False},
        "podInitialBackoffSeconds": 1,
        "podMaxBackoffSeconds": 2,  # a test does not wait 10 s for the next try
    }
    (folder / "scheduler.yaml").write_text(yaml.safe_dump(settings))
    return [str(binary), f"--config={folder / 'scheduler.yaml'}", *served_over_https(kubeconfig, port)]


def kwok_command(binary: Path, folder: Path) -> list[str]:
    return [
        str(binary),
        f"--kubeconfig={folder / 'kwok.kubeconfig'}",
        "--manage-all-nodes=true",
        f"--config={STAGES / 'node.yaml'}",
        f"--config={STAGES / 'pod.yaml'}",
        "--node-ip=127.0.0.1",
        # A kwok that is started again takes the nodes over when the leases of the one before have run out.
        "--node-lease-duration-seconds=4",
    ]


NAMESPACES = ("vision", "speech")


class NotReady(Exception):
    """A program did not come up: which, and its last lines."""


class ControlPlane:
    """
    etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok on loopback ports.

    Ready some seconds after `start`. With `keep` the folder outlives `stop`, and a later one on the same
    folder has the same data, ports and tokens, so that kubeconfigs stay right.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        name: str = "dragoman-test",
        namespaces: Sequence[str] = NAMESPACES,
        keep: bool = False,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="dragoman-controlplane-"))
        self.name = name
        self.namespaces = tuple(namespaces)
        self.keep = keep
        self.say = say
        self.people: dict[str, ClientIdentity] = {}
        self.programs: dict[str, Program] = {}
        self._clients: dict[str, Client] = {}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self._ports[1]}"

    @property
    def metrics(self) -> dict[str, str]:
        """Return host and port at which programs serve /metrics over HTTPS, by name."""
        *_others, scheduler, controllers = self._ports
        return {SCHEDULER: f"127.0.0.1:{scheduler}", CONTROLLERS: f"127.0.0.1:{controllers}"}

    @property
    def authority(self) -> str:
        """Return the certificate that the API server made for itself, as PEM."""
        return (self.folder / "certificates/apiserver.crt").read_text()

    def start(self) -> None:
        self._prepare()
        self._start(ETCD)
        self._wait(ETCD, f"{self.etcd}/health")
        self._start(APISERVER)
        self._wait(APISERVER, f"{self.server}/readyz")
        for name in ("controller-manager", "scheduler", "kwok"):
            (self.folder / f"{name}.kubeconfig").write_text(self.kubeconfig(name))
        self._populate()
        for name in (CONTROLLERS, SCHEDULER, KWOK):
            self._start(name)
        eventually(self._machines_ready, seconds=PROGRAM_READY, subject="ready nodes")
        self.say(f"Kubernetes is ready on {self.server}")

    def stop(self) -> None:
        """End what was started, the last first, and remove the folder unless it is kept."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for program in reversed(self.programs.values()):
            # Nothing is worth a slow farewell but the data that is to be kept.
            program.stop(kill=not (self.keep and program.name == ETCD))
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self, name: str) -> None:
        """Kill one program, as a crash would, start it again, and return when it answers."""
        self.programs[name].stop(kill=True)
        self._start(name)
        address = {ETCD: f"{self.etcd}/health", APISERVER: f"{self.server}/readyz"}
        if name in address:
            self._wait(name, address[name])

    def pause(self, name: str) -> None:
        """Stop one program until `restart`."""
        self.programs[name].stop(kill=True)

    def compact(self) -> None:
        """Forget all old revisions: continue tokens and resource versions from before get 410."""
        now = httpx.post(f"{self.etcd}/v3/maintenance/status", json={}, trust_env=False).json()
        revision = now["header"]["revision"]
        order = {"revision": revision, "physical": True}
        httpx.post(f"{self.etcd}/v3/kv/compaction", json=order, trust_env=False).raise_for_status()

    def kubeconfig(self, user: str) -> str:
        """Return the kubeconfig of admin, portal, reader, alice or eve."""
        return kubeconfig(self.people[user], self.server, self.authority, name=self.name)

    def client(self, user: str = ADMIN) -> Client:
        if user not in self._clients:
            self._clients[user] = Client(self.server, self.people[user].token, self.authority)
        return self._clients[user]

    @property
    def etcd(self) -> str:
        return f"http://127.0.0.1:{self._ports[0]}"

    def _prepare(self) -> None:
        """Write keys and tokens, or read those of the last time."""
        self.folder.mkdir(parents=True, exist_ok=True)
        memory = self.folder / "state.json"
        if memory.exists():
            state = json.loads(memory.read_text())
            self._ports: list[int] = state["ports"]
            self.people = {who["name"]: ClientIdentity(**who) for who in state["people"]}
        else:
            self._ports = free_ports(PORTS)
            self.people = everybody()
            self._make_key()
            people = [asdict(who) for who in self.people.values()]
            memory.touch(mode=0o600)
            memory.write_text(json.dumps({"ports": self._ports, "people": people}))
        tokens = self.folder / "tokens.csv"
        tokens.touch(mode=0o600)
        tokens.write_text(tokens_csv(self.people.values()))

    def _make_key(self) -> None:
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
        public = key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        (self.folder / "service-account.key").write_bytes(private)
        (self.folder / "service-account.pub").write_bytes(public)

    def _command(self, name: str) -> list[str]:
        binary, folder = folder_of_binaries() / name, self.folder
        etcd, api, peers, scheduler, controllers = self._ports
        commands = {
            ETCD: lambda: etcd_command(binary, folder, etcd, peers),
            APISERVER: lambda: apiserver_command(binary, folder, api, etcd),
            CONTROLLERS: lambda: controllers_command(binary, folder, controllers),
            SCHEDULER: lambda: scheduler_command(binary, folder, scheduler),
            KWOK: lambda: kwok_command(binary, folder),
        }
        return commands[name]()

    def _start(self, name: str) -> None:
        self.say(f"Starting {name}")
        program = Program(name, self._command(name), self.folder / f"{name}.log")
        program.start()
        self.programs[name] = program

    def _wait(self, name: str, address: str) -> None:
        ends = time.monotonic() + PROGRAM_READY
        program = self.programs[name]
        while not self._answers(address):
            if not program.running or time.monotonic() > ends:
                raise NotReady(f"{name} did not come up. Its last lines:\n{program.last_lines()}")
            time.sleep(0.05)

    def _answers(self, address: str) -> bool:
        try:  # nothing secret is sent, and the certificate may not be written yet
            return httpx.get(address, verify=False, timeout=2, trust_env=False).is_success  # noqa: S501
        except httpx.HTTPError:
            return False

    def _populate(self) -> None:
        """Create people's rights and the machines. Harmless when they are there."""
        client = self.client()
        # The server makes them itself, a moment after it says that it is ready.
        eventually(lambda: client.get("Namespace", "kube-system"), subject="the kube-system namespace")
        for namespace in self.namespaces:
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for item in (*rights(self.namespaces), *machines.everything()):
            client.apply(dict(item))

    def _machines_ready(self) -> bool:
        for name in (CONTROLLERS, SCHEDULER, KWOK):
            if not self.programs[name].running:
                raise NotReady(f"{name} ended. Its last lines:\n{self.programs[name].last_lines()}")
        return all(is_ready(node) for node in self.client().list("Node"))


def is_ready(node: machines.Json) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
