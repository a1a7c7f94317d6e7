"""A lead or a platform admin reminds the owner of a claim, once a day."""

from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.models import Claim
from claims.states import ClaimState
from core.errors import Conflict, Forbidden
from notify.models import Notice
from tests.usage.conftest import NOON
from usage.idle.escalation import follow
from usage.idle.reminders import remind_owner

pytestmark = pytest.mark.django_db


def test_owner_gets_the_fact_and_the_history_says_who_asked(idles, claim, alice, lena):
    idles(claim, "gpu-0")
    follow(NOON + timedelta(minutes=5))
    remind_owner(claim=claim, by=lena, now=NOON + timedelta(hours=1))
    notice = Notice.objects.get(key__startswith="remind:")
    assert (notice.user, notice.important, notice.url) == (
        *(alice, True),
        f"/claims/{claim.pk}/?range=own&since=2026-11-17&until=2026-11-17#claim-usage",
    )
    assert notice.title == "lena asks whether you still need sam2-finetune"
    assert "its device was below 10 % utilization. Release it if its work is done" in notice.body
    last = claim.history.last()
    assert (last.by, last.reason) == (lena, "Reminded alice to release it if it is not needed.")


def test_owner_is_reminded_once_a_day(claim, lena, root):
    remind_owner(claim=claim, by=lena, now=NOON)
    with pytest.raises(Conflict, match="alice was already reminded of sam2-finetune today"):
        remind_owner(claim=claim, by=root, now=NOON + timedelta(hours=3))
    remind_owner(claim=claim, by=root, now=NOON + timedelta(days=1))
    assert Notice.objects.count() == 2


@pytest.mark.parametrize("name", ["alice", "bob"])
def test_neither_the_owner_nor_a_viewer_reminds(claim, request, name):
    with pytest.raises(Forbidden):
        remind_owner(claim=claim, by=request.getfixturevalue(name), now=NOON)
    assert not Notice.objects.exists()


@pytest.mark.parametrize("state", [ClaimState.REQUESTED, ClaimState.PROVISIONED, ClaimState.RELEASED])
def test_claim_without_devices_needs_no_reminder(claim, lena, state):
    Claim.objects.filter(pk=claim.pk).update(state=state)
    with pytest.raises(Conflict, match="holds no device any more"):
        remind_owner(claim=claim, by=lena, now=NOON)


def test_button_is_replaced_by_what_was_done(client, claim, lena):
    client.force_login(lena)
    address = reverse("usage:remind", args=[claim.pk])
    answer = client.post(address, headers={"HX-Request": "true"})
    assert (answer.status_code, "alice reminded" in answer.text) == (200, True)
    again = client.post(address, headers={"HX-Request": "true"})
    assert again.status_code == 409
    assert "already reminded" in again.text


def test_without_javascript_it_returns_to_the_page_of_the_button(client, claim, lena):
    client.force_login(lena)
    address = reverse("usage:remind", args=[claim.pk])
    answer = client.post(address, {"next": "/fleet/"})
    assert (answer.status_code, answer.url) == (302, "/fleet/")
    elsewhere = client.post(address, {"next": "https://example.com/"})
    assert elsewhere.url == f"/claims/{claim.pk}/"
    assert Notice.objects.count() == 1


def test_an_outsider_and_a_viewer_remind_nobody(client, claim, eve, bob, lena):
    address = reverse("usage:remind", args=[claim.pk])
    for person, status in ((eve, 404), (bob, 403)):
        client.force_login(person)
        assert client.post(address).status_code == status
    client.force_login(lena)
    assert not Notice.objects.filter(created_at__lte=timezone.now()).exists()
