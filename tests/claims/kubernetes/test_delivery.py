"""Delivery and reconciliation on the real control plane: what is claimed about Kubernetes is seen there."""

import pytest

from claims.approvals.decide import approve
from claims.delivery import tasks
from claims.lifecycle.services import release
from claims.models import Claim, TeamNamespace
from claims.plans import plan
from claims.states import ClaimState
from cluster.protocol import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_QUOTA
from demo.controlplane.client import eventually
from inventory.sync.list_watch import sync_once
from tests.factories import make_spec

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
CHARGED = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"


def test_a_claim_is_held_by_a_pod_and_given_back(approved, gateway, admin, fra, alice, until):
    claim = approved(devices=2)
    assert claim.state == ClaimState.PROVISIONED
    sync_once(fra, gateway)
    assert Claim.objects.get(pk=claim.pk).problem == ""  # the server's defaults make no other spec

    pod = admin.create(POD, plan.example_pod(claim))
    claim = until(claim, ClaimState.ALLOCATED)
    rows = list(claim.allocations.all())
    assert len(rows) == 2
    assert all(row.node_name and row.product and row.uuid for row in rows)

    release(claim=claim, by=alice)
    tasks.sweep()
    assert Claim.objects.get(pk=claim.pk).state == ClaimState.RELEASING
    admin.delete(POD, pod["metadata"]["name"], namespace=claim.namespace)
    claim = until(claim, ClaimState.RELEASED)
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace) is None
    assert not claim.allocations.filter(ended_at=None).exists()


def test_a_template_makes_a_claim_per_pod(approved, gateway, admin, fra, alice, until):
    claim = approved(delivery="template", parallel=2)
    for number in range(2):
        pod = plan.example_pod(claim)
        pod["metadata"]["name"] = f"pod-{number}"
        admin.create(POD, pod)
    claim = until(claim, ClaimState.ALLOCATED)

    def both_hold():
        sync_once(fra, gateway)
        return claim.allocations.count() == 2

    eventually(both_hold, subject="both pods hold a device")

    release(claim=claim, by=alice)
    assert gateway.get(RESOURCE_CLAIM_TEMPLATE, claim.name, namespace=claim.namespace) is None
    assert Claim.objects.get(pk=claim.pk).state == ClaimState.RELEASING
    for number in range(2):
        admin.delete(POD, f"pod-{number}", namespace=claim.namespace)
    until(claim, ClaimState.RELEASED)


def test_a_foreign_claim_of_that_name_is_not_touched(approved, gateway, admin, vision, fra):
    namespace = TeamNamespace.objects.get(team=vision, cluster=fra).namespace
    foreign = admin.create(
        RESOURCE_CLAIM, {"metadata": {"name": "taken", "namespace": namespace}, "spec": make_spec(2)}
    )
    claim = approved(name="taken")
    assert claim.state == ClaimState.REQUESTED
    assert "that is not of this claim" in claim.problem
    now = admin.get(RESOURCE_CLAIM, "taken", namespace=namespace)
    assert now["metadata"]["resourceVersion"] == foreign["metadata"]["resourceVersion"]


def test_a_quota_of_the_cluster_sends_the_claim_back_with_its_sentence(approved, gateway, admin, vision, fra):
    namespace = TeamNamespace.objects.get(team=vision, cluster=fra).namespace
    limit = {"metadata": {"name": "gpus", "namespace": namespace}, "spec": {"hard": {CHARGED: "1"}}}
    admin.create(RESOURCE_QUOTA, limit)

    def counted():
        found = admin.get(RESOURCE_QUOTA, "gpus", namespace=namespace) or {}
        return found.get("status", {}).get("used")

    eventually(counted, subject="the quota is counted")
    claim = approved(devices=2)
    assert claim.state == ClaimState.REQUESTED
    assert "exceeded quota: gpus" in claim.problem


def test_what_the_server_finds_invalid_fails_with_its_words(approved, gateway, ask, lena):
    claim = ask()
    broken = {
        "devices": {"requests": [{"name": "NOT A LABEL", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]}
    }
    Claim.objects.filter(pk=claim.pk).update(spec=broken)
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    claim.refresh_from_db()
    assert claim.state == ClaimState.FAILED
    assert "spec.devices.requests[0].name" in claim.problem
