"""Pages of approvers: changes, bulk decisions, reasons, delegations."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone
from rest_framework.test import APIClient

from claims.approvals.decide import approve, deny
from claims.approvals.services import delegate
from claims.models import Delegation, ReasonTemplate
from claims.states import ClaimState
from tests.factories import make_profile, make_quota, make_spec, make_user

pytestmark = pytest.mark.django_db

BULK, AWAY = reverse("claims:bulk_decisions"), reverse("claims:delegations")
DAY = timedelta(days=1)


@pytest.fixture
def claim(ask):
    return ask(name="sam2", devices=4, duration=10 * DAY)


def url(name, row):
    return reverse(f"claims:{name}", args=[row.pk])


def test_list_says_when_a_request_is_due(client, lena, claim):
    client.force_login(lena)
    assert "Oldest first, each due within 1 d<" in client.get(reverse("claims:approvals")).text
    decided = client.get(reverse("claims:approvals"), {"tab": "decided"}).text
    assert "Newest first<" in decided


# Approving with changes


def test_change_is_previewed(client, lena, claim):
    client.force_login(lena)
    page = client.get(url("change", claim), {"devices": "2", "duration": "3d"}).text
    assert "4 → 2 devices" in page
    assert "10 d → 3 d" in page
    assert "No additional quota needed." in page
    part = client.get(url("change", claim), {"devices": "9"}, headers={"HX-Request": "true"}).text
    assert "not 9" in part
    assert "<html" not in part


def test_a_change_to_another_profile_shows_its_quota(client, lena, claim, vision):
    make_quota(vision, 3, device_class="mig.nvidia.com")
    make_profile("slice-20", spec=make_spec(device_class="mig.nvidia.com"))
    client.force_login(lena)
    page = client.get(url("change", claim), {"profile": "slice-20"}).text
    assert (
        "Quota of Vision exceeded by 1: 0 of 3 mig.nvidia.com devices in use or reserved; "
        "this request needs 4." in page
    )


def test_a_change_is_approved(client, lena, claim):
    client.force_login(lena)
    sent = {"spec_hash": claim.spec_hash, "devices": "2", "duration": "3d", "note": "Enough."}
    page = client.post(url("change", claim), sent, follow=True).text
    assert "sam2 approved." in page
    claim.refresh_from_db()
    assert (claim.state, claim.devices, claim.duration) == (ClaimState.APPROVED, 2, 3 * DAY)
    assert "Original request: 4 × train-80 v1 for 10 d." in client.get(url("approval", claim)).text


@pytest.mark.parametrize(
    ("sent", "status"),
    [({"devices": "x"}, 422), ({"devices": "5"}, 422), ({}, 422), ({"duration": "soon"}, 422)],
)
def test_invalid_change_is_422(client, lena, claim, sent, status):
    client.force_login(lena)
    assert client.post(url("change", claim), {"spec_hash": claim.spec_hash, **sent}).status_code == status
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


def test_change_of_a_changed_spec_is_409(client, lena, lars, claim):
    client.force_login(lena)
    refused = client.post(url("change", claim), {"spec_hash": "0" * 64, "devices": "1"})
    assert refused.status_code == 409
    approve(claim=claim, by=lars, spec_hash=claim.spec_hash)
    refused = client.post(url("change", claim), {"spec_hash": claim.spec_hash, "devices": "1"})
    assert refused.status_code == 409
    assert "lars already" in refused.text


def test_change_without_authority_is_refused(client, alice, bob, eve, claim):
    for person, status in ((alice, 403), (bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.get(url("change", claim)).status_code == status
        assert client.post(url("change", claim), {"devices": "1"}).status_code == status


# Several at once


def test_bulk_preview_shows_totals(client, lena, ask, claim):
    other = ask(name="bev", devices=3)
    client.force_login(lena)
    page = client.get(BULK, {"claim": [claim.pk, other.pk]}).text
    assert "2 requests, 7 devices" in page
    assert "vision would use 7 of 8 gpu.nvidia.com devices, 7 of them for these requests." in page
    assert page.count("spec_hash_") == 2


def test_bulk_approval_is_independent_per_request(client, lena, lars, ask, claim):
    other, gone = ask(name="bev"), ask(name="gone")
    deny(claim=gone, by=lars, reason="No.")
    client.force_login(lena)
    sent = {
        "claim": [claim.pk, other.pk, gone.pk],
        "decision": "approve",
        f"spec_hash_{claim.pk}": claim.spec_hash,
        f"spec_hash_{other.pk}": "0" * 64,
        f"spec_hash_{gone.pk}": gone.spec_hash,
    }
    answer = client.post(BULK, sent)
    assert answer.status_code == 409
    assert "1 of 3 requests approved." in answer.text
    assert "bev has changed since you read it" in answer.text
    assert "lars already denied gone" in answer.text
    claim.refresh_from_db()
    other.refresh_from_db()
    assert (claim.state, other.state) == (ClaimState.APPROVED, ClaimState.REQUESTED)


def test_bulk_denial_with_a_reason(client, lena, ask, claim):
    client.force_login(lena)
    sent = {"claim": [claim.pk], "decision": "deny"}
    assert client.post(BULK, sent).status_code == 422
    assert client.post(BULK, sent | {"note": "Not this week."}).status_code == 200
    claim.refresh_from_db()
    assert (claim.state, claim.decision_note) == (ClaimState.DENIED, "Not this week.")


def test_bulk_excludes_invisible_requests(client, eve, bob, claim):
    sent = {"claim": [claim.pk, "x"], "decision": "approve", f"spec_hash_{claim.pk}": claim.spec_hash}
    client.force_login(eve)
    assert "sam2" not in client.get(BULK, {"claim": [claim.pk]}).text
    client.post(BULK, sent)
    client.force_login(bob)
    assert client.post(BULK, sent).status_code == 409
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


# Denying


def test_saved_reason_is_enough_to_deny(client, lena, vision, claim):
    ReasonTemplate.objects.create(title="Move", text="The cluster moves that week.", team=vision)
    client.force_login(lena)
    page = client.get(url("approval", claim)).text
    assert "The cluster moves that week." in page
    assert "Smaller device is enough" in page
    sent = {"note": "", "reason": "The cluster moves that week."}
    assert client.post(url("deny", claim), sent).status_code == 302
    claim.refresh_from_db()
    assert claim.decision_note == "The cluster moves that week."


def test_denied_requester_can_request_again(client, lena, alice, claim):
    deny(claim=claim, by=lena, reason="No.")
    client.force_login(alice)
    assert "Request again" in client.get(url("approval", claim)).text


# Away


@pytest.fixture
def mira(vision):
    mira = make_user("mira")
    vision.memberships.create(user=mira, role="member")
    return mira


def span(days=7):
    now = timezone.localtime()
    return {"starts_at": f"{now:%Y-%m-%dT%H:%M}", "ends_at": f"{now + days * DAY:%Y-%m-%dT%H:%M}"}


def test_lead_creates_and_ends_a_delegation(client, lena, mira, claim):
    client.force_login(lena)
    page = client.post(AWAY, {"team": "vision", "to": "mira", **span()}, follow=True).text
    assert "mira is now your delegate in vision." in page
    assert "mira decides for you in vision" in page
    row = Delegation.objects.get()
    client.force_login(mira)
    assert "sam2" in client.get(reverse("claims:approvals")).text
    assert "You decide as delegate of lena." in client.get(url("approval", claim)).text
    end = url("delegation_end", row)
    assert "mira is no longer the delegate of lena." in client.post(end, follow=True).text
    assert "sam2" not in client.get(reverse("claims:approvals")).text


def test_only_a_lead_sees_the_delegation_form(client, alice, bob, eve, mira):
    for person, status in ((alice, 403), (bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.post(AWAY, {"team": "vision", "to": "mira", **span()}).status_code == status
        assert client.get(AWAY).status_code == 200
    assert not Delegation.objects.exists()


def test_invalid_delegation_is_422(client, lena, mira):
    client.force_login(lena)
    for sent in ({**span(-1), "to": "mira"}, {**span(), "to": "bob"}, {"to": "mira"}):
        assert client.post(AWAY, {"team": "vision", **sent}).status_code == 422


def test_ending_a_delegation_of_others_is_404(client, lena, mira, eve, vision):
    now = timezone.now()
    row = delegate(by=lena, team=vision, to=mira, starts_at=now, ends_at=now + DAY)
    client.force_login(eve)
    assert client.post(url("delegation_end", row)).status_code == 404


# The API


def api_of(user):
    api = APIClient()
    api.force_login(user)
    return api


def test_the_api_approves_with_changes(lena, claim):
    sent = {"spec_hash": claim.spec_hash, "devices": 2, "duration": "3d"}
    answer = api_of(lena).post(f"/api/v1/claims/{claim.pk}/approve/", sent, format="json")
    assert answer.status_code == 200
    assert (answer.json()["state"], answer.json()["devices"], answer.json()["duration"]) == (
        "approved",
        2,
        259_200,
    )


def test_api_creates_a_delegation(lena, mira, eve, bob, vision):
    address = "/api/v1/delegations/"
    now = timezone.now()
    sent = {"team": "vision", "to": "mira", "starts_at": now.isoformat(), "ends_at": (now + DAY).isoformat()}
    for person, status in ((eve, 404), (bob, 403)):
        assert api_of(person).post(address, sent, format="json").status_code == status
    made = api_of(lena).post(address, sent, format="json")
    assert (made.status_code, made.json()["to"]) == (201, "mira")
    assert api_of(lena).post(address, sent | {"to": "eve"}, format="json").status_code == 422
    assert len(api_of(mira).get(address).json()["results"]) == 1
    assert api_of(eve).delete(f"{address}{made.json()['id']}/").status_code == 404
    assert api_of(mira).delete(f"{address}{made.json()['id']}/").status_code == 200
