"""Oversized claims: found by a task with the rule of right size, and listed with what they would save."""

from decimal import Decimal

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.states import ClaimState
from tests.factories import make_claim, make_profile, make_team
from tests.usage.conftest import DAY, GIB, NOON, hold, measure
from tests.usage.test_right_size import SMALL
from usage.models import SizeCheck
from usage.oversized import check_sizes
from usage.samples import BUCKET

OVERSIZED = "/waste/oversized/"
Verdict = SizeCheck.Verdict


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOON, tick=False):
        yield


@pytest.fixture
def found(claim, used, offered):
    """Return the check of a claim for which a slice would have been enough."""
    offered(slice_20=SMALL)
    used(0.12, 14)
    check_sizes(NOON)
    return SizeCheck.objects.get()


def test_a_claim_is_oversized_if_a_cheaper_profile_would_have_been_enough(found, claim):
    assert (found.claim_id, found.verdict, found.profile.slug) == (claim.pk, Verdict.OVERSIZED, "slice-20")
    assert (found.per_hour, found.saves, found.currency) == (Decimal("2.80"), Decimal("2.10"), "EUR")
    assert (found.memory_bytes, round(found.activity, 2), found.measured) == (14 * GIB, 0.12, DAY * BUCKET)


@pytest.mark.parametrize(
    ("activity", "gib", "rollups", "verdict"),
    [
        (0.14, 14, DAY, Verdict.FITS),  # the slice computes too little
        (0.12, 79, DAY, Verdict.UNKNOWN),  # all memory is reserved
        (0.12, 14, 12, Verdict.UNMEASURED),  # an hour says nothing
        (None, 14, DAY, Verdict.UNMEASURED),
    ],
)
def test_what_cannot_be_judged_or_was_not_measured_is_never_oversized(
    claim,
    used,
    offered,
    activity,
    gib,
    rollups,
    verdict,
):
    offered(slice_20=SMALL)
    used(activity, gib, rollups)
    check_sizes(NOON)
    check = SizeCheck.objects.get()
    assert (check.verdict, check.profile, check.saves) == (verdict, None, None)


def test_another_run_changes_the_check_and_forgets_claims_that_hold_nothing(found, claim):
    held = claim.allocations.get()
    measure(held, NOON, [0.9] * DAY, memory=60 * GIB)
    check_sizes(NOON)
    assert SizeCheck.objects.get().verdict == Verdict.FITS
    type(claim).objects.filter(pk=claim.pk).update(state=ClaimState.RELEASED)
    check_sizes(NOON)
    assert not SizeCheck.objects.exists()


def test_devices_of_several_kinds_are_not_judged(found, claim):
    hold(claim, NOON - BUCKET, product="NVIDIA L4")
    check_sizes(NOON)
    assert SizeCheck.objects.get().verdict == Verdict.UNKNOWN


def test_an_owner_is_asked_once_for_all_claims(found, claim, vision, alice, fra):
    def queries() -> int:
        with CaptureQueriesContext(connection) as context:
            check_sizes(NOON)
        return len(context)

    for_one = queries()
    for _ in range(4):
        more = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
        measure(hold(more, NOON - DAY * BUCKET), NOON - DAY * BUCKET, [0.1] * DAY)
    assert queries() == for_one
    assert SizeCheck.objects.oversized().count() == 5


def test_the_list_shows_evidence_saving_and_the_request_that_replaces_the_claim(client, found, claim, alice):
    client.force_login(alice)
    page = " ".join(client.get(OVERSIZED).text.split())
    assert "p95 memory 14 GiB, compute 12 % in 1 d" in page
    assert "€2.10" in page
    assert "75 %" in page
    assert f"?replaces={claim.pk}&amp;profile=slice-20&amp;devices=1" in page
    assert 'href="?team=vision"' in page  # by team
    assert client.get(f"{OVERSIZED}?profile=none-such").status_code == 200
    assert client.get(f"{OVERSIZED}?format=csv").getvalue().decode().count("\r\n") == 2


def test_other_teams_see_none_of_it_and_viewers_cannot_resize(client, found, claim, eve, bob):
    make_team("nlp", leads=(eve,))
    client.force_login(eve)
    assert claim.name not in client.get(OVERSIZED).text
    assert client.get("/api/v1/waste/oversized/").json()["results"] == []
    assert client.get("/api/v1/waste/oversized/?team=vision").status_code == 422
    client.force_login(bob)
    page = client.get(OVERSIZED).text
    assert claim.name in page
    assert "Resize…" not in page


def test_the_list_has_the_same_queries_for_many_claims(client, found, vision, root, alice, fra):
    client.force_login(root)
    client.get(OVERSIZED)
    with CaptureQueriesContext(connection) as for_one:
        client.get(OVERSIZED)
    for number in range(5):
        more = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
        SizeCheck.objects.create(
            **{"claim": more, "team": vision, "checked_at": NOON, "devices": 1, "currency": "EUR"},
            **{
                "verdict": Verdict.OVERSIZED,
                "per_hour": 2,
                "saves": 1,
                "profile": make_profile(f"p{number}"),
            },
        )
    with CaptureQueriesContext(connection) as for_many:
        client.get(OVERSIZED)
    assert len(for_many) == len(for_one) <= 15


def test_the_api_lists_oversized_claims(client, found, claim, alice):
    client.force_login(alice)
    (row,) = client.get("/api/v1/waste/oversized/?team=vision").json()["results"]
    assert (row["claim"], row["enough"], row["saves"]) == (str(claim.pk), "slice-20", "2.1000")
    assert (row["per_hour"], row["measured_seconds"], row["owner"]) == ("2.8000", 86400, "alice")
