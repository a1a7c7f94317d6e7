"""What the API server fills in before it validates."""

from typing import Any

from simulator.resources import (
    CLAIMS,
    JOBS,
    NAMESPACES,
    PODS,
    QUOTAS,
    TAINT_RULES,
    TEMPLATES,
    Manifest,
    Resource,
)


def with_defaults(resource: Resource, manifest: Manifest, *, at: str) -> Manifest:
    """Return the object with defaults. `manifest` is a private copy and is changed."""
    if fill := _DEFAULTS.get(resource):
        manifest["spec"] = manifest.get("spec") or {}
        fill(manifest, manifest["spec"], at)
    return manifest


def _claim_spec(spec: dict[str, Any]) -> None:
    devices = spec.get("devices") or {}
    for request in devices.get("requests") or []:
        for one in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if one is None:
                continue
            one.setdefault("allocationMode", "ExactCount")
            if one["allocationMode"] == "ExactCount" and not one.get("count"):
                one["count"] = 1
            for toleration in one.get("tolerations") or []:
                toleration.setdefault("operator", "Equal")


def _claim(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    _claim_spec(spec)
    manifest.setdefault("status", {})


def _template(_manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    _claim_spec(spec.get("spec") or {})


def _namespace(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    metadata = manifest["metadata"]
    metadata["labels"] = (metadata.get("labels") or {}) | {
        "kubernetes.io/metadata.name": metadata.get("name", "")
    }
    spec.setdefault("finalizers", ["kubernetes"])
    manifest.setdefault("status", {"phase": "Active"})


def _pod(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    manifest.setdefault("status", {"phase": "Pending", "qosClass": "BestEffort"})


def _job(manifest: Manifest, spec: dict[str, Any], _at: str) -> None:
    for name, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6), ("suspend", False)):
        spec.setdefault(name, value)
    manifest.setdefault("status", {})


def _quota(manifest: Manifest, _spec: dict[str, Any], _at: str) -> None:
    manifest.setdefault("status", {})


def _taint_rule(manifest: Manifest, spec: dict[str, Any], at: str) -> None:
    spec.setdefault("taint", {}).setdefault("timeAdded", at)
    manifest.setdefault("status", {})


_DEFAULTS = {
    CLAIMS: _claim,
    TEMPLATES: _template,
    NAMESPACES: _namespace,
    PODS: _pod,
    JOBS: _job,
    QUOTAS: _quota,
    TAINT_RULES: _taint_rule,
}
