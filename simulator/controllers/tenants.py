"""
Workloads of other tenants in the demo clusters: seats at which one workload after another runs.

A seat requests devices for one tenant. Its rounds depend only on the seed, the seat and the number of the
round, so that what a person does in the cluster never changes them. The controller creates the claims and
pods of each round, and deletes finished ones.
"""

from dataclasses import dataclass
from random import Random
from typing import Any

from simulator.controllers import Context, InCluster, deleting, terminal
from simulator.controllers.pods import RUN_SECONDS
from simulator.registry import WriteOptions
from simulator.resources import CLAIMS, NAMESPACES, PODS, TEMPLATES, ApiError, Manifest
from simulator.world import CUT_ON_DEMAND, SILENT_NODES, SPOT_TAINT, TENANTS

MIN_RUN_SECONDS, MAX_RUN_SECONDS = 240, 2400  # simulated seconds
MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 30, 420
HELD_AT_FIRST = 0.85
KINDS_OF_WORK = ("train", "finetune", "eval", "serve", "notebook", "render", "embed")


@dataclass(frozen=True, slots=True)
class Seat:
    """`shared` pods use one claim. With a `node`, the pods run nowhere else."""

    key: str
    tenant: str
    device_class: str
    expression: str
    devices: int
    shared: int = 1
    node: str = ""


@dataclass(frozen=True, slots=True)
class Round:
    work: str
    run: int
    pause: int
    named: bool
    busy_at_first: bool
    done_at_first: float  # how far the first workload has come when the cluster starts


def product(name: str, driver: str = "gpu.nvidia.com") -> str:
    return f'device.attributes["{driver}"].?productName.orValue("").startsWith("{name}")'


def profile(name: str) -> str:
    return f'device.attributes["gpu.nvidia.com"].?profile.orValue("") == "{name}"'


def cut_before(name: str) -> str:
    """Partitions that are there for good: what is cut on demand is left to the seats of that node."""
    return f"{product('NVIDIA A100')} && {profile(name)}"


# Class, selector, and the devices of each seat; a negative number is one device that two pods share.
DEMANDS: dict[str, tuple[tuple[str, str, tuple[int, ...]], ...]] = {
    "fra-1": (
        ("gpu.nvidia.com", product("NVIDIA H100"), (8, 8, 4, 4, 4, 2, 2, 2, 2, 1, 1, 1, 1)),
        ("gpu.nvidia.com", product("NVIDIA A100"), (4, 4, 2, 2, 2, 1, 1, 1, 1, 1)),
        ("gpu.nvidia.com", product("NVIDIA L40S"), (4, 2, 2, 1, 1, 1, 1, 1, -1)),
        (
            "gpu.nvidia.com",
            'device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA L4"',
            (2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1),
        ),
    ),
    "lab-2": (
        ("gpu.nvidia.com", product("Tesla T4"), (4, 2, 1, 1, 1, 1, 1, 1, -1, -1)),
        ("gpu.amd.com", product("AMD Instinct", "gpu.amd.com"), (4, 2, 1, 1, 1)),
        ("mig.nvidia.com", cut_before("1g.10gb"), (1, 1, 1, 1, 1, 1, 1, 1)),
        ("mig.nvidia.com", cut_before("1g.20gb"), (2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)),
        ("mig.nvidia.com", cut_before("3g.40gb"), (2, 1, 1, 1, 1, 1, 1, 1)),
    ),
}


# Somebody works where no exporter runs, so that there are devices in use without telemetry.
UNSEEN = Seat("seat-99", TENANTS[0], "gpu.nvidia.com", product("Tesla T4"), 2, node=min(SILENT_NODES))

# What is held of the GPUs that are cut on demand: enough is left, but not in one piece.
CUTTING = tuple(
    Seat(f"seat-{number}", tenant, "mig.nvidia.com", profile(name), 1, node=CUT_ON_DEMAND)
    for number, tenant, name in zip((96, 97, 98), TENANTS, ("3g.40gb", "1g.10gb", "2g.20gb"), strict=True)
)


# Seats that are given up: their devices are left to those who ask a portal.
GIVEN_UP = {"fra-1": (0, 1, 2, 3, 13, 14, 15, 23, 24, 25, 32, 33, 34, 35), "lab-2": (0, 1, 2, 3, 11)}


def cluster_seats(cluster: str) -> list[Seat]:
    seats: list[Seat] = []
    for device_class, expression, sizes in DEMANDS.get(cluster, ()):
        for size in sizes:
            tenant = TENANTS[len(seats) % len(TENANTS)]
            key = f"seat-{len(seats):02d}"
            seats.append(Seat(key, tenant, device_class, expression, abs(size), 2 if size < 0 else 1))
    seats = [seat for number, seat in enumerate(seats) if number not in GIVEN_UP.get(cluster, ())]
    if cluster == "lab-2":
        seats += [*CUTTING, UNSEEN]
    return seats


def drawn(seed: int, seat: Seat, number: int) -> Round:
    """Return what happens at a seat in its n-th round."""
    random = Random(f"{seed}/{seat.key}/{number}")  # noqa: S311 – a repeatable world, no secrets
    return Round(
        work=random.choice(KINDS_OF_WORK),
        run=random.randint(MIN_RUN_SECONDS, MAX_RUN_SECONDS),
        pause=random.randint(MIN_PAUSE_SECONDS, MAX_PAUSE_SECONDS),
        named=seat.shared > 1 or random.random() < 0.4,
        busy_at_first=random.random() < HELD_AT_FIRST,
        done_at_first=random.random(),
    )


TENANT = WriteOptions(manager="kubectl-create")
SEAT = "simulator.dragoman.dev/seat"
PATIENCE = 120  # ticks that a workload waits for devices before it is given up
LOOK_AGAIN = 15


class Tenants(InCluster):
    """In `Context.due`: the round of each seat, when it is looked at next, and whether it is taken."""

    watches = (PODS,)

    def __init__(self, context: Context, seats: list[Seat], seed: int) -> None:
        super().__init__(context)
        self.seats = seats
        self.seed = seed

    def is_time(self) -> bool:
        return "seat-at" not in self.context.due or self.context.anything_due("seat-at")

    def reconcile(self) -> None:
        due = self.context.due
        for seat in self.seats:
            at = due.setdefault("seat-at", {}).get(seat.key)
            if at is None:
                self._begin(seat)
            elif self.context.tick >= at and due["seat-taken"].get(seat.key):
                self._leave(seat)
            elif self.context.tick >= at:
                self._take(seat, drawn(self.seed, seat, due["seat-round"][seat.key]))

    def _begin(self, seat: Seat) -> None:
        """Start in the middle of things."""
        due = self.context.due
        first = drawn(self.seed, seat, 0)
        due.setdefault("seat-round", {})[seat.key] = 0
        due.setdefault("seat-taken", {})[seat.key] = 0
        due["seat-at"][seat.key] = self.context.tick + int(first.pause * first.done_at_first)
        if first.busy_at_first:
            self._take(seat, first, run=max(30, int(first.run * (1 - first.done_at_first))))

    def _take(self, seat: Seat, chosen: Round, *, run: int | None = None) -> None:
        if self.store.get(NAMESPACES, "", seat.tenant) is None:
            return
        run = run or chosen.run
        name = f"{chosen.work}-{seat.key.removeprefix('seat-')}-{self.context.due['seat-round'][seat.key]}"
        self.context.due["seat-taken"][seat.key] = 1
        self.context.due["seat-at"][seat.key] = self.context.tick + run + 5
        try:
            reference = self._claim(seat, name) if chosen.named else self._template(seat)
            for number in range(seat.shared):
                suffix = f"-{number}" if seat.shared > 1 else ""
                self._create(PODS, seat, _pod(seat, name + suffix, reference, run))
        except ApiError:
            # Somebody has closed the namespace or set a quota: next time, perhaps.
            self.context.due["seat-at"][seat.key] = self.context.tick + PATIENCE

    def _leave(self, seat: Seat) -> None:
        due = self.context.due
        pods = [pod for pod in self.store.all(PODS, seat.tenant) if _sits(pod, seat) and not deleting(pod)]
        if any(not terminal(pod) and pod["spec"].get("nodeName") for pod in pods):
            due["seat-at"][seat.key] = self.context.tick + LOOK_AGAIN
            return
        for resource in (PODS, CLAIMS):
            for manifest in self.store.all(resource, seat.tenant):
                if _sits(manifest, seat) and not deleting(manifest):
                    self.context.registry.delete(
                        resource, seat.tenant, manifest["metadata"]["name"], {}, TENANT
                    )
        pause = drawn(self.seed, seat, due["seat-round"][seat.key]).pause
        due["seat-round"][seat.key] += 1
        due["seat-taken"][seat.key] = 0
        due["seat-at"][seat.key] = self.context.tick + pause

    def _claim(self, seat: Seat, name: str) -> dict[str, str]:
        manifest = {"metadata": {"name": name, "labels": {SEAT: seat.key}}, "spec": _spec(seat)}
        self._create(CLAIMS, seat, manifest)
        return {"resourceClaimName": name}

    def _template(self, seat: Seat) -> dict[str, str]:
        name = f"gpus-{seat.key}"
        if self.store.get(TEMPLATES, seat.tenant, name) is None:
            self._create(TEMPLATES, seat, {"metadata": {"name": name}, "spec": {"spec": _spec(seat)}})
        return {"resourceClaimTemplateName": name}

    def _create(self, resource: Any, seat: Seat, manifest: Manifest) -> None:
        self.context.registry.create(resource, seat.tenant, manifest, TENANT)


def _sits(manifest: Manifest, seat: Seat) -> bool:
    return (manifest["metadata"].get("labels") or {}).get(SEAT) == seat.key


def _spec(seat: Seat) -> dict[str, Any]:
    device_request: dict[str, Any] = {
        "deviceClassName": seat.device_class,
        "selectors": [{"cel": {"expression": seat.expression}}],
        "count": seat.devices,
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": device_request}]}}


def _pod(seat: Seat, name: str, reference: dict[str, str], run: int) -> Manifest:
    container = {
        "name": "main",
        "image": "images.example.org/work:1",
        "resources": {"claims": [{"name": "gpu"}]},
    }
    spec: dict[str, Any] = {
        "restartPolicy": "Never",
        "containers": [container],
        "resourceClaims": [{"name": "gpu", **reference}],
        "tolerations": [{"key": SPOT_TAINT["key"], "operator": "Exists"}],  # they know what may happen
    }
    if seat.node:
        spec["nodeSelector"] = {"kubernetes.io/hostname": seat.node}
    return {
        "metadata": {"name": name, "labels": {SEAT: seat.key}, "annotations": {RUN_SECONDS: str(run)}},
        "spec": spec,
    }
