"""API of unmanaged claims, adoption, and bulk actions."""

import json

import pytest

from claims.models import Claim
from claims.states import ClaimState
from inventory.models import ResourceClaim
from tests.claims.mirror import Mirror
from tests.factories import make_claim, make_spec

pytestmark = pytest.mark.django_db
UNMANAGED, BULK = "/api/v1/claims/unmanaged/", "/api/v1/claims/bulk/"


@pytest.fixture
def row(fra, gateway, quota, train):
    raw = {"metadata": {"name": "by-hand"}, "spec": make_spec(2)}
    return ResourceClaim.objects.create(
        cluster=fra, uid="u-1", name="by-hand", namespace="vision", raw=raw, origin="foreign"
    )


def post(client, person, address, body):
    client.force_login(person)
    return client.post(address, json.dumps(body), content_type="application/json")


def test_the_list_is_of_the_askers_teams_and_can_be_narrowed(client, alice, eve, row):
    client.force_login(alice)
    (found,) = client.get(UNMANAGED).json()["results"]
    assert (found["name"], found["team"], found["requested_devices"], found["adoptable"]) == (
        "by-hand", "vision", 2, True,
    )  # fmt: skip
    assert client.get(UNMANAGED, {"origin": "template"}).json()["results"] == []
    client.force_login(eve)
    assert client.get(UNMANAGED).json()["results"] == []


def test_an_admin_adopts_and_asking_twice_is_answered_twice(client, root, alice, eve, row):
    body = {"owner": "alice", "profile": "train-80", "duration": "1d"}
    address = f"{UNMANAGED}{row.uid}/adopt/"
    first = post(client, root, address, body)
    assert first.status_code == 201
    assert first.json()["requested_by"] == "alice"
    assert post(client, root, address, body).json()["id"] == first.json()["id"]
    assert Claim.objects.count() == 1
    assert post(client, alice, address, body).status_code == 403
    assert post(client, eve, address, body).status_code == 404


def test_adopting_refuses_with_the_sentences_of_the_page(client, root, alice, row, quota):
    address = f"{UNMANAGED}{row.uid}/adopt/"
    fields = {"owner": "nobody", "profile": "train-80", "duration": "1d"}
    assert post(client, root, address, fields).json()["detail"] == "There is no person nobody."
    quota.devices = 1
    quota.save(update_fields=["devices"])
    over = post(client, root, address, fields | {"owner": "alice"})
    assert (over.status_code, over.json()["code"]) == (409, "quota-exceeded")
    assert post(client, root, address, fields | {"owner": "alice", "over_quota": True}).status_code == 201


def test_several_claims_are_previewed_and_released(client, alice, lena, vision, fra, train, gateway):
    mine = make_claim(vision, by=alice, cluster=fra, name="mine", state=ClaimState.PROVISIONED)
    hers = make_claim(vision, by=lena, cluster=fra, name="hers", state=ClaimState.PROVISIONED)
    body = {"action": "release", "claims": [str(mine.pk), str(hers.pk)]}
    before = {one["name"]: one for one in post(client, alice, BULK, body | {"preview": True}).json()}
    assert before["mine"]["message"] == "Released: it holds no device now."
    assert before["hers"]["code"] == "refused"
    mine.refresh_from_db()
    assert mine.state == ClaimState.PROVISIONED
    after = {one["name"]: one for one in post(client, alice, BULK, body).json()}
    assert (after["mine"]["done"], after["hers"]["done"]) == (True, False)
    assert after["hers"]["code"] == "forbidden"
    mine.refresh_from_db()
    assert mine.state in (ClaimState.RELEASING, ClaimState.RELEASED)


def test_bad_input_is_422(client, alice):
    assert post(client, alice, BULK, {"action": "explode", "claims": []}).status_code == 422
    ids = [f"0190f5d4-0000-7000-8000-{number:012d}" for number in range(201)]
    refused = post(client, alice, BULK, {"action": "release", "claims": ids})
    assert refused.status_code == 422
    assert "At most 200 can be changed at once." in refused.json()["detail"]


def test_a_claim_says_the_code_of_its_problem(client, alice, vision, fra, train, gateway):
    claim = make_claim(
        vision, by=alice, cluster=fra, name="sam", state=ClaimState.PROVISIONED, object_uid="before"
    )
    Mirror(fra).claim("sam", claim, uid="after")
    client.force_login(alice)
    assert client.get(f"/api/v1/claims/{claim.pk}/").json()["problem_code"] == "replaced"
