"""
From an API object to the columns of its row. Pure functions.

A pod is trimmed to what the portal reads: its environment may have secrets, and the portal was not given them
to store. A node loses its list of images, which is most of its bytes, and the times of its heartbeats. Pods
that request devices by number, as extended resources, are mirrored too.
"""

from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils.dateparse import parse_datetime

from cluster.protocol import Manifest
from dra.price_facts import labels_key
from dra.quota import is_plugin_resource
from inventory.models import (
    DeviceClass,
    Mirrored,
    Node,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

IMPLICIT = "deviceclass.resource.kubernetes.io/"  # the implicit resource name of a device class, KEP 5004


def is_extended(name: str) -> bool:
    """Return whether Kubernetes counts it as extended: a name with a domain that is not one of its own."""
    domain, slash, _rest = name.partition("/")
    own = domain == "kubernetes.io" or domain.endswith(".kubernetes.io") or name.startswith("requests.")
    return name.startswith(IMPLICIT) or bool(slash and not own)


def requested_resources(spec: dict[str, Any]) -> dict[str, int]:
    """
    Return how many of each extended resource a pod uses, from its spec, as the scheduler counts them.

    The numbers of containers and of sidecars (init containers that are restarted always) add up. An init
    container runs before the containers and beside the sidecars started earlier: the largest such moment
    counts if it is larger (`k8s.io/component-helpers/resource`). The API server refuses a quantity that is no
    whole number; it is left out here.
    """
    at_start: Counter[str] = Counter()
    sidecars: Counter[str] = Counter()
    for container in spec.get("initContainers") or ():
        wanted = Counter(_of(container))
        if container.get("restartPolicy") == "Always":
            sidecars += wanted
            at_start |= sidecars
        else:
            at_start |= sidecars + wanted
    running = sum(map(Counter, map(_of, spec.get("containers") or ())), sidecars)
    return dict(running | at_start)


def _of(container: dict[str, Any]) -> dict[str, int]:
    resources = container.get("resources") or {}
    wanted = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {
        name: int(str(value)) for name, value in wanted.items() if is_extended(name) and str(value).isdigit()
    }


NOISE = "kubectl.kubernetes.io/last-applied-configuration"
CONTAINER = ("name", "image", "resources", "restartPolicy")  # of an init container: Always for a sidecar
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
    Return whether a pod is mirrored: pods with claims, and pods that request devices by extended resources.

    Which of those resources are GPUs is decided when they are counted: a class may get such a name later.
    """
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    return bool(
        spec.get("resourceClaims") or status.get("extendedResourceClaimStatus") or requested_resources(spec)
    )


def disruption_of(status: Manifest) -> tuple[str, str] | None:
    """
    Return reason and message of Kubernetes for ending a pod, from its status; None if it does not, or if the
    pod had succeeded or failed before.

    Taints, preemption, the Eviction API and the kubelet set DisruptionTarget (core/v1 `types.go`).
    """
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            ended, at = finished_at(status), instant(condition.get("lastTransitionTime"))
            if status.get("phase") == "Succeeded" or (ended and at and ended < at):
                return None
            return str(condition.get("reason") or condition["type"]), str(condition.get("message") or "")
    return None


def finished_at(status: Manifest) -> datetime | None:
    """Return when the last container of a pod that has ended did, None if a part of it still runs."""
    if status.get("phase") not in ("Succeeded", "Failed"):
        return None
    ends = [
        instant(((container.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for container in status.get("containerStatuses") or ()
    ]
    return max(filter(None, ends), default=None)


def trim(model: type[Mirrored], manifest: Manifest) -> Manifest:
    """Return a copy without noise and without what the portal must not store."""
    trimmed = dict(manifest)
    trimmed["metadata"] = _metadata(manifest["metadata"])
    if model is Pod:
        trimmed["spec"] = _pod_spec(manifest.get("spec") or {})
        trimmed["status"] = _pod_status(manifest.get("status") or {})
    elif model is Node:
        trimmed["status"] = _node_status(manifest.get("status") or {})
    return trimmed


def _node_status(status: Manifest) -> Manifest:
    trimmed = {key: value for key, value in status.items() if key != "images"}
    if "conditions" in trimmed:
        trimmed["conditions"] = [
            {key: value for key, value in condition.items() if key != "lastHeartbeatTime"}
            for condition in trimmed["conditions"]
        ]
    return trimmed


def _metadata(metadata: Manifest) -> Manifest:
    trimmed = {key: value for key, value in metadata.items() if key != "managedFields"}
    if NOISE in (trimmed.get("annotations") or {}):
        trimmed["annotations"] = {key: value for key, value in trimmed["annotations"].items() if key != NOISE}
    return trimmed


def _pod_spec(spec: Manifest) -> Manifest:
    trimmed = _only(spec, ("nodeName", "resourceClaims", "schedulerName", "priority"))
    for group in ("initContainers", "containers"):
        if spec.get(group):
            trimmed[group] = [_only(container, CONTAINER) for container in spec[group]]
    return trimmed


def _pod_status(status: Manifest) -> Manifest:
    trimmed = _only(status, POD_STATUS)
    for group in ("initContainerStatuses", "containerStatuses"):
        if status.get(group):
            trimmed[group] = [_only(container, ("name", "ready", "state")) for container in status[group]]
    return trimmed


def _only(manifest: Manifest, keys: tuple[str, ...]) -> dict[str, Any]:
    return {key: manifest[key] for key in keys if key in manifest}


CLAIM_LABEL = "gpu.dragoman.dev/claim"
FROM_POD = "resource.kubernetes.io/pod-claim-name"
FROM_EXTENDED = "resource.kubernetes.io/extended-resource-claim"

type Columns = dict[str, Any]


def columns(model: type[Mirrored], manifest: Manifest) -> Columns:
    """
    Return every column of the object's row except those that the mirror itself writes (seen, gone, revision).
    """
    metadata = manifest["metadata"]
    common = {
        "uid": metadata["uid"],
        "name": metadata["name"],
        "labels": metadata.get("labels") or {},
        "raw": trim(model, manifest),
        "resource_version": metadata.get("resourceVersion", ""),
        "created_at": instant(metadata.get("creationTimestamp")),
    }
    if "namespace" in metadata:
        common["namespace"] = metadata["namespace"]
    own = _OWN.get(model)
    return common | (own(manifest) if own else {})


def instant(text: str | None) -> datetime | None:
    return parse_datetime(text) if text else None


def claim_state(claim: Manifest) -> str:
    """Return what kubectl shows as STATE: the object has no phase."""
    status = claim.get("status") or {}
    deleted = "deletionTimestamp" in claim["metadata"]
    states = ["deleted"] if deleted else []
    if status.get("allocation"):
        states += ["allocated", "reserved"] if status.get("reservedFor") else ["allocated"]
    elif not deleted:
        states = ["pending"]
    return ",".join(states)


def claim_origin(metadata: Manifest) -> ResourceClaim.Origin:
    """
    Return how it was created; a claim from a template of the portal has the origin TEMPLATE, and its owner
    names the claim.
    """
    annotations = metadata.get("annotations") or {}
    if annotations.get(FROM_EXTENDED) == "true":
        return ResourceClaim.Origin.EXTENDED_RESOURCE
    if FROM_POD in annotations:
        return ResourceClaim.Origin.TEMPLATE
    if CLAIM_LABEL in (metadata.get("labels") or {}):
        return ResourceClaim.Origin.PORTAL
    return ResourceClaim.Origin.FOREIGN


def _claim(claim: Manifest) -> Columns:
    metadata, allocation = claim["metadata"], (claim.get("status") or {}).get("allocation") or {}
    return {
        "state": claim_state(claim),
        "origin": claim_origin(metadata),
        "owner": _owner(metadata),
        "deleting_since": instant(metadata.get("deletionTimestamp")),
        "allocated_at": instant(allocation.get("allocationTimestamp")),
    }


def _owner(metadata: Manifest) -> str:
    return str((metadata.get("labels") or {}).get(CLAIM_LABEL, ""))


def _template(template: Manifest) -> Columns:
    return {"owner": _owner(template["metadata"])}


def _node(node: Manifest) -> Columns:
    conditions = (node.get("status") or {}).get("conditions") or []
    labels = node["metadata"].get("labels") or {}
    return {
        "node_pool": next((labels[key] for key in settings.NODE_POOL_LABELS if labels.get(key)), ""),
        "labels_key": labels_key(labels, node["metadata"]["name"]),
        "ready": any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
        "unschedulable": bool((node.get("spec") or {}).get("unschedulable")),
        "plugin_devices": plugin_devices(node.get("status") or {}),
    }


def plugin_devices(status: Manifest) -> dict[str, list[int]]:
    """
    Return the GPUs that device plugins advertise on a node: [capacity, allocatable] by extended resource.

    A plugin that is gone leaves a capacity of 0, which is left out; unhealthy devices are not allocatable.
    """
    capacity, allocatable = status.get("capacity") or {}, status.get("allocatable") or {}
    numbers = {
        name: [_whole(value), _whole(allocatable.get(name))]
        for name, value in capacity.items()
        if is_plugin_resource(name)
    }
    return {name: pair for name, pair in sorted(numbers.items()) if pair[0]}


def _whole(quantity: object) -> int:
    text = str(quantity)
    return int(text) if text.isdecimal() else 0


def _device_class(device_class: Manifest) -> Columns:
    return {"extended_resource": (device_class.get("spec") or {}).get("extendedResourceName") or ""}


def _slice(item: Manifest) -> Columns:
    spec = item["spec"]
    return {
        "driver": spec["driver"],
        "pool": spec["pool"]["name"],
        "generation": spec["pool"].get("generation", 0),
        "pool_slices": spec["pool"].get("resourceSliceCount", 1),
        "node_name": spec.get("nodeName") or "",
    }


def _pod(pod: Manifest) -> Columns:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    named = [c["resourceClaimName"] for c in spec.get("resourceClaims") or [] if c.get("resourceClaimName")]
    made = [
        c["resourceClaimName"]
        for c in status.get("resourceClaimStatuses") or []
        if c.get("resourceClaimName")
    ]
    extended = (status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName")
    templates = [c.get("resourceClaimTemplateName") for c in spec.get("resourceClaims") or []]
    waiting = (
        c for c in status.get("conditions") or [] if c["type"] == "PodScheduled" and c["status"] != "True"
    )
    return {
        "node_name": spec.get("nodeName") or "",
        "phase": status.get("phase") or "",
        "message": next((c.get("message") or "" for c in waiting), ""),
        "claims": sorted({*named, *made, *([extended] if extended else [])}),
        "templates": sorted({name for name in templates if name}),
        "extended": requested_resources(spec),
        "deleting_since": instant(pod["metadata"].get("deletionTimestamp")),
    }


_OWN: dict[type[Mirrored], Callable[[Manifest], Columns]] = {
    Node: _node,
    DeviceClass: _device_class,
    ResourceSlice: _slice,
    ResourceClaim: _claim,
    ResourceClaimTemplate: _template,
    Pod: _pod,
}
