"""A whole control plane as a context manager: five programs, people, and machines with GPUs."""

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from demo.controlplane import components, machines
from demo.controlplane.binaries import folder as folder_of_binaries
from demo.controlplane.client import PROGRAM_READY, Client, eventually
from demo.controlplane.identities import ADMIN, Identity, everybody, kubeconfig, rights, tokens_csv
from demo.controlplane.process import Program, free_ports

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
        self.people: dict[str, Identity] = {}
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
    def authority(self) -> str:
        """Return the certificate that the API server made for itself, as PEM."""
        return (self.folder / "certificates/apiserver.crt").read_text()

    def start(self) -> None:
        self._prepare()
        self._start(components.ETCD)
        self._wait(components.ETCD, f"{self.etcd}/health")
        self._start(components.APISERVER)
        self._wait(components.APISERVER, f"{self.server}/readyz")
        for name in ("controller-manager", "scheduler", "kwok"):
            (self.folder / f"{name}.kubeconfig").write_text(self.kubeconfig(name))
        self._populate()
        for name in (components.CONTROLLERS, components.SCHEDULER, components.KWOK):
            self._start(name)
        eventually(self._machines_ready, seconds=PROGRAM_READY, what="ready nodes")
        self.say(f"Kubernetes is ready on {self.server}")

    def stop(self) -> None:
        """End what was started, the last first, and remove the folder unless it is kept."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        for program in reversed(self.programs.values()):
            # Nothing is worth a slow farewell but the data that is to be kept.
            program.stop(kill=not (self.keep and program.name == components.ETCD))
        if not self.keep:
            shutil.rmtree(self.folder, ignore_errors=True)

    def restart(self, name: str) -> None:
        """Kill one program, as a crash would, start it again, and return when it answers."""
        self.programs[name].stop(kill=True)
        self._start(name)
        address = {components.ETCD: f"{self.etcd}/health", components.APISERVER: f"{self.server}/readyz"}
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
            self.people = {who["name"]: Identity(**who) for who in state["people"]}
        else:
            self._ports = free_ports(3)
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
        etcd, api, peers = self._ports
        match name:
            case components.ETCD:
                return components.etcd(binary, folder, etcd, peers)
            case components.APISERVER:
                return components.apiserver(binary, folder, api, etcd)
            case components.CONTROLLERS:
                return components.controllers(binary, folder)
            case components.SCHEDULER:
                return components.scheduler(binary, folder)
        return components.kwok(binary, folder)

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
        eventually(lambda: client.get("Namespace", "kube-system"), what="the kube-system namespace")
        for namespace in self.namespaces:
            client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        for item in (*rights(self.namespaces), *machines.everything()):
            client.apply(dict(item))

    def _machines_ready(self) -> bool:
        for name in (components.CONTROLLERS, components.SCHEDULER, components.KWOK):
            if not self.programs[name].running:
                raise NotReady(f"{name} ended. Its last lines:\n{self.programs[name].last_lines()}")
        return all(is_ready(node) for node in self.client().list("Node"))


def is_ready(node: machines.Json) -> bool:
    conditions = node.get("status", {}).get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
