"""From a request's body to an object: strictness, versions and names, in the words of the API server."""

import copy
from typing import Any

from simulator import errors
from simulator.errors import ApiError
from simulator.resources import Manifest, Resource
from simulator.schema import decode


def decoded_for_write(resource: Resource, body: Any, strictness: str) -> tuple[Manifest, list[str]]:
    """Return a private copy of the body, and warnings. Raise 400 for what is not this kind."""
    if not isinstance(body, dict):
        raise errors.bad_request(f"the object provided is unrecognized (must be of type {resource.kind})")
    kind, version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if kind != resource.kind or version != resource.api_version:
        raise errors.bad_request(
            f'{kind} in version "{str(version).rpartition("/")[2]}" cannot be handled as a {resource.kind}: '
            f"no kind match for {version}"
        )
    decoded = decode(resource, copy.deepcopy(body))
    prefix = f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: '
    if decoded.mistyped:
        raise errors.bad_request(prefix + decoded.mistyped)
    unknown = [f'unknown field "{path}"' for path in decoded.unknown]
    if unknown and strictness == "Strict":
        raise errors.bad_request(f"{prefix}strict decoding error: {', '.join(unknown)}")
    manifest = decoded.value
    manifest["metadata"] = manifest.get("metadata") or {}
    return manifest, unknown if strictness == "Warn" else []


def decoded_for_apply(resource: Resource, namespace: str, name: str, body: Any) -> Manifest:
    """Return a private copy of what is applied. An unknown field is a 500, as on the real server of 1.37."""
    if not isinstance(body, dict):
        raise errors.bad_request("error decoding YAML: the applied configuration is not an object")
    if (body.get("apiVersion"), body.get("kind")) != (resource.api_version, resource.kind):
        raise errors.bad_request(
            f"invalid object type: {body.get('apiVersion', '/')}, Kind={body.get('kind', '')}"
        )
    decoded = decode(resource, copy.deepcopy(body))
    if decoded.mistyped:
        raise _untyped(resource, namespace, name, [], decoded.mistyped)
    metadata = decoded.value["metadata"] = decoded.value.get("metadata") or {}
    if metadata.get("name", name) != name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )
    if resource.namespaced and metadata.get("namespace", namespace) != namespace:
        raise errors.bad_request(
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
    said = [f".{path}: field not declared in schema" for path in unknown] or [mistyped]
    text = said[0] if len(said) == 1 else "errors:" + "".join(f"\n  {line}" for line in said)
    what = f"({namespace}/{name}; {resource.api_version}, Kind={resource.kind})"
    return ApiError(500, "", f"failed to create typed patch object {what}: {text}")
