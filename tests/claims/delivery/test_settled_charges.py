"""What a claim of alternatives is charged for what its ResourceClaims hold: every row, every bound."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from claims.delivery import reconcile
from claims.models import Claim, Quota
from claims.observation.observations import Observation
from claims.states import ClaimState
from inventory.models import ResourceClaim
from tests.claims.mirror import NINE, result
from tests.factories import make_profile, make_quota, make_spec, make_team

pytestmark = pytest.mark.django_db
GPU, PART = "gpu.nvidia.com", "mig.nvidia.com"
BIG, SMALL = "gpu/train-80", "gpu/slice-10"


@pytest.fixture
def quotas(vision, train, quota):
    """The quotas that a claim of both profiles counts against, and those that it does not."""
    small = make_profile("slice-10", spec=make_spec(device_class=PART), scalable="")
    audio = make_team("audio")
    rows = [
        quota,
        make_quota(vision, 8, device_class=PART),
        make_quota(vision, 8, profile=train),
        make_quota(vision, 8, profile=small),
    ]
    others = [
        make_quota(vision, 8, device_class="nic.example.com"),
        make_quota(vision, 8, profile=make_profile("nic")),
        make_quota(audio, 8),
        make_quota(audio, 8, profile=train),
        Quota.objects.create(team=vision, counts="claims", devices=9),
    ]
    return rows, others, small


@pytest.fixture
def claim(ask, quotas):
    """Up to three at once, each of two GPUs or else one partition."""
    made = ask(devices=2, parallel=3, delivery="template", alternatives=[quotas[2]], name="mine")
    Claim.objects.filter(pk=made.pk).update(state=ClaimState.ALLOCATED)
    return Claim.objects.get(pk=made.pk)


def holding(*requests):
    """What is seen: one ResourceClaim for each, that holds devices for this request, "" for none."""
    holders = []
    for number, request in enumerate(requests):
        count = 2 if request == BIG else 1
        results = [result(f"d-{number}-{one}", request=request) for one in range(count)] if request else []
        raw = {"status": {"allocation": {"devices": {"results": results}}}}
        holders.append(ResourceClaim(uid=f"u{number}", name=f"p{number}", allocated_at=NINE, raw=raw))
    return Observation(holders=holders)


def settled(claim):
    rows = {row.device_class: row.settled for row in claim.charges.all()}
    return rows | {row.name: row.settled for row in claim.alternatives.all()}


def counts(gpus, parts, big, small):
    return {GPU: gpus, PART: parts, BIG: big, SMALL: small}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ((), counts(None, None, None, None)),
        (("",), counts(None, None, None, None)),  # it is there and holds nothing
        ((BIG,), counts(6, 2, 6, 2)),  # two more may come, of either
        ((SMALL,), counts(4, 3, 4, 3)),
        ((SMALL, ""), counts(4, 3, 4, 3)),
        ((BIG, SMALL), counts(4, 2, 4, 2)),
        ((SMALL, SMALL, SMALL), counts(0, 3, 0, 3)),
        ((BIG, BIG, BIG), counts(6, 0, 6, 0)),
        ((BIG, BIG, BIG, BIG), counts(6, 0, 6, 0)),  # more than was asked for is told, never charged
        ((SMALL, SMALL, SMALL, SMALL), counts(0, 3, 0, 3)),
        ((BIG, BIG, BIG, SMALL), counts(6, 1, 6, 1)),
    ],
)
def test_what_is_held_is_charged_and_the_worst_of_what_may_come(claim, requests, expected):
    reconcile.settle_charges(claim, holding(*requests))
    assert settled(claim) == expected
    charged = {row.device_class: row.devices for row in claim.charges.all()}
    assert charged == {GPU: 6, PART: 3}


def test_a_claim_counts_for_its_worst_again_when_all_went_back(claim):
    for requests in ((SMALL, SMALL, SMALL), (), (BIG, BIG, BIG)):
        reconcile.settle_charges(claim, holding(*requests))
    assert settled(claim) == counts(6, 0, 6, 0)
    reconcile.settle_charges(claim, holding())
    assert settled(claim) == counts(None, None, None, None)


def test_what_is_charged_as_it_should_be_is_not_written_again(claim):
    reconcile.settle_charges(claim, holding(SMALL))
    with CaptureQueriesContext(connection) as seen:
        reconcile.settle_charges(claim, holding(SMALL))
    assert [one["sql"] for one in seen if one["sql"].startswith("UPDATE")] == []
    with CaptureQueriesContext(connection) as seen:
        reconcile.settle_charges(claim, holding(SMALL, SMALL))
    assert len([one for one in seen if one["sql"].startswith("UPDATE")]) == 2  # of the GPUs alone


def test_charges_of_other_claims_stay(claim, ask, quotas):
    Quota.objects.update(devices=20)
    other = ask(devices=2, alternatives=[quotas[2]], name="other")
    reconcile.settle_charges(claim, holding(SMALL))
    assert settled(other) == counts(None, None, None, None)


def test_a_claim_without_alternatives_and_profiles_taken_together_are_not_settled(ask, quotas):
    Quota.objects.update(devices=20)
    alone = ask(devices=2, name="alone")
    both = ask(devices=2, together=[(quotas[2], 1)], name="both")
    for each in (alone, both):
        reconcile.settle_charges(each, holding("gpu"))
        assert set(settled(each).values()) == {None}


@pytest.mark.parametrize(
    ("before", "after", "locks"),
    [
        ((), (SMALL,), 0),  # it counts for less
        ((SMALL,), (SMALL,), 0),
        ((SMALL, SMALL), (SMALL,), 1),
        ((SMALL,), (), 1),
        ((BIG, BIG, BIG), (SMALL, SMALL, SMALL), 1),
        ((BIG,), (BIG, SMALL), 0),
    ],
)
def test_the_quotas_are_locked_in_the_order_of_a_request_where_something_becomes_scarcer(
    claim, before, after, locks
):
    reconcile.settle_charges(claim, holding(*before))
    with CaptureQueriesContext(connection) as seen:
        reconcile.settle_charges(claim, holding(*after))
    taken = [one["sql"] for one in seen if "FOR NO KEY UPDATE" in one["sql"]]
    assert len(taken) == locks
    for sql in taken:
        assert 'ORDER BY "claims_quota"."id" ASC FOR NO KEY UPDATE OF "claims_quota"' in sql


@pytest.mark.django_db(transaction=True)
def test_the_quotas_of_its_team_classes_and_profiles_are_locked_and_no_others(claim, quotas):
    def free():
        with transaction.atomic():
            rows = set(Quota.objects.select_for_update(skip_locked=True, of=("self",)))
        connection.close()
        return rows

    reconcile.settle_charges(claim, holding(SMALL))
    with ThreadPoolExecutor(1) as other, transaction.atomic():
        reconcile.settle_charges(claim, holding())
        assert other.submit(free).result(timeout=30) == set(quotas[1])
