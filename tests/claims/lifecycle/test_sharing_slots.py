"""How many pods share a named claim, on its page and in the API."""

import pytest
from django.urls import reverse

from claims.lifecycle.consumers import sharing_slots
from claims.models import Claim
from claims.observation.observations import observe
from claims.states import ClaimState
from inventory.models import ResourceClaim
from tests.claims.mirror import Mirror, result
from tests.factories import make_claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def claim(vision, fra, train, alice, gateway):
    """A named claim with a device, reserved for one pod of two: the other one waits."""
    claim = make_claim(
        vision, by=alice, cluster=fra, name="sam", state=ClaimState.PROVISIONED, object_uid="uid-1"
    )
    mirror = Mirror(fra)
    job = {"metadata": {"ownerReferences": [{"kind": "Job", "name": "train", "controller": True}]}}
    mirror.pod("train-0", claims=["sam"], node_name="node-1", raw=job)
    mirror.pod("train-1", claims=["sam"], phase="Pending")
    mirror.claim("sam", claim, result("gpu-0"))
    reserve("uid-train-0")
    return Claim.objects.get(pk=claim.pk)


def reserve(*uids):
    row = ResourceClaim.objects.get(uid="uid-1")
    row.raw["status"]["reservedFor"] = [{"resource": "pods", "name": uid[4:], "uid": uid} for uid in uids]
    row.save(update_fields=["raw"])


def page(client, person, claim):
    client.force_login(person)
    return client.get(reverse("claims:detail", args=[claim.pk])).text


def test_the_page_says_who_uses_it_and_how_many_more_may(client, alice, claim):
    text = page(client, alice, claim)
    assert "1 of 256 pod slots in use; 255 more pods can use the claim." in text
    assert "Job train" in text
    assert "All pods run on the node of the devices: node-1." in text
    assert "Devices are freed when all 2 pods have ended." in text
    assert "Memory and compute time are not isolated" in text


def test_slots_stand_with_the_pods_and_not_before_there_is_one(client, alice, claim, vision, fra):
    assert page(client, alice, claim).count("pod slots") == 1
    waits = make_claim(
        vision, by=alice, cluster=fra, name="waits", state=ClaimState.PROVISIONED, object_uid="uid-2"
    )
    Mirror(fra).claim("waits", waits, uid="uid-2")
    assert sharing_slots(waits, observe([waits])[waits.pk]) is not None
    assert "pod slots" not in page(client, alice, waits)


def test_full_it_says_so(client, alice, claim):
    reserve(*[f"uid-{number}" for number in range(256)])
    assert "All 256 pod slots are in use" in page(client, alice, claim)


def test_a_template_and_a_claim_that_is_over_have_no_room(claim, vision, fra, alice):
    template = make_claim(
        vision, by=alice, cluster=fra, name="t", delivery="template", state=ClaimState.PROVISIONED
    )
    over = make_claim(vision, by=alice, cluster=fra, name="o", state=ClaimState.RELEASED)
    rooms = {one.name: sharing_slots(one, observe([one])[one.pk]) for one in (claim, template, over)}
    assert rooms["sam"] is not None
    assert (rooms["t"], rooms["o"]) == (None, None)


def test_api_returns_used_slots_and_limit(client, bob, eve, claim):
    address = f"/api/v1/claims/{claim.pk}/consumers/"
    client.force_login(bob)
    body = client.get(address).json()
    assert (body["used"], body["limit"]) == (1, 256)
    shown = {
        one["pod"]: (one["reserved"], one["workload"], one["stage"], one["node"]) for one in body["consumers"]
    }
    assert shown["train-0"] == (True, "Job train", "running", "node-1")
    assert shown["train-1"][0] is False
    assert "resourceClaimName: sam" in body["snippet"]
    client.force_login(eve)
    assert client.get(address).status_code == 404
