"""
Fields of the DRA kinds (kubernetes/api resource/v1/types.go of 1.37), and strict decoding of bodies.

Messages are those of the API server. Other kinds (nodes, events …) are accepted as they are.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

from simulator.resources import (
    CLAIMS,
    CLASSES,
    JOBS,
    PODS,
    QUOTAS,
    TAINT_RULES,
    TEMPLATES,
    ApiError,
    Manifest,
    Resource,
    bad_request,
)

type OpenApiSchema = str | list[Any] | dict[str, Any]

ANY = "any"
TEXTS = {"*": "string"}  # a map from any key
TOLERATION = {
    "key": "string",
    "operator": "string",
    "value": "string",
    "effect": "string",
    "tolerationSeconds": "int64",
}
SUBREQUEST: dict[str, Any] = {
    "name": "string",
    "deviceClassName": "string",
    "selectors": [{"cel": {"expression": "string"}}],
    "allocationMode": "string",
    "count": "int64",
    "tolerations": [TOLERATION],
    "capacity": {"requests": {"*": ANY}},
    "derivedAttributes": [ANY],
}
EXACT = {key: value for key, value in SUBREQUEST.items() if key != "name"} | {"adminAccess": "bool"}
OPAQUE = {"driver": "string", "parameters": ANY}
CLAIM_SPEC: OpenApiSchema = {
    "devices": {
        "requests": [{"name": "string", "exactly": EXACT, "firstAvailable": [SUBREQUEST]}],
        "constraints": [{"requests": ["string"], "matchAttribute": "string", "distinctAttribute": "string"}],
        "config": [{"requests": ["string"], "opaque": OPAQUE}],
    }
}
METADATA: OpenApiSchema = {
    "name": "string",
    "generateName": "string",
    "namespace": "string",
    "labels": TEXTS,
    "annotations": TEXTS,
    "finalizers": ["string"],
    "ownerReferences": [ANY],
    "managedFields": [ANY],
    "uid": "string",
    "resourceVersion": "string",
    "generation": "int64",
    "creationTimestamp": ANY,
    "deletionTimestamp": ANY,
    "deletionGracePeriodSeconds": ANY,
    "selfLink": "string",
}
# Of pods and jobs, what the simulator itself reads; the rest is carried along.
POD_SPEC: OpenApiSchema = {
    "containers": [{"name": "string", "image": "string", "*": ANY}],
    "resourceClaims": [
        {"name": "string", "resourceClaimName": "string", "resourceClaimTemplateName": "string"},
    ],
    "nodeName": "string",
    "nodeSelector": TEXTS,
    "*": ANY,
}
SPECS: dict[str, OpenApiSchema] = {
    PODS.plural: POD_SPEC,
    JOBS.plural: {
        "parallelism": "int64",
        "completions": "int64",
        "backoffLimit": "int64",
        "suspend": "bool",
        "template": {"metadata": METADATA, "spec": POD_SPEC, "*": ANY},
        "*": ANY,
    },
    CLAIMS.plural: CLAIM_SPEC,
    TEMPLATES.plural: {"metadata": METADATA, "spec": CLAIM_SPEC},
    CLASSES.plural: {
        "selectors": [{"cel": {"expression": "string"}}],
        "config": [{"opaque": OPAQUE}],
        "extendedResourceName": "string",
        "managementState": "string",
    },
    TAINT_RULES.plural: {
        "deviceSelector": {"driver": "string", "pool": "string", "device": "string"},
        "taint": {"key": "string", "value": "string", "effect": "string", "timeAdded": ANY},
    },
    QUOTAS.plural: {"hard": {"*": ANY}, "scopes": ["string"], "scopeSelector": ANY},
}
GO_NAMES = {
    "requests": "[]v1.DeviceRequest",
    "constraints": "[]v1.DeviceConstraint",
    "config": "[]v1.DeviceClaimConfiguration",
}
JSON_NAMES: dict[type, str] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "bool",
    int: "number",
    float: "number",
}
PYTHON_TYPES: dict[str, type] = {"string": str, "int64": int, "bool": bool}


@dataclass(slots=True)
class Decoded:
    """What is left of a body, the paths of unknown fields, and the first value of a wrong type."""

    value: Any
    unknown: list[str] = field(default_factory=list)
    mistyped: str = ""


def decode(resource: Resource, body: Manifest) -> Decoded:
    """Drop what the kind does not have, and tell what that was."""
    known: OpenApiSchema = {
        "apiVersion": "string",
        "kind": "string",
        "metadata": METADATA,
        "spec": SPECS.get(resource.plural, ANY),
        "status": ANY,
    }
    if resource.plural not in SPECS:
        known = {"metadata": METADATA, "*": ANY}
    decoded = Decoded(body)
    decoded.value = _walk(known, body, "", decoded)
    return decoded


def _walk(schema: OpenApiSchema, value: Any, path: str, into: Decoded) -> Any:
    if schema == ANY or value is None:
        return value
    expected = type(schema) if isinstance(schema, (dict, list)) else PYTHON_TYPES[schema]
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        into.mistyped = into.mistyped or _mistyped(schema, value, path)
        return value
    if isinstance(schema, list):
        return _walk_list(schema[0], value, path, into)
    return _walk_map(schema, value, path, into) if isinstance(schema, dict) else value


def _walk_list(schema: OpenApiSchema, items: Any, path: str, into: Decoded) -> list[Any]:
    # A null among objects is an object without fields.
    whole = [{} if item is None and isinstance(schema, dict) else item for item in items]
    return [_walk(schema, item, f"{path}[{index}]", into) for index, item in enumerate(whole)]


def _walk_map(schema: dict[str, Any], fields: Any, path: str, into: Decoded) -> dict[str, Any]:
    decoded: dict[str, Any] = {}
    for key, item in fields.items():
        inner = schema.get(key, schema.get("*"))
        where = f"{path}.{key}" if path else key
        if inner is None:
            into.unknown.append(where)
        elif item is not None or inner == ANY:  # a null is a field that is not set
            decoded[key] = _walk(inner, item, where, into)
    return decoded


def _mistyped(schema: OpenApiSchema, value: Any, path: str) -> str:
    name = path.rsplit(".", 1)[-1]
    go = (
        schema
        if isinstance(schema, str)
        else GO_NAMES.get(name, "v1.Struct" if isinstance(schema, dict) else "[]string")
    )
    plain = "".join(part.split("]")[-1] for part in path.split("["))
    return f"json: cannot unmarshal {JSON_NAMES[type(value)]} into Go struct field {plain} of type {go}"


def decoded_for_write(resource: Resource, body: Any, strictness: str) -> tuple[Manifest, list[str]]:
    """Return a private copy of the body, and warnings. Raise 400 for what is not this kind."""
    if not isinstance(body, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
    kind, version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if kind != resource.kind or version != resource.api_version:
        raise bad_request(
            f'{kind} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {resource.kind}: '
            f"no kind match for {version}"
        )
    decoded = decode(resource, copy.deepcopy(body))
    prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
    if decoded.mistyped:
        raise bad_request(prefix + decoded.mistyped)
    unknown = [f'unknown field "{path}"' for path in decoded.unknown]
    if unknown and strictness == "Strict":
        raise bad_request(f"{prefix}strict decoding error: {', '.join(unknown)}")
    manifest = decoded.value
    manifest["metadata"] = manifest.get("metadata") or {}
    return manifest, unknown if strictness == "Warn" else []


def decoded_for_apply(resource: Resource, namespace: str, name: str, body: Any) -> Manifest:
    """Return a private copy of what is applied. An unknown field is a 500, as on the real server of 1.37."""
    if not isinstance(body, dict):
        raise bad_request("error decoding YAML: the applied configuration is not an object")
    if (body.get("apiVersion"), body.get("kind")) != (resource.api_version, resource.kind):
        raise bad_request(f"invalid object type: {body.get('apiVersion', '/')}, Kind={body.get('kind', '')}")
    decoded = decode(resource, copy.deepcopy(body))
    if decoded.mistyped:
        raise _untyped(resource, namespace, name, [], decoded.mistyped)
    metadata = decoded.value["metadata"] = decoded.value.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if resource.namespaced and metadata.get("namespace", namespace) != namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if decoded.unknown:
        raise _untyped(resource, metadata.get("namespace", ""), name, decoded.unknown, "")
    metadata["name"] = name
    if resource.namespaced:
        metadata["namespace"] = namespace
    applied: Manifest = decoded.value
    return applied


def _untyped(resource: Resource, namespace: str, name: str, unknown: list[str], mistyped: str) -> ApiError:
    message = [f".{path}: field not declared in schema" for path in unknown] or [mistyped]
    text = message[0] if len(message) == 1 else "errors:" + "".join(f"\n  {line}" for line in message)
    object_text = f"({namespace}/{name}; {resource.api_version}, Kind={resource.kind})"
    return ApiError(500, "", f"failed to create typed patch object {object_text}: {text}")
