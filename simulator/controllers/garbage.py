"""What goes when its owner or its namespace goes."""

from simulator.controllers.context import CONTROLLER, Context, Reacting, deleting, owner_uid
from simulator.resources import CLAIMS, JOBS, NAMESPACES, PODS, RESOURCES, Manifest, Resource

OWNED = ((PODS, JOBS), (CLAIMS, PODS))


class GarbageCollector(Reacting):
    watches = (*(resource for resource in RESOURCES if resource.namespaced), NAMESPACES)

    def __init__(self, context: Context) -> None:
        self.context = context
        self.store = context.store

    def reconcile(self) -> None:
        for resource, owners in OWNED:
            alive = {owner["metadata"]["uid"] for owner in self.store.unordered(owners)}
            for manifest in list(self.store.unordered(resource)):
                owner = owner_uid(manifest)
                if owner and owner not in alive and not deleting(manifest):
                    self._delete(resource, manifest)
        for namespace in list(self.store.unordered(NAMESPACES)):
            if deleting(namespace):
                self._empty(namespace)

    def _empty(self, namespace: Manifest) -> None:
        name, left = namespace["metadata"]["name"], 0
        for resource in RESOURCES:
            if not resource.namespaced:
                continue
            for manifest in self.store.all(resource, name):
                if not deleting(manifest):
                    self._delete(resource, manifest)
                left += self.store.get(resource, name, manifest["metadata"]["name"]) is not None
        if not left:
            self.store.remove(NAMESPACES, namespace)

    def _delete(self, resource: Resource, manifest: Manifest) -> None:
        metadata = manifest["metadata"]
        self.context.registry.delete(
            resource, metadata.get("namespace", ""), metadata["name"], {}, CONTROLLER
        )
