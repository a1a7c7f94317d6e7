"""Which nodes reach a device, and the node selector of an allocation."""

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
    """An invalid node selector; the message is a sentence."""


def name_of_node(node: Json) -> str:
    return str((node.get("metadata") or {}).get("name") or "")


def reaches(node: Json, device: PoolDevice) -> bool:
    """Return whether pods on `node` can use the device."""
    node_selection = {
        "nodeName": device.node_name,
        "allNodes": device.all_nodes,
        "nodeSelector": device.node_selector,
    }
    return selects_node(node, node_selection)


def slice_reaches(node: Json, resource_slice: Json) -> bool:
    """Return whether a ResourceSlice has devices for `node`."""
    spec = resource_slice.get("spec") or {}
    if spec.get("nodeName") or spec.get("allNodes") is True or spec.get("nodeSelector") is not None:
        return selects_node(node, spec)
    if spec.get("perDeviceNodeSelection") is True:
        return any(selects_node(node, raw) for raw in spec.get("devices") or ())
    return False  # a kind of node selection that a later API version may add


def selects_node(node: Json, node_selection: Json) -> bool:
    """Return whether `nodeName`, `allNodes` or `nodeSelector` of a slice or device selects the node."""
    if node_selection.get("nodeName"):
        return bool(node_selection["nodeName"] == name_of_node(node))
    if node_selection.get("allNodes") is True:
        return True
    selector = node_selection.get("nodeSelector")
    return selector is not None and selects(selector, node)


def selects(selector: Json, node: Json) -> bool:
    """Evaluate a v1.NodeSelector: terms are alternatives, an empty term selects nothing."""
    return any(_term(term, node) for term in selector.get("nodeSelectorTerms") or ())


def check_node_selection(node_selection: Json) -> None:
    """
    Raise `SelectorError` if a slice or device uses a node selector and that is invalid.

    Upstream refuses the whole selector, even if one of its terms selects the node
    (component-helpers `nodeaffinity.go`, apimachinery `labels/selector.go`).
    """
    if node_selection.get("nodeName") or node_selection.get("allNodes") is True:
        return
    for term in (node_selection.get("nodeSelector") or {}).get("nodeSelectorTerms") or ():
        for requirement in term.get("matchExpressions") or ():
            _check_expression(requirement)
        for requirement in term.get("matchFields") or ():
            if (
                requirement.get("operator") not in ("In", "NotIn")
                or len(requirement.get("values") or ()) != 1
            ):
                raise SelectorError(
                    f"The node selector compares field {requirement.get('key')} with anything but "
                    "one value by In or NotIn."
                )


def selector_for(devices: Iterable[PoolDevice], node_name: str, *, binding: bool = True) -> Manifest | None:
    """
    Return `status.allocation.nodeSelector` for the devices of a claim; None for all nodes.

    With `binding`, a device with `bindsToNode` restricts the claim to the node. Raise `SelectorError` for a
    selector with multiple terms, which cannot be combined with others.
    """
    term: dict[str, list[Manifest]] = {"matchExpressions": [], "matchFields": []}
    for device in devices:
        if device.node_name or (binding and device.raw.get("bindsToNode") is True):
            field = {"key": METADATA_NAME, "operator": "In", "values": [node_name]}
            return {"nodeSelectorTerms": [{"matchFields": [field]}]}
        terms = (device.node_selector or {}).get("nodeSelectorTerms") or ()
        if len(terms) > 1:
            raise SelectorError(f"The node selector of {device} has {len(terms)} terms; one is allowed.")
        for device_term in terms:
            for part, requirements in term.items():
                requirements.extend(_new(device_term.get(part) or (), requirements))
    used = {part: requirements for part, requirements in term.items() if requirements}
    return {"nodeSelectorTerms": [used]} if used else None


def _new(requirements: Iterable[Json], existing: list[Manifest]) -> Iterable[Manifest]:
    existing_meanings = {_meaning(requirement) for requirement in existing}
    for requirement in requirements:
        if (meaning := _meaning(requirement)) not in existing_meanings:
            existing_meanings.add(meaning)
            copied = {"key": requirement.get("key") or "", "operator": requirement.get("operator") or ""}
            yield copied | ({"values": list(requirement["values"])} if requirement.get("values") else {})


def _meaning(requirement: Json) -> tuple[object, object, frozenset[str]]:
    return requirement.get("key"), requirement.get("operator"), frozenset(requirement.get("values") or ())


def _term(term: Json, node: Json) -> bool:
    labels: Json = (node.get("metadata") or {}).get("labels") or {}
    expressions, fields = term.get("matchExpressions") or (), term.get("matchFields") or ()
    if not expressions and not fields:
        return False
    return all(_holds(requirement, labels) for requirement in expressions) and all(
        _field_holds(requirement, name_of_node(node)) for requirement in fields
    )


def _field_holds(requirement: Json, name: str) -> bool:
    """`metadata.name` is the only field; any other is empty."""
    if not name:
        return True
    value = name if requirement.get("key") == METADATA_NAME else ""
    return (value in (requirement.get("values") or ())) == (requirement.get("operator") == "In")


def _holds(requirement: Json, labels: Json) -> bool:
    value = labels.get(str(requirement.get("key")))
    values = [str(value_) for value_ in requirement.get("values") or ()]
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
    values = [str(raw_value) for raw_value in requirement.get("values") or ()]
    prefix, slash, name = key.rpartition("/")
    if not NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not PREFIX.fullmatch(prefix))):
        raise SelectorError(f"The node selector names label “{key}”, which is not a valid label.")
    is_valid = {
        "In": bool(values),
        "NotIn": bool(values),
        "Exists": not values,
        "DoesNotExist": not values,
        "Gt": len(values) == 1 and _number(values[0]) is not None,
        "Lt": len(values) == 1 and _number(values[0]) is not None,
    }.get(str(operator))
    if is_valid is None:
        raise SelectorError(f"The node selector uses operator “{operator}”, which does not exist.")
    if not is_valid or any(value and not NAME.fullmatch(value) for value in values):
        raise SelectorError(f"The node selector compares label {key} by {operator} with {values}.")
