"""
Pods that ask for devices by number: the claim that the scheduler makes for them (KEP 5004).

Only names that a DeviceClass carries lead to a claim, and the name that each class has by itself. Others are
those of device plugins, which this cluster does not have: they count as there.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from dra.extended import IMPLICIT, names_of
from simulator.controllers.context import with_status
from simulator.resources import Manifest

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"


@dataclass(frozen=True, slots=True)
class Wanted:
    """So many devices of a class for one container, under the name of an extended resource."""

    container: str
    resource: str
    request: str  # what the claim calls it
    device_class: str
    count: int


def wanted_by(pod: Manifest, classes: Iterable[Any]) -> list[Wanted]:
    carried = names_of(
        (
            one["metadata"]["name"],
            one["spec"]["extendedResourceName"],
            one["metadata"]["creationTimestamp"],
        )
        for one in classes
        if (one.get("spec") or {}).get("extendedResourceName")
    )
    return [
        Wanted(container["name"], name, f"container-{place}-request-{number}", device_class, count)
        for place, container in enumerate(pod["spec"]["containers"])
        for number, (name, device_class, count) in enumerate(_of(container, carried))
    ]


def claim_for(pod: Manifest, wanted: Iterable[Wanted]) -> Manifest:
    """Return the claim, not yet written: it has a name only when it is."""
    metadata = pod["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "metadata": {
            "generateName": f"{metadata['name'][:40]}-extended-resources-",
            "namespace": metadata["namespace"],
            "annotations": {ANNOTATION: "true"},
            "ownerReferences": [owner],
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": one.request,
                        "exactly": {
                            "deviceClassName": one.device_class,
                            "allocationMode": "ExactCount",
                            "count": one.count,
                        },
                    }
                    for one in wanted
                ]
            }
        },
    }


def recorded(pod: Manifest, claim: Manifest, wanted: Iterable[Wanted]) -> Manifest:
    """Return the pod with the claim in its status."""
    mappings = [
        {"containerName": one.container, "resourceName": one.resource, "requestName": one.request}
        for one in wanted
    ]
    made = {"resourceClaimName": claim["metadata"]["name"], "requestMappings": mappings}
    return with_status(pod, extendedResourceClaimStatus=made)


def _of(container: Manifest, carried: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    resources = container.get("resources") or {}
    asked = (resources.get("limits") or {}) | (resources.get("requests") or {})
    for name, count in sorted(asked.items()):
        known = name.removeprefix(IMPLICIT) if name.startswith(IMPLICIT) else carried.get(name, "")
        if known and str(count).isdigit() and int(count):
            yield name, known, int(count)
