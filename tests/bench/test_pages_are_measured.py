"""The portal that is measured can be built, and its pages are measured; how fast they are is not judged."""

import pytest

from bench.portal import pages
from bench.portal.build import build
from bench.portal.history import WAYS
from bench.portal.people import READERS
from bench.portal.size import Size
from claims.models import Allocation, Claim
from claims.states import ClaimState
from inventory.models import Device, ResourceClaim
from usage.models import Rollup

SMALL = Size(devices=80, claims=240, teams=3, people=4, profiles=8, requested=9, waiting=9, notices=2)


@pytest.fixture
def built(db):
    said: list[str] = []
    build(SMALL, said.append)
    return said


def test_the_portal_has_claims_in_every_state_that_is_told_of(built):
    states = set(Claim.objects.values_list("state", flat=True))
    assert states == set(WAYS) - {ClaimState.APPROVED}
    assert Claim.objects.count() == SMALL.claims
    held = Claim.objects.filter(state=ClaimState.ALLOCATED)
    assert held.count() == Allocation.objects.filter(ended_at=None).count() > 0
    assert Device.objects.filter(held_by__isnull=False).count() > held.count(), "some are of nobody here"
    assert Claim.objects.filter(history__isnull=True).count() == 0
    assert ResourceClaim.objects.filter(owner="").exists()
    assert Rollup.objects.exists()


def test_it_is_built_once(built):
    before = Claim.objects.count()
    build(SMALL, built.append)
    assert Claim.objects.count() == before
    assert built[-1] == "The portal was built before"


def test_a_page_is_measured_for_everybody_who_reads_it(built):
    found = list(pages.results(SMALL.devices, 2, "pages: nodes, by"))
    assert {one.path for one in found} == {"pages: nodes, by free"}
    assert [one.state for one in found] == list(READERS)
    assert all(one.queries > 0 and len(one.samples) == len(one.processor) == 2 for one in found)
    assert [note for one in found for note in one.notes] == []
