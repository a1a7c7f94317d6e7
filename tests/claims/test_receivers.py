"""What `claims` does when others tell that something has changed: what is queued, and what is not."""

import pytest

from claims.approvals import notices
from claims.models import Claim, Transition
from claims.signals import request_returned
from claims.states import ClaimState
from inventory.signals import mirror_changed
from portal.celery import app
from tests.factories import make_claim

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("kind", "is_watched"),
    [
        ("ResourceClaim", True),
        ("ResourceClaimTemplate", True),
        ("Pod", True),
        ("Device", False),
        ("ResourceSlice", False),
        ("Node", False),
        ("DeviceClass", False),
    ],
)
def test_claims_are_looked_at_when_what_delivers_or_uses_them_changes(fra, monkeypatch, kind, is_watched):
    queued = []
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *args: queued.append(args))
    names = frozenset({"vision/b", "vision/c", "vision/a"})
    mirror_changed.send(None, cluster_id=fra.pk, kind=kind, names=names)
    expected = (str(fra.pk), ["vision/a", "vision/b", "vision/c"])
    assert queued == ([expected] if is_watched else [])


def test_quotas_are_written_after_each_step_and_after_no_remark(
    vision, fra, alice, monkeypatch, django_capture_on_commit_callbacks
):
    queued = []
    monkeypatch.setattr("claims.receivers.write_team.delay", lambda *args: queued.append(args))
    with django_capture_on_commit_callbacks(execute=True):
        claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
        claim.history.create(new=ClaimState.REQUESTED, why="Requested.")
        assert queued == []  # not before the commit
    assert queued == [(str(vision.pk),)]
    with django_capture_on_commit_callbacks(execute=True):
        claim.remark("Kept a day longer.")
    assert len(queued) == 1
    with django_capture_on_commit_callbacks(execute=True):
        claim.advance(ClaimState.RELEASING, why="Given back.")
        Transition.objects.filter(claim=claim).last().save()
    assert len(queued) == 3


def test_deciders_are_asked_about_the_very_request_that_came_back(vision, fra, monkeypatch):
    asked: list[Claim] = []
    monkeypatch.setattr(notices, "asked", asked.append)
    claim = make_claim(vision, cluster=fra)
    make_claim(vision, cluster=fra)
    request_returned.send(Claim, claim=claim)
    assert asked == [claim]


def test_the_sweep_is_started_every_fifteen_seconds():
    planned = app.conf.beat_schedule["claims.delivery.tasks.sweep"]
    assert planned == {
        "task": "claims.delivery.tasks.sweep", "schedule": 15.0, "options": {"expires": 15.0},
    }  # fmt: skip
    assert planned["task"] in app.tasks
