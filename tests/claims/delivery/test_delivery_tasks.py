"""What the sweep finds and queues, row by row, how long a task tries, and what a message leads to."""

from contextlib import nullcontext
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest
from django.utils import timezone

from claims.delivery import deliver as delivery
from claims.delivery import reconcile, tasks
from claims.models import Claim
from claims.quotas import resource_quota_rounds
from claims.states import DELIVERED, FINAL, RUNNING, ClaimState
from cluster.protocol import Refused, Unreachable
from inventory.models import ResourceClaim, ResourceClaimTemplate
from tests.claims.mirror import Mirror
from tests.claims.rows import changes, last_step, row_of
from tests.factories import make_claim, make_cluster

pytestmark = pytest.mark.django_db
S = ClaimState
DOWN = Unreachable("The connection timed out.")
PATIENT = [("deliver", "deliver"), ("remove", "remove"), ("label", "label")]


@pytest.fixture
def claim_in(vision, fra, train, alice, quota, gateway):
    def make(state, name="sam", **columns):
        return make_claim(vision, by=alice, cluster=fra, profile=train, state=state, name=name, **columns)

    return make


@pytest.fixture
def mirrored(fra):
    """Write a row of the mirror in the place of a claim; `columns` say what is otherwise."""

    def write(claim, model=ResourceClaim, **columns):
        values = {
            "cluster": claim.cluster, "namespace": claim.namespace, "name": claim.name, "uid": str(uuid4()),
            "owner": str(claim.pk), **columns,
        }  # fmt: skip
        return model.objects.create(**values)

    return write


@pytest.fixture
def queued(monkeypatch):
    """What is queued in the order of queueing: task, claim, patient, seconds until it is void."""
    calls: list[tuple[str, str, bool, float | None]] = []
    for name in ("deliver", "remove", "label"):

        def delay(claim_id, name=name):
            calls.append((name, claim_id, True, None))

        def apply_async(args, kwargs, *, expires, name=name):
            calls.append((name, *args, kwargs["patient"], expires))

        monkeypatch.setattr(getattr(tasks, name), "delay", delay)
        monkeypatch.setattr(getattr(tasks, name), "apply_async", apply_async)
    return calls


def every_claim():
    return list(Claim.objects.values_list("pk", flat=True))


def others(claim):
    """What places a row somewhere else than in the place of the claim."""
    return {
        "cluster": {"cluster": make_cluster("osl-1")},
        "namespace": {"namespace": "audio"},
        "name": {"name": "copy"},
        "label": {"owner": str(uuid4())},
        "no label": {"owner": ""},
        "gone": {"gone_at": timezone.now()},
    }


# Trying again.


@pytest.mark.parametrize(("name", "work"), PATIENT)
def test_a_patient_task_tries_seven_times(monkeypatch, settings, db, name, work):
    settings.CELERY_TASK_EAGER_PROPAGATES = False
    asked = []

    def fail(claim_id):
        asked.append(claim_id)
        raise DOWN

    monkeypatch.setattr(delivery, work, fail)
    getattr(tasks, name).delay("an id")
    assert asked == ["an id"] * 7


class Again(Exception):
    """What a task raises to be run again."""


@pytest.mark.parametrize(
    ("retries", "seconds"), [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16), (5, 32), (6, None), (7, None)]
)
def test_each_time_a_task_waits_twice_as_long(retries, seconds):
    asked = []

    def retry(**more):
        asked.append(more)
        return Again()

    def fail(_claim_id):
        raise DOWN

    task = SimpleNamespace(request=SimpleNamespace(retries=retries), retry=retry)
    with nullcontext() if seconds is None else pytest.raises(Again):
        tasks.run_with_retries(task, fail, "an id", patient=True)  # type: ignore[arg-type]
    expected = {"exc": DOWN, "countdown": seconds, "max_retries": 6}
    assert asked == ([] if seconds is None else [expected])


@pytest.mark.parametrize(("name", "work"), PATIENT)
def test_a_task_of_the_sweep_tries_once(monkeypatch, db, name, work):
    asked = []

    def fail(claim_id):
        asked.append(claim_id)
        raise DOWN

    monkeypatch.setattr(delivery, work, fail)
    getattr(tasks, name).apply_async(("an id",), {"patient": False})
    assert asked == ["an id"]


@pytest.mark.parametrize(("name", "work"), PATIENT)
def test_only_a_cluster_that_cannot_be_reached_is_tried_again(monkeypatch, db, name, work):
    asked = []

    def fail(claim_id):
        asked.append(claim_id)
        raise Refused("No.")

    monkeypatch.setattr(delivery, work, fail)
    with pytest.raises(Refused):
        getattr(tasks, name)("an id")
    assert asked == ["an id"]


# The sweep.


def test_the_sweep_queues_each_kind_of_work_once_without_patience_and_void_at_the_next(
    claim_in, mirrored, queued
):
    approved = [claim_in(S.APPROVED, name=f"new-{number}") for number in range(2)]
    leaving = [claim_in(S.RELEASING, name=f"leaving-{number}") for number in range(2)]
    over = [claim_in(S.FAILED, name=f"over-{number}") for number in range(2)]
    bare = [
        claim_in(S.PROVISIONED, name=f"bare-{number}", origin="adopted", object_uid=f"bare-{number}")
        for number in range(2)
    ]
    for claim in over:
        mirrored(claim, origin="portal")
    for claim in bare:
        mirrored(claim, owner="", uid=claim.object_uid)
    claim_in(S.REQUESTED, name="asked")
    claim_in(S.RELEASED, name="released")
    tasks.sweep()
    expected = {
        *(("deliver", str(claim.pk), False, 15.0) for claim in approved),
        *(("remove", str(claim.pk), False, 15.0) for claim in [*leaving, *over]),
        *(("label", str(claim.pk), False, 15.0) for claim in bare),
    }
    assert len(queued) == 8
    assert set(queued) == expected


def test_the_sweep_settles_every_claim_that_is_followed_and_every_one_that_still_holds(
    claim_in, queued, monkeypatch
):
    claims = {state: claim_in(state, name=f"in-{state}") for state in S}
    holding = claim_in(S.ALLOCATED, name="ended")
    Claim.objects.filter(pk=holding.pk).update(state=S.FAILED)
    given_back = claim_in(S.ALLOCATED, name="back")
    given_back.allocations.update(ended_at=timezone.now())
    Claim.objects.filter(pk=given_back.pk).update(state=S.FAILED)
    asked: list[UUID] = []
    monkeypatch.setattr(reconcile, "reconcile_claims", asked.extend)
    tasks.sweep()
    followed = [claims[state].pk for state in (*RUNNING, S.RELEASING)]
    assert sorted(asked) == sorted([*followed, holding.pk])


@pytest.mark.parametrize("state", [state for state in S if state != S.RELEASING])
def test_only_what_is_releasing_is_removed(claim_in, state):
    claim_in(state)
    assert tasks.claims_to_remove() == set()


@pytest.mark.parametrize(
    "other", [None, "cluster", "namespace", "name", "label", "no label", "gone", "stays"]
)
def test_the_cluster_is_not_asked_while_the_object_itself_is_being_deleted(claim_in, mirrored, other):
    claim, second = claim_in(S.RELEASING), claim_in(S.RELEASING, name="second")
    columns = {"stays": {"deleting_since": None}}.get(other) or (others(claim)[other] if other else {})
    mirrored(claim, **{"deleting_since": timezone.now(), **columns})
    waits = other is None
    assert tasks.claims_to_remove() == ({second.pk} if waits else {claim.pk, second.pk})


@pytest.mark.parametrize("other", [None, "cluster", "namespace", "label", "no label", "gone", "origin"])
def test_the_cluster_is_not_asked_while_generated_claims_are_all_that_is_left(claim_in, mirrored, other):
    claim = claim_in(S.RELEASING, delivery="template")
    columns = {"origin": {"origin": "foreign"}}.get(other) or (others(claim)[other] if other else {})
    mirrored(claim, **{"name": "job-1-gpu", "origin": "template", **columns})
    assert tasks.claims_to_remove() == (set() if other is None else {claim.pk})


@pytest.mark.parametrize("other", [None, "cluster", "namespace", "name", "label", "gone"])
def test_a_template_that_stands_is_removed_though_generated_claims_are_waited_for(claim_in, mirrored, other):
    claim = claim_in(S.RELEASING, delivery="template")
    mirrored(claim, name="job-1-gpu", origin="template")
    mirrored(claim, ResourceClaimTemplate, **(others(claim)[other] if other else {}))
    assert tasks.claims_to_remove() == ({claim.pk} if other is None else set())


def test_each_delivery_waits_for_its_own_objects(claim_in, mirrored):
    """What a template leaves to wait for is nothing that a named claim waits for, and the reverse."""
    named, template = claim_in(S.RELEASING), claim_in(S.RELEASING, name="batch", delivery="template")
    mirrored(named, name="job-1-gpu", origin="template")
    mirrored(template, deleting_since=timezone.now())
    assert tasks.claims_to_remove() == {named.pk, template.pk}


@pytest.mark.parametrize("other", ["uid", "cluster", "label", "gone", "origin"])
def test_only_an_adopted_object_without_a_label_is_labelled(claim_in, mirrored, other):
    claim = claim_in(S.PROVISIONED, origin="adopted", object_uid="bare")
    row = mirrored(claim, owner="", uid="bare")
    assert tasks.unlabeled_claims(every_claim()) == [claim.pk]
    changed: dict[str, dict[str, object]] = {
        "uid": {"uid": "another"},
        "cluster": {"cluster": make_cluster("osl-1")},
        "label": {"owner": "theirs"},
        "gone": {"gone_at": timezone.now()},
    }
    if other == "origin":
        Claim.objects.filter(pk=claim.pk).update(origin="portal")
    else:
        ResourceClaim.objects.filter(pk=row.pk).update(**changed[other])
    assert tasks.unlabeled_claims(every_claim()) == []


@pytest.mark.parametrize("state", S)
def test_labels_are_for_what_is_delivered(claim_in, mirrored, state):
    claim = claim_in(S.PROVISIONED, origin="adopted", object_uid="bare")
    Claim.objects.filter(pk=claim.pk).update(state=state)
    mirrored(claim, owner="", uid="bare")
    assert tasks.unlabeled_claims(every_claim()) == ([claim.pk] if state in DELIVERED else [])


@pytest.mark.parametrize("state", S)
@pytest.mark.parametrize("model", [ResourceClaim, ResourceClaimTemplate])
def test_what_is_left_of_a_claim_that_is_over_is_found(claim_in, mirrored, model, state):
    claim = claim_in(state)
    mirrored(claim, model, **({"origin": "portal"} if model is ResourceClaim else {}))
    assert tasks.claims_with_leftovers(every_claim()) == ({claim.pk} if state in FINAL else set())


@pytest.mark.parametrize(
    "columns",
    [
        {"gone_at": timezone.now()},
        {"owner": ""},
        {"owner": "nonsense"},
        {"deleting_since": timezone.now()},
        {"origin": "template"},
        {"origin": "foreign"},
    ],
)
def test_what_goes_by_itself_or_is_not_the_portals_is_no_leftover(claim_in, mirrored, columns):
    claim = claim_in(S.RELEASED)
    mirrored(claim, **{"origin": "portal", **columns})
    if set(columns) <= {"gone_at", "owner"}:
        mirrored(claim, ResourceClaimTemplate, **columns)
    assert tasks.claims_with_leftovers(every_claim()) == set()


def test_a_label_that_is_no_id_hides_no_other_leftover(claim_in, mirrored):
    over = [claim_in(S.RELEASED, name=f"over-{number}") for number in range(2)]
    mirrored(over[0], origin="portal", owner="nonsense")
    for claim in over:
        mirrored(claim, origin="portal")
    assert tasks.claims_with_leftovers(every_claim()) == {claim.pk for claim in over}


# A message of the mirror.


def test_a_message_settles_releases_and_writes_quotas_in_this_order(claim_in, fra, monkeypatch):
    done: list[object] = []
    claim = claim_in(S.PROVISIONED, replaces=claim_in(S.RELEASED, name="old"))
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *_: None)
    Mirror(fra).claim("sam", claim)
    monkeypatch.setattr(reconcile, "reconcile_claims", lambda ids: done.append(("settled", *ids)))
    monkeypatch.setattr(reconcile, "release_predecessors", lambda ids: done.append(("released", *ids)) or [])
    monkeypatch.setattr(resource_quota_rounds, "write_changed", lambda *args: done.append(("quota", *args)))
    tasks.reconcile_cluster(str(fra.pk))
    assert done == [("settled", claim.pk), ("released", claim.pk), ("quota", fra.pk, {"vision"})]


@pytest.mark.parametrize("state", S)
def test_what_a_claim_with_devices_replaces_is_released_while_it_runs(claim_in, queued, state):
    old = claim_in(S.APPROVED, name="old")
    new = claim_in(S.ALLOCATED, name="new", replaces=old)
    Claim.objects.filter(pk=old.pk).update(state=state)
    before = row_of(old)
    tasks.release_replaced(every_claim())
    if state in RUNNING:
        assert changes(before) == {"state": S.RELEASING, "state_since": "now", "version": 1}
        why = "Replaced by new, which holds its devices."
        assert last_step(old) == (state, S.RELEASING, why, None)
        assert queued == [("remove", str(old.pk), True, None)]
    else:
        assert changes(before) == {}
        assert queued == []
    assert row_of(new).state == S.ALLOCATED


@pytest.mark.parametrize("state", [state for state in S if state != S.ALLOCATED])
def test_nothing_is_released_for_a_successor_without_devices(claim_in, queued, state):
    old = claim_in(S.ALLOCATED, name="old")
    claim_in(state, name="new", replaces=old)
    before = row_of(old)
    tasks.release_replaced(every_claim())
    assert changes(before) == {}
    assert queued == []


def test_all_that_are_replaced_are_released_though_somebody_else_was_first_at_one(
    claim_in, queued, monkeypatch
):
    olds = [claim_in(S.PROVISIONED, name=f"old-{number}") for number in range(3)]
    for number, old in enumerate(olds):
        claim_in(S.ALLOCATED, name=f"new-{number}", replaces=old)
    advance = Claim.advance

    def lose_one(self, to, **more):
        return False if self.pk == olds[1].pk else advance(self, to, **more)

    monkeypatch.setattr(Claim, "advance", lose_one)
    tasks.release_replaced(every_claim())
    expected = {("remove", str(old.pk), True, None) for old in (olds[0], olds[2])}
    assert set(queued) == expected
    assert len(queued) == 2
