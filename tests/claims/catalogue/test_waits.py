"""Waits of the past 30 days: rows per day and profile, compared with the plain computation."""

from datetime import UTC, datetime, timedelta
from random import Random
from statistics import median, quantiles

import pytest
import time_machine
from django.urls import reverse
from django.utils import timezone

from claims import tasks as periodic
from claims.catalogue.waits import MIN_COUNT, find_differences, refresh, waits_of
from claims.claim_page.explain import explain
from claims.models import Claim, DailyWaits, Profile
from claims.states import ClaimState
from tests.factories import make_allocation, make_claim, make_cluster, make_profile
from tests.recomputed import failed_check, recompute

pytestmark = pytest.mark.django_db
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def waits():
    """Return the waits of each profile that has some."""
    rows = Profile.objects.select_related("waits")
    found = {profile.pk: waits_of(profile) for profile in rows}
    return {profile: row for profile, row in found.items() if row.computed_at}


def past(claim, *, decided_after, device_after=None, by=None, ago=timedelta(days=1)):
    """Set the times of request, decision and first device of the claim, in minutes after each other."""
    created_at = timezone.now() - ago
    decided = created_at + timedelta(minutes=decided_after)
    type(claim).objects.filter(pk=claim.pk).update(created_at=created_at, decided_at=decided, decided_by=by)
    if device_after is not None:
        make_allocation(claim, decided + timedelta(minutes=device_after))


def test_waits_are_median_and_90th_percentile_of_30_days(vision, fra, train, alice, lena):
    for minutes in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 100):
        claim = make_claim(vision, cluster=fra, profile=train, state=ClaimState.ALLOCATED, held=False)
        past(claim, decided_after=minutes, device_after=2 * minutes, by=lena)
    past(make_claim(vision, cluster=fra), decided_after=1000, by=lena, ago=timedelta(days=40))
    refresh()
    found = waits()[train.pk]
    assert (found.decision.count, found.device.count) == (11, 11)
    assert (found.decision.median, found.decision.p90) == (timedelta(minutes=6), timedelta(minutes=10))
    assert (found.device.median, found.device.p90) == (timedelta(minutes=12), timedelta(minutes=20))


def test_automatic_approval_does_not_count_as_a_decision(vision, fra, train, lena):
    for _ in range(5):
        past(make_claim(vision, cluster=fra), decided_after=0, device_after=-1)
    refresh()
    found = waits()[train.pk]
    assert (found.decision.count, found.decision.median) == (0, None)
    assert found.device.median == timedelta(0)  # the cluster's clock was behind


@pytest.mark.parametrize("decided", [0, 4, 5])
def test_requester_reads_how_long_a_decision_usually_takes(
    client, vision, fra, train, alice, lena, quota, decided
):
    """A median of fewer than five decisions is not shown."""
    for _ in range(decided):
        past(make_claim(vision, cluster=fra, state=ClaimState.ALLOCATED), decided_after=40, by=lena)
    refresh()
    known = decided >= MIN_COUNT
    waiting = make_claim(vision, by=alice, cluster=fra)
    client.force_login(alice)
    fields = {"profile": train.slug, "team": vision.slug, "cluster": fra.name, "devices": "1"}
    panel = client.get(reverse("claims:request_preview"), fields).text
    assert ("Usually decided within 40 min." in panel) == known
    sentence = f"Requests for {train.title} are usually decided within 40 min."
    assert (sentence in explain(waiting).next_action.sentence) == known
    assert (sentence in client.get(reverse("claims:detail", args=[waiting.pk])).text) == known


def waited(claim, created, decided, by, *devices):
    Claim.objects.filter(pk=claim.pk).update(created_at=created, decided_at=decided, decided_by=by)
    for at in devices:
        make_allocation(claim, at)


def test_wait_for_a_device_ends_at_the_first_device(vision, fra, train, lena):
    other = make_profile("other")
    with time_machine.travel(NOON, tick=False):
        for minutes in (1, 2, 3, 4, 5):
            claim = make_claim(vision, cluster=fra, profile=train, state=ClaimState.ALLOCATED, held=False)
            decided = NOON - DAY + timedelta(minutes=minutes)
            waited(claim, NOON - DAY, decided, lena, decided + 3 * HOUR, decided + HOUR)
        claim = make_claim(vision, cluster=fra, profile=other, state=ClaimState.ALLOCATED, held=False)
        waited(claim, NOON - DAY, NOON - DAY + 9 * HOUR, lena)
        refresh()
        found = waits()
    assert (found[train.pk].decision.count, found[train.pk].device.count) == (5, 5)
    assert (found[train.pk].decision.median, found[train.pk].device.median) == (timedelta(minutes=3), HOUR)
    assert (found[other.pk].decision.count, found[other.pk].device.count) == (1, 0)
    assert not found[other.pk].decision.is_known


def test_waits_are_of_requests_decided_within_30_days(vision, fra, train, lena):
    midnight = NOON.replace(hour=0)
    with time_machine.travel(NOON, tick=False):
        for decided in (midnight - 29 * DAY, midnight - 29 * DAY - timedelta(microseconds=1)):
            claim = make_claim(vision, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
            waited(claim, decided - HOUR, decided, lena)
        adopted = make_claim(
            vision, cluster=fra, profile=train, state=ClaimState.PROVISIONED, origin="adopted"
        )
        waited(adopted, NOON - HOUR, NOON, lena)
        refresh()
        assert waits()[train.pk].decision.count == 1
        (row,) = DailyWaits.objects.all()
        assert (row.day, row.cluster, row.decisions) == (midnight.date() - 29 * DAY, fra, [HOUR])
    with time_machine.travel(NOON + DAY, tick=False):
        refresh()
        assert (waits(), DailyWaits.objects.count()) == ({}, 0)


def test_waits_are_as_of_their_computation(vision, fra, train, lena):
    claim = make_claim(vision, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
    waited(claim, NOON - HOUR, NOON - HOUR / 2, lena)
    for minutes in (0, 10):
        with time_machine.travel(NOON + timedelta(minutes=minutes), tick=False):
            refresh()
    assert waits()[train.pk].computed_at == NOON + timedelta(minutes=10)


def plain_waits(now):
    """Return (number, median, 90th percentile) in seconds for decisions and for devices, by profile."""
    since = now.replace(hour=0) - 29 * DAY
    collected: dict = {}
    for claim in Claim.objects.filter(decided_at__gte=since, origin="portal").prefetch_related("allocations"):
        decisions, starts = collected.setdefault(claim.profile_version.profile_id, ([], []))
        if claim.decided_by_id:
            decisions.append((claim.decided_at - claim.created_at).total_seconds())
        if begun := [row.started_at for row in claim.allocations.all()]:
            starts.append(max((min(begun) - claim.decided_at).total_seconds(), 0.0))

    def typical(seconds):
        if len(seconds) < 5:
            return len(seconds), None, None
        tenths = quantiles(seconds, n=10, method="inclusive")
        return len(seconds), round(median(seconds), 3), round(tenths[8], 3)

    return {
        profile: (typical(decisions), typical(starts)) for profile, (decisions, starts) in collected.items()
    }


def stored_waits():
    def typical(row):
        spans = (None if span is None else round(span.total_seconds(), 3) for span in (row.median, row.p90))
        return row.count, *spans

    return {profile: (typical(row.decision), typical(row.device)) for profile, row in waits().items()}


@pytest.mark.parametrize("seed", range(3))
def test_waits_agree_with_the_plain_computation_after_random_operations(seed, vision, fra, train, lena):
    random, now = Random(seed), NOON
    lab, profiles = make_cluster("lab-2", teams=(vision,)), [train, make_profile("other")]
    claims: list = []
    for _ in range(6):
        for _ in range(8):
            if claims and random.random() < 0.3:
                claim = random.choice(claims)
                minutes = random.randint(-5, 3000)
                make_allocation(claim, Claim.objects.get(pk=claim.pk).decided_at + timedelta(minutes=minutes))
                continue
            claim = make_claim(
                vision,
                cluster=random.choice([fra, lab]),
                profile=random.choice(profiles),
                state=ClaimState.ALLOCATED,
                held=False,
            )
            decided = now - timedelta(minutes=random.randint(0, 40_000))
            by = random.choice([lena, None])
            waited(claim, decided - timedelta(seconds=random.randint(0, 90_000)), decided, by)
            claims.append(claim)
        with time_machine.travel(now, tick=False):
            refresh()
            assert stored_waits() == plain_waits(now)
            assert find_differences().total == 0
        now += timedelta(days=random.randint(0, 4))


def test_command_reports_and_repairs_waits(vision, fra, train, lena):
    claim = make_claim(vision, cluster=fra, profile=train, state=ClaimState.PROVISIONED)
    waited(claim, timezone.now() - HOUR, timezone.now(), lena)
    assert "2 rows to repair: 2 missing.\n" in failed_check("waits")
    periodic.refresh_waits()
    DailyWaits.objects.update(decisions=[DAY])
    assert "1 row to repair: 1 altered.\n" in failed_check("waits")
    assert recompute("waits") == "waits: 1 day of a profile in a cluster, 1 row repaired: 1 altered.\n"
    recompute("waits", "--check")
