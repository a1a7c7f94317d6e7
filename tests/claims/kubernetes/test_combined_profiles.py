"""One claim with devices of two profiles on the real control plane."""

import pytest

from claims.models import Quota
from claims.plans import plan
from claims.plans.changes import current_parts
from claims.quotas import quota_usage
from claims.states import ClaimState
from cluster.protocol import POD, RESOURCE_SLICE
from demo.controlplane import machines
from tests.factories import make_profile, make_quota, make_spec

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
PART = "mig.nvidia.com"


@pytest.fixture
def cut(admin):
    """A partition on a node that has whole GPUs too, as a GPU that was cut by hand leaves it."""
    card = machines.nvidia_attributes("a100-a", 9, "NVIDIA A100-SXM4-80GB", "Ampere", "8.0.0")
    partition = {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
    device = {
        "name": "gpu-9-mig-1g10gb-0",
        "attributes": card | partition | {"uuid": {"string": "MIG-of-a100-a"}},
        "capacity": {"memory": {"value": "9856Mi"}},
    }
    pool = machines.resource_slice("gpu.nvidia.com", "a100-a", number=1, devices=[device])
    pool["spec"]["pool"]["name"] = "a100-a-cut"
    admin.create(RESOURCE_SLICE, pool)
    yield
    admin.delete(RESOURCE_SLICE, pool["metadata"]["name"])


def used():
    return {row.label: (row.held, row.reserved) for row in quota_usage.quota_usage(Quota.objects.all())}


def test_a_gpu_and_a_partition_are_given_together_and_both_quotas_are_charged(
    approved, gateway, admin, vision, train, until, cut
):
    part = make_profile("slice-10", spec=make_spec(device_class=PART))
    make_quota(vision, 4, device_class=PART)
    make_quota(vision, 3, profile=part)
    claim = approved(devices=2, together=[(part, 1)])
    assert claim.state == ClaimState.PROVISIONED
    admin.create(POD, plan.example_pod(claim))
    claim = until(claim, ClaimState.ALLOCATED)
    rows = list(claim.allocations.all())
    assert sorted(row.request for row in rows) == ["slice-10", "train-80", "train-80"]
    assert [row.device for row in rows if row.request == "slice-10"] == ["gpu-9-mig-1g10gb-0"]
    assert {row.node_name for row in rows} == {"a100-a"}
    assert [(one.alternative.name, one.held) for one in current_parts(claim, rows)] == [
        ("train-80", 2),
        ("slice-10", 1),
    ]
    assert used() == {"gpu.nvidia.com": (2, 0), PART: (1, 0), str(part): (1, 0)}
