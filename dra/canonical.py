"""
Canonical form, hash and key order of a claim spec.

Equal specs have equal hashes, so that the portal delivers exactly what was approved.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dra.objects import Json, Manifest


def canonical(spec: Json) -> Manifest:
    """
    Return the spec with the API server's defaults and without empty fields.

    Lists keep their order: first fit makes it matter. Only keys are sorted.
    """
    devices = spec.get("devices") or {}
    parts = {
        "requests": [_request(request) for request in devices.get("requests") or ()],
        "constraints": [_plain(constraint) for constraint in devices.get("constraints") or ()],
        "config": [_config(config) for config in devices.get("config") or ()],
    }
    other_fields = {key: _plain(value) for key, value in devices.items() if key not in parts}
    filled: Manifest = _plain({key: value for key, value in spec.items() if key != "devices"})
    filled["devices"] = other_fields | {key: value for key, value in parts.items() if value}
    ordered: Manifest = _sorted(filled)
    return ordered


def spec_hash(spec: Json) -> str:
    """Return the SHA-256 of the canonical spec in hex, equal for specs that the API server stores equally."""
    text = json.dumps(canonical(spec), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _request(request: Json) -> Manifest:
    canonical_request: Manifest = _plain(
        {key: value for key, value in request.items() if key not in ("exactly", "firstAvailable")}
    )
    if request.get("exactly") is not None:
        canonical_request["exactly"] = _device_request(request["exactly"])
    if request.get("firstAvailable"):
        canonical_request["firstAvailable"] = [
            _device_request(alternative) for alternative in request["firstAvailable"]
        ]
    return canonical_request


def _device_request(device_request: Json) -> Manifest:
    canonical_request: Manifest = _plain(
        {key: value for key, value in device_request.items() if key != "tolerations"}
    )
    mode = canonical_request.setdefault("allocationMode", "ExactCount")
    if mode == "ExactCount" and not canonical_request.get("count"):
        canonical_request["count"] = 1
    if not canonical_request.get("adminAccess", True):
        del canonical_request["adminAccess"]  # false equals absent
    if tolerations := device_request.get("tolerations"):
        canonical_request["tolerations"] = [
            {"operator": "Equal"} | _plain(toleration) for toleration in tolerations
        ]
    return canonical_request


def _config(config: Json) -> Manifest:
    # Defaults of the driver's parameters are unknown, so they stay unchanged.
    canonical_config: Manifest = _plain({key: value for key, value in config.items() if key != "opaque"})
    if config.get("opaque") is not None:
        canonical_config["opaque"] = dict(config["opaque"])
    return canonical_config


def _plain(value: Any) -> Any:
    """Copy without keys whose value is null or empty: the API omits those."""
    if isinstance(value, Mapping):
        return {
            key: _plain(item) for key, item in value.items() if item is not None and item not in ("", [], {})
        }
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


# The usual order in manifests. Other keys follow by name.
KEY_ORDER = (
    *("apiVersion", "kind", "name", "requests", "constraints", "config", "exactly", "firstAvailable"),
    *("deviceClassName", "allocationMode", "count", "adminAccess", "selectors", "tolerations", "capacity"),
    *("driver", "parameters", "key", "operator", "value", "effect", "strategy"),
)
RANKS = {key: (rank, "") for rank, key in enumerate(KEY_ORDER)}


def in_key_order(part: Any) -> Any:
    """Return a spec, or a part of one, with its keys in `KEY_ORDER`; a database keeps no order."""
    if isinstance(part, dict):
        keys = sorted(part, key=lambda key: RANKS.get(key, (len(RANKS), key)))
        return {key: in_key_order(part[key]) for key in keys}
    return [in_key_order(item) for item in part] if isinstance(part, list) else part
