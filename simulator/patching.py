"""
Server-side apply, merge patch (RFC 7386) and JSON patch (RFC 6902).

Field ownership (KEP 555) is simplified: maps are followed key by key, lists are atomic. That is exact for the
DRA kinds; for lists of pods it is coarser than the real server.
"""

import copy
from dataclasses import dataclass
from typing import Any, Literal

from simulator.resources import ApiError, Manifest

type FieldPath = tuple[str, ...]
type Operation = Literal["Apply", "Update"]

UNOWNED = ("apiVersion", "kind", "status")
UNOWNED_METADATA = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)


def owned_paths(manifest: Manifest) -> set[FieldPath]:
    """Return the leaves of what somebody has written, without what nobody can own."""
    metadata = {
        key: value for key, value in manifest.get("metadata", {}).items() if key not in UNOWNED_METADATA
    }
    rest = {key: value for key, value in manifest.items() if key not in UNOWNED}
    return set(_leaves(rest | {"metadata": metadata}, ()))


def _leaves(value: Any, path: FieldPath) -> list[FieldPath]:
    if not isinstance(value, dict):
        return [path]
    return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]


def value_at(manifest: Manifest, path: FieldPath) -> Any:
    value: Any = manifest
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def without(manifest: Manifest, paths: set[FieldPath]) -> Manifest:
    """Return a copy without these leaves, and without maps that became empty by that."""
    result = copy.deepcopy(manifest)
    for path in paths:
        parents = [result]
        for key in path[:-1]:
            parents.append(parents[-1].get(key) or {})
        for parent, key in zip(reversed(parents), reversed(path), strict=True):
            if parent.get(key) in ({}, None) or key == path[-1]:
                parent.pop(key, None)
    return result


def merged(base: Any, over: Any) -> Any:
    """Return `over` laid on `base`, map by map."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return copy.deepcopy(over)
    result = dict(base)
    for key, value in over.items():
        result[key] = merged(base.get(key), value)
    return result


def to_v1(paths: set[FieldPath]) -> dict[str, Any]:
    """Return the form of `managedFields[].fieldsV1`."""
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for key in path:
            node = node.setdefault(f"f:{key}", {})
    return tree


def from_v1(tree: dict[str, Any], path: FieldPath = ()) -> set[FieldPath]:
    if not tree:
        return {path} if path else set()
    return {leaf for key, inner in tree.items() for leaf in from_v1(inner, (*path, key.removeprefix("f:")))}


def shown(path: FieldPath) -> str:
    return "".join(f".{key}" for key in path)


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, and how. An applier owns what it applied last; an updater also what it ever updated."""

    manager: str
    operation: Operation
    api_version: str
    at: str


def record(manifest: Manifest, by: Writer, *, owned: set[FieldPath], changed: set[FieldPath]) -> None:
    """Note in `manifest` that `by` now owns `owned`, and that nobody else owns what was `changed`."""
    entries = []
    for entry in manifest["metadata"].get("managedFields") or []:
        before = from_v1(entry["fieldsV1"])
        if (entry["manager"], entry["operation"]) == (by.manager, by.operation):
            owned = owned if by.operation == "Apply" else owned | before
        elif left := before - changed:
            entries.append(entry | {"fieldsV1": to_v1(left)})
    if owned:
        entries.append(
            {
                "manager": by.manager,
                "operation": by.operation,
                "apiVersion": by.api_version,
                "time": by.at,
                "fieldsType": "FieldsV1",
                "fieldsV1": to_v1(owned),
            }
        )
    manifest["metadata"]["managedFields"] = entries


def merge_patched(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patched(result.get(key), value)
    return result


def json_patched(target: Manifest, operations: list[dict[str, Any]]) -> Manifest:
    """Raise ApiError 422 if an operation cannot be done or a test fails."""
    result = copy.deepcopy(target)
    try:
        for operation in operations:
            _step(result, operation)
    except (KeyError, IndexError, TypeError, ValueError) as problem:
        message = "the server rejected our request due to an error in our request"
        raise ApiError(422, "Invalid", message, {}) from problem
    return result


def _step(document: Any, operation: dict[str, Any]) -> None:
    path, verb = operation["path"], operation["op"]
    if verb in {"move", "copy"}:
        value = copy.deepcopy(_find(document, operation["from"]))
        if verb == "move":
            _step(document, {"op": "remove", "path": operation["from"]})
        _step(document, {"op": "add", "path": path, "value": value})
        return
    parent_path, _, last = path.rpartition("/")
    parent, key = _find(document, parent_path), _unescaped(last)
    if isinstance(parent, list):
        _list_step(parent, verb, len(parent) if key == "-" else int(key), operation)
    elif verb == "remove":
        del parent[key]
    elif verb == "test":
        _test(parent[key], operation)
    else:
        if verb == "replace" and key not in parent:
            raise KeyError(key)
        parent[key] = operation["value"]


def _list_step(parent: list[Any], verb: str, index: int, operation: dict[str, Any]) -> None:
    if verb == "add":
        parent.insert(index, operation["value"])
    elif verb == "remove":
        del parent[index]
    elif verb == "test":
        _test(parent[index], operation)
    else:
        parent[index] = operation["value"]


def _test(value: Any, operation: dict[str, Any]) -> None:
    if value != operation["value"]:
        raise ValueError(operation["path"])


def _find(document: Any, path: str) -> Any:
    for part in path.split("/")[1:]:
        key = _unescaped(part)
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document


def _unescaped(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
