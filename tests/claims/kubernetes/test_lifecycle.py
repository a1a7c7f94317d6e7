"""The end of a claim and its replacement on the real control plane."""

from datetime import timedelta

import pytest
from django.utils import timezone

from claims.approvals.decide import approve
from claims.delivery import tasks
from claims.lifecycle.services import extend
from claims.models import Claim, ProfileVersion, RequestStatus
from claims.plans import plan
from claims.requests.services import resize
from claims.states import ClaimState
from claims.tasks import expire
from cluster.protocol import DEVICE_TAINT_RULE_VERSIONS, POD, RESOURCE_CLAIM
from demo.controlplane.client import eventually
from inventory.sync.list_watch import follow, sync_once
from inventory.sync.session import take
from notify.models import Notice

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
DEVICE_TAINT_RULE = DEVICE_TAINT_RULE_VERSIONS[0]


def pod_for(claim, name):
    pod = plan.example_pod(claim)
    pod["metadata"]["name"] = name
    return pod


def test_an_extended_claim_ends_and_its_pod_keeps_the_device(approved, gateway, admin, fra, alice, until):
    ProfileVersion.objects.update(extension=timedelta(hours=1))
    claim = approved()
    admin.create(POD, pod_for(claim, "train-0"))
    claim = until(claim, ClaimState.ALLOCATED)
    longer = claim.expires_at + timedelta(hours=1)
    assert extend(claim=claim, by=alice, until=longer, key="k").status == RequestStatus.APPROVED
    expire()
    assert Claim.objects.get(pk=claim.pk).state == ClaimState.ALLOCATED

    Claim.objects.filter(pk=claim.pk).update(expires_at=timezone.now())
    expire()
    tasks.sweep()
    assert Claim.objects.get(pk=claim.pk).state == ClaimState.RELEASING
    assert (
        "The pod train-0 keeps its devices" in Notice.objects.get(user=alice, key__startswith="ended:").body
    )
    there = gateway.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace)
    assert "deletionTimestamp" in there["metadata"]
    assert there["status"]["allocation"]
    assert admin.get(POD, "train-0", namespace=claim.namespace)["metadata"].get("deletionTimestamp") is None
    sync_once(fra, gateway)
    tasks.sweep()
    assert Claim.objects.get(pk=claim.pk).state == ClaimState.RELEASING

    admin.delete(POD, "train-0", namespace=claim.namespace)
    claim = until(claim, ClaimState.RELEASED)
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace=claim.namespace) is None


def test_what_is_replaced_is_deleted_when_its_successor_holds_devices(
    approved, gateway, admin, alice, lena, until
):
    old = approved(devices=1, name="small")
    admin.create(POD, pod_for(old, "old-0"))
    old = until(old, ClaimState.ALLOCATED)
    new = resize(claim=old, by=alice, devices=2, name="larger", key="k")
    approve(claim=new, by=lena, spec_hash=new.spec_hash)
    new = Claim.objects.get(pk=new.pk)
    assert (new.state, new.carried) == (ClaimState.PROVISIONED, 1)
    assert until(old, ClaimState.ALLOCATED)

    admin.create(POD, pod_for(new, "new-0"))
    until(new, ClaimState.ALLOCATED)
    old = until(old, ClaimState.RELEASING)
    assert "Replaced by larger, which holds its devices." in old.history.values_list("reason", flat=True)
    admin.delete(POD, "old-0", namespace=old.namespace)
    until(old, ClaimState.RELEASED)
    new.refresh_from_db()
    assert (new.state, new.carried) == (ClaimState.ALLOCATED, 0)


def test_owner_is_told_of_an_eviction_and_of_a_taint(
    approved, gateway, admin, controlplane, fra, alice, until
):
    claim = approved()

    def told(pod):
        lease = take(fra.pk, POD.plural)
        since = lease.rows().get().resource_version
        follow(lease, gateway, POD, version=since, seconds=1)
        lease.drop()
        tasks.sweep()
        rows = Notice.objects.filter(user=alice, key__startswith=f"disrupted:{claim.pk}")
        return rows.filter(title__contains=pod).first()

    admin.create(POD, pod_for(claim, "train-0"))
    claim = until(claim, ClaimState.ALLOCATED)
    pod = f"/api/v1/namespaces/{claim.namespace}/pods/train-0"
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "train-0"}}
    controlplane.client().raw("POST", f"{pod}/eviction", json=eviction).raise_for_status()
    assert "somebody evicted it" in eventually(lambda: told("train-0"), subject="the eviction").body

    claim = until(claim, ClaimState.PROVISIONED)
    admin.create(POD, pod_for(claim, "train-1"))
    claim = until(claim, ClaimState.ALLOCATED)
    held = claim.allocations.filter(ended_at=None).first()
    rule = {
        "metadata": {"name": "drain-it"},
        "spec": {
            "deviceSelector": {"driver": held.driver, "pool": held.pool, "device": held.device},
            "taint": {"key": "example.com/broken", "effect": "NoExecute"},
        },
    }
    admin.create(DEVICE_TAINT_RULE, rule)
    try:
        body = eventually(lambda: told("train-1"), subject="the taint").body
        assert "devices has a NoExecute taint" in body
        assert "Kubernetes says: “" in body
    finally:
        admin.delete(DEVICE_TAINT_RULE, "drain-it")
