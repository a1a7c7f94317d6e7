"""
What an object must meet before it is stored, with the messages of the API server: defaults, validation (422),
and admission: the namespace, admin access and ResourceQuota.

Validation is as lax as the real one: an unknown class, 33 devices or an unpublished attribute pass here and
stay pending in the scheduler.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from dra.cel import CelError, CompileError, compile_selector
from dra.quota import keys
from simulator.resources import (
    CLAIMS,
    CLASSES,
    JOBS,
    NAMESPACES,
    PODS,
    QUOTAS,
    TAINT_RULES,
    TEMPLATES,
    ApiError,
    FieldCause,
    Manifest,
    Resource,
    forbidden,
    not_found,
)
from simulator.store import Store


def with_defaults(resource: Resource, manifest: Manifest, *, at: str) -> Manifest:
    """Return the object with defaults. `manifest` is a private copy and is changed."""
    if fill := _DEFAULTS.get(resource):
        manifest["spec"] = manifest.get("spec") or {}
        fill(manifest, manifest["spec"], at)
    return manifest


def _default_claim_spec(spec: dict[str, Any]) -> None:
    devices = spec.get("devices") or {}
    for request in devices.get("requests") or []:
        for exact_request in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if exact_request is None:
                continue
            exact_request.setdefault("allocationMode", "ExactCount")
            if exact_request["allocationMode"] == "ExactCount" and not exact_request.get("count"):
                exact_request["count"] = 1
            for toleration in exact_request.get("tolerations") or []:
                toleration.setdefault("operator", "Equal")


def _claim(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    _default_claim_spec(spec)
    manifest.setdefault("status", {})


def _template(_manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    _default_claim_spec(spec.get("spec") or {})


def _namespace(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    metadata = manifest["metadata"]
    metadata["labels"] = (metadata.get("labels") or {}) | {
        "kubernetes.io/metadata.name": metadata.get("name", "")
    }
    spec.setdefault("finalizers", ["kubernetes"])
    manifest.setdefault("status", {"phase": "Active"})


def _default_pod(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    manifest.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})


def _job(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    for name, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6), ("suspend", False)):
        spec.setdefault(name, value)
    manifest.setdefault("status", {})


def _default_quota(manifest: Manifest, _spec: dict[str, Any], _at: str) -> None:
    manifest.setdefault("status", {})


def _taint_rule(manifest: Manifest, spec: dict[str, Any], at: str) -> None:
    spec.setdefault("taint", {}).setdefault("timeAdded", at)
    manifest.setdefault("status", {})


_DEFAULTS = {
    CLAIMS: _claim,
    TEMPLATES: _template,
    NAMESPACES: _namespace,
    PODS: _default_pod,
    JOBS: _job,
    QUOTAS: _default_quota,
    TAINT_RULES: _taint_rule,
}


LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
NOT_A_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start "
    "and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NOT_A_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
NOT_QUALIFIED = "a fully qualified name must be a domain and a name separated by a slash"
NO_SUCH_REQUEST = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
MODES = ("All", "ExactCount")
EFFECTS = ("NoExecute", "NoSchedule", "None")


def causes(resource: Resource, manifest: Manifest) -> list[FieldCause]:
    """Return everything that is wrong with an object that is to be stored."""
    problems = list(_name(manifest["metadata"]))
    spec = manifest.get("spec") or {}
    if resource is CLAIMS:
        problems += _claim_spec(spec, "spec")
    elif resource is TEMPLATES:
        problems += _claim_spec(spec.get("spec") or {}, "spec.spec")
    elif resource is PODS:
        problems += _pod(spec)
    elif resource is JOBS:
        if not ((spec.get("template") or {}).get("spec") or {}).get("containers"):
            problems.append(FieldCause.required("spec.template.spec.containers"))
    elif resource is QUOTAS:
        problems += _quota(spec)
    elif resource is TAINT_RULES:
        problems += _taint(spec.get("taint") or {})
    return problems


def _quoted(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _subdomain(path: str, value: str) -> Iterator[FieldCause]:
    if not SUBDOMAIN.fullmatch(value):
        yield FieldCause.invalid(path, _quoted(value), NOT_A_SUBDOMAIN)
    elif len(value) > 253:
        yield FieldCause.invalid(path, _quoted(value), "must be no more than 253 characters")


def _name(metadata: dict[str, Any]) -> Iterator[FieldCause]:
    if not metadata.get("name"):
        yield FieldCause.required("metadata.name", "name or generateName is required")
    else:
        yield from _subdomain("metadata.name", metadata["name"])


def _claim_spec(spec: dict[str, Any], path: str) -> Iterator[FieldCause]:
    devices = spec.get("devices") or {}
    requests = devices.get("requests") or []
    path += ".devices"
    if len(requests) > 32:
        yield FieldCause(
            f"{path}.requests", "FieldValueTooMany", f"Too many: {len(requests)}: must have at most 32 items"
        )
    names: set[str] = set()
    for index, request in enumerate(requests):
        where = f"{path}.requests[{index}]"
        yield from _label(f"{where}.name", request.get("name", ""))
        if request.get("name") in names:
            yield FieldCause(where, "FieldValueDuplicate", f"Duplicate value: {_quoted(request)}")
        names.add(request.get("name", ""))
        yield from _request(request, where)
    names |= {
        f"{request.get('name')}/{entry.get('name')}"
        for request in requests
        for entry in request.get("firstAvailable") or []
    }
    for part in ("constraints", "config"):
        for index, entry in enumerate(devices.get(part) or []):
            yield from _references(entry, names, f"{path}.{part}[{index}]")
    for index, constraint in enumerate(devices.get("constraints") or []):
        yield from _constraint(constraint, f"{path}.constraints[{index}]")


def _label(path: str, value: str) -> Iterator[FieldCause]:
    if not value:
        yield FieldCause.required(path)
    elif not LABEL.fullmatch(value) or len(value) > 63:
        yield FieldCause.invalid(path, _quoted(value), NOT_A_LABEL)


def _request(request: dict[str, Any], path: str) -> Iterator[FieldCause]:
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not alternatives:
        yield FieldCause.required(path, "exactly one of `exactly` or `firstAvailable` is required")
    elif exactly is not None and alternatives:
        why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"
        yield FieldCause.invalid(path, "null", why)
    elif exactly is not None:
        yield from _exact_request(exactly, f"{path}.exactly")
    for index, alternative in enumerate(alternatives):
        where = f"{path}.firstAvailable[{index}]"
        yield from _label(f"{where}.name", alternative.get("name", ""))
        yield from _exact_request(alternative, where)


def _exact_request(request: dict[str, Any], path: str) -> Iterator[FieldCause]:
    if not request.get("deviceClassName"):
        yield FieldCause.required(f"{path}.deviceClassName")
    else:
        yield from _subdomain(f"{path}.deviceClassName", request["deviceClassName"])
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode not in MODES:
        listed = ", ".join(_quoted(fields) for fields in MODES)
        message = f"Unsupported value: {_quoted(mode)}: supported values: {listed}"
        yield FieldCause(f"{path}.allocationMode", "FieldValueNotSupported", message)
    elif mode == "All" and count:
        why = "must not be specified when allocationMode is 'All'"
        yield FieldCause.invalid(f"{path}.count", str(count), why)
    elif mode == "ExactCount" and count <= 0:
        yield FieldCause.invalid(f"{path}.count", str(count), "must be greater than zero")
    for index, selector in enumerate(request.get("selectors") or []):
        if not (selector.get("cel") or {}).get("expression"):
            yield FieldCause.required(f"{path}.selectors[{index}].cel.expression")
        else:
            yield from _expression(selector["cel"]["expression"], f"{path}.selectors[{index}].cel.expression")


def _expression(expression: str, path: str) -> Iterator[FieldCause]:
    try:
        compile_selector(expression)
    except CompileError as error:
        yield FieldCause.invalid(path, _quoted(expression), f"compilation failed: {error.message}")
    except CelError:
        return  # it may be right: only a cluster can tell


def _references(entry: dict[str, Any], names: set[str], path: str) -> Iterator[FieldCause]:
    for index, name in enumerate(entry.get("requests") or []):
        if name not in names:
            yield FieldCause.invalid(f"{path}.requests[{index}]", _quoted(name), NO_SUCH_REQUEST)


def _constraint(constraint: dict[str, Any], path: str) -> Iterator[FieldCause]:
    for key in ("matchAttribute", "distinctAttribute"):
        attribute = constraint.get(key)
        if attribute is not None and "/" not in attribute:
            yield FieldCause.invalid(f"{path}.{key}", _quoted(attribute), NOT_QUALIFIED)
    if not constraint.get("matchAttribute") and not constraint.get("distinctAttribute"):
        why = (
            'exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set'
        )
        yield FieldCause.required(path, why)  # the words of 1.37, though no field is set


def _pod(spec: dict[str, Any]) -> Iterator[FieldCause]:
    if not spec.get("containers"):
        yield FieldCause.required("spec.containers")
    for index, container in enumerate(spec.get("containers") or []):
        if not container.get("name"):
            yield FieldCause.required(f"spec.containers[{index}].name")
    for index, claim in enumerate(spec.get("resourceClaims") or []):
        if not claim.get("name"):
            yield FieldCause.required(f"spec.resourceClaims[{index}].name")
        given = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key)]
        if len(given) == 1:
            continue
        shown = {
            "Name": claim.get("name"),
            **{key[0].upper() + key[1:]: claim.get(key) for key in _REFERENCES},
        }
        why = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        if given:
            why = "at most one of `resourceClaimName`, `resourceClaimTemplateName` may be specified"
        yield FieldCause.invalid(f"spec.resourceClaims[{index}]", _quoted(shown), why)


_REFERENCES = ("resourceClaimName", "resourceClaimTemplateName")


def _quota(spec: dict[str, Any]) -> Iterator[FieldCause]:
    for key, value in (spec.get("hard") or {}).items():
        if (key.startswith("count/") or key.endswith("/devices")) and not str(value).isdigit():
            yield FieldCause.invalid(f"spec.hard[{key}]", _quoted(value), "must be an integer")


def _taint(taint: dict[str, Any]) -> Iterator[FieldCause]:
    if not taint.get("key"):
        yield FieldCause.invalid("spec.taint.key", '""', "name part must be non-empty")
    if taint.get("effect") not in EFFECTS:
        listed = ", ".join(_quoted(known) for known in EFFECTS)
        message = f"Unsupported value: {_quoted(taint.get('effect', ''))}: supported values: {listed}"
        yield FieldCause("spec.taint.effect", "FieldValueNotSupported", message)


def quota_charge(store: Store, resource: Resource, manifest: Manifest) -> Counter[str]:
    """Return the keys that this object adds to. Templates cost nothing but their number."""
    if resource is CLAIMS:
        return Counter(keys(manifest["spec"], store.all(CLASSES)))
    return Counter({f"count/{resource.qualified}": 1} if resource is TEMPLATES else {})


ADMIN_LABEL = "resource.kubernetes.io/admin-access"


def check_namespace(store: Store, resource: Resource, metadata: dict[str, Any]) -> None:
    """Raise 404 for a namespace that does not exist, 403 for one that is going away."""
    if not resource.namespaced:
        return
    name = metadata["namespace"]
    namespace = store.get(NAMESPACES, "", name)
    if namespace is None:
        raise not_found(NAMESPACES, name)
    if namespace["metadata"].get("deletionTimestamp"):
        why = f"unable to create new content in namespace {name} because it is being terminated"
        raise forbidden(resource, metadata.get("name", ""), why)


def admin_access(store: Store, resource: Resource, manifest: Manifest) -> Iterator[FieldCause]:
    spec, path = manifest.get("spec") or {}, "spec"
    if resource is TEMPLATES:
        spec, path = spec.get("spec") or {}, "spec.spec"
    elif resource is not CLAIMS:
        return
    namespace = store.get(NAMESPACES, "", manifest["metadata"]["namespace"]) or {"metadata": {}}
    if (namespace["metadata"].get("labels") or {}).get(ADMIN_LABEL) == "true":
        return
    for index, request in enumerate((spec.get("devices") or {}).get("requests") or []):
        if (request.get("exactly") or {}).get("adminAccess"):
            label = f"the `{ADMIN_LABEL}: true` label"
            why = f"admin access to devices requires {label} on the containing namespace"
            yield FieldCause.forbidden(f"{path}.devices.requests[{index}].adminAccess", why)


def check_quota(store: Store, resource: Resource, manifest: Manifest) -> None:
    """Raise 403 in the words that people and programs know: `exceeded quota: q, requested: …`."""
    namespace = manifest["metadata"].get("namespace", "")
    charge = quota_charge(store, resource, manifest)
    for quota in store.all(QUOTAS, namespace) if charge else []:
        status = quota.get("status") or {}
        hard, used = status.get("hard") or {}, status.get("used") or {}
        over = [
            key
            for key in sorted(charge)
            if key in hard and int(used.get(key, 0)) + charge[key] > int(hard[key])
        ]
        if over:
            raise _exceeded(resource, manifest, quota, {key: charge[key] for key in over})


def charge(store: Store, namespace: str) -> None:
    """Bring `status` of the namespace's quotas up to date, as the quota controller does."""
    for quota in store.all(QUOTAS, namespace):
        hard = (quota.get("spec") or {}).get("hard") or {}
        used: Counter[str] = Counter()
        for resource in (CLAIMS, TEMPLATES):
            for manifest in store.all(resource, namespace):
                used.update(quota_charge(store, resource, manifest))
        status = {"hard": hard, "used": {key: str(used[key]) for key in hard}}
        if quota.get("status") != status:
            store.put(QUOTAS, quota | {"status": status})


def _exceeded(resource: Resource, manifest: Manifest, quota: Manifest, over: dict[str, int]) -> ApiError:
    status = quota["status"]
    requested = ",".join(f"{key}={count}" for key, count in over.items())
    used = ",".join(f"{key}={status['used'].get(key, 0)}" for key in over)
    limited = ",".join(f"{key}={status['hard'][key]}" for key in over)
    name = quota["metadata"]["name"]
    why = f"exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}"
    return forbidden(resource, manifest["metadata"]["name"], why)
