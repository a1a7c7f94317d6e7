"""Admission: the namespace, admin access and ResourceQuota, and what an object counts in each quota key."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from dra.quota import keys
from simulator import errors
from simulator.errors import ApiError, FieldCause
from simulator.resources import CLAIMS, CLASSES, NAMESPACES, QUOTAS, TEMPLATES, Manifest, Resource
from simulator.store import Store


def charge_of(store: Store, resource: Resource, manifest: Manifest) -> Counter[str]:
    """Return the keys that this object adds to. Templates cost nothing but their number."""
    if resource is CLAIMS:
        return Counter(keys(manifest["spec"], store.all(CLASSES)))
    return Counter({f"count/{resource.qualified}": 1} if resource is TEMPLATES else {})


ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def check_namespace(store: Store, resource: Resource, metadata: dict[str, Any]) -> None:
    """Raise 404 for a namespace that does not exist, 403 for one that is going away."""
    if not resource.namespaced:
        return
    name = metadata["namespace"]
    namespace = store.get(NAMESPACES, "", name)
    if namespace is None:
        raise errors.not_found(NAMESPACES, name)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise errors.forbidden(resource, metadata.get("name", ""), why)


def admin_access(store: Store, resource: Resource, manifest: Manifest) -> Iterator[FieldCause]:
    spec, path = manifest.get("spec") or {}, "spec"
    if resource is TEMPLATES:
        spec, path = spec.get("spec") or {}, "spec.spec"
    elif resource is not CLAIMS:
        return
    namespace = store.get(NAMESPACES, "", manifest["metadata"]["namespace"]) or {"metadata": {}}
    if (namespace["metadata"].get("labels") or {}).get(ADMIN_LABEL) == "true":
        return
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or []):
        if (request.get("exactly") or {}).get("adminAccess"):
            label = f"the `{ADMIN_LABEL}: true` label"
            why = f"admin access to devices requires {label} on the containing namespace"
            yield FieldCause.forbidden(f"{path}.devices.requests[{index}].adminAccess", why)


def check_quota(store: Store, resource: Resource, manifest: Manifest) -> None:
    """Raise 403 in the words that people and programs know: `exceeded quota: q, requested: …`."""
    namespace = manifest["metadata"].get("namespace", "")
    charge = charge_of(store, resource, manifest)
    for quota in store.all(QUOTAS, namespace) if charge else []:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        over = [
            key
            for key in sorted(charge)
            if key in hard and int(used.get(key, 0)) + charge[key] > int(hard[key])
        ]
        if over:
            raise _exceeded(resource, manifest, quota, {key: charge[key] for key in over})


def charge(store: Store, namespace: str) -> None:
    """Bring `status` of the namespace's quotas up to date, as the quota controller does."""
    for quota in store.all(QUOTAS, namespace):
        hard = (quota.get("spec") or {}).get("hard") or {}
        used: Counter[str] = Counter()
        for resource in (CLAIMS, TEMPLATES):
            for manifest in store.all(resource, namespace):
                used.update(charge_of(store, resource, manifest))
        status = {"hard": hard, "used": {key: str(used[key]) for key in hard}}
        if quota.get("status") != status:
            store.put(QUOTAS, quota | {"status": status})


def _exceeded(resource: Resource, manifest: Manifest, quota: Manifest, over: dict[str, int]) -> ApiError:
    status = quota["status"]
    requested = ",".join(f"{key}={count}" for key, count in over.items())
    used = ",".join(f"{key}={status['used'].get(key, 0)}" for key in over)
    limited = ",".join(f"{key}={status['hard'][key]}" for key in over)
    name = quota["metadata"]["name"]
    why = f"exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
    return errors.forbidden(resource, manifest["metadata"]["name"], why)
