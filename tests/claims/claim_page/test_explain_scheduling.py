"""Messages of the scheduler compared with the cluster snapshot, for one pod and for many."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.claim_page.explain import explain
from claims.claim_page.pods import PodStage
from claims.models import Claim
from claims.states import ClaimState
from inventory import cluster_snapshot
from inventory.models import Freshness, ResourceClaim
from tests.claims.explained import NOTHING_FITS, have_devices, hold, now
from tests.claims.mirror import result

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def fresh_snapshot():
    cluster_snapshot.forget()
    yield
    cluster_snapshot.forget()


def test_scheduler_and_snapshot_agree(claim, mirror, fra):
    ResourceClaim.objects.create(
        cluster=fra, uid="taken", name="taken", namespace="speech", revision=mirror.next_revision(),
        raw={
            "metadata": {"name": "taken", "namespace": "speech", "uid": "taken"},
            "spec": claim.spec,
            "status": {"allocation": {"devices": {"results": [result("gpu-0")]}}},
        },
    )  # fmt: skip
    have_devices(fra, "gpu-0")
    mirror.pod("train", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is True
    assert (found.next_action.actor, found.next_action.who) == ("cluster", "Kubernetes")
    assert found.next_action.sentence.startswith(
        "The pod train waits. The node does not have enough free devices"
    )
    assert "shows the same: Request gpu needs 1 device; 0 match and are free." in found.next_action.sentence
    assert now(claim).key == "scheduler"


def test_disagreement_of_scheduler_and_snapshot_is_shown(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    seen = timezone.now() - timedelta(seconds=12)
    for resource in ("resourceslices", "resourceclaims", "pods"):
        Freshness.objects.create(cluster=fra, resource=resource, seen_at=seen)
    mirror.pod("train", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is False
    assert "s old): the claim fits on 1 node now (node-1). The scheduler reports that nothing fits." in (
        found.next_action.sentence
    )


def test_devices_on_excluded_node_are_no_disagreement(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    message = (
        "0/2 nodes are available: 1 cannot allocate all claims, 1 node(s) didn't match Pod's node affinity/"
        "selector."
    )
    mirror.pod("train", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is True
    assert "excludes nodes for reasons other than devices" in found.fit.sentence


def test_without_scheduler_message_only_snapshot_is_shown(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    mirror.pod("train", claims=["sam"], phase="Pending")
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is None
    assert "has not reported anything about the pod train" in found.next_action.sentence


def test_unknown_scheduler_reason_is_shown_unchanged(claim, mirror, fra):
    mirror.pod(
        "train", claims=["sam"], phase="Pending", message="0/1 nodes are available: 1 moon in the way."
    )
    message = explain(claim).pods[0].scheduler_message
    assert message is not None
    assert [(reason.text, reason.meaning) for reason in message.reasons] == [("moon in the way", "")]


def test_failing_selector_is_for_platform_admin(claim, mirror, fra):
    message = (
        'running "DynamicResources" filter plugin: claim vision/sam: selector #0 on device d/n/gpu-0: CEL '
        "runtime error: no such key: x"
    )
    mirror.pod("train", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert (found.next_action.actor, found.next_action.headline) == ("admin", "A platform admin acts next.")
    assert "fails on the device d/n/gpu-0" in found.next_action.sentence


def test_second_pod_of_allocated_claim_gets_no_fit_check(claim, mirror):
    claim = hold(claim, mirror)
    mirror.pod("first", claims=["sam"], node_name="node-1")
    message = "0/2 nodes are available: 1 resourceclaim not available on the node, 1 Too many pods."
    mirror.pod("second", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert found.fit is None
    assert found.next_action.sentence.startswith(
        "The pod second waits. The claim already holds devices on another node."
    )


def test_waiting_pods_are_counted_and_first_ones_named(template, mirror, fra):
    have_devices(fra, "gpu-0")
    for number in range(5):
        spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "batch"}]}
        made = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": f"made-{number}"}]}
        name = f"made-{number}"
        held = [result(f"gpu-{number}")] if number < 2 else []
        mirror.claim(name, template, *held, uid=f"uid-{number}", origin="template")
        where = {"phase": "Running", "node_name": "node-1"} if number < 2 else {"phase": "Pending"}
        message = "" if number < 2 else NOTHING_FITS
        raw = {"spec": spec, "status": made}
        mirror.pod(f"train-{number}", claims=[name], templates=["batch"], raw=raw, message=message, **where)
    template = Claim.objects.get(pk=template.pk)
    found = explain(template)
    assert template.state == ClaimState.ALLOCATED
    assert found.next_action.sentence.startswith("3 pods wait: train-2, train-3, train-4.")
    notes = {step.key: step.note for step in found.steps}
    assert (notes["scheduler"], notes["used"]) == ("2 devices, 3 pods wait", "2 pods run")
    assert [group.names for group in found.problem_groups] == ["train-2, train-3, train-4"]
    assert [(group.first.stage, group.count) for group in found.groups] == [
        (PodStage.SCHEDULER, 3), (PodStage.RUNNING, 2),
    ]  # fmt: skip


def test_pods_with_different_reasons_are_grouped_apart(claim, mirror):
    mirror.pod("train-0", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    other = "0/1 nodes are available: 1 Insufficient cpu."
    for name in ("train-1", "train-2", "train-3", "train-4", "train-5"):
        mirror.pod(name, claims=["sam"], phase="Pending", message=other)
    for number, text in enumerate(("moon", "sun", "star")):
        message = f"0/1 nodes are available: 1 {text} in the way."
        mirror.pod(f"train-8{number}", claims=["sam"], phase="Pending", message=message)
    found = explain(claim)
    assert [group.names for group in found.problem_groups] == [
        "train-0", "train-1, train-2, train-3 and 2 more", "train-80",
    ]  # fmt: skip
    assert found.more_waiting == 2
    assert found.fit is not None
    assert found.fit.agrees is None  # without a DeviceClass nothing can be told
    assert "The pod train-0 waits. 8 more pods wait for other reasons." in found.next_action.sentence


def test_snapshot_is_compared_with_message_about_devices(claim, mirror, fra):
    have_devices(fra, "gpu-0")
    other = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    mirror.pod("a", claims=["sam"], phase="Pending", message=other)
    mirror.pod("b", claims=["sam"], phase="Pending", message=NOTHING_FITS)
    found = explain(claim)
    assert found.fit is not None
    assert found.fit.agrees is False
    assert [view.pod.name for view in found.pods] == ["b", "a"]
