"""What others do to the portal's claims, and what they made themselves, on the real control plane."""

from datetime import timedelta

import pytest

from claims.delivery import tasks
from claims.lifecycle.services import accept_object, label_again
from claims.models import Claim
from claims.observation import drift, observations
from claims.observation.observations import observe
from claims.plans import plan
from claims.states import ClaimState
from claims.unmanaged.services import adopt
from cluster.protocol import POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from demo.controlplane.client import Client, eventually
from inventory.models import ResourceClaim
from inventory.sync.list_watch import sync_once
from notify.models import Notice
from tests.factories import make_spec

pytestmark = [pytest.mark.controlplane, pytest.mark.django_db(transaction=True)]
LABEL = "gpu.dragoman.dev/claim"


@pytest.fixture
def kubectl(controlplane):
    client: Client = controlplane.client("admin")
    return client


@pytest.fixture
def seen(fra, gateway):
    """Look at the cluster, and return the claim with the code of its trouble."""

    def look_again(claim):
        sync_once(fra, gateway)
        tasks.sweep()
        found = Claim.objects.get(pk=claim.pk)
        trouble = drift.find_drift(found, observe([found])[found.pk])
        return found, trouble and trouble.code

    return look_again


def pod(name, namespace, claim="", template=""):
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    container = {"name": "main", "image": "ubuntu", "resources": {"claims": [{"name": "gpu"}]}}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [container], "resourceClaims": [{"name": "gpu", **source}]},
    }


def delete(kubectl, kind, claim):
    """Delete, and wait until it is gone."""
    kubectl.delete(kind, claim.name, claim.namespace)
    eventually(lambda: kubectl.get(kind, claim.name, claim.namespace) is None, subject="it is gone")


def test_deleted_by_somebody_else_it_fails_and_its_owner_hears_of_it(
    approved, kubectl, seen, alice, root, monkeypatch
):
    monkeypatch.setattr(observations, "RECREATION_TIME", timedelta(0))
    claim = approved()
    assert seen(claim)[1] is None
    delete(kubectl, "ResourceClaim", claim)
    found, code = seen(claim)
    assert (found.state, code) == (ClaimState.FAILED, drift.DELETED)
    assert found.problem.startswith(f"ResourceClaim {claim.name} was deleted in fra-1 by somebody other")
    told = Notice.objects.filter(title=f"{claim.name} was deleted by somebody else", important=True)
    assert {notice.user for notice in told} == {alice, root}


def test_made_again_as_it_was_it_can_be_accepted(approved, admin, kubectl, seen, root):
    claim = approved()
    seen(claim)
    delete(kubectl, "ResourceClaim", claim)
    admin.create(RESOURCE_CLAIM, plan.claim_manifest(claim))
    found, code = seen(claim)
    assert (found.state, code) == (ClaimState.PROVISIONED, drift.REPLACED)
    accept_object(claim=found, by=root)
    found, code = seen(claim)
    assert (found.problem, code) == ("", None)
    assert found.object_uid != claim.object_uid


def test_made_again_with_another_spec_is_an_alarm(approved, admin, kubectl, seen):
    claim = approved()
    seen(claim)
    delete(kubectl, "ResourceClaim", claim)
    admin.create(RESOURCE_CLAIM, plan.claim_manifest(claim) | {"spec": make_spec(2)})
    found, code = seen(claim)
    assert code == drift.REPLACED_AND_EDITED
    assert "approved was" in found.problem


def test_a_lost_label_is_told_and_put_back(approved, kubectl, seen, alice):
    claim = approved()
    kubectl.patch("ResourceClaim", claim.name, {"metadata": {"labels": {LABEL: None}}}, claim.namespace)
    found, code = seen(claim)
    assert (found.state, code) == (ClaimState.PROVISIONED, drift.UNLABELED)
    label_again(claim=found, by=alice)
    assert seen(claim)[1] is None
    now = kubectl.get("ResourceClaim", claim.name, claim.namespace)
    assert now["metadata"]["labels"][LABEL] == str(claim.pk)
    assert now["metadata"]["uid"] == claim.object_uid


def test_labels_and_annotations_of_others_are_no_trouble(approved, kubectl, seen):
    claim = approved()
    note = {"metadata": {"labels": {"project": "x"}, "annotations": {"note": "mine"}}}
    kubectl.patch("ResourceClaim", claim.name, note, claim.namespace)
    found, code = seen(claim)
    mirrored = ResourceClaim.objects.get(uid=found.object_uid).raw["metadata"]
    assert (mirrored["labels"]["project"], mirrored["annotations"]["note"]) == ("x", "mine")
    assert (found.state, found.problem, code) == (ClaimState.PROVISIONED, "", None)


def test_a_template_made_again_with_another_spec_is_an_alarm(approved, admin, kubectl, seen, namespace):
    claim = approved(delivery="template", parallel=2)
    admin.create(POD, pod("first", namespace, template=claim.name))
    eventually(lambda: seen(claim)[0].state == ClaimState.ALLOCATED, subject="it is held")
    delete(kubectl, "ResourceClaimTemplate", claim)
    wanted = plan.claim_manifest(claim)
    admin.create(RESOURCE_CLAIM_TEMPLATE, wanted | {"spec": {**wanted["spec"], "spec": make_spec(2)}})
    found, code = seen(claim)
    assert (found.state, code) == (ClaimState.ALLOCATED, drift.REPLACED_AND_EDITED)


def test_a_foreign_claim_with_a_running_pod_is_adopted_as_it_stands(
    admin, gateway, seen, fra, namespace, root, alice, train, quota
):
    labels = {"app": "by-hand"}
    made = {"metadata": {"name": "by-hand", "namespace": namespace, "labels": labels}, "spec": make_spec(2)}
    before = admin.create(RESOURCE_CLAIM, made)
    admin.create(POD, pod("mine", namespace, claim="by-hand"))

    def held():
        sync_once(fra, gateway)
        row = ResourceClaim.objects.get(uid=before["metadata"]["uid"])
        return row if row.state == "allocated,reserved" else None

    row = eventually(held, subject="the pod holds it")
    duration = timedelta(hours=24)
    claim = adopt(row=row, by=root, owner=alice, profile=train, duration=duration)
    found, code = seen(claim)
    assert (found.state, found.problem, code) == (ClaimState.ALLOCATED, "", None)
    assert claim.allocations.filter(ended_at=None).count() == 2
    after = admin.get(RESOURCE_CLAIM, "by-hand", namespace=namespace)
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    assert after["metadata"]["labels"].items() >= {**labels, LABEL: str(claim.pk)}.items()
