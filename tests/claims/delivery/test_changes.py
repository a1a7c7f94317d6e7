"""What the sweep reads: what changed since the last time, what is due, and a slice of everything in turn."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.delivery import changes, reconcile, tasks
from claims.lifecycle import services as lifecycle
from claims.models import Claim, ReconciledCluster, SweepRound
from claims.observation import observations
from claims.states import GRANTED, ClaimState
from inventory.models import (
    Cluster,
    Device,
    DeviceTaintRule,
    Freshness,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from tests.claims.mirror import NINE, Mirror, result
from tests.claims.rows import row_of
from tests.factories import make_claim, make_cluster

pytestmark = pytest.mark.django_db
S = ClaimState


@pytest.fixture
def claim_in(vision, fra, train, alice, quota, gateway):
    def make(state, name="sam", **columns):
        return make_claim(vision, by=alice, cluster=fra, profile=train, state=state, name=name, **columns)

    return make


@pytest.fixture
def mirror(fra, monkeypatch):
    """A mirror whose messages are all lost."""
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *_: None)
    return Mirror(fra)


@pytest.fixture
def visited(monkeypatch):
    """The ids of claims that are compared with the mirror, in order."""
    ids: list[UUID] = []

    settle = reconcile.reconcile_claims

    def reconcile_claims(claim_ids):
        ids.extend(claim_ids)
        settle(claim_ids)

    monkeypatch.setattr(reconcile, "reconcile_claims", reconcile_claims)
    return ids


@pytest.fixture
def settled(claim_in, mirror):
    """A claim that is reconciled, and in no slice of the next sweeps."""
    claim = claim_in(S.PROVISIONED, object_uid="uid-1")
    mirror.claim("sam", claim)
    tasks.sweep()
    return claim


@pytest.fixture
def _no_slices(monkeypatch):
    """Leave a sweep with what changed and what is due."""
    monkeypatch.setattr(changes, "_claims_after", lambda _after: (set(), ""))


def revision_of(cluster):
    return ReconciledCluster.objects.get(cluster=cluster).revision


# What changed.


@pytest.mark.usefixtures("_no_slices")
def test_a_lost_message_is_repaired_by_the_next_sweep(mirror, settled):
    mirror.claim("sam", settled, result("gpu-0"))
    assert row_of(settled).state == S.PROVISIONED
    tasks.sweep()
    assert row_of(settled).state == S.ALLOCATED


@pytest.mark.usefixtures("_no_slices")
def test_what_has_not_changed_is_not_read_again(mirror, settled, visited):
    tasks.sweep()
    assert visited == []
    mirror.claim("sam", settled)
    tasks.sweep()
    tasks.sweep()
    assert visited == [settled.pk]


@pytest.mark.usefixtures("_no_slices")
def test_a_change_of_one_cluster_reads_no_claim_of_another(mirror, settled, visited, vision, alice, train):
    osl = make_cluster("osl-1", teams=(vision,))
    abroad = make_claim(vision, by=alice, cluster=osl, profile=train, state=S.PROVISIONED, object_uid="uid-9")
    Mirror(osl).claim(abroad.name, abroad, uid="uid-9")
    tasks.reconcile_cluster(str(osl.pk))
    assert visited == [abroad.pk]


@pytest.mark.usefixtures("_no_slices")
@pytest.mark.parametrize("named", ["claims", "templates"])
def test_a_change_of_a_pod_reads_the_claims_that_it_uses(mirror, settled, visited, named):
    if named == "templates":
        mirror.template(settled)
        tasks.sweep()
        visited.clear()
    mirror.pod("train-0", **{named: ["sam"]})
    tasks.sweep()
    assert visited == [settled.pk]


@pytest.mark.usefixtures("_no_slices")
def test_a_change_of_an_object_without_the_label_reads_its_claim(mirror, settled, visited):
    ResourceClaim.objects.filter(uid="uid-1").update(owner="", revision=mirror.next_revision())
    tasks.sweep()
    assert visited == [settled.pk]


@pytest.fixture
def device(fra, mirror, settled):
    row = mirror.claim("sam", settled, result("gpu-0"))
    published = ResourceSlice.objects.create(
        cluster=fra,
        uid="slice",
        name="slice",
        driver="gpu.nvidia.com",
        pool="node-1",
        generation=1,
        pool_slices=1,
    )
    device = Device.objects.create(
        cluster=fra, slice=published, driver="gpu.nvidia.com", pool="node-1", name="gpu-0", held_by=row
    )
    tasks.sweep()
    return device


@pytest.mark.usefixtures("_no_slices")
@pytest.mark.parametrize("seconds", [0, -1])
def test_a_slice_reads_the_claims_of_devices_that_changed_with_it(mirror, settled, device, visited, seconds):
    """A device that the slice left as it was has an older time of change."""
    now = timezone.now()
    Device.objects.filter(pk=device.pk).update(
        changed_at=now + timedelta(seconds=seconds), condition="tainted"
    )
    ResourceSlice.objects.update(seen_at=now, revision=mirror.next_revision())
    tasks.sweep()
    assert visited == ([settled.pk] if seconds == 0 else [])


@pytest.mark.usefixtures("_no_slices")
def test_a_taint_rule_reads_the_claims_of_devices_that_it_changed(fra, mirror, settled, device, visited):
    now = timezone.now()
    Device.objects.filter(pk=device.pk).update(changed_at=now)
    DeviceTaintRule.objects.create(
        cluster=fra, uid="rule", name="rule", seen_at=now, revision=mirror.next_revision()
    )
    tasks.sweep()
    assert visited == [settled.pk]


@pytest.mark.usefixtures("_no_slices")
def test_many_revisions_are_reconciled_in_spans_without_the_empty_ones(fra, mirror, settled, monkeypatch):
    monkeypatch.setattr(changes, "MAX_REVISIONS", 100)
    spans = []
    take = changes.take_changes

    def note(cluster_id):
        changed = take(cluster_id)
        if changed:
            spans.append((changed.after, changed.until))
        return changed

    monkeypatch.setattr(changes, "take_changes", note)
    Cluster.objects.filter(pk=fra.pk).update(revision=F("revision") + 5000)
    mirror.claim("sam", settled, result("gpu-0"))
    Cluster.objects.filter(pk=fra.pk).update(revision=F("revision") + 150)
    start = row_of_object("uid-1").revision - 1
    tasks.sweep()
    assert spans == [(start, start + 100), (start + 100, start + 151)]
    assert row_of(settled).state == S.ALLOCATED
    assert revision_of(fra) == start + 151


def row_of_object(uid):
    return ResourceClaim.objects.get(uid=uid)


# A worker dies, two workers meet.


@pytest.mark.usefixtures("_no_slices")
def test_what_a_dead_worker_began_is_done_when_its_lease_has_ended(fra, mirror, settled):
    mirror.claim("sam", settled, result("gpu-0"))
    assert changes.take_changes(fra.pk) is not None  # and it dies
    tasks.sweep()
    assert row_of(settled).state == S.PROVISIONED
    ReconciledCluster.objects.update(held_until=timezone.now() - timedelta(seconds=1))
    tasks.sweep()
    assert row_of(settled).state == S.ALLOCATED


def test_a_lease_ends_within_a_minute(fra, mirror, settled):
    mirror.claim("sam", settled, result("gpu-0"))
    changes.take_changes(fra.pk)
    held_until = ReconciledCluster.objects.get(cluster=fra).held_until
    assert held_until is not None
    assert held_until <= timezone.now() + timedelta(minutes=1)


@pytest.mark.usefixtures("_no_slices")
@pytest.mark.parametrize("step", ["release_predecessors", "reconcile_claims"])
def test_what_failed_half_way_is_done_again_by_the_next_sweep(fra, mirror, settled, monkeypatch, step):
    before = revision_of(fra)
    mirror.claim("sam", settled, result("gpu-0"))
    with monkeypatch.context() as fault:
        fault.setattr(reconcile, step, lambda _ids: 1 / 0)
        fault.setattr(tasks.resource_quota_rounds, "write_changed", lambda *_: 1 / 0)
        with pytest.raises(ExceptionGroup):
            tasks.sweep()
    assert revision_of(fra) == before
    tasks.sweep()
    assert row_of(settled).state == S.ALLOCATED
    assert revision_of(fra) == before + 1


@pytest.mark.usefixtures("_no_slices")
def test_what_changes_while_it_is_reconciled_is_reconciled_by_the_same_worker(
    fra, mirror, settled, monkeypatch
):
    settle = reconcile.reconcile_claims

    def change_once_more(claim_ids):
        settle(claim_ids)
        monkeypatch.setattr(reconcile, "reconcile_claims", settle)
        mirror.claim("sam", settled)
        assert changes.take_changes(fra.pk) is None  # whoever brings the message

    mirror.claim("sam", settled, result("gpu-0"))
    monkeypatch.setattr(reconcile, "reconcile_claims", change_once_more)
    tasks.reconcile_cluster(str(fra.pk))
    assert row_of(settled).state == S.PROVISIONED
    assert revision_of(fra) == Cluster.objects.get(pk=fra.pk).revision


# What is due.


@pytest.mark.usefixtures("_no_slices")
def test_a_step_of_a_claim_is_reconciled_by_the_next_sweep(settled, visited, alice, monkeypatch):
    assert row_of(settled).reconcile_at is None
    monkeypatch.setattr("claims.delivery.tasks.remove.delay", lambda *_: None)
    monkeypatch.setattr("claims.delivery.tasks.remove.apply_async", lambda *_, **__: None)
    lifecycle.release(claim=settled, by=alice)
    tasks.sweep()
    assert settled.pk in visited
    assert row_of(settled).reconcile_at is None


@pytest.mark.usefixtures("_no_slices")
def test_an_object_that_is_gone_is_given_up_without_another_message(mirror, settled):
    now = timezone.now()
    mirror.gone("uid-1", now)
    tasks.sweep()
    claim = row_of(settled)
    assert claim.state == S.PROVISIONED
    assert claim.reconcile_at == now + observations.RECREATION_TIME
    ResourceClaim.objects.update(gone_at=now - timedelta(minutes=1))
    Claim.objects.update(reconcile_at=now)
    tasks.sweep()
    assert row_of(settled).state == S.FAILED


@pytest.mark.usefixtures("_no_slices")
def test_an_object_that_was_never_seen_is_looked_for_every_five_minutes(claim_in, fra):
    claim = claim_in(S.PROVISIONED, object_uid="uid-1", state_since=timezone.now() - timedelta(hours=1))
    tasks.sweep()
    look_at = row_of(claim).reconcile_at
    assert look_at is not None
    assert timedelta(minutes=4) < look_at - timezone.now() <= timedelta(minutes=5)
    Freshness.objects.create(cluster=fra, resource="resourceclaims", listed_at=timezone.now())
    Claim.objects.update(reconcile_at=timezone.now())
    tasks.sweep()
    assert row_of(claim).state == S.FAILED


@pytest.mark.usefixtures("_no_slices")
@pytest.mark.parametrize("state", S)
def test_a_claim_is_due_no_longer_once_it_is_reconciled(claim_in, mirror, state, visited, monkeypatch):
    for name in ("deliver", "remove"):
        monkeypatch.setattr(getattr(tasks, name), "apply_async", lambda *_, **__: None)
    claim = claim_in(state, object_uid="uid-1")
    mirror.claim("sam", claim, *([result("gpu-0")] if state == S.ALLOCATED else []), deleting_since=None)
    ReconciledCluster.objects.update(revision=10**6)
    tasks.sweep()
    visited.clear()
    tasks.sweep()
    assert visited == []
    assert row_of(claim).reconcile_at is None


@pytest.mark.usefixtures("_no_slices")
def test_a_claim_that_cannot_be_settled_is_tried_with_the_next_sweep(mirror, settled, monkeypatch):
    mirror.claim("sam", settled, result("gpu-0"))
    with monkeypatch.context() as fault:
        fault.setattr(reconcile, "reconcile_claim", lambda _id: 1 / 0)
        with pytest.raises(ExceptionGroup):
            tasks.sweep()
    assert row_of(settled).state == S.PROVISIONED
    due = row_of(settled).reconcile_at
    assert due is not None
    assert due <= timezone.now() + timedelta(seconds=15)
    Claim.objects.update(reconcile_at=timezone.now())
    tasks.sweep()
    assert row_of(settled).state == S.ALLOCATED


# What is stored without a lock.


def test_an_observation_without_a_step_is_stored_without_a_lock(mirror, settled, monkeypatch):
    before = row_of(settled)
    monkeypatch.setattr(reconcile, "reconcile_claim", lambda _id: 1 / 0)
    mirror.claim("sam", settled)
    mirror.pod("train-0", claims=["sam"])
    tasks.sweep()
    after = row_of(settled)
    assert after.observation_hash != before.observation_hash
    assert (after.version, after.state) == (before.version + 1, before.state)


def test_an_observation_of_a_claim_that_moved_meanwhile_is_not_stored(mirror, settled, monkeypatch):
    settled_anew: list[UUID] = []
    monkeypatch.setattr(reconcile, "reconcile_claim", settled_anew.append)
    store = reconcile._store_notes

    def move_first(notes):
        Claim.objects.update(version=F("version") + 1, observation_hash="newer")
        return store(notes)

    monkeypatch.setattr(reconcile, "_store_notes", move_first)
    mirror.claim("sam", settled)
    reconcile.reconcile_claims([settled.pk])
    assert row_of(settled).observation_hash == "newer"
    assert settled_anew == [settled.pk]


@pytest.mark.parametrize("state", [S.PROVISIONED, S.ALLOCATED, S.RELEASING])
@pytest.mark.parametrize("shown", ["object", "held", "being deleted", "without label", "pod", "gone"])
def test_what_is_stored_without_a_lock_is_what_settling_would_store(
    claim_in, fra, mirror, state, shown, monkeypatch
):
    """The two claims differ in their names only, and each sees the same."""
    for name in ("deliver", "remove"):
        monkeypatch.setattr(getattr(tasks, name), "apply_async", lambda *_, **__: None)
    pair = []
    for name in ("first", "second"):
        claim = claim_in(state, name=name, object_uid=f"uid-{name}")
        devices = [result(f"gpu-{name}")] if shown == "held" else []
        columns = {"deleting_since": NINE} if shown == "being deleted" else {}
        mirror.claim(name, claim, *devices, uid=f"uid-{name}", **columns)
        if shown == "without label":
            ResourceClaim.objects.filter(uid=f"uid-{name}").update(owner="")
        if shown == "pod":
            mirror.pod(f"pod-of-{name}", claims=[name])
        if shown == "gone":
            mirror.gone(f"uid-{name}", timezone.now())
        pair.append(claim)
    reconcile.reconcile_claims([pair[0].pk])
    with monkeypatch.context() as locked:
        locked.setattr(reconcile, "_note", lambda *_: None)
        reconcile.reconcile_claims([pair[1].pk])
    first, second = (row_of(claim) for claim in pair)
    assert (first.state, first.version) == (second.state, second.version)
    assert first.problem.replace("first", "NAME") == second.problem.replace("second", "NAME")
    assert (first.reconcile_at is None) == (second.reconcile_at is None)
    for claim in (first, second):
        assert observations.observe([claim])[claim.pk].digest(claim) == claim.observation_hash


# Slices.


@pytest.fixture
def slices_of_three(monkeypatch):
    monkeypatch.setattr(changes, "SLICE", 3)


@pytest.fixture
def eleven(claim_in, monkeypatch):
    """Claims of all states that are followed, and one that is over and still holds; nothing is due."""
    for name in ("deliver", "remove"):
        monkeypatch.setattr(getattr(tasks, name), "apply_async", lambda *_, **__: None)
    claims = [claim_in(GRANTED[number % len(GRANTED)], name=f"sam-{number}") for number in range(10)]
    over = claim_in(S.ALLOCATED, name="over")
    Claim.objects.filter(pk=over.pk).update(state=S.FAILED)
    claim_in(S.REQUESTED, name="asked")
    claim_in(S.RELEASED, name="released")
    Claim.objects.update(reconcile_at=None)
    return sorted([*(claim.pk for claim in claims), over.pk])


@pytest.mark.usefixtures("slices_of_three")
def test_a_round_of_slices_visits_every_claim_that_is_followed_or_holds_once(eleven, visited):
    for _ in range(4):
        tasks.sweep()
    assert sorted(visited) == eleven
    tasks.sweep()
    assert visited[11:] == visited[:3]


@pytest.mark.usefixtures("slices_of_three")
def test_each_slice_costs_the_same_number_of_queries(eleven):
    for _ in range(4):
        tasks.sweep()
    with CaptureQueriesContext(connection) as first:
        tasks.sweep()
    with CaptureQueriesContext(connection) as second:
        tasks.sweep()
    assert len(first) == len(second)


@pytest.mark.usefixtures("slices_of_three")
def test_a_faulty_claim_holds_up_neither_its_slice_nor_the_round(eleven, monkeypatch):
    settled: list[UUID] = []
    monkeypatch.setattr(reconcile, "_note", lambda *_: None)

    def settle(claim_id):
        if claim_id == eleven[1]:
            raise RuntimeError("A fault of ours.")
        settled.append(claim_id)

    monkeypatch.setattr(reconcile, "reconcile_claim", settle)
    monkeypatch.setattr(reconcile, "RETRY_AFTER", timedelta(hours=1))
    with pytest.raises(ExceptionGroup):
        tasks.sweep()
    for _ in range(3):
        tasks.sweep()
    assert sorted(settled) == [claim_id for claim_id in eleven if claim_id != eleven[1]]


@pytest.mark.usefixtures("slices_of_three")
def test_a_claim_that_cannot_be_observed_holds_up_no_other(eleven, monkeypatch):
    settled: list[UUID] = []
    monkeypatch.setattr(reconcile, "_note", lambda *_: None)

    def observe(claims, **more):
        if eleven[1] in {claim.pk for claim in claims}:
            raise KeyError("driver")
        return observations.observe(claims, **more)

    monkeypatch.setattr(reconcile, "observe", observe)
    monkeypatch.setattr(reconcile, "reconcile_claim", settled.append)
    with pytest.raises(ExceptionGroup) as raised:
        tasks.sweep()
    assert [error.__notes__ for error in raised.value.exceptions] == [[f"claim {eleven[1]}"]]
    assert sorted(settled) == [eleven[0], eleven[2]]


@pytest.mark.usefixtures("slices_of_three")
def test_a_worker_that_dies_in_a_slice_leaves_it_to_the_next(eleven, visited, monkeypatch):
    tasks.sweep()
    visited.clear()

    class Killed(BaseException):
        pass

    def die(_claim_ids):
        raise Killed

    with monkeypatch.context() as fault:
        fault.setattr(tasks, "_remove_leftovers", die)
        fault.setattr(changes.SweepRound.objects, "filter", lambda **_: SweepRound.objects.none())
        with pytest.raises(Killed):
            tasks.sweep()
    assert visited == []
    tasks.sweep()
    assert sorted(visited) == eleven[3:6]


@pytest.mark.usefixtures("slices_of_three")
def test_two_sweeps_at_once_let_the_round_go_on_once(eleven):
    with changes.slice_of_claims() as first, changes.slice_of_claims() as second:
        assert first == second == set(eleven[:3])
    with changes.slice_of_claims() as third:
        assert third == set(eleven[3:6])


@pytest.mark.parametrize("model", [ResourceClaim, ResourceClaimTemplate])
def test_a_round_over_objects_finds_each_leftover_once(claim_in, fra, monkeypatch, model):
    removed: list[str] = []
    monkeypatch.setattr(tasks.remove, "apply_async", lambda args, *_, **__: removed.append(*args))
    monkeypatch.setattr(changes, "SLICE", 2)
    over = [claim_in(S.RELEASED, name=f"over-{number}") for number in range(5)]
    for claim in over:
        columns = {"origin": "portal"} if model is ResourceClaim else {}
        model.objects.create(
            cluster=fra, namespace="vision", name=claim.name, uid=str(uuid4()), owner=str(claim.pk), **columns
        )
    Claim.objects.update(reconcile_at=None)
    for _ in range(3):
        tasks.sweep()
    assert sorted(removed) == sorted(str(claim.pk) for claim in over)


@pytest.mark.usefixtures("_no_slices")
def test_an_object_that_appears_after_the_end_of_its_claim_is_removed(claim_in, mirror, monkeypatch):
    removed: list[str] = []
    monkeypatch.setattr(tasks.remove, "apply_async", lambda args, *_, **__: removed.append(*args))
    claim = claim_in(S.RELEASED)
    tasks.sweep()
    mirror.claim("sam", claim)
    tasks.reconcile_cluster(str(claim.cluster_id))
    assert removed == [str(claim.pk)]
