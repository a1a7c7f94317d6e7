"""What an object costs in a ResourceQuota, key by key."""

from collections import Counter

from dra.quota import keys
from simulator.resources import CLAIMS, CLASSES, TEMPLATES, Manifest, Resource
from simulator.store import Store


def charge_of(store: Store, resource: Resource, manifest: Manifest) -> Counter[str]:
    """Return the keys that this object adds to. Templates cost nothing but their number."""
    if resource is CLAIMS:
        return Counter(keys(manifest["spec"], store.all(CLASSES)))
    return Counter({f"count/{resource.qualified}": 1} if resource is TEMPLATES else {})
