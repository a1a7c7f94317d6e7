"""From when to when a named claim was reserved for each pod: what is stored of `status.reservedFor`."""

from datetime import timedelta

import pytest
from django.db.models import F

from claims.delivery import reconcile
from claims.models import Claim, Consumer
from claims.states import ClaimState
from inventory.models import ResourceClaim
from tests.claims.mirror import NINE, Mirror, result
from tests.factories import make_claim

pytestmark = pytest.mark.django_db
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


@pytest.fixture
def mirror(fra):
    return Mirror(fra)


@pytest.fixture
def claim(vision, fra, train, alice):
    return make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, name="sam",
        object_uid="uid-1",
    )  # fmt: skip


def show(mirror, claim, *pods, at, allocated_at=NINE):
    """Let the mirror see at an instant that the claim is reserved for these pods."""
    reserved = [{"resource": "pods", "name": name, "uid": f"uid-{name}"} for name in pods]
    status = {"allocation": {"devices": {"results": [result("gpu-0")]}}, "reservedFor": reserved}
    revision = mirror.next_revision()
    ResourceClaim.objects.update_or_create(
        cluster=claim.cluster,
        uid="uid-1",
        defaults={
            **{"namespace": "vision", "name": "sam", "owner": str(claim.pk), "origin": "portal"},
            **{"raw": {"metadata": {"name": "sam"}, "spec": claim.spec, "status": status}},
            **{"allocated_at": allocated_at, "seen_at": at},
            **{"resource_version": str(revision), "revision": revision},
        },
    )
    mirror.tell("sam")


def scheduled(mirror, name, at, **columns):
    status = {
        "conditions": [
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": f"{at:%Y-%m-%dT%H:%M:%SZ}"}
        ]
    }
    mirror.pod(name, claims=["sam"], raw={"status": status | columns.pop("status", {})}, **columns)


def reservations(claim):
    return [
        (row.name, row.started_at - NINE, row.ended_at and row.ended_at - NINE)
        for row in claim.consumers.order_by("started_at", "name")
    ]


def test_pods_are_stored_while_the_claim_is_reserved_for_them(mirror, claim):
    show(mirror, claim, "a", at=NINE)
    show(mirror, claim, "a", "b", at=NINE + HOUR)
    assert reservations(claim) == [("a", 0 * HOUR, None), ("b", HOUR, None)]
    show(mirror, claim, "b", at=NINE + 2 * HOUR)
    assert reservations(claim) == [("a", 0 * HOUR, 2 * HOUR), ("b", HOUR, None)]
    mirror.gone("uid-1", NINE + 3 * HOUR)
    assert reservations(claim) == [("a", 0 * HOUR, 2 * HOUR), ("b", HOUR, 3 * HOUR)]
    assert {row.resource for row in claim.consumers.all()} == {"pods"}


def test_a_pod_that_was_seen_late_begins_when_it_was_scheduled(mirror, claim):
    show(mirror, claim, "a", at=NINE)
    scheduled(mirror, "b", NINE + HOUR)
    show(mirror, claim, "a", "b", at=NINE + 4 * HOUR)
    assert reservations(claim) == [("a", 0 * HOUR, None), ("b", HOUR, None)]


def test_the_first_pod_of_an_allocation_begins_with_it(mirror, claim):
    scheduled(mirror, "a", NINE + MINUTE)  # binding took a minute
    scheduled(mirror, "b", NINE + HOUR)
    show(mirror, claim, "a", "b", at=NINE + 4 * HOUR)
    assert reservations(claim) == [("a", 0 * HOUR, None), ("b", HOUR, None)]


def test_a_pod_that_comes_to_an_allocation_without_pods_does_not_begin_with_it(mirror, claim):
    show(mirror, claim, at=NINE)
    show(mirror, claim, "a", at=NINE + HOUR)
    assert reservations(claim) == [("a", HOUR, None)]


def test_a_pod_that_ended_long_before_it_was_seen_ends_with_its_containers(mirror, claim):
    show(mirror, claim, "a", "b", at=NINE)
    finished = {"containerStatuses": [{"state": {"terminated": {"finishedAt": "2026-11-20T10:00:00Z"}}}]}
    scheduled(mirror, "a", NINE, status=finished, phase="Succeeded")
    show(mirror, claim, "b", at=NINE + 5 * HOUR)
    assert reservations(claim) == [("a", 0 * HOUR, HOUR), ("b", 0 * HOUR, None)]


def test_an_allocation_that_was_made_again_has_other_pods(mirror, claim):
    show(mirror, claim, "a", at=NINE)
    show(mirror, claim, "b", at=NINE + 3 * HOUR, allocated_at=NINE + 2 * HOUR)
    assert reservations(claim) == [("a", 0 * HOUR, 3 * HOUR), ("b", 2 * HOUR, None)]


def test_reconciling_again_changes_nothing(mirror, claim):
    show(mirror, claim, "a", at=NINE)
    before = list(Consumer.objects.values())
    Claim.objects.filter(pk=claim.pk).update(observation_hash="", version=F("version") + 1)
    reconcile.reconcile_claims([claim.pk])
    reconcile.reconcile_claim(claim.pk)
    assert list(Consumer.objects.values()) == before


def test_nothing_is_stored_of_a_template_whose_claims_have_one_pod_each(mirror, vision, fra, train, alice):
    claim = make_claim(
        vision, by=alice, cluster=fra, profile=train, state=ClaimState.PROVISIONED, name="sam",
        delivery="template", object_uid="uid-t",
    )  # fmt: skip
    mirror.template(claim)
    reserved = {"reservedFor": [{"resource": "pods", "name": "a", "uid": "uid-a"}]}
    mirror.claim("sam-a", claim, result("gpu-0"), uid="uid-2", origin="template")
    row = ResourceClaim.objects.get(uid="uid-2")
    row.raw["status"] |= reserved
    row.save()
    reconcile.reconcile_claim(claim.pk)
    assert claim.allocations.count() == 1
    assert not Consumer.objects.exists()
