"""
What of an API object is kept.

A pod is cut down to what the portal reads: the values of its environment may be secrets, and nobody gave them
to the portal to keep. A node loses its list of images, which is most of its bytes.
"""

from typing import Any

from cluster.protocol import Manifest
from inventory.models import Mirrored, Node, Pod
from inventory.sync.extended import asked_by

NOISE = "kubectl.kubernetes.io/last-applied-configuration"
POD_STATUS = (
    "phase",
    "reason",
    "message",
    "conditions",
    "startTime",
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
)


def uses_claims(pod: Manifest) -> bool:
    """
    Only such pods are mirrored: those with claims, and those that ask for devices by extended resources.

    Which of those resources are GPUs is asked when they are counted: a class may take up a name later.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return bool(spec.get("resourceClaims") or status.get("extendedResourceClaimStatus") or asked_by(spec))


def trim(model: type[Mirrored], manifest: Manifest) -> Manifest:
    """Return a copy without what is noise or none of the portal's business."""
    kept = dict(manifest)
    kept["metadata"] = _metadata(manifest["metadata"])
    if model is Pod:
        kept["spec"] = _pod_spec(manifest.get("spec") or {})
        kept["status"] = _pod_status(manifest.get("status") or {})
    elif model is Node:
        kept["status"] = {
            key: value for key, value in (manifest.get("status") or {}).items() if key != "images"
        }
    return kept


def _metadata(metadata: Manifest) -> Manifest:
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    if NOISE in (kept.get("annotations") or {}):
        kept["annotations"] = {key: value for key, value in kept["annotations"].items() if key != NOISE}
    return kept


def _pod_spec(spec: Manifest) -> Manifest:
    kept = _only(spec, ("nodeName", "resourceClaims", "schedulerName", "priority"))
    for group in ("initContainers", "containers"):
        if spec.get(group):
            kept[group] = [_only(container, ("name", "image", "resources")) for container in spec[group]]
    return kept


def _pod_status(status: Manifest) -> Manifest:
    kept = _only(status, POD_STATUS)
    for group in ("initContainerStatuses", "containerStatuses"):
        if status.get(group):
            kept[group] = [_only(container, ("name", "ready", "state")) for container in status[group]]
    return kept


def _only(manifest: Manifest, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: manifest[key] for key in keys if key in manifest}
