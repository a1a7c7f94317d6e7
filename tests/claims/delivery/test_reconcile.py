import itertools
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.delivery import reconcile, tasks
from claims.models import Allocation, Claim
from claims.states import ClaimState
from inventory.models import Device, Freshness, ResourceClaim, ResourceSlice
from tests.claims.mirror import NINE, Mirror, result
from tests.factories import make_claim, make_spec

pytestmark = pytest.mark.django_db


@pytest.fixture
def mirror(fra):
    return Mirror(fra)


@pytest.fixture
def claim(vision, fra, train, alice):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, state=ClaimState.PROVISIONED,
        name="sam", object_uid="uid-1",
    )  # fmt: skip


@pytest.fixture
def template(vision, fra, train, alice):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, delivery="template",
        parallel=2, name="batch", object_uid="uid-t",
    )  # fmt: skip


def states(claim):
    return [step.new for step in claim.history.all()]


def fresh(claim) -> Claim:
    return Claim.objects.get(pk=claim.pk)


def test_an_allocation_of_the_cluster_makes_the_claim_allocated(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"), result("gpu-1"))
    assert fresh(claim).state == ClaimState.ALLOCATED
    assert claim.history.last().reason == "The scheduler allocated 2 devices: node-1/gpu-0, node-1/gpu-1."
    rows = list(claim.allocations.all())
    assert [(row.device, row.started_at, row.ended_at) for row in rows] == [
        ("gpu-0", NINE, None),
        ("gpu-1", NINE, None),
    ]


def test_what_is_known_of_the_device_is_kept_with_the_allocation(mirror, claim, fra):
    part = ResourceSlice.objects.create(cluster=fra, uid="s", name="s", generation=1, pool_slices=1)
    Device.objects.create(
        cluster=fra, slice=part, driver="gpu.nvidia.com", pool="node-1", name="gpu-0", node_name="node-1",
        product="NVIDIA H100", uuid="GPU-1", memory_bytes=80 << 30,
    )  # fmt: skip
    mirror.claim("sam", claim, result("gpu-0"))
    row = claim.allocations.get()
    assert (row.node_name, row.product, row.uuid, row.fraction) == ("node-1", "NVIDIA H100", "GPU-1", 1)


def test_devices_taken_back_end_the_allocation_and_the_claim_waits_again(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.claim("sam", claim, seen_at=NINE + timedelta(hours=3))
    assert states(claim) == ["requested", "approved", "provisioned", "allocated", "provisioned"]
    assert claim.allocations.get().ended_at == NINE + timedelta(hours=3)


def test_an_allocation_of_an_object_that_the_mirror_has_forgotten_ends(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    ResourceClaim.objects.all().delete()
    tasks.sweep()
    row = claim.allocations.get()
    assert row.ended_at is not None
    assert row.ended_at >= row.started_at


def test_given_back_and_taken_again_while_nobody_looked_is_two_allocations(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    later = NINE + timedelta(hours=5)
    mirror.claim("sam", claim, result("gpu-0"), at=later)
    spans = [(row.started_at, row.ended_at) for row in claim.allocations.order_by("started_at")]
    assert spans == [(NINE, later), (later, None)]


def test_a_message_of_one_claim_settles_no_other(mirror, claim, template, monkeypatch):
    """Else every message would cost as much as a look at all claims."""
    asked: list[object] = []
    monkeypatch.setattr(reconcile, "_note", lambda *_: None)
    monkeypatch.setattr(reconcile, "reconcile_claim", asked.append)
    reconcile.reconcile_claims([claim.pk])
    reconcile.reconcile_claims([template.pk])
    assert asked == [claim.pk, template.pk]


def test_the_same_message_again_changes_nothing(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    before = fresh(claim)
    for _ in range(3):
        mirror.tell("sam")
        tasks.sweep()
    assert fresh(claim).version == before.version
    assert Allocation.objects.count() == 1


def test_admin_access_opens_no_allocation(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0", adminAccess=True))
    assert fresh(claim).state == ClaimState.ALLOCATED
    assert not claim.allocations.exists()


def test_an_object_seen_before_its_delivery_is_recorded_is_adopted(mirror, vision, fra, train, alice):
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, devices=2, state=ClaimState.APPROVED, name="sam"
    )
    mirror.claim("sam", claim, result("gpu-0"))
    assert states(claim) == ["requested", "approved", "provisioned", "allocated"]
    assert fresh(claim).object_uid == "uid-1"


def test_a_released_claim_is_over_when_its_object_is_gone(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    fresh(claim).advance(ClaimState.RELEASING, why="done")
    mirror.claim("sam", claim, result("gpu-0"), deleting_since=NINE)
    assert fresh(claim).state == ClaimState.RELEASING
    mirror.gone("uid-1", NINE + timedelta(hours=1))
    assert fresh(claim).state == ClaimState.RELEASED
    assert claim.allocations.get().ended_at == NINE + timedelta(hours=1)


def test_an_object_not_seen_yet_is_not_taken_for_gone(claim):
    fresh(claim).advance(ClaimState.RELEASING, why="done")
    reconcile.reconcile_claims([claim.pk])
    assert fresh(claim).state == ClaimState.RELEASING


@pytest.mark.parametrize(("minutes", "state"), [(4, ClaimState.PROVISIONED), (6, ClaimState.FAILED)])
def test_an_object_that_a_later_listing_does_not_have_is_gone(claim, fra, minutes, state):
    listed_at = claim.state_since + timedelta(minutes=minutes)
    Freshness.objects.create(cluster=fra, resource="resourceclaims", listed_at=listed_at)
    tasks.sweep()
    assert fresh(claim).state == state


def test_an_object_deleted_behind_the_portals_back_ends_the_claim(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.gone("uid-1", NINE + timedelta(hours=1))
    assert fresh(claim).state == ClaimState.FAILED
    assert fresh(claim).problem == "ResourceClaim sam was deleted in fra-1 by somebody other than the portal."
    assert not claim.allocations.filter(ended_at=None).exists()


def test_an_object_being_deleted_by_somebody_else_is_told(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"), deleting_since=NINE)
    assert fresh(claim).state == ClaimState.ALLOCATED
    assert "Somebody other than the portal is deleting ResourceClaim sam" in fresh(claim).problem


def test_an_object_made_again_by_somebody_else_is_told(mirror, claim):
    mirror.claim("sam", claim)
    mirror.gone("uid-1", NINE)
    Claim.objects.filter(pk=claim.pk).update(state=ClaimState.PROVISIONED, problem="")
    mirror.claim("sam", claim, result("gpu-0"), uid="uid-2")
    assert fresh(claim).state == ClaimState.ALLOCATED
    assert "was deleted and recreated" in fresh(claim).problem


def test_another_spec_than_approved_is_told_and_the_sentence_goes_when_it_is_mended(mirror, claim):
    mirror.claim("sam", claim, spec=make_spec(8))
    assert "differs from what was approved" in fresh(claim).problem
    mirror.claim("sam", claim)
    assert fresh(claim).problem == ""


def test_the_defaults_that_the_server_fills_in_are_no_change(mirror, claim):
    spec = {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": 2}}]
        }
    }
    mirror.claim("sam", claim, spec=make_spec(3))
    assert "differs from what was approved" in fresh(claim).problem
    mirror.claim("sam", claim, spec=spec)
    assert fresh(claim).problem == ""


def test_a_label_in_another_namespace_is_nobodys(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"), namespace="elsewhere")
    mirror.claim("other", claim, result("gpu-1"), uid="uid-9")
    tasks.sweep()
    assert fresh(claim).state == ClaimState.PROVISIONED
    assert not claim.allocations.exists()


def test_a_label_that_is_no_id_harms_nothing(mirror, claim, fra):
    ResourceClaim.objects.create(cluster=fra, uid="x", namespace="vision", name="sam", owner="nonsense")
    mirror.tell("sam")
    tasks.sweep()
    assert (fresh(claim).state, fresh(claim).problem) == (ClaimState.PROVISIONED, "")


def test_all_claims_of_a_template_belong_to_it(mirror, template):
    mirror.template(template)
    mirror.claim("batch-a", template, result("gpu-0"), uid="a", origin="template")
    mirror.claim("batch-b", template, result("gpu-1"), uid="b", origin="template")
    assert fresh(template).state == ClaimState.ALLOCATED
    assert {row.object_name for row in template.allocations.all()} == {"batch-a", "batch-b"}
    mirror.gone("a", NINE + timedelta(hours=1))
    assert fresh(template).state == ClaimState.ALLOCATED
    mirror.gone("b", NINE + timedelta(hours=2))
    assert fresh(template).state == ClaimState.PROVISIONED


def test_more_claims_than_were_asked_for_are_told(mirror, template):
    mirror.template(template)
    for name in "abc":
        mirror.claim(f"batch-{name}", template, uid=name, origin="template")
    assert fresh(template).problem.startswith("3 claims exist at once; requested")


def test_a_template_is_released_when_the_last_of_its_claims_is_gone(mirror, template):
    mirror.template(template)
    mirror.claim("batch-a", template, result("gpu-0"), uid="a", origin="template")
    fresh(template).advance(ClaimState.RELEASING, why="done")
    mirror.gone("uid-t", NINE)
    assert fresh(template).state == ClaimState.RELEASING
    mirror.gone("a", NINE + timedelta(minutes=5))
    assert fresh(template).state == ClaimState.RELEASED


def test_a_template_deleted_by_somebody_else_ends_with_its_last_claim(mirror, template):
    mirror.template(template)
    mirror.claim("batch-a", template, result("gpu-0"), uid="a", origin="template")
    mirror.gone("uid-t", NINE)
    assert fresh(template).state == ClaimState.ALLOCATED
    assert (
        "was deleted in fra-1 by somebody other than the portal; its pods keep running"
        in fresh(template).problem
    )
    mirror.gone("a", NINE)
    assert fresh(template).state == ClaimState.FAILED


def test_the_version_grows_when_a_pod_comes_or_moves_on(mirror, claim):
    mirror.claim("sam", claim)
    versions = [fresh(claim).version]
    mirror.pod("train", claims=["sam"], phase="Pending")
    versions.append(fresh(claim).version)
    mirror.pod("train", claims=["sam"], phase="Running")
    versions.append(fresh(claim).version)
    assert versions == sorted(set(versions))


def test_the_version_grows_when_a_pod_comes_that_waits_for_its_claim_of_a_template(mirror, template):
    mirror.template(template)
    before = fresh(template).version
    mirror.pod("job-1", templates=["batch"], phase="Pending")
    assert fresh(template).version > before


def test_any_order_of_messages_ends_in_the_same_place(mirror, claim):
    mirror.claim("sam", claim, result("gpu-0"))
    fresh(claim).advance(ClaimState.RELEASING, why="done")
    mirror.gone("uid-1", NINE + timedelta(hours=1))
    for message in itertools.permutations(["vision/sam", "vision/unknown", "nonsense"]):
        tasks.reconcile_objects(str(claim.cluster_id), list(message))
    assert states(claim)[2:] == ["provisioned", "allocated", "releasing", "released"]


def test_the_sweep_costs_the_same_for_one_and_for_many(
    mirror, claim, vision, fra, train, alice, django_assert_num_queries
):
    mirror.claim("sam", claim, result("gpu-0"))
    tasks.sweep()
    with CaptureQueriesContext(connection) as one:
        tasks.sweep()
    for number in range(5):
        more = make_claim(
            vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED,
            name=f"sam-{number}", object_uid=f"more-{number}",
        )  # fmt: skip
        mirror.claim(more.name, more, uid=more.object_uid)
    with django_assert_num_queries(len(one)):
        tasks.sweep()


def test_one_that_cannot_be_settled_holds_up_no_other(mirror, claim, template, monkeypatch):
    settle_charges = reconcile.settle_charges

    def settle_but_one(one, seen):
        if one.pk == claim.pk:
            raise RuntimeError("A fault of ours.")
        settle_charges(one, seen)

    monkeypatch.setattr(reconcile, "settle_charges", settle_but_one)
    monkeypatch.setattr("claims.receivers.reconcile_cluster.delay", lambda *_: None)
    mirror.claim("sam", claim, result("gpu-0"))
    mirror.template(template)
    mirror.claim("batch-a", template, result("gpu-1"), uid="a", origin="template")
    with pytest.raises(ExceptionGroup) as failed:
        tasks.sweep()
    assert {note for error in failed.value.exceptions for note in error.__notes__} == {f"claim {claim.pk}"}
    assert fresh(template).state == ClaimState.ALLOCATED
