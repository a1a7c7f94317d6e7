"""What a row says of an object, by the rules of Kubernetes' own tools."""

from typing import Any

import pytest

from inventory.models import Node, Pod, ResourceClaim
from inventory.sync.columns import CLAIM_LABEL, FROM_POD, claim_origin, claim_state, columns
from inventory.sync.rows import is_newer, newest

ALLOCATED: dict[str, Any] = {"allocation": {"devices": {"results": []}}}
RESERVED = {**ALLOCATED, "reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}
DELETING = {"deletionTimestamp": "2026-11-20T10:00:00Z"}


@pytest.mark.parametrize(
    ("metadata", "status", "state"),
    [
        ({}, {}, "pending"),
        ({}, ALLOCATED, "allocated"),
        ({}, RESERVED, "allocated,reserved"),
        (DELETING, RESERVED, "deleted,allocated,reserved"),
        (DELETING, {}, "deleted"),
    ],
)
def test_the_state_of_a_claim_is_what_kubectl_shows(metadata, status, state):
    assert claim_state({"metadata": metadata, "status": status}) == state


@pytest.mark.parametrize(
    ("metadata", "origin"),
    [
        ({"labels": {CLAIM_LABEL: "1"}}, "portal"),
        ({"labels": {CLAIM_LABEL: "1"}, "annotations": {FROM_POD: "gpu"}}, "template"),
        ({"annotations": {"resource.kubernetes.io/extended-resource-claim": "true"}}, "extended-resource"),
        ({}, "foreign"),
    ],
)
def test_the_origin_of_a_claim_is_read_from_labels_and_annotations(metadata, origin):
    assert claim_origin(metadata) == origin


def test_claim_row_has_owner_and_allocation_time():
    status = {"allocation": {"allocationTimestamp": "2026-11-20T10:00:00Z", "devices": {"results": []}}}
    metadata = {"uid": "u", "name": "n", "namespace": "vision", "labels": {"gpu.dragoman.dev/claim": "42"}}
    row = columns(ResourceClaim, {"metadata": metadata, "spec": {}, "status": status})
    assert (row["owner"], row["namespace"]) == ("42", "vision")
    assert row["allocated_at"].isoformat() == "2026-11-20T10:00:00+00:00"


@pytest.mark.parametrize(
    ("labels", "node_pool"),
    [
        ({"node-pool": "b", "karpenter.sh/nodepool": "a100"}, "a100"),
        ({"node-pool": "b", "karpenter.sh/nodepool": ""}, "b"),
        ({"kubernetes.io/os": "linux"}, ""),
        (None, ""),
    ],
)
def test_the_pool_of_a_node_is_that_of_the_first_known_label(labels, node_pool):
    node = {"metadata": {"uid": "u", "name": "n", "labels": labels}}
    assert columns(Node, node)["node_pool"] == node_pool


def test_pod_row_has_claims_of_every_kind():
    pod = {
        "metadata": {"uid": "u", "name": "n", "namespace": "vision"},
        "spec": {
            "nodeName": "node-a",
            "resourceClaims": [
                {"name": "a", "resourceClaimName": "named"},
                {"name": "b", "resourceClaimTemplateName": "batch"},
            ],
        },
        "status": {
            "phase": "Pending",
            "resourceClaimStatuses": [{"name": "b", "resourceClaimName": "n-b-x1"}, {"name": "c"}],
            "extendedResourceClaimStatus": {"resourceClaimName": "n-extended-x2"},
            "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}],
        },
    }
    row = columns(Pod, pod)
    assert row["claims"] == ["n-b-x1", "n-extended-x2", "named"]
    assert (row["templates"], row["message"]) == (["batch"], "0/2 nodes are available")


def test_non_numeric_versions_count_as_newer():
    assert is_newer("10", "9")
    assert not is_newer("9", "10")
    assert not is_newer("9", "9")
    assert is_newer("abc", "9")
    assert newest(["9", "10", "8"]) == "10"
    assert newest(["9", "x"]) == "x"
    assert newest([]) == ""


def test_pod_row_keeps_only_waiting_reasons_of_containers():
    state = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}
    status = {"containerStatuses": [{"name": "main", "image": "secret", "ready": False, "state": state}]}
    pod = {"metadata": {"uid": "u", "name": "n", "namespace": "vision"}, "spec": {}, "status": status}
    kept = columns(Pod, pod)["raw"]["status"]["containerStatuses"]
    assert kept == [{"name": "main", "ready": False, "state": state}]
