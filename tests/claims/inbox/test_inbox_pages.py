"""The page of the inbox, its card, and both decisions."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.approvals import decide
from claims.inbox import views
from claims.states import ClaimState
from tests.factories import make_claim, make_extension, make_quota_request

pytestmark = pytest.mark.django_db

INBOX = reverse("claims:approvals")


@pytest.fixture
def claim(ask):
    return ask(name="sam2", devices=2, reason="Fine-tuning.")


def url(name, claim):
    return reverse(f"claims:{name}", args=[claim.pk])


def test_the_inbox_shows_the_oldest_request_first_with_its_card(client, lena, ask, claim):
    ask(name="later")
    client.force_login(lena)
    page = client.get(INBOX).text
    assert page.index("sam2") < page.index("later")
    assert f'hx-get="{url("approval", claim)}"' in page
    assert "Fine-tuning." not in page
    card = client.get(url("approval", claim), headers={"HX-Request": "true"}).text
    assert "Fine-tuning." in card
    assert f'value="{claim.spec_hash}"' in card
    assert "<html" not in card


def test_cards_are_fragments_for_htmx_and_hidden_from_an_outsider(
    client, lena, eve, alice, vision, claim, fra
):
    held = make_claim(
        vision, by=alice, cluster=fra, name="held", state=ClaimState.PROVISIONED, expires_at=timezone.now()
    )
    longer = make_extension(held, by=alice, until=timezone.now() + timedelta(days=2))
    more = make_quota_request(vision, 12, by=alice)
    cards = [url("approval", claim), url("extension", longer), url("quota_request_decision", more)]
    for person, status in ((lena, 200), (eve, 404)):
        client.force_login(person)
        for address in cards:
            card = client.get(address, headers={"HX-Request": "true"})
            assert card.status_code == status
            assert status == 404 or ("<html" not in card.text and 'id="card-title"' in card.text)
            assert status == 404 or "HX-Request" in card.headers["Vary"]


def test_card_shows_the_impact(client, lena, claim, vision, fra, alice):
    make_claim(vision, by=alice, cluster=fra, devices=3)
    client.force_login(lena)
    address = url("approval_impact", claim)
    assert f'hx-get="{address}"' in client.get(url("approval", claim)).text
    part, page = client.get(address, headers={"HX-Request": "true"}).text, client.get(address).text
    for text in (part, page):
        assert "<b>3 → 5</b> of 8 used" in text
        assert "1 other request waits for a decision, 1 of vision." in text
        assert "alice has no earlier claim in vision." in text
    assert ("Approve 2 devices" in part, "Approve 2 devices" in page) == (False, True)


def test_neither_the_list_nor_the_card_waits_for_the_impact(client, lena, claim, monkeypatch):
    monkeypatch.setattr(views, "claim_impact", lambda *_args: pytest.fail("The impact was read."))
    client.force_login(lena)
    assert "sam2" in client.get(INBOX).text
    for headers in ({}, {"HX-Request": "true"}):
        assert "Approve 2 devices" in client.get(url("approval", claim), headers=headers).text


def test_impact_of_a_request_decided_meanwhile_loads_the_page_again(client, lena, claim):
    decide.approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    client.force_login(lena)
    part = client.get(url("approval_impact", claim), headers={"HX-Request": "true"})
    assert (part.headers["HX-Refresh"], part.text) == ("true", "")
    assert "by lena" in client.get(url("approval_impact", claim)).text


def test_impact_is_hidden_from_an_outsider(client, eve, claim):
    client.force_login(eve)
    for headers in ({}, {"HX-Request": "true"}):
        assert client.get(url("approval_impact", claim), headers=headers).status_code == 404


def test_approval_is_of_the_spec_on_the_card(client, lena, claim):
    client.force_login(lena)
    answer = client.post(url("approve", claim), {"spec_hash": claim.spec_hash, "note": "Fine."}, follow=True)
    assert "sam2 approved." in answer.text
    claim.refresh_from_db()
    assert (claim.decided_by, claim.decision_note) == (lena, "Fine.")


def test_denying_needs_a_reason_and_keeps_the_card(client, lena, claim):
    client.force_login(lena)
    refused = client.post(url("deny", claim), {"spec_hash": claim.spec_hash, "note": ""})
    assert refused.status_code == 422
    assert "Give a reason" in refused.text
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


def test_denial_notifies_with_the_reason(client, lena, alice, claim):
    client.force_login(lena)
    assert client.post(url("deny", claim), {"note": "Too long."}).status_code == 302
    client.force_login(alice)
    assert "Too long." in client.get(url("detail", claim)).text


@pytest.mark.parametrize("name", ["approve", "deny"])
def test_second_approver_learns_who_decided_and_when(client, lena, lars, claim, name):
    decide.approve(claim=claim, by=lars, spec_hash=claim.spec_hash)
    client.force_login(lena)
    refused = client.post(url(name, claim), {"spec_hash": claim.spec_hash, "note": "Mine."})
    assert refused.status_code == 409
    assert "lars already approved sam2" in refused.text
    assert "Approve 2 devices" not in refused.text


def test_approval_of_a_changed_spec_is_409(client, lena, claim):
    client.force_login(lena)
    refused = client.post(url("approve", claim), {"spec_hash": "0" * 64})
    assert refused.status_code == 409
    assert "has changed since you read it" in refused.text


@pytest.mark.parametrize("name", ["approve", "deny"])
def test_decision_without_authority_is_403_and_by_an_outsider_404(client, alice, bob, eve, claim, name):
    sent = {"spec_hash": claim.spec_hash, "note": "x"}
    for person, status in ((alice, 403), (bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.post(url(name, claim), sent).status_code == status
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED


def test_reader_without_authority_sees_the_card_and_the_reason(client, alice, claim):
    client.force_login(alice)
    page = client.get(url("approval", claim)).text
    assert "Only leads of vision decide on its requests. Your role: member." in page
    assert "data-approve" not in page


def test_bad_input_is_422(client, lena, claim):
    client.force_login(lena)
    assert client.post(url("approve", claim), {"note": "no hash"}).status_code == 422
    assert client.post(url("deny", claim), {"note": "x" * 501}).status_code == 422


def test_decided_requests_are_on_the_decided_tab(client, lena, claim):
    decide.deny(claim=claim, by=lena, reason="No.")
    client.force_login(lena)
    assert "No pending requests" in client.get(INBOX).text
    page = client.get(INBOX + "?tab=decided").text
    assert "sam2" in page
    assert "by lena" in page


def test_an_outsider_sees_an_empty_inbox(client, eve, claim):
    client.force_login(eve)
    page = client.get(INBOX + "?tab=team").text
    assert "sam2" not in page
    assert client.get(url("approval", claim)).status_code == 404


def test_inbox_page_queries_do_not_grow(client, lena, vision, fra, train, alice):
    make_claim(vision, by=alice, cluster=fra)
    client.force_login(lena)
    client.get(INBOX)
    with CaptureQueriesContext(connection) as one:
        client.get(INBOX)
    for _ in range(20):
        make_claim(vision, by=alice, cluster=fra)
    with CaptureQueriesContext(connection) as many:
        client.get(INBOX)
    assert len(many) == len(one)
