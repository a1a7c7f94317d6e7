"""Which steps a sighting calls for in which state, and all that settling writes on the row of a claim."""

import itertools
from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from claims.delivery import changes as delivery_changes
from claims.delivery import reconcile, tasks
from claims.models import Claim, ReconciledCluster
from claims.observation.drift import Drift
from claims.observation.observations import Observation, observe
from claims.states import ClaimState
from inventory.models import ResourceClaim, ResourceClaimTemplate
from notify.models import Notice
from tests.claims.mirror import NINE, Mirror, result
from tests.claims.rows import changes, last_step, row_of
from tests.factories import make_claim, make_cluster, make_spec

pytestmark = pytest.mark.django_db
S = ClaimState
FOREIGN_NOW = " Another object of that name exists now; it does not belong to this claim."


@pytest.fixture
def mirror(fra):
    return Mirror(fra)


@pytest.fixture
def claim_in(vision, fra, train, alice, gateway):
    def make(state, name="sam", object_uid="uid-1", **columns):
        return make_claim(
            vision, by=alice, cluster=fra, profile=train, state=state, name=name, object_uid=object_uid,
            devices=2, held=False, **columns,
        )  # fmt: skip

    return make


@pytest.fixture
def silent(monkeypatch):
    """The mirror tells nobody of what it writes: the test settles itself."""
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *_: None)


def steps(claim, observation):
    """Return the steps that reconciliation takes, each as its state and its sentence."""
    earlier = list(claim.history.values_list("pk", flat=True))
    reconcile._advance(claim, observation)
    return list(claim.history.exclude(pk__in=earlier).values_list("new", "reason"))


def written(**columns):
    return ResourceClaim(uid="uid-1", name="sam", namespace="vision", raw={}, **columns)


def holder(*devices):
    status = {"allocation": {"devices": {"results": [result(name) for name in devices]}}}
    return ResourceClaim(uid="uid-1", name="sam", allocated_at=NINE, raw={"status": status})


type Step = tuple[ClaimState, str]

THERE: Step = (S.PROVISIONED, "ResourceClaim sam was created in namespace vision of fra-1.")
ALLOCATED: Step = (S.ALLOCATED, "The scheduler allocated 1 device: node-1/gpu-0.")
BACK: Step = (S.PROVISIONED, "Kubernetes took the devices back: no pod uses them.")
DELETED: Step = (S.FAILED, "ResourceClaim sam was deleted in fra-1 by somebody other than the portal.")
GONE: Step = (S.RELEASED, "ResourceClaim sam was deleted from namespace vision of fra-1.")


def sighting(what):
    old, new = timezone.now() - timedelta(seconds=21), timezone.now() - timedelta(seconds=19)
    return {
        "nothing": Observation(),
        "there": Observation(written=written()),
        "held": Observation(written=written(), holders=[holder("gpu-0")]),
        "holders alone": Observation(holders=[holder("gpu-0")]),
        "idle holder": Observation(written=written(), holders=[holder()]),
        "gone": Observation(written=written(gone_at=old)),
        "just gone": Observation(written=written(gone_at=new)),
        "gone, pods go on": Observation(written=written(gone_at=old), holders=[holder("gpu-0")]),
        "missed": Observation(missed=True),
    }[what]


@pytest.mark.parametrize(
    ("state", "what", "expected"),
    [
        (S.APPROVED, "nothing", []),
        (S.APPROVED, "there", [THERE]),
        (S.APPROVED, "held", [THERE, ALLOCATED]),
        (S.APPROVED, "gone", []),
        (S.APPROVED, "missed", []),
        (S.PROVISIONED, "nothing", []),
        (S.PROVISIONED, "there", []),
        (S.PROVISIONED, "idle holder", []),
        (S.PROVISIONED, "held", [ALLOCATED]),
        (S.PROVISIONED, "just gone", []),
        (S.PROVISIONED, "gone", [DELETED]),
        (S.PROVISIONED, "missed", [DELETED]),
        (S.PROVISIONED, "gone, pods go on", [ALLOCATED]),
        (S.ALLOCATED, "nothing", [BACK]),
        (S.ALLOCATED, "there", [BACK]),
        (S.ALLOCATED, "held", []),
        (S.ALLOCATED, "holders alone", []),
        (S.ALLOCATED, "just gone", []),
        (S.ALLOCATED, "gone", [DELETED]),
        (S.ALLOCATED, "missed", [DELETED]),
        (S.ALLOCATED, "gone, pods go on", []),
        (S.RELEASING, "nothing", []),
        (S.RELEASING, "there", []),
        (S.RELEASING, "held", []),
        (S.RELEASING, "just gone", [GONE]),
        (S.RELEASING, "gone", [GONE]),
        (S.RELEASING, "missed", [GONE]),
        (S.RELEASING, "gone, pods go on", []),
        *((state, "held", []) for state in (S.REQUESTED, S.RELEASED, S.DENIED, S.FAILED, S.EXPIRED)),
        *((state, "gone", []) for state in (S.REQUESTED, S.RELEASED, S.WITHDRAWN, S.FAILED)),
    ],
)
def test_the_steps_that_a_sighting_calls_for(claim_in, state, what, expected):
    claim = claim_in(S.PROVISIONED)
    Claim.objects.filter(pk=claim.pk).update(state=state)
    assert steps(row_of(claim), sighting(what)) == expected


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ({}, True),
        ({"namespace": "audio"}, False),
        ({"name": "copy"}, False),
        ({"cluster": "osl-1"}, False),
        ({"gone_at": NINE}, False),
    ],
)
@pytest.mark.parametrize("model", [ResourceClaim, ResourceClaimTemplate])
def test_another_object_of_the_name_is_told_where_it_stands_in_its_place(claim_in, fra, model, others, said):
    delivery = "claim" if model is ResourceClaim else "template"
    claim = claim_in(S.PROVISIONED, delivery=delivery)
    cluster = make_cluster("osl-1") if "cluster" in others else fra
    columns = {"namespace": "vision", "name": "sam", **others, "cluster": cluster}
    model.objects.create(uid="foreign", **columns)
    ((to, why),) = steps(claim, sighting("missed"))
    deleted = f"{model.__name__} sam was deleted in fra-1 by somebody other than the portal."
    assert (to, why) == (S.FAILED, deleted + (FOREIGN_NOW if said else ""))


@pytest.mark.parametrize(
    ("devices", "said"),
    [
        (["gpu-1", "gpu-0"], "2 devices: node-1/gpu-0, node-1/gpu-1."),
        (["gpu-0", "gpu-0"], "1 device: node-1/gpu-0."),
        (list("dcba"), "4 devices: node-1/a, node-1/b, node-1/c, node-1/d."),
        (list("edcba"), "5 devices: node-1/a, node-1/b, node-1/c, node-1/d …."),
    ],
)
def test_up_to_four_devices_are_named_in_order(claim_in, devices, said):
    seen = Observation(written=written(), holders=[holder(*devices)])
    assert steps(claim_in(S.PROVISIONED), seen) == [(S.ALLOCATED, f"The scheduler allocated {said}")]


# The row.


def digest_of(claim):
    claim = row_of(claim)
    return observe([claim])[claim.pk].digest(claim)


def test_one_look_at_an_approved_claim_writes_two_steps_and_what_it_saw(claim_in, mirror, silent):
    claim = claim_in(S.APPROVED, object_uid="", problem="fra-1 cannot be reached.")
    mirror.claim("sam", claim, result("gpu-0"))
    reconcile.reconcile_claim(claim.pk)
    assert changes(claim) == {
        "state": S.ALLOCATED,
        "state_since": "now",
        "version": 3,
        "object_uid": "uid-1",
        "problem": "",
        "observation_hash": digest_of(claim),
    }
    assert last_step(claim) == (S.PROVISIONED, *ALLOCATED, None)
    assert [step.new for step in claim.history.all()][-2:] == [S.PROVISIONED, S.ALLOCATED]


def test_settling_another_time_writes_the_version_alone(claim_in, mirror, silent):
    claim = claim_in(S.PROVISIONED)
    mirror.claim("sam", claim, result("gpu-0"))
    reconcile.reconcile_claim(claim.pk)
    before = row_of(claim)
    reconcile.reconcile_claim(claim.pk)
    assert changes(before) == {"version": 1}


def test_what_was_seen_is_not_looked_at_again_and_news_is(claim_in, mirror, silent, monkeypatch):
    claim, other = claim_in(S.PROVISIONED), claim_in(S.PROVISIONED, name="other", object_uid="uid-2")
    for each in (claim, other):
        mirror.claim(each.name, each, uid=each.object_uid)
    reconcile.reconcile_claims([claim.pk, other.pk])
    asked, settle = [], reconcile.reconcile_claim
    monkeypatch.setattr(reconcile, "reconcile_claim", lambda pk: asked.append(pk) or settle(pk))
    reconcile.reconcile_claims([claim.pk, other.pk])
    assert asked == []
    mirror.claim("other", other, result("gpu-0"), uid="uid-2")
    reconcile.reconcile_claims([claim.pk, other.pk])
    assert asked == [other.pk]


def test_claims_are_settled_in_batches_and_a_faulty_one_holds_up_none_of_any(
    claim_in, mirror, silent, monkeypatch
):
    """Two of five are faulty, one in each of the first two batches of two; all are told."""
    monkeypatch.setattr(reconcile, "BATCH_SIZE", 2)
    claims = [claim_in(S.PROVISIONED, name=f"sam-{n}", object_uid=f"uid-{n}") for n in range(5)]
    for claim in claims:
        mirror.claim(claim.name, claim, result(f"gpu-of-{claim.name}"), uid=claim.object_uid)
    settle, faulty = reconcile.reconcile_claim, {claims[0].pk, claims[3].pk}

    def settle_or_fail(pk):
        if pk in faulty:
            raise RuntimeError("A fault of ours.")
        settle(pk)

    monkeypatch.setattr(reconcile, "reconcile_claim", settle_or_fail)
    with pytest.raises(ExceptionGroup, match="Claims could not be settled") as raised:
        reconcile.reconcile_claims([claim.pk for claim in claims])
    notes = [error.__notes__ for error in raised.value.exceptions]
    assert notes == [[f"claim {claims[0].pk}"], [f"claim {claims[3].pk}"]]
    expected = [S.PROVISIONED, S.ALLOCATED, S.ALLOCATED, S.PROVISIONED, S.ALLOCATED]
    assert [row_of(claim).state for claim in claims] == expected
    faulty.clear()
    tasks.sweep()
    assert {row_of(claim).state for claim in claims} == {S.ALLOCATED}


def test_a_claim_that_failed_to_be_settled_has_nothing_written(claim_in, mirror, silent, monkeypatch):
    claim = claim_in(S.PROVISIONED)
    mirror.claim("sam", claim, result("gpu-0"))

    def fail(*_args):
        raise RuntimeError("A fault of ours.")

    monkeypatch.setattr(reconcile, "claim_problem", fail)
    with pytest.raises(ExceptionGroup):
        reconcile.reconcile_claims([claim.pk])
    assert changes(claim) == {}
    assert not claim.allocations.exists()
    assert claim.history.filter(new=S.ALLOCATED).count() == 0


def test_a_message_of_one_cluster_settles_no_claim_of_another(claim_in, mirror, vision, train, alice):
    """The same namespace and name in both."""
    abroad = make_claim(
        vision, by=alice, cluster=make_cluster("osl-1"), profile=train, state=S.PROVISIONED, name="sam",
        object_uid="uid-osl",
    )  # fmt: skip
    claim = claim_in(S.PROVISIONED)
    mirror.claim("sam", claim, result("gpu-0"))
    assert row_of(claim).state == S.ALLOCATED
    assert changes(abroad) == {}


# The problem.


@pytest.mark.parametrize(
    ("state", "written_is_there", "kept"),
    [
        (S.PROVISIONED, True, False),
        (S.PROVISIONED, False, True),
        (S.ALLOCATED, True, False),
        (S.ALLOCATED, False, True),
        (S.APPROVED, True, True),
        (S.APPROVED, False, True),
        (S.RELEASING, True, True),
        (S.RELEASING, False, True),
        (S.RELEASED, True, False),
        (S.RELEASED, False, False),
        (S.REQUESTED, False, True),
    ],
)
def test_a_problem_of_delivery_stays_until_the_claim_is_delivered_or_over(
    claim_in, state, written_is_there, kept
):
    claim = claim_in(S.PROVISIONED, problem="fra-1 cannot be reached.")
    claim.state = state
    seen = Observation(written=written() if written_is_there else None)
    assert reconcile.claim_problem(claim, seen, None) == ("fra-1 cannot be reached." if kept else "")
    assert reconcile.claim_problem(claim, seen, Drift("edited", "It was edited.")) == "It was edited."


def test_what_failed_says_the_last_line_of_its_history(claim_in):
    claim = claim_in(S.PROVISIONED, problem="Before.")
    claim.advance(S.FAILED, why="It was deleted.")
    claim.history.create(old=S.FAILED, new=S.FAILED, reason="Said later.")
    assert reconcile.claim_problem(claim, Observation(), None) == "Said later."
    claim.history.update(at=NINE)  # at one instant, the newest line is the last
    assert reconcile.claim_problem(claim, Observation(), None) == "Said later."
    claim.history.all().delete()
    assert reconcile.claim_problem(claim, Observation(), None) == "Before."


def test_a_second_drift_is_told_again_and_replaces_the_problem(claim_in, mirror, alice, root):
    claim = claim_in(S.PROVISIONED)
    told = Notice.objects.filter(title="sam differs from what was approved")
    for number, count in enumerate((5, 6), start=1):
        mirror.claim("sam", claim, spec=make_spec(count))
        assert sorted(told.values_list("user__username", flat=True)) == sorted(["alice", "root"] * number)
    bodies = set(told.values_list("body", flat=True))
    assert len(bodies) == 2
    assert row_of(claim).problem in bodies
    mirror.claim("sam", claim, spec=make_spec(5))  # the first again is no news
    assert told.count() == 4


def test_over_use_is_a_problem_that_nobody_is_told_of(claim_in, mirror, root):
    batch = claim_in(S.PROVISIONED, name="batch", delivery="template", object_uid="uid-t")
    mirror.template(batch)
    for name in "ab":
        mirror.claim(f"batch-{name}", batch, uid=name, origin="template")
    assert row_of(batch).problem == "2 claims exist at once; requested and charged to the quota: 1."
    assert not Notice.objects.exists()


def test_the_claim_that_was_deleted_tells_of_it_once_with_its_last_line(claim_in, mirror, alice, root):
    claim = claim_in(S.PROVISIONED)
    mirror.claim("sam", claim)
    before = row_of(claim)
    mirror.gone("uid-1", NINE)
    for _ in range(2):
        Claim.objects.filter(pk=claim.pk).update(observation_hash="")
        reconcile.reconcile_claims([claim.pk])
    found = changes(before)
    assert (found["state"], found["problem"]) == (S.FAILED, DELETED[1])
    assert last_step(claim) == (S.PROVISIONED, S.FAILED, DELETED[1], None)
    notices = Notice.objects.filter(title="sam was deleted by somebody else")
    assert set(notices.values_list("user__username", "body", "url", "important")) == {
        ("alice", DELETED[1], f"/claims/{claim.pk}/", True),
        ("root", DELETED[1], f"/claims/{claim.pk}/", True),
    }
    assert notices.count() == 2


def test_changes_that_are_left_when_the_time_is_over_wait_for_the_next_run(fra, monkeypatch):
    """After a first listing every claim has changed; one sweep must not take all of it."""
    taken: list[object] = []

    def take_changes(cluster_id):
        assert len(taken) < 5
        taken.append(cluster_id)
        return delivery_changes.Changes(cluster_id, 0, len(taken))

    clock = itertools.count(4, 4)  # seconds at each look
    monkeypatch.setattr(tasks, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    monkeypatch.setattr(delivery_changes, "take_changes", take_changes)
    tasks.reconcile_cluster(str(fra.pk))
    assert taken == [fra.pk, fra.pk]
    assert ReconciledCluster.objects.get(cluster=fra).revision == 2
