"""Withdrawing and releasing by page: asked first, with numbers, then done by POST."""

import pytest
from django.urls import reverse

from claims.states import ClaimState
from tests.factories import make_claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def claim(vision, fra, train, alice, gateway):
    return make_claim(vision, by=alice, cluster=fra, name="sam2", devices=2)


@pytest.fixture
def provisioned(vision, fra, train, alice, gateway):
    return make_claim(vision, by=alice, cluster=fra, name="held", devices=2, state=ClaimState.PROVISIONED)


def url(name, claim):
    return reverse(f"claims:{name}", args=[claim.pk])


def test_the_page_says_what_withdrawing_does_and_changes_nothing(client, alice, claim):
    client.force_login(alice)
    page = client.get(url("withdraw", claim)).text
    assert "Withdraw sam2?" in page
    assert "2 devices go back to the quota of vision." in page
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


def test_withdrawing_ends_the_request_and_keeps_the_reason(client, alice, claim):
    client.force_login(alice)
    answer = client.post(url("withdraw", claim), {"reason": "Not needed."}, follow=True)
    assert answer.redirect_chain == [(url("detail", claim), 302)]
    claim.refresh_from_db()
    assert claim.state == ClaimState.WITHDRAWN
    assert "Not needed." in answer.text


def test_releasing_deletes_the_object_later(client, alice, provisioned):
    client.force_login(alice)
    assert "The claim object held in fra-1 is deleted." in client.get(url("release", provisioned)).text
    assert client.post(url("release", provisioned)).status_code == 302
    provisioned.refresh_from_db()
    assert provisioned.state in (ClaimState.RELEASING, ClaimState.RELEASED)


@pytest.mark.parametrize("name", ["withdraw", "release"])
def test_a_viewer_may_not_end_anything(client, bob, claim, name):
    client.force_login(bob)
    assert client.get(url(name, claim)).status_code == 403
    assert client.post(url(name, claim)).status_code == 403


def test_an_outsider_hears_404(client, eve, claim):
    client.force_login(eve)
    assert client.post(url("withdraw", claim)).status_code == 404


def test_what_is_decided_cannot_be_withdrawn(client, alice, provisioned):
    client.force_login(alice)
    assert "nothing left to end" in client.get(url("withdraw", provisioned)).text
    refused = client.post(url("withdraw", provisioned))
    assert refused.status_code == 409
    assert "not waiting for a decision any more" in refused.text


def test_a_reason_that_is_too_long_is_422_and_kept(client, alice, claim):
    client.force_login(alice)
    refused = client.post(url("withdraw", claim), {"reason": "x" * 501})
    assert refused.status_code == 422
    assert "x" * 501 in refused.text
