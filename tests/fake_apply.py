"""Server-side apply in small: fields as paths, and the defaults that the API server fills in."""

import copy
from collections.abc import Iterator
from typing import Any

from cluster.protocol import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, Kind, Manifest
from tests.fake_schema import claim_spec


def fill_defaults(kind: Kind, manifest: Manifest) -> None:
    if kind not in (RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE):
        return
    for request in claim_spec(manifest).get("devices", {}).get("requests", []):
        for wish in (request.get("exactly"), *request.get("firstAvailable", ())):
            if wish is not None and wish.setdefault("allocationMode", "ExactCount") == "ExactCount":
                wish.setdefault("count", 1)


def leaves_of(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield what a field manager owns: everything but the object's identity, lists as one."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if (*path, key) not in {
                ("apiVersion",),
                ("kind",),
                ("metadata", "name"),
                ("metadata", "namespace"),
            }:
                yield from leaves_of(inner, (*path, key))
    elif path:
        yield path, value


def set_leaf(manifest: Manifest, path: tuple[str, ...], value: Any) -> None:
    for key in path[:-1]:
        manifest = manifest.setdefault(key, {})
    manifest[path[-1]] = copy.deepcopy(value)


def drop_leaf(manifest: Manifest, path: tuple[str, ...]) -> None:
    for key in path[:-1]:
        manifest = manifest.get(key, {})
    manifest.pop(path[-1], None)
