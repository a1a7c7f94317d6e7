"""How the time of a claim's devices divides into used, idle and not measured."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from claims.models import Allocation
from tests.usage.conftest import NOON, hold, measure
from usage.claim_use import devices_of
from usage.time_split import TimeSplit, split_time

HOUR = timedelta(hours=1)
pytestmark = pytest.mark.django_db


def split(claim):
    held = list(claim.allocations.all())
    times = split_time(devices_of(claim, held), held, now=NOON)
    return {device: time for (_driver, _pool, device), time in times.items()}


def test_a_gap_is_neither_used_nor_idle(claim):
    measure(hold(claim, NOON - 4 * HOUR, device="gpu-0"), NOON - 2 * HOUR, [0.25] * 12)
    assert split(claim) == {"gpu-0": TimeSplit(HOUR / 4, 3 * HOUR / 4, 3 * HOUR)}


def test_each_device_has_its_own_and_one_without_telemetry_counts_as_not_measured(claim):
    measure(hold(claim, NOON - HOUR, device="gpu-0"), NOON - HOUR, [1.0] * 12)
    hold(claim, NOON - HOUR, device="gpu-1")
    found = split(claim)
    assert found["gpu-1"] == TimeSplit(none=HOUR)
    whole = sum(found.values(), TimeSplit())
    assert [(label, share) for _key, label, _time, share in whole.parts] == [
        ("Used", 0.5), ("Idle", 0.0), ("No telemetry", 0.5)
    ]  # fmt: skip


def test_shares_of_a_device_at_the_same_time_count_once_and_after_another_add_up(claim):
    half: dict[str, Any] = {"device": "gpu-0", "fraction": Decimal("0.5")}
    first = hold(claim, NOON - 4 * HOUR, NOON - 3 * HOUR, **half)
    for start in (2, 1):
        hold(claim, NOON - start * HOUR, share_id=f"{start}", **half)
    assert first.ended_at == NOON - 3 * HOUR
    assert Allocation.objects.count() == 3
    assert split(claim) == {"gpu-0": TimeSplit(none=3 * HOUR)}


@pytest.mark.parametrize("spans", [[(5, 0), (4, 3), (2, 1)], [(5, 2), (4, 3), (3, 0)], [(5, 4), (4, 0)]])
def test_nested_and_overlapping_shares_count_each_moment_once(claim, spans):
    for number, (start, end) in enumerate(spans):
        hold(claim, NOON - start * HOUR, NOON - end * HOUR, device="gpu-0", share_id=f"{number}")
    assert split(claim) == {"gpu-0": TimeSplit(none=5 * HOUR)}


def test_more_samples_than_time_are_not_more_than_the_time(claim):
    measure(hold(claim, NOON - HOUR / 12, device="gpu-0"), NOON - HOUR, [0.5] * 12)
    assert split(claim)["gpu-0"].whole == HOUR / 12


def test_the_page_draws_it_by_device_and_in_all(client, alice, claim):
    measure(hold(claim, NOON - 4 * HOUR, device="gpu-0"), NOON - HOUR, [0.25] * 12)
    client.force_login(alice)
    text = client.get(f"/claims/{claim.pk}/usage/").text
    assert text.count('aria-label="used ') >= 2
    assert "Time of its devices" in text
