"""One simulated cluster: its objects, its API and its controllers."""

import uuid
from collections.abc import Callable
from datetime import datetime
from typing import Any

from simulator.controllers import Context, Controller
from simulator.controllers.claims import ClaimController
from simulator.controllers.pods import (
    EvictionController,
    GarbageCollector,
    JobController,
    Kubelet,
    QuotaController,
)
from simulator.controllers.scheduler import Scheduler
from simulator.controllers.tenants import Tenants, cluster_seats
from simulator.registry import Registry, WriteOptions
from simulator.resources import NAMESPACES
from simulator.store import Lister, Store
from simulator.telemetry import Telemetry

MAX_ROUNDS = 50  # controllers that never come to rest are a bug; time goes on all the same


class SimulatedCluster:
    """
    `step` lets one simulated second pass, `settle` lets the controllers react to what was written.

    Everything random comes from the seed, and nothing depends on the clock but the timestamps: two clusters
    with one seed that take the same steps are alike.
    """

    def __init__(self, name: str, *, seed: int, now: Callable[[], datetime], tenants: bool = True) -> None:
        self.name = name
        self.seed = seed
        self.store = Store(seed=seed, now=now)
        self.registry = Registry(self.store)
        self.lister = Lister(self.store)
        self.context = Context(self.store, self.registry)
        self.controllers: list[Controller] = [
            kind(self.context)
            for kind in (
                JobController,
                ClaimController,
                Scheduler,
                Kubelet,
                EvictionController,
                GarbageCollector,
                QuotaController,
            )
        ]
        self.telemetry = Telemetry(self.store, seed)
        if tenants:
            self.controllers.append(Tenants(self.context, cluster_seats(name), seed))
        self._looked: dict[int, int] = {}  # controller → the revision that it has seen
        self._found()

    def _found(self) -> None:
        for name in ("default", "kube-system"):
            self.registry.create(NAMESPACES, "", {"metadata": {"name": name}}, WriteOptions())
        # The uid of kube-system is the identity of a cluster: the same after every start.
        system = self.registry.get(NAMESPACES, "", "kube-system")
        uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.{self.seed}.simulator"))
        self.store.put(NAMESPACES, system | {"metadata": system["metadata"] | {"uid": uid}})

    def step(self) -> None:
        self.context.tick += 1
        for number, controller in enumerate(self.controllers):
            if controller.is_time():
                self._looked.pop(number, None)
        self.settle()

    def settle(self) -> None:
        """
        Let every controller look until none has anything left to do.

        One that fails does not keep the others from their work: what went wrong is raised when they are done.
        """
        failures: list[Exception] = []
        for _ in range(MAX_ROUNDS):
            before = self.store.revision
            for number, controller in enumerate(self.controllers):
                newest = max(self.store.changed[kind.plural] for kind in controller.watches)
                if self._looked.get(number, -1) < newest:
                    self._looked[number] = self.store.revision
                    try:
                        controller.reconcile()
                    except Exception as failure:
                        failures.append(failure)
            if self.store.revision == before:
                break
        if failures:
            raise ExceptionGroup(f"Controllers of {self.name} failed", failures)

    def metrics(self, node: str = "") -> str:
        """Return the metrics of the exporter of a node, or of all nodes."""
        return self.telemetry.text(node)

    def exporters(self, address: str) -> list[dict[str, Any]]:
        """Return the exporters at `address` (host and port) for the HTTP service discovery of Prometheus."""
        return [
            {
                "targets": [address],
                "labels": {
                    "__metrics_path__": f"/clusters/{self.name}/exporters/{node}/metrics",
                    "instance": f"{node}:9400",
                    "cluster": self.name,
                },
            }
            for node in self.telemetry.nodes()
        ]

    def dump(self) -> dict[str, Any]:
        return {
            "tick": self.context.tick,
            "due": self.context.due,
            "energy": self.telemetry.energy,
            "store": self.store.dump(),
        }

    def restore(self, dumped: dict[str, Any]) -> None:
        self.context.tick, self.context.due = dumped["tick"], dumped["due"]
        self.telemetry.energy = dumped["energy"]
        self.store.restore(dumped["store"])
        self._looked.clear()
