"""What the API server checks of claims and templates at the door, as far as tests/fakes.py needs it."""

from collections.abc import Sequence
from typing import Any

from cluster.protocol import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, ClusterInvalid, Kind, Manifest, Refused

# The tree of known fields of resource.k8s.io/v1; None: whatever stands there is not looked into.
_WISH: dict[str, Any] = dict.fromkeys(
    ("deviceClassName", "selectors", "allocationMode", "count", "tolerations", "capacity")
)
_SPEC: dict[str, Any] = {
    "devices": {
        "requests": {
            "name": None,
            "exactly": {**_WISH, "adminAccess": None},
            "firstAvailable": {**_WISH, "name": None},
        },
        "constraints": dict.fromkeys(("requests", "matchAttribute", "distinctAttribute")),
        "config": dict.fromkeys(("requests", "opaque")),
    }
}
_ROOT: dict[str, Any] = dict.fromkeys(("apiVersion", "kind", "metadata", "status"))
FIELDS: dict[Kind, dict[str, Any]] = {
    RESOURCE_CLAIM: {**_ROOT, "spec": _SPEC},
    RESOURCE_CLAIM_TEMPLATE: {**_ROOT, "spec": {"metadata": None, "spec": _SPEC}},
}


def check_fields(kind: Kind, manifest: Manifest) -> None:
    """Refuse unknown fields, as fieldValidation=Strict does."""
    if kind in FIELDS:
        _check(manifest, FIELDS[kind], "")


def _check(value: Any, known: dict[str, Any] | None, path: str) -> None:
    if known is None:
        return
    if isinstance(value, list):
        for index, item in enumerate(value):
            _check(item, known, f"{path}[{index}]")
        return
    for key, inner in value.items():
        here = f"{path}.{key}".lstrip(".")
        if key not in known:
            raise ClusterInvalid(f"The cluster does not know the field {here}.", ((here, "unknown field"),))
        _check(inner, known[key], here)


def check_required(kind: Kind, manifest: Manifest) -> None:
    """Refuse a request that says neither `exactly` nor `firstAvailable`."""
    if kind not in FIELDS:
        return
    for index, request in enumerate(claim_spec(manifest).get("devices", {}).get("requests", ())):
        if not ({"exactly", "firstAvailable"} & set(request)):
            field = f"spec.devices.requests[{index}]"
            why = "exactly one of `exactly` or `firstAvailable` is required"
            raise ClusterInvalid(f"The cluster refused {field}: {why}.", ((field, why),))


def check_immutable(kind: Kind, before: Manifest, after: Manifest) -> None:
    """Refuse another spec of a claim or template, and another uid of anything."""
    if before["metadata"]["uid"] != after["metadata"]["uid"]:
        raise ClusterInvalid("metadata.uid: field is immutable.", (("metadata.uid", "field is immutable"),))
    if kind in FIELDS and before["spec"] != after["spec"]:
        raise ClusterInvalid(
            "The cluster refused spec: field is immutable.", (("spec", "field is immutable"),)
        )


def check_quota(manifest: Manifest, quotas: Sequence[Manifest], held: Sequence[Manifest]) -> None:
    """Refuse more claims, or more devices per class, than a ResourceQuota allows, in the cluster's words."""
    asked = _charge(manifest)
    for quota in quotas:
        for key, hard in quota["spec"]["hard"].items():
            used = sum(_charge(claim).get(key, 0) for claim in held)
            if key in asked and used + asked[key] > int(hard):
                name = manifest["metadata"]["name"]
                raise Refused(
                    f'resourceclaims.resource.k8s.io "{name}" is forbidden: '
                    f"exceeded quota: {quota['metadata']['name']}, requested: {key}={asked[key]}, "
                    f"used: {key}={used}, limited: {key}={hard}",
                    verb="create",
                    resource="resourceclaims",
                    quota=True,
                )


def _charge(manifest: Manifest) -> dict[str, int]:
    charge = {"count/resourceclaims.resource.k8s.io": 1}
    for request in claim_spec(manifest).get("devices", {}).get("requests", ()):
        if wish := request.get("exactly"):
            key = f"{wish['deviceClassName']}.deviceclass.resource.k8s.io/devices"
            count = 32 if wish.get("allocationMode") == "All" else wish.get("count", 1)
            charge[key] = charge.get(key, 0) + count
    return charge


def claim_spec(manifest: Manifest) -> Manifest:
    """Return the claim specification of a claim or of a template."""
    outer: Manifest = manifest["spec"]
    inner: Manifest = outer.get("spec", outer)
    return inner
