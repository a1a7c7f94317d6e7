"""
What fields the DRA kinds have: strict decoding, as `fieldValidation=Strict` asks for.

Source: kubernetes/api resource/v1/types.go of 1.37. Kinds that the simulator only carries along (nodes,
events …) are taken as they come.
"""

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
    Manifest,
    Resource,
)

type Schema = str | list[Any] | dict[str, Any]

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
CLAIM_SPEC: Schema = {
    "devices": {
        "requests": [{"name": "string", "exactly": EXACT, "firstAvailable": [SUBREQUEST]}],
        "constraints": [{"requests": ["string"], "matchAttribute": "string", "distinctAttribute": "string"}],
        "config": [{"requests": ["string"], "opaque": OPAQUE}],
    }
}
METADATA: Schema = {
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
POD_SPEC: Schema = {
    "containers": [{"name": "string", "image": "string", "*": ANY}],
    "resourceClaims": [
        {"name": "string", "resourceClaimName": "string", "resourceClaimTemplateName": "string"},
    ],
    "nodeName": "string",
    "nodeSelector": TEXTS,
    "*": ANY,
}
SPECS: dict[str, Schema] = {
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
    known: Schema = {
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


def _walk(schema: Schema, value: Any, path: str, into: Decoded) -> Any:
    if schema == ANY or value is None:
        return value
    expected = type(schema) if isinstance(schema, (dict, list)) else PYTHON_TYPES[schema]
    if not isinstance(value, expected) or (expected is int and isinstance(value, bool)):
        into.mistyped = into.mistyped or _mistyped(schema, value, path)
        return value
    if isinstance(schema, list):
        return _walk_list(schema[0], value, path, into)
    return _walk_map(schema, value, path, into) if isinstance(schema, dict) else value


def _walk_list(schema: Schema, items: Any, path: str, into: Decoded) -> list[Any]:
    # A null among objects is an object without fields.
    whole = [{} if item is None and isinstance(schema, dict) else item for item in items]
    return [_walk(schema, item, f"{path}[{index}]", into) for index, item in enumerate(whole)]


def _walk_map(schema: dict[str, Any], fields: Any, path: str, into: Decoded) -> dict[str, Any]:
    kept: dict[str, Any] = {}
    for key, item in fields.items():
        inner = schema.get(key, schema.get("*"))
        where = f"{path}.{key}" if path else key
        if inner is None:
            into.unknown.append(where)
        elif item is not None or inner == ANY:  # a null is a field that is not set
            kept[key] = _walk(inner, item, where, into)
    return kept


def _mistyped(schema: Schema, value: Any, path: str) -> str:
    name = path.rsplit(".", 1)[-1]
    go = (
        schema
        if isinstance(schema, str)
        else GO_NAMES.get(name, "v1.Struct" if isinstance(schema, dict) else "[]string")
    )
    plain = "".join(part.split("]")[-1] for part in path.split("["))
    return f"json: cannot unmarshal {JSON_NAMES[type(value)]} into Go struct field {plain} of type {go}"
