"""Somebody gives a claim back while the cluster acts on it: with its guard, and without."""

from functools import partial
from threading import Event

import pytest
from django.db.models import QuerySet

from claims import services
from claims.models import Claim
from claims.services import end
from claims.states import ClaimState
from core.errors import Conflict
from tests.claims.threads import Meeting, at_once
from tests.factories import make_claim

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize("locked", [True, False])
def test_a_release_holds_whether_the_devices_come_at_this_moment_or_not(
    vision, fra, train, alice, monkeypatch, locked
):
    """A program that gives its claim back at its end must not be told to look again."""
    monkeypatch.setattr("claims.tasks.remove.delay", lambda _id: None)
    claim = make_claim(vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
    meeting, judge, judged = Meeting(guarded=locked), end.reason_not_to_end, Event()

    def judge_and_wait(*args):
        said = judge(*args)
        judged.set()
        meeting.wait()
        return said

    def allocate():
        assert judged.wait(60)
        moved = Claim.objects.get(pk=claim.pk).advance(ClaimState.ALLOCATED, why="The scheduler did it.")
        meeting.wait()
        return moved

    monkeypatch.setattr(end, "reason_not_to_end", judge_and_wait)
    if not locked:
        monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **_: self)
    released, allocated = at_once(partial(services.release, claim=claim, by=alice), allocate)
    claim.refresh_from_db()
    if locked:
        assert (claim.state, allocated) == (ClaimState.RELEASING, False)
    else:
        assert isinstance(released, Conflict)
        assert (claim.state, allocated) == (ClaimState.ALLOCATED, True)
