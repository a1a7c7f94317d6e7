"""Comments and questions about a request."""

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse
from rest_framework.test import APIClient

from claims.approvals.decide import approve
from claims.inbox.comments import comment_on_claim, comment_on_quota_request, open_question
from claims.inbox.inbox import Inbox
from claims.models import Comment
from claims.states import ClaimState
from core.errors import Invalid
from notify.models import Notice
from tests.factories import make_quota_request

pytestmark = pytest.mark.django_db


@pytest.fixture
def requested(ask):
    return ask(name="sam2", devices=2)


def say(requested, by, text, key=""):
    return comment_on_claim(claim=requested, by=by, text=text, key=key or text)


def test_question_waits_for_the_requester(requested, lena, alice):
    assert say(requested, lena, "Would one device do?").question
    assert open_question(requested.comments.all()).text == "Would one device do?"
    (item,) = Inbox(lena).pending(for_reader=True)
    assert item.remarks == ("waits for alice's answer",)
    notice = Notice.objects.get(user=alice)
    assert (notice.title, notice.body, notice.important) == (
        "lena has a question about sam2",
        "Would one device do?",
        True,
    )


def test_answer_notifies_the_approver_and_closes_the_question(requested, lena, lars, alice):
    say(requested, lena, "Would one device do?")
    Notice.objects.all().delete()
    assert not say(requested, alice, "No, the batch does not fit.").question
    assert [notice.user for notice in Notice.objects.all()] == [lena]
    assert open_question(requested.comments.all()) is None


def test_question_does_not_block_the_decision(requested, lena, lars):
    say(requested, lena, "Would one device do?")
    claim = approve(claim=requested, by=lars, spec_hash=requested.spec_hash)
    assert claim.state == ClaimState.APPROVED


def test_comment_of_the_requester_notifies_the_approvers(requested, alice, lena, lars):
    Notice.objects.all().delete()
    say(requested, alice, "Two hours would do as well.")
    assert {notice.user for notice in Notice.objects.all()} == {lena, lars}


def test_claim_page_shows_a_new_comment(requested, lena):
    before = requested.version
    say(requested, lena, "Would one device do?")
    requested.refresh_from_db()
    assert requested.version == before + 1


def test_same_key_saves_one_comment(requested, lena):
    first = say(requested, lena, "Would one device do?", key="k")
    assert say(requested, lena, "Would one device do?", key="k") == first
    assert Comment.objects.count() == 1


def test_viewers_and_outsiders_cannot_comment(requested, bob, eve):
    with pytest.raises(PermissionDenied):
        say(requested, bob, "Hm.")
    with pytest.raises(Http404):
        say(requested, eve, "Hm.")


@pytest.mark.parametrize("text", ["", "   ", "x" * 2001])
def test_comment_length_is_limited(requested, lena, text):
    with pytest.raises(Invalid):
        say(requested, lena, text, key="k")


def test_quota_request_has_comments(vision, alice, root):
    asked = make_quota_request(vision, by=alice)
    line = comment_on_quota_request(quota_request=asked, by=root, text="For how long?", key="k")
    assert line.question
    assert Notice.objects.get(user=alice).body == "For how long?"


def test_comment_form_returns_to_its_page(client, requested, lena, alice, bob, eve):
    address = reverse("claims:comment", args=[requested.pk])
    card = reverse("claims:approval", args=[requested.pk])
    client.force_login(lena)
    page = client.post(address, {"text": "Would one do?", "key": "a", "next": card}, follow=True)
    assert page.redirect_chain == [(card, 302)]
    assert "Question sent to alice." in page.text
    assert "Waiting for alice's answer" in page.text
    client.force_login(alice)
    page = client.post(
        address, {"text": "No.", "key": "b", "next": "https://elsewhere.example/"}, follow=True
    )
    assert page.redirect_chain == [(reverse("claims:detail", args=[requested.pk]), 302)]
    assert "Waiting for alice's answer" not in page.text
    for person, status in ((bob, 403), (eve, 404)):
        client.force_login(person)
        assert client.post(address, {"text": "Hm.", "key": "c"}).status_code == status
    assert Comment.objects.count() == 2


def test_api_adds_and_lists_comments(requested, lena, alice, eve):
    api = APIClient()
    address = f"/api/v1/claims/{requested.pk}/comments/"
    api.force_login(lena)
    for _ in range(2):
        said = api.post(address, {"text": "Why two?"}, format="json", headers={"Idempotency-Key": "k"})
    assert (said.status_code, said.json()["question"]) == (201, True)
    api.force_login(alice)
    assert [line["text"] for line in api.get(address).json()["results"]] == ["Why two?"]
    assert api.post(address, {"text": ""}, format="json").status_code == 422
    api.force_login(eve)
    assert api.get(address).status_code == 404
