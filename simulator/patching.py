"""Merge patch (RFC 7386) and JSON patch (RFC 6902)."""

import copy
from typing import Any

from simulator.errors import ApiError
from simulator.resources import Manifest


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
