from datetime import timedelta

import pytest
from django.utils import timezone

from claims.approvals.decide import approve
from claims.delivery import tasks
from claims.models import Claim
from claims.states import ClaimState
from claims.tasks import expire
from cluster.protocol import RESOURCE_CLAIM
from notify.models import Notice
from tests.factories import make_claim

pytestmark = pytest.mark.django_db


def test_a_request_that_nobody_decides_expires_and_frees_its_quota(ask):
    claim = ask(devices=8)
    expire()
    claim.refresh_from_db()
    assert claim.state == ClaimState.REQUESTED
    past = timezone.now() - timedelta(seconds=1)
    Claim.objects.filter(pk=claim.pk).update(decide_by=past, state_since=past - timedelta(days=7))
    expire()
    claim.refresh_from_db()
    assert claim.state == ClaimState.EXPIRED
    assert claim.history.last().reason == "Nobody decided within 7 d."
    assert ask(devices=8)


def test_a_claim_that_has_had_its_time_is_released(ask, lena, gateway):
    claim = ask()
    approve(claim=claim, by=lena, spec_hash=claim.spec_hash)
    tasks.deliver(str(claim.pk))
    now = timezone.now()
    Claim.objects.filter(pk=claim.pk).update(decided_at=now - claim.duration, expires_at=now)
    expire()
    claim.refresh_from_db()
    assert claim.state == ClaimState.RELEASED
    assert [step.reason for step in claim.history.all()][-2] == "Its time of 1 d is over."
    assert gateway.get(RESOURCE_CLAIM, claim.name, namespace="vision") is None


@pytest.mark.parametrize(
    "state", [ClaimState.RELEASED, ClaimState.FAILED, ClaimState.RELEASING, ClaimState.DENIED]
)
def test_what_is_over_or_ending_is_left_alone(vision, fra, train, gateway, state):
    past = timezone.now() - timedelta(days=1)
    claim = make_claim(vision, cluster=fra, profile=train, state=state, expires_at=past, decide_by=past)
    expire()
    claim.refresh_from_db()
    assert claim.state == state


def test_one_that_cannot_be_ended_holds_up_no_other_and_no_reminder(vision, fra, train, gateway, monkeypatch):
    past = timezone.now() - timedelta(hours=1)
    first, second = (
        make_claim(vision, cluster=fra, profile=train, state=ClaimState.PROVISIONED, expires_at=past)
        for _ in range(2)
    )
    soon = timezone.now() + timedelta(minutes=50)
    third = make_claim(vision, cluster=fra, profile=train, state=ClaimState.PROVISIONED, expires_at=soon)
    advance = Claim.advance

    def advance_but_the_first(self, to, **fields):
        if self.pk == first.pk:
            raise RuntimeError("A fault of ours.")
        return advance(self, to, **fields)

    monkeypatch.setattr(Claim, "advance", advance_but_the_first)
    with pytest.raises(ExceptionGroup) as failed:
        expire()
    assert [error.__notes__ for error in failed.value.exceptions] == [[f"claim {first.pk}"]]
    second.refresh_from_db()
    assert second.state == ClaimState.RELEASING
    assert Notice.objects.filter(user=third.requested_by, key__startswith=f"ends:{third.pk}").exists()
