"""Which nodes reach a device, and which node selector an allocation gets."""

from __future__ import annotations

import re
from collections.abc import Iterable

from dra.objects import Json, Manifest
from dra.pools import PoolDevice

METADATA_NAME = "metadata.name"
NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)
INT64 = range(-(2**63), 2**63)


class SelectorError(ValueError):
    """A node selector that no node could be compared with; the message is a sentence."""


def name_of(node: Json) -> str:
    return str((node.get("metadata") or {}).get("name") or "")


def reaches(node: Json, device: PoolDevice) -> bool:
    """Say whether pods on `node` can use the device."""
    place = {
        "nodeName": device.node_name,
        "allNodes": device.all_nodes,
        "nodeSelector": device.node_selector,
    }
    return place_reaches(node, place)


def slice_reaches(node: Json, one: Json) -> bool:
    """Say whether a ResourceSlice has anything for `node`."""
    spec = one.get("spec") or {}
    if spec.get("nodeName") or spec.get("allNodes") is True or spec.get("nodeSelector") is not None:
        return place_reaches(node, spec)
    if spec.get("perDeviceNodeSelection") is True:
        return any(place_reaches(node, raw) for raw in spec.get("devices") or ())
    return False  # a place of a kind that later versions of the API may add


def place_reaches(node: Json, place: Json) -> bool:
    """Say whether `nodeName`, `allNodes` or `nodeSelector` of a slice or device means the node."""
    if place.get("nodeName"):
        return bool(place["nodeName"] == name_of(node))
    if place.get("allNodes") is True:
        return True
    selector = place.get("nodeSelector")
    return selector is not None and selects(selector, node)


def selects(selector: Json, node: Json) -> bool:
    """Evaluate a v1.NodeSelector: terms are alternatives, an empty term selects nothing."""
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def check_place(place: Json) -> None:
    """
    Raise `SelectorError` if the node selector of a slice or device decides it and breaks its rules.

    Upstream refuses the whole selector then, even where one of its terms would select the node
    (component-helpers `nodeaffinity.go`, apimachinery `labels/selector.go`).
    """
    if place.get("nodeName") or place.get("allNodes") is True:
        return
    for term in (place.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for one in term.get("matchExpressions") or ():
            _check_expression(one)
        for one in term.get("matchFields") or ():
            if one.get("operator") not in ("In", "NotIn") or len(one.get("values") or ()) != 1:
                raise SelectorError(
                    f"The node selector compares field {one.get('key')} with something other than "
                    "one value by In or NotIn."
                )


def selector_for(devices: Iterable[PoolDevice], node_name: str, *, binding: bool = True) -> Manifest | None:
    """
    Return `status.allocation.nodeSelector` for the devices of a claim; None if every node will do.

    With `binding`, a device with `bindsToNode` ties the claim to the node. Raise `SelectorError` for a
    selector of several terms, which cannot be combined with others.
    """
    term: dict[str, list[Manifest]] = {"matchExpressions": [], "matchFields": []}
    for device in devices:
        if device.node_name or (binding and device.raw.get("bindsToNode") is True):
            field = {"key": METADATA_NAME, "operator": "In", "values": [node_name]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        terms = (device.node_selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            raise SelectorError(f"The node selector of {device} has {len(terms)} terms; one is allowed.")
        for one in terms:
            for part, known in term.items():
                known.extend(_new(one.get(part) or (), known))
    used = {part: found for part, found in term.items() if found}
    return {"nodeSelectorTerms": [used]} if used else None


def _new(requirements: Iterable[Json], known: list[Manifest]) -> Iterable[Manifest]:
    seen = {_meaning(one) for one in known}
    for one in requirements:
        if (meaning := _meaning(one)) not in seen:
            seen.add(meaning)
            written = {"key": one.get("key") or "", "operator": one.get("operator") or ""}
            yield written | ({"values": list(one["values"])} if one.get("values") else {})


def _meaning(requirement: Json) -> tuple[object, object, frozenset[str]]:
    return requirement.get("key"), requirement.get("operator"), frozenset(requirement.get("values") or ())


def _term(term: Json, node: Json) -> bool:
    labels: Json = (node.get("metadata") or {}).get("labels") or {}
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(one, labels) for one in expressions) and all(
        _field_holds(one, name_of(node)) for one in fields
    )


def _field_holds(requirement: Json, name: str) -> bool:
    """The name of a node is the only field there is; any other reads as empty."""
    if not name:
        return True
    value = name if requirement.get("key") == METADATA_NAME else ""
    return (value in (requirement.get("values") or ())) == (requirement.get("operator") == "In")


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
    left, right = _number(value), _number(values[0]) if len(values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if operator == "Gt" else left < right


def _number(text: object) -> int | None:
    number = int(str(text)) if NUMBER.fullmatch(str(text)) else None
    return number if number is not None and number in INT64 else None


def _check_expression(requirement: Json) -> None:
    key, operator = str(requirement.get("key") or ""), requirement.get("operator")
    values = [str(one) for one in requirement.get("values") or ()]
    prefix, slash, name = key.rpartition("/")
    if not NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not PREFIX.fullmatch(prefix))):
        raise SelectorError(f"The node selector names label “{key}”, which is no label.")
    fits = {
        "In": bool(values),
        "NotIn": bool(values),
        "Exists": not values,
        "DoesNotExist": not values,
        "Gt": len(values) == 1 and _number(values[0]) is not None,
        "Lt": len(values) == 1 and _number(values[0]) is not None,
    }.get(str(operator))
    if fits is None:
        raise SelectorError(f"The node selector uses operator “{operator}”, which there is not.")
    if not fits or any(value and not NAME.fullmatch(value) for value in values):
        raise SelectorError(f"The node selector compares label {key} by {operator} with {values}.")
