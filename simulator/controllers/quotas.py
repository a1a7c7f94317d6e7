"""The quota controller: keeps `status.used` of ResourceQuotas true after deletions and new quotas."""

from simulator.admission import charge
from simulator.controllers.context import Context, Reacting
from simulator.resources import CLAIMS, CLASSES, QUOTAS, TEMPLATES


class QuotaController(Reacting):
    watches = (QUOTAS, CLAIMS, TEMPLATES, CLASSES)

    def __init__(self, context: Context) -> None:
        self.store = context.store

    def reconcile(self) -> None:
        for namespace in {quota["metadata"]["namespace"] for quota in self.store.unordered(QUOTAS)}:
            charge(self.store, namespace)
