"""Somebody gives a claim back while the cluster acts on it: with its guard, and without."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from claims.delivery import reconcile
from claims.lifecycle import services
from claims.lifecycle import services as end
from claims.models import Claim
from claims.states import ClaimState
from core.errors import Conflict
from tests.factories import make_claim
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("locked", [True, False])
def test_a_release_holds_whether_the_devices_come_at_this_moment_or_not(
    vision, fra, train, alice, monkeypatch, locked
):
    """A program that gives its claim back at its end must not be told to look again."""
    monkeypatch.setattr("claims.delivery.tasks.remove.delay", lambda _id: None)
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
    race = Race(monkeypatch)
    race.hold_after(end, "reason_not_to_release")
    if not locked:
        without_lock(monkeypatch, "claims.lifecycle.services._lock_owned_claim")

    def allocate():
        return Claim.objects.get(pk=claim.pk).advance(ClaimState.ALLOCATED, why="The scheduler did it.")

    released, allocated = race.run(partial(services.release, claim=claim, by=alice), allocate)
    assert race.waited is locked
    claim.refresh_from_db()
    if locked:
        assert (claim.state, allocated) == (ClaimState.RELEASING, False)
    else:
        assert isinstance(released, Conflict)
        assert (claim.state, allocated) == (ClaimState.ALLOCATED, True)


@pytest.mark.parametrize("act", ["release", "shorten", "settle"])
def test_whoever_waited_while_a_claim_was_handed_over_finds_it(
    vision, fra, train, alice, lena, lars, monkeypatch, act
):
    """A query that waits for the row has joined the old owner by then, and must not lose the claim for it."""
    monkeypatch.setattr("claims.delivery.tasks.remove.delay", lambda _id: None)
    end_at = timezone.now() + timedelta(days=1)
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, expires_at=end_at
    )
    race = Race(monkeypatch)
    race.hold_after(Claim, "remark")
    acts: dict[str, partial[Any]] = {
        "release": partial(services.release, claim=claim, by=lena),
        "shorten": partial(services.shorten, claim=claim, by=lena, until=end_at - timedelta(hours=1)),
        "settle": partial(reconcile.reconcile_claim, claim.pk),
    }
    _given, after = race.run(partial(services.transfer, claim=claim, by=alice, to=lars), acts[act])
    assert race.waited
    assert not isinstance(after, Exception)
    if act != "settle":
        assert (after.pk, after.requested_by) == (claim.pk, lars)
