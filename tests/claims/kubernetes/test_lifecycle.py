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
from cluster.protocol import POD, RESOURCE_CLAIM
from inventory.sync.list_watch import sync_once
from notify.models import Notice

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]


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
