"""What `claims` queues when the mirror or a claim changes, and what it does not queue."""

from contextlib import suppress
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import transaction
from django.utils import timezone
from redis.exceptions import RedisError

from claims.approvals import notices
from claims.approvals.decide import approve, deny
from claims.claim_list import bulk
from claims.lifecycle import services as lifecycle
from claims.lifecycle.expiry import end_overdue
from claims.models import Claim
from claims.quotas import tasks as quota_tasks
from claims.signals import request_returned
from claims.states import ClaimState
from claims.unmanaged.services import adopt
from inventory.models import ResourceClaim
from inventory.signals import mirror_changed
from portal.celery import app
from tests.factories import make_claim, make_spec, make_team

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
def test_changed_claims_templates_and_pods_queue_a_reconcile(fra, monkeypatch, kind, is_watched):
    queued = []
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *args: queued.append(args))
    names = frozenset({"vision/b", "vision/c", "vision/a"})
    mirror_changed.send(None, cluster_id=fra.pk, kind=kind, names=names)
    assert queued == ([(str(fra.pk),)] if is_watched else [])


def test_each_state_change_queues_a_quota_sync_and_a_remark_does_not(
    vision, fra, alice, monkeypatch, django_capture_on_commit_callbacks
):
    queued = []
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", lambda *args: queued.append(args))
    with django_capture_on_commit_callbacks(execute=True):
        claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
        claim.record_creation(why="Requested.", by=alice)
        assert queued == []  # not before the commit
    assert queued == [(str(vision.pk),)]
    cache.clear()  # the message is being worked on
    with django_capture_on_commit_callbacks(execute=True):
        claim.remark("Kept a day longer.")
    assert len(queued) == 1
    with django_capture_on_commit_callbacks(execute=True):
        claim.advance(ClaimState.RELEASING, why="Given back.")
        claim.history.last().save()  # the table of history has no receivers
    assert len(queued) == 2


def test_many_steps_of_a_team_queue_one_quota_sync_until_it_begins(
    vision, fra, alice, monkeypatch, django_capture_on_commit_callbacks
):
    queued: list[str] = []
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", queued.append)
    speech = make_team("speech", members=(alice,))
    claims = [make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED) for _ in range(4)]
    other = make_claim(speech, by=alice, cluster=fra, state=ClaimState.ALLOCATED)
    with django_capture_on_commit_callbacks(execute=True):
        for claim in (*claims[:3], other):
            claim.advance(ClaimState.RELEASING, why="Released.")
    assert queued == [str(vision.pk), str(speech.pk)]
    quota_tasks.write_team(str(vision.pk))
    with django_capture_on_commit_callbacks(execute=True):
        claims[3].advance(ClaimState.RELEASING, why="Released.")
    assert queued == [str(vision.pk), str(speech.pk), str(vision.pk)]


def test_a_quota_sync_is_queued_though_nobody_can_tell_whether_it_is(
    vision, fra, alice, monkeypatch, django_capture_on_commit_callbacks
):
    queued: list[str] = []
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", queued.append)

    def fail(*_args):
        raise RedisError

    monkeypatch.setattr(quota_tasks.cache, "add", fail)
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED)
    with django_capture_on_commit_callbacks(execute=True):
        claim.advance(ClaimState.RELEASING, why="Released.")
    assert queued == [str(vision.pk)]


def test_a_lost_race_queues_no_quota_sync(
    vision, fra, alice, monkeypatch, django_capture_on_commit_callbacks
):
    queued: list[str] = []
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", queued.append)
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.RELEASING)
    with django_capture_on_commit_callbacks(execute=True):
        assert not claim.advance(ClaimState.ALLOCATED, why="Allocated.")
    assert queued == []


def test_a_rolled_back_step_queues_no_quota_sync(
    vision, fra, alice, monkeypatch, django_capture_on_commit_callbacks
):
    queued: list[str] = []
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", queued.append)
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.PROVISIONED)
    with django_capture_on_commit_callbacks(execute=True), suppress(LookupError), transaction.atomic():
        claim.advance(ClaimState.RELEASING, why="Released.")
        raise LookupError
    assert queued == []


def test_a_returned_request_notifies_its_approvers(vision, fra, monkeypatch):
    asked: list[Claim] = []
    monkeypatch.setattr(notices, "notify_deciders", asked.append)
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


@pytest.fixture
def synced(monkeypatch):
    """The ids of the teams whose quotas are queued to be written."""
    teams: list[str] = []
    monkeypatch.setattr("claims.quotas.tasks.write_team.delay", teams.append)
    for name in ("deliver", "remove", "label", "reconcile_objects"):
        monkeypatch.setattr(f"claims.delivery.tasks.{name}.delay", lambda *_: None)
    return teams


@pytest.mark.parametrize("act", [lifecycle.release, lifecycle.withdraw])
def test_ending_a_claim_queues_a_quota_sync(
    vision, fra, alice, synced, django_capture_on_commit_callbacks, act
):
    state = ClaimState.ALLOCATED if act is lifecycle.release else ClaimState.REQUESTED
    claim = make_claim(vision, by=alice, cluster=fra, state=state)
    with django_capture_on_commit_callbacks(execute=True):
        act(claim=claim, by=alice)
    assert synced == [str(vision.pk)]


def test_a_request_queues_a_quota_sync(ask, vision, synced, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        ask(devices=2)
    assert synced == [str(vision.pk)]


@pytest.mark.parametrize("decide", [approve, deny])
def test_a_decision_queues_a_quota_sync(
    ask, vision, lena, synced, django_capture_on_commit_callbacks, decide
):
    claim = ask(devices=2)
    words = {"spec_hash": claim.spec_hash} if decide is approve else {"reason": "Use smaller devices."}
    with django_capture_on_commit_callbacks(execute=True):
        decide(claim=claim, by=lena, **words)
    assert synced == [str(vision.pk)]


def test_adoption_queues_a_quota_sync(
    vision, fra, train, quota, gateway, root, alice, synced, django_capture_on_commit_callbacks
):
    row = ResourceClaim.objects.create(
        cluster=fra, name="by-hand", uid="uid-1", namespace="vision", raw={"spec": make_spec(2)},
        origin=ResourceClaim.Origin.FOREIGN,
    )  # fmt: skip
    with django_capture_on_commit_callbacks(execute=True):
        adopt(row=row, by=root, owner=alice, profile=train, duration=timedelta(hours=24))
    assert synced == [str(vision.pk)]


def test_a_bulk_release_queues_a_quota_sync_of_each_team(
    vision, fra, alice, synced, django_capture_on_commit_callbacks
):
    speech = make_team("speech", members=(alice,))
    claims = [
        make_claim(team, by=alice, cluster=fra, state=ClaimState.ALLOCATED) for team in (vision, speech)
    ]
    with django_capture_on_commit_callbacks(execute=True):
        bulk.run(alice, claims, bulk.BulkRequest(bulk.BulkAction.RELEASE))
    assert sorted(synced) == sorted([str(vision.pk), str(speech.pk)])


def test_expiry_queues_a_quota_sync_of_each_team(
    vision, fra, alice, synced, django_capture_on_commit_callbacks
):
    speech, now = make_team("speech", members=(alice,)), timezone.now()
    make_claim(
        vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED,
        decided_at=now - timedelta(days=9), expires_at=now - timedelta(days=8),
    )  # fmt: skip
    make_claim(speech, by=alice, cluster=fra, decide_by=now - timedelta(hours=1))
    with django_capture_on_commit_callbacks(execute=True):
        end_overdue(now)
    assert sorted(synced) == sorted([str(vision.pk), str(speech.pk)])
