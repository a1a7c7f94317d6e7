"""
The resource claim controller (pkg/controller/resourceclaim/controller.go), and claims for extended resources.

It creates claims from templates, and releases devices of finished pods: when the last pod of a claim is gone,
its allocation is cleared. Pods that request devices by number get a claim from the scheduler (KEP 5004), if a
DeviceClass has that name, and no claim on a node whose device plugin advertises it; other names belong to
device plugins.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dra.quota import RESOURCE_PREFIX, extended_resource_names
from simulator.controllers import (
    CONTROLLER,
    InCluster,
    deleting,
    owner_uid,
    record_event,
    terminal,
    with_status,
)
from simulator.resources import CLAIMS, PODS, TEMPLATES, ApiError, Manifest

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True, slots=True)
class ExtendedRequest:
    """So many devices of a class for one container, under the name of an extended resource."""

    container: str
    resource: str
    request: str  # what the claim calls it
    device_class: str
    count: int


def pod_extended_requests(pod: Manifest, classes: Iterable[Any]) -> list[ExtendedRequest]:
    class_by_resource = extended_resource_names(
        (
            device_class["metadata"]["name"],
            device_class["spec"]["extendedResourceName"],
            device_class["metadata"]["creationTimestamp"],
        )
        for device_class in classes
        if (device_class.get("spec") or {}).get("extendedResourceName")
    )
    return [
        ExtendedRequest(container["name"], name, f"container-{index}-request-{number}", device_class, count)
        for index, container in enumerate(pod["spec"]["containers"])
        for number, (name, device_class, count) in enumerate(
            _container_requests(container, class_by_resource)
        )
    ]


def claim_for(pod: Manifest, extended_requests: Iterable[ExtendedRequest]) -> Manifest:
    """Return the claim, not yet written: it has a name only when it is."""
    metadata = pod["metadata"]
    return {
        "metadata": {
            "generateName": f"{metadata['name'][:40]}-extended-resources-",
            "namespace": metadata["namespace"],
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [_owner(metadata)],
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": request.request,
                        "exactly": {
                            "deviceClassName": request.device_class,
                            "allocationMode": "ExactCount",
                            "count": request.count,
                        },
                    }
                    for request in extended_requests
                ]
            }
        },
    }


def recorded(pod: Manifest, claim: Manifest, extended_requests: Iterable[ExtendedRequest]) -> Manifest:
    """Return the pod with the claim in its status."""
    mappings = [
        {"containerName": request.container, "resourceName": request.resource, "requestName": request.request}
        for request in extended_requests
    ]
    updated = {"resourceClaimName": claim["metadata"]["name"], "requestMappings": mappings}
    return with_status(pod, extendedResourceClaimStatus=updated)


def _container_requests(
    container: Manifest, class_by_resource: dict[str, str]
) -> Iterator[tuple[str, str, int]]:
    resources = container.get("resources") or {}
    requested = (resources.get("limits") or {}) | (resources.get("requests") or {})
    for name, count in sorted(requested.items()):
        device_class = (
            name.removeprefix(RESOURCE_PREFIX)
            if name.startswith(RESOURCE_PREFIX)
            else class_by_resource.get(name, "")
        )
        if device_class and str(count).isdigit() and int(count):
            yield name, device_class, int(count)


FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM = "resource.kubernetes.io/pod-claim-name"
MAX_BASE_LENGTH = 57  # of a generated name: 63 less a hyphen and five random characters
RETRY_TICKS = 10


class ClaimController(InCluster):
    watches = (PODS, CLAIMS, TEMPLATES)

    def is_time(self) -> bool:
        return self.context.anything_due("retry")

    def reconcile(self) -> None:
        self._create_missing()
        pods = {pod["metadata"]["uid"]: pod for pod in self.store.unordered(PODS)}
        retries = self.context.due.get("retry", {})
        for uid in [uid for uid in retries if uid not in pods]:
            del retries[uid]
        for claim in list(self.store.unordered(CLAIMS)):
            self._release(claim, pods)

    def _create_missing(self) -> None:
        owned: dict[tuple[str, str], str] = {}
        for claim in self.store.unordered(CLAIMS):
            of = (claim["metadata"].get("annotations") or {}).get(POD_CLAIM)
            if of:
                owned[owner_uid(claim), of] = claim["metadata"]["name"]
        for pod in self.store.all(PODS):
            if pod["spec"].get("resourceClaims") and not terminal(pod) and not deleting(pod):
                self._create_for(pod, owned)

    def _create_for(self, pod: Manifest, owned: dict[tuple[str, str], str]) -> None:
        uid = pod["metadata"]["uid"]
        statuses = list((pod.get("status") or {}).get("resourceClaimStatuses") or [])
        known = {status["name"] for status in statuses}
        missing = [pod_claim for pod_claim in pod["spec"]["resourceClaims"] if pod_claim["name"] not in known]
        for pod_claim in missing:
            if not pod_claim.get("resourceClaimTemplateName"):
                continue
            name = owned.get((uid, pod_claim["name"])) or self._create(pod, pod_claim)
            if name:
                statuses.append({"name": pod_claim["name"], "resourceClaimName": name})
        if len(statuses) > len(known):
            self.store.put(PODS, with_status(pod, resourceClaimStatuses=statuses))

    def _create(self, pod: Manifest, pod_claim: dict[str, Any]) -> str:
        uid, namespace = pod["metadata"]["uid"], pod["metadata"]["namespace"]
        retries = self.context.due.setdefault("retry", {})
        if self.context.tick < retries.get(uid, 0):
            return ""
        retries.pop(uid, None)
        template = self.store.get(TEMPLATES, namespace, pod_claim["resourceClaimTemplateName"])
        if template is None:
            template_name = pod_claim["resourceClaimTemplateName"]
            why = f'resourceclaimtemplate.resource.k8s.io "{template_name}" not found'
            self._complain(pod, pod_claim["name"], f'resource claim template "{template_name}": {why}')
            return ""
        try:
            written = self.context.registry.create(
                CLAIMS, namespace, _claim(pod, pod_claim, template), CONTROLLER
            )
        except ApiError as refusal:
            self._complain(pod, pod_claim["name"], f"create ResourceClaim : {refusal.message}")
            return ""
        return str(written.object["metadata"]["name"])

    def _complain(self, pod: Manifest, name: str, why: str) -> None:
        self.context.due["retry"][pod["metadata"]["uid"]] = self.context.tick + RETRY_TICKS
        message = f"PodResourceClaim {name}: {why}"
        record_event(self.context, pod, "FailedResourceClaimCreation", message, source="resource_claim")

    def _release(self, claim: Manifest, pods: dict[str, Manifest]) -> None:
        status = claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        remaining = [
            consumer
            for consumer in reserved
            if (pod := pods.get(consumer["uid"])) is not None and not _done(pod)
        ]
        if len(remaining) != len(reserved) or (status.get("allocation") and not remaining):
            # The last user takes the allocation along.
            allocation = status.get("allocation") if remaining else None
            claim = self._write(
                with_status(claim, reservedFor=remaining or None, allocation=allocation), free=not remaining
            )
        elif deleting(claim) and not remaining and FINALIZER in (claim["metadata"].get("finalizers") or []):
            claim = self._write(claim, free=True)
        owner = pods.get(owner_uid(claim))
        annotations = claim["metadata"].get("annotations") or {}
        generated = POD_CLAIM in annotations or ANNOTATION in annotations
        if generated and owner is not None and terminal(owner) and not deleting(claim):
            metadata = claim["metadata"]
            self.context.registry.delete(CLAIMS, metadata["namespace"], metadata["name"], {}, CONTROLLER)

    def _write(self, claim: Manifest, *, free: bool) -> Manifest:
        if free:
            finalizers = [
                finalizer for finalizer in claim["metadata"].get("finalizers") or [] if finalizer != FINALIZER
            ]
            metadata = {**claim["metadata"], "finalizers": finalizers}
            if not finalizers:
                del metadata["finalizers"]
            claim = claim | {"metadata": metadata}
            if deleting(claim) and not finalizers:
                return self.store.remove(CLAIMS, claim)
        return self.store.put(CLAIMS, claim)


def _done(pod: Manifest) -> bool:
    return terminal(pod) or (deleting(pod) and not pod["spec"].get("nodeName"))


def _owner(pod: dict[str, Any]) -> dict[str, Any]:
    """Return the reference to the pod with this metadata, which controls its claim."""
    return {"apiVersion": "v1", "kind": "Pod", "name": pod["name"], "uid": pod["uid"], "controller": True}


def _claim(pod: Manifest, pod_claim: dict[str, Any], template: Manifest) -> Manifest:
    metadata, spec = pod["metadata"], template["spec"]
    template_metadata = spec.get("metadata") or {}
    return {
        "metadata": {
            "generateName": _base(metadata["name"], pod_claim["name"]),
            "annotations": (template_metadata.get("annotations") or {}) | {POD_CLAIM: pod_claim["name"]},
            "ownerReferences": [_owner(metadata)],
        }
        | ({"labels": template_metadata["labels"]} if template_metadata.get("labels") else {}),
        "spec": spec["spec"],
    }


def _base(pod: str, claim: str) -> str:
    """Return the start of the generated name; both parts are cut in proportion if they are too long."""
    if len(pod) + len(claim) + 2 > MAX_BASE_LENGTH:
        room = MAX_BASE_LENGTH - 2
        for_pod = len(pod) * room // (len(pod) + len(claim))
        pod, claim = pod[:for_pod], claim[: room - for_pod]
    return f"{pod}-{claim}-"
