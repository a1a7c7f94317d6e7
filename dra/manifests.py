"""
Manifests that the portal applies, as plain dictionaries; YAML of any manifest; the canonical form, hash and
key order of a spec.

Pure functions. Equal specs have equal hashes, so that the portal delivers exactly what was approved.
`dra.workloads` builds the workloads that use a claim.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

import yaml

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


API_VERSION = "resource.k8s.io/v1"


def resource_claim(
    name: str, namespace: str, spec: Json, labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return a ResourceClaim: one set of devices, shared by all pods that reference it."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": _metadata(name, namespace, labels),
        "spec": copy.deepcopy(dict(spec)),
    }


def resource_claim_template(
    name: str, namespace: str, spec: Json, labels: Mapping[str, str] | None = None
) -> Manifest:
    """Return a ResourceClaimTemplate: each pod gets its own claim, with the same labels."""
    inner: Manifest = {"metadata": {"labels": dict(labels)}} if labels else {}
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": _metadata(name, namespace, labels),
        "spec": inner | {"spec": copy.deepcopy(dict(spec))},
    }


def with_count(spec: Json, request: str, count: int) -> Manifest:
    """
    Return a copy of the spec in which a request has `count` devices.

    Raise `ValueError` if the request does not exist, has mode All or has alternatives.
    """
    changed: Manifest = copy.deepcopy(dict(spec))
    for device_request in (changed.get("devices") or {}).get("requests") or ():
        if (
            device_request.get("name") == request
            and device_request.get("exactly")
            and device_request["exactly"].get("allocationMode") != "All"
        ):
            device_request["exactly"]["count"] = count
            return changed
    raise ValueError(f"Request {request} has no count to change.")


def to_yaml(*manifests: Json) -> str:
    """
    Return readable YAML: keys in the given order, long text in blocks, documents separated.
    """
    return yaml.dump_all(
        [dict(manifest) for manifest in manifests],
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
    )


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists and without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002
        super().increase_indent(flow, False)  # noqa: FBT003 - PyYAML's own signature

    def represent_text(self, text: str) -> yaml.Node:
        # A selector contains both kinds of quotes; as one quoted line it is unreadable.
        block = "\n" in text or (len(text) > 40 and '"' in text)
        style = "|" if block and text == text.strip() else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)


def _metadata(name: str, namespace: str, labels: Mapping[str, str] | None) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace}
    return metadata | ({"labels": dict(labels)} if labels else {})


GROUP, VERSION = "resource.k8s.io", "v1"
# Versions whose fields differ from v1 (resource/*/types.go), and those that only have another name.
FLAT_VERSIONS, SAME_VERSIONS = ("v1alpha3", "v1beta1"), ("v1beta2",)
REQUEST_FIELDS = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip


def converted(manifest: Json) -> Manifest | None:
    """
    Return a claim or template of an older version of resource.k8s.io as version v1; None if it is not older.

    Before v1beta2 a request had the fields of `exactly` beside its name. What is malformed stays as it is.
    """
    group, _slash, version = str(manifest.get("apiVersion") or "").partition("/")
    if group != GROUP or version not in (*FLAT_VERSIONS, *SAME_VERSIONS):
        return None
    result: Manifest = copy.deepcopy(dict(manifest)) | {"apiVersion": f"{GROUP}/{VERSION}"}
    spec = result.get("spec")
    if manifest.get("kind") == "ResourceClaimTemplate" and isinstance(spec, dict):
        spec = spec.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    listed = devices.get("requests") if isinstance(devices, dict) else None
    if version in FLAT_VERSIONS and isinstance(devices, dict) and isinstance(listed, list):
        devices["requests"] = [_nested(request) for request in listed]
    return result


def _nested(request: Any) -> Any:
    """Return a request with its device fields under `exactly`."""
    if not isinstance(request, dict) or "exactly" in request:
        return request
    device_fields = {name: request[name] for name in REQUEST_FIELDS if name in request}
    others = {name: value for name, value in request.items() if name not in REQUEST_FIELDS}
    return others | ({"exactly": device_fields} if device_fields else {})
