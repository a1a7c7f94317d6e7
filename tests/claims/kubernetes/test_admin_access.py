"""Admin access on the real control plane: the portal foresees what server and scheduler do."""

import pytest

from claims.catalogue.presets import presets
from claims.models import Approval
from claims.plans import plan
from claims.plans.plan import ADMIN_ACCESS_LABEL, ADMIN_ACCESS_VALUE, namespace_problems
from claims.requests.services import request_claim
from claims.states import ClaimState
from cluster.protocol import POD, RESOURCE_CLAIM
from core.errors import Invalid
from inventory.sync.list_watch import sync_once
from tests.factories import make_quota, save_profile

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
(PRESET,) = (entry for entry in presets() if entry.slug == "gpu-monitoring")
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}


@pytest.fixture
def monitoring(root, vision):
    make_quota(vision, 40)
    made = save_profile(
        by=root,
        profile=None,
        slug=PRESET.slug,
        title=PRESET.title,
        spec=PRESET.spec,
        **vars(PRESET.limits) | {"approval": Approval.AUTOMATIC},
    )
    return made.profile


def test_the_server_refuses_what_the_portal_refuses(
    controlplane, admin, namespace, fra, monitoring, root, vision
):
    sync_once(fra, admin)
    with pytest.raises(
        Invalid, match=f"kubectl label namespace {namespace} {ADMIN_ACCESS_LABEL}={ADMIN_ACCESS_VALUE}"
    ):
        request_claim(by=root, team=vision, cluster=fra, profile=monitoring, key="one")
    claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "spec": PRESET.spec}
    answer = controlplane.client().raw(
        "POST",
        f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims",
        json=claim | {"metadata": {"name": "watch"}},
    )
    assert answer.status_code == 422
    assert f"{ADMIN_ACCESS_LABEL}: {ADMIN_ACCESS_VALUE}" in answer.json()["message"]


def test_with_the_label_it_sees_every_device_and_takes_none(
    controlplane, admin, namespace, fra, monitoring, root, vision, until
):
    client = controlplane.client()
    client.patch("Namespace", namespace, {"metadata": {"labels": {ADMIN_ACCESS_LABEL: ADMIN_ACCESS_VALUE}}})
    client.create(
        {
            "kind": "DeviceTaintRule",
            "metadata": {"name": namespace},
            "spec": {
                "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "h100-a", "device": "gpu-7"},
                "taint": TAINT,
            },
        }
    )
    try:
        sync_once(fra, admin)
        assert namespace_problems(PRESET.spec, fra, namespace) == []
        claim = request_claim(by=root, team=vision, cluster=fra, profile=monitoring, key="one")
        pod = plan.example_pod(claim)
        pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "h100-a"}
        admin.create(POD, pod)

        found = until(claim, ClaimState.ALLOCATED)
        assert not found.allocations.exists()  # it takes nothing, so nobody pays for it
        results = admin.get(RESOURCE_CLAIM, claim.name, namespace=namespace)["status"]["allocation"][
            "devices"
        ]
        assert [one["device"] for one in results["results"]] == [f"gpu-{number}" for number in range(8)]
        assert all(one["adminAccess"] for one in results["results"])
        admin.delete(POD, pod["metadata"]["name"], namespace=namespace)
    finally:
        client.delete("DeviceTaintRule", namespace)
