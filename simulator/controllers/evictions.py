"""The device taint eviction controller: NoExecute deletes the pods of a device that do not tolerate it."""

from typing import Any

from dra.pools import PoolDevice, pools_of
from dra.taints import Taint, rules_for, tolerates
from simulator.controllers.context import CONTROLLER, Context, Reacting, deleting, tell, terminal
from simulator.resources import CLAIMS, PODS, SLICES, TAINT_RULES, Manifest

SOURCE = "device-taint-eviction-controller"


class EvictionController(Reacting):
    watches = (SLICES, TAINT_RULES, CLAIMS)

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store
        self._devices: dict[tuple[str, str, str], PoolDevice] = {}
        self._seen = -1

    def reconcile(self) -> None:
        if self._seen != self.store.changed[SLICES.plural]:
            self._seen = self.store.changed[SLICES.plural]
            pools = pools_of(self.store.all(SLICES))
            self._devices = {device.key: device for pool in pools for device in pool.devices}
        rules = self.store.all(TAINT_RULES)
        for claim in list(self.store.unordered(CLAIMS)):
            status = claim.get("status") or {}
            results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or []
            if any(self._must_go(result, rules) for result in results):
                for user in status.get("reservedFor") or []:
                    self._evict(claim["metadata"]["namespace"], user)

    def _must_go(self, result: dict[str, Any], rules: list[Manifest]) -> bool:
        device = self._devices.get((result["driver"], result["pool"], result["device"]))
        if device is None:
            return False
        taints: list[Taint] = [*device.taints, *rules_for(device, rules)]
        tolerated = result.get("tolerations") or []
        return any(taint.effect == "NoExecute" and not tolerates(tolerated, taint) for taint in taints)

    def _evict(self, namespace: str, user: dict[str, Any]) -> None:
        pod = self.store.get(PODS, namespace, user["name"])
        if pod and pod["metadata"]["uid"] == user["uid"] and not deleting(pod) and not terminal(pod):
            message = "Marking for deletion"
            tell(self.context, pod, "DeviceTaintManagerEviction", message, source=SOURCE, warning=False)
            self.context.registry.delete(PODS, namespace, user["name"], {}, CONTROLLER)
