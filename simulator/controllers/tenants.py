"""The tenants: fill their seats with claims and pods, and clear away what has ended."""

from typing import Any

from simulator.controllers.context import Context, deleting, terminal
from simulator.controllers.pods import RUN_SECONDS
from simulator.errors import ApiError
from simulator.registry import WriteOptions
from simulator.resources import CLAIMS, NAMESPACES, PODS, TEMPLATES, Manifest
from simulator.world import SPOT_TAINT
from simulator.world_tenants import Round, Seat, drawn

TENANT = WriteOptions(manager="kubectl-create")
SEAT = "simulator.dragoman.dev/seat"
PATIENCE = 120  # ticks that a workload waits for devices before it is given up
LOOK_AGAIN = 15


class Tenants:
    """In `Context.due`: the round of each seat, when it is looked at next, and whether it is taken."""

    watches = (PODS,)

    def __init__(self, context: Context, seats: list[Seat], seed: int) -> None:
        self.context = context
        self.store = context.store
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
    wish: dict[str, Any] = {
        "deviceClassName": seat.device_class,
        "selectors": [{"cel": {"expression": seat.expression}}],
        "count": seat.devices,
    }
    return {"devices": {"requests": [{"name": "gpu", "exactly": wish}]}}


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
