"""The portal that is measured can be built, and its paths are measured; how fast they are is not judged."""

import gc

import pytest
from django.db import connection

from bench.portal import chores, pages, writes
from bench.portal.addresses import addresses
from bench.portal.build import build
from bench.portal.history import PATHS
from bench.portal.population import READERS
from bench.portal.size import Size
from claims.models import Allocation, Claim
from claims.states import ClaimState
from core.garbage import THRESHOLDS
from core.listing import LINES
from inventory.models import Device, ResourceClaim
from portal.management.commands.recompute import SUBJECTS
from usage.models import Rollup

SMALL = Size(devices=80, claims=240, teams=3, people=4, profiles=8, requested=9, waiting=5, notices=2)


@pytest.fixture
def built(db, settings):
    settings.ROOT_URLCONF = "bench.portal.urls"
    lines: list[str] = []
    build(SMALL, lines.append)
    return lines


def test_the_portal_has_claims_in_every_state_with_a_path(built):
    states = set(Claim.objects.values_list("state", flat=True))
    assert states == set(PATHS) - {ClaimState.APPROVED}
    assert Claim.objects.count() == SMALL.claims
    held = Claim.objects.filter(state=ClaimState.ALLOCATED)
    assert held.count() == Allocation.objects.filter(ended_at=None).count() > 0
    assert Device.objects.filter(held_by__isnull=False).count() > held.count(), "some have no owner here"
    assert Claim.objects.filter(history__isnull=True).count() == 0
    assert ResourceClaim.objects.filter(owner="").exists()
    assert Rollup.objects.exists()


def test_it_is_built_once(built):
    before = Claim.objects.count()
    build(SMALL, built.append)
    assert Claim.objects.count() == before
    assert built[-1] == "The portal was built before"


def test_a_page_is_measured_for_each_of_its_readers(built):
    lines = list(pages.results(SMALL.devices, 2, "pages: nodes, by"))
    assert {line.path for line in lines} == {"pages: nodes, by free"}
    assert [line.state for line in lines] == list(READERS)
    assert all(line.queries > 0 and line.size > 0 for line in lines)
    assert all(len(line.samples) == len(line.processor) == 2 for line in lines)
    assert [note for line in lines for note in line.notes] == []


def test_a_comparison_is_measured_with_its_profiles(built):
    (compared,) = (address for address in addresses() if address.name == "catalogue, two compared")
    cards = pages.signed_in(READERS[0]).get(compared.url).context["cards"]
    assert [card.entry.profile.slug for card in cards] == ["profile-01", "profile-02"]


def test_an_unchanged_page_is_measured_by_its_entity_tag(built):
    lines = list(pages.results(SMALL.devices, 1, "pages: home, unchanged"))
    assert [line.state for line in lines] == list(READERS)
    assert [note for line in lines for note in line.notes] == []
    assert all(line.size == 0 for line in lines), "304 has no body"


def test_rows_of_a_csv_are_those_of_its_first_part(built, monkeypatch):
    # The end of a response would close the connection, which is in the transaction of the test.
    monkeypatch.setattr(connection, "close_if_unusable_or_obsolete", lambda: None)
    lines = {line.state: line for line in pages.results(SMALL.devices, 1, "pages: claims, CSV")}
    assert lines["admin"].rows == LINES + 1 < SMALL.claims, "the head comes first"
    assert lines["admin"].size > 50 * LINES


def test_garbage_is_collected_as_in_a_web_process_only_while_pages_are_measured(built):
    before = gc.get_threshold()
    lines = pages.results(SMALL.devices, 1, "pages: frame alone")
    next(lines)
    assert gc.get_threshold() == THRESHOLDS != before
    assert gc.get_freeze_count() > 0
    lines.close()
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_every_row_of_a_list_is_exported(built):
    export, memory = writes.results(SMALL.devices, 1, "exports: claims, every row")
    assert memory.notes == [f"exports: claims, every row: {SMALL.claims + 1} rows."]
    assert export.size > SMALL.claims


def test_every_kind_of_stored_rows_is_checked(built):
    lines = list(chores.recompute(SMALL.devices, "recompute"))
    assert [line.path for line in lines] == [f"recompute: {name}" for name in SUBJECTS]
    assert [line.samples for line in lines] == [[0.0]] * len(lines)


@pytest.mark.parametrize("fraction", [1, 10, 100])
def test_a_smaller_portal_has_a_team_for_each_reader(fraction):
    size = Size().divided(fraction)
    assert size.claims == Size().claims // fraction
    assert size.teams >= len(READERS)
    assert size.devices % 8 == 0
