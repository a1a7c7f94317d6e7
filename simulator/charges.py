"""What an object costs in a ResourceQuota, key by key."""

from collections import Counter

from dra.quota import charge
from simulator.resources import CLAIMS, CLASSES, TEMPLATES, Manifest, Resource
from simulator.store import Store


def charge_of(store: Store, resource: Resource, manifest: Manifest) -> Counter[str]:
    """Return the keys that this object adds to. Templates cost nothing but their number."""
    if resource not in {CLAIMS, TEMPLATES}:
        return Counter()
    cost = Counter({f"count/{resource.qualified}": 1})
    if resource is TEMPLATES:
        return cost
    for name, devices in charge(manifest["spec"]).items():
        cost[f"{name}.deviceclass.resource.k8s.io/devices"] += devices
        cost[f"requests.deviceclass.resource.kubernetes.io/{name}"] += devices
        known = store.get(CLASSES, "", name)
        if known and (extended := known["spec"].get("extendedResourceName")):
            cost[f"requests.{extended}"] += devices
    return cost
