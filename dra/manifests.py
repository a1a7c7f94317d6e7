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
import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
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


MAX_NAME = 253  # of an object


def device_taint_rule(driver: str, pool: str, device: str, *, version: str) -> Manifest:
    """Return a DeviceTaintRule, of a version of the API, that keeps new claims off one device."""
    name = re.sub(r"[^a-z0-9.-]+", "-", f"out-of-service-{pool}-{device}".lower())
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "DeviceTaintRule",
        "metadata": {"name": name[:MAX_NAME].rstrip("-.")},
        "spec": {
            "deviceSelector": {"driver": driver, "pool": pool, "device": device},
            "taint": {"key": "gpu.dragoman.dev/out-of-service", "effect": "NoSchedule"},
        },
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

    Written as PyYAML does with `_Dumper`, which takes ten times as long and writes only what is not simple.
    """
    return "---\n".join("".join(_lines(dict(manifest), 0)) for manifest in manifests)


WIDTH = 110
# Text that YAML reads as text, unless it is a word such as "yes" or looks like "1.0"; options and images too.
PLAIN = re.compile(
    r"-{0,2}[A-Za-z0-9_/](?:[A-Za-z0-9_./=-]|:(?=[A-Za-z0-9/])| (?=[A-Za-z0-9_./=-]))*", re.ASCII
)
MAX_KEY = 60  # characters; PyYAML writes longer keys in another way


def _lines(value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of a value that begins on a line of its own, in as many spaces as `indent`."""
    before = " " * indent
    if isinstance(value, dict) and value and all(map(_is_key, value)):
        for key, entry in value.items():
            if isinstance(entry, dict | list) and entry:
                yield f"{before}{key}:\n"
                yield from _lines(entry, indent + 2)
            else:
                yield _line(f"{before}{key}: ", entry, indent) or _dumped({key: entry}, indent)
    elif isinstance(value, list) and value:
        for entry in value:
            if isinstance(entry, dict | list) and entry:
                first, *others = _lines(entry, indent + 2)
                yield f"{before}- {first[indent + 2 :]}"
                yield from others
            else:
                yield _line(f"{before}- ", entry, indent) or _dumped([entry], indent)
    else:
        yield _dumped(value, indent)


def _is_key(key: object) -> bool:
    return isinstance(key, str) and len(key) <= MAX_KEY and _is_plain(key)


def _line(head: str, value: Any, indent: int) -> str:
    """Return a simple value after its key or the mark of a list, "" for any other."""
    if value is None or isinstance(value, int):
        return f"{head}{json.dumps(value)}\n"
    if isinstance(value, str) and len(head) + len(value) + 2 <= WIDTH and PLAIN.fullmatch(value):
        return f"{head}{value}\n" if _is_plain(value) else f"{head}'{value}'\n"
    if isinstance(value, str) and _is_block(value) and value.isascii() and value.isprintable():
        return f"{head}|-\n{' ' * (indent + 2)}{value}\n"
    return ""


@lru_cache(maxsize=4096)
def _is_plain(text: str) -> bool:
    """Return whether YAML reads the text as it is, and not as a number, a date or a truth value."""
    resolvers = _Dumper.yaml_implicit_resolvers.get(text[:1], ())
    return bool(PLAIN.fullmatch(text)) and not any(regexp.match(text) for _tag, regexp in resolvers)


def _is_block(text: str) -> bool:
    """Return whether a text gets lines of its own, as a selector does, which has both kinds of quotes."""
    return ("\n" in text or (len(text) > 40 and '"' in text)) and text == text.strip()


def _dumped(value: Any, indent: int) -> str:
    """Return what PyYAML writes at this depth."""
    depth = indent // 2
    for _ in range(depth):
        value = {"_": value}
    text = yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=WIDTH)
    return text.split("\n", depth)[depth]


class _Dumper(yaml.SafeDumper):
    """Block style with indented lists and without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002
        super().increase_indent(flow, False)  # noqa: FBT003 - PyYAML's own signature

    def represent_text(self, text: str) -> yaml.Node:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if _is_block(text) else None)


_Dumper.add_representer(str, _Dumper.represent_text)


def _metadata(name: str, namespace: str, labels: Mapping[str, str] | None) -> Manifest:
    metadata: Manifest = {"name": name, "namespace": namespace}
    return metadata | ({"labels": dict(labels)} if labels else {})


GROUP = "resource.k8s.io"
# Older version → the first Kubernetes that does not serve it for claims (prerelease-lifecycle of k8s.io/api).
NOT_SERVED = {"v1alpha3": "1.34", "v1beta1": "1.38", "v1beta2": "1.39"}
FLAT_VERSIONS = ("v1alpha3", "v1beta1")
REQUEST_FIELDS = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip


def converted(
    manifest: Json, class_of: Callable[[str], str] = lambda _resource: ""
) -> tuple[Manifest, list[str]]:
    """
    Return a claim, template or class as version v1, and a sentence for each kind of change, none without any.

    Before v1beta2 a request had the fields of `exactly` beside its name; articles do so under any version.
    They also leave out one `spec` of a template, and name an extended resource as the class, which `class_of`
    returns for it, "" if there is none. What is malformed stays as it is.
    """
    result: Manifest = copy.deepcopy(dict(manifest))
    said = []
    group, _slash, version = str(manifest.get("apiVersion") or "").partition("/")
    if group == GROUP and version in NOT_SERVED:
        result["apiVersion"] = API_VERSION
        since = NOT_SERVED[version]
        said.append(f"Converted from {group}/{version}: Kubernetes {since} and newer do not serve it.")
    spec = result.get("spec")
    if manifest.get("kind") == "ResourceClaimTemplate" and isinstance(spec, dict):
        if "spec" not in spec and "devices" in spec:
            spec["spec"] = {"devices": spec.pop("devices")}
            said.append("“devices” stands under spec.spec now: a template has the spec of its claims there.")
        spec = spec.get("spec")
    devices = spec.get("devices") if isinstance(spec, dict) else None
    listed = devices.get("requests") if isinstance(devices, dict) else None
    if not isinstance(devices, dict) or not isinstance(listed, list):
        return result, said
    nested = devices["requests"] = [_nested(request) for request in listed]
    if nested != listed and version not in FLAT_VERSIONS:
        said.append("The fields of each request stand under “exactly” now, as version v1 has them.")
    for device_request in _device_requests(nested):
        name = device_request.get("deviceClassName")
        if isinstance(name, str) and "/" in name and (device_class := class_of(name)):
            device_request["deviceClassName"] = device_class
            said.append(f"{name} is an extended resource; the device class is {device_class}.")
    return result, list(dict.fromkeys(said))


def _device_requests(listed: list[Any]) -> Iterator[dict[str, Any]]:
    for request in listed:
        if isinstance(request, dict):
            several = request.get("firstAvailable")
            for part in (request.get("exactly"), *(several if isinstance(several, list) else ())):
                if isinstance(part, dict):
                    yield part


def _nested(request: Any) -> Any:
    """Return a request with its device fields under `exactly`."""
    if not isinstance(request, dict) or "exactly" in request or "firstAvailable" in request:
        return request
    device_fields = {name: request[name] for name in REQUEST_FIELDS if name in request}
    others = {name: value for name, value in request.items() if name not in REQUEST_FIELDS}
    return others | ({"exactly": device_fields} if device_fields else {})
