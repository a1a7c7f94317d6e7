"""Which nodes reach a device, and which node selector an allocation gets."""

from __future__ import annotations

from collections.abc import Iterable

from dra.objects import Json, Manifest
from dra.pools import PoolDevice


def name_of(node: Json) -> str:
    return str((node.get("metadata") or {}).get("name") or "")


def reaches(node: Json, device: PoolDevice) -> bool:
    """Say whether pods on `node` can use the device."""
    place = {
        "nodeName": device.node_name,
        "allNodes": device.all_nodes,
        "nodeSelector": device.node_selector,
    }
    return _reaches(node, place)


def slice_reaches(node: Json, one: Json) -> bool:
    """Say whether a ResourceSlice has anything for `node`."""
    spec = one.get("spec") or {}
    if spec.get("perDeviceNodeSelection"):
        return any(_reaches(node, raw) for raw in spec.get("devices") or ())
    return _reaches(node, spec)


def selects(selector: Json, node: Json) -> bool:
    """Evaluate a v1.NodeSelector: terms are alternatives, an empty term selects nothing."""
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def selector_for(devices: Iterable[PoolDevice], node_name: str) -> Manifest | None:
    """Return `status.allocation.nodeSelector` for the devices of a claim; None if every node will do."""
    term: dict[str, list[Json]] = {}
    for device in devices:
        if device.node_name or device.raw.get("bindsToNode") is True:
            field = {"key": "metadata.name", "operator": "In", "values": [node_name]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        for one in (device.node_selector or {}).get("nodeSelectorTerms") or ():
            for part in ("matchFields", "matchExpressions"):
                for requirement in one.get(part) or ():
                    if requirement not in term.setdefault(part, []):
                        term[part].append(requirement)
    return {"nodeSelectorTerms": [{part: found for part, found in term.items() if found}]} if term else None


def _reaches(node: Json, place: Json) -> bool:
    if place.get("nodeName"):
        return bool(place["nodeName"] == name_of(node))
    if place.get("allNodes") is True:
        return True
    selector = place.get("nodeSelector")
    return selector is not None and selects(selector, node)


def _term(term: Json, node: Json) -> bool:
    labels: Json = (node.get("metadata") or {}).get("labels") or {}
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _holds(one, {"metadata.name": name_of(node)}) for one in fields
    )


def _holds(requirement: Json, labels: Json) -> bool:
    value = labels.get(str(requirement.get("key")))
    values = [str(one) for one in requirement.get("values") or ()]
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
    return False


def _compares(operator: str, value: object, values: list[str]) -> bool:
    try:
        left, right = int(str(value)), int(values[0])
    except (ValueError, IndexError):
        return False
    return left > right if operator == "Gt" else left < right
