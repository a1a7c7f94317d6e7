"""What one claim has cost, costs an hour and will have cost: the edges of its end, and what it has let go."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from claims.states import ClaimState
from tests.factories import make_claim
from tests.usage.conftest import NOON, hold, price
from usage.cost import Cost
from usage.rates import RateCard
from usage.reports import claim_allocations, claim_cost

HOUR = timedelta(hours=1)


def of(claim, *, expires_at, now=NOON):
    claim.expires_at = expires_at
    return claim_cost(claim, claim_allocations(claim), RateCard.load(), now=now)


def test_cost_adds_open_and_ended_allocations(claim):
    price("2")
    price("3", since=NOON + 2 * HOUR)
    hold(claim, NOON - 5 * HOUR, NOON - 4 * HOUR)
    hold(claim, NOON - 3 * HOUR)
    hold(claim, NOON - HOUR, product="NVIDIA L40S", fraction="0.5")
    found = of(claim, expires_at=NOON + 3 * HOUR)
    assert [(line.product, line.cost.amounts["EUR"]) for line in found.lines] == [
        ("NVIDIA H100 80GB HBM3", Decimal("8.00")),
        ("NVIDIA L40S", Decimal("1.00")),
    ]
    assert (found.so_far.amounts, found.so_far.hours) == ({"EUR": Decimal("9.00")}, Decimal("4.50"))
    assert found.per_hour.amounts == {"EUR": Decimal("3.00")}
    # 2 h more at 2 and 1 h at 3, for one device and a half
    assert (found.projected.amounts, found.projected.hours) == ({"EUR": Decimal("19.50")}, Decimal("9.00"))
    assert (found.is_held, found.was_held) == (True, True)


@pytest.mark.parametrize(
    ("end", "projected"),
    [(None, None), (-HOUR, None), (timedelta(0), None), (HOUR, {"EUR": Decimal("4.00")})],
)
def test_only_future_expiry_is_projected(claim, end, projected):
    price("2")
    hold(claim, NOON - HOUR)
    found = of(claim, expires_at=None if end is None else NOON + end)
    assert (found.projected and found.projected.amounts) == projected


def test_ended_claim_whose_pods_still_hold_devices_is_billed_and_not_projected(claim):
    price("2")
    hold(claim, NOON - HOUR)
    claim.state = ClaimState.RELEASING
    found = of(claim, expires_at=NOON + HOUR)
    assert (found.so_far.amounts, found.per_hour.amounts) == ({"EUR": Decimal("2.00")},) * 2
    assert (found.is_held, found.projected) == (True, None)


def test_claim_without_devices_has_no_price_per_hour_or_projection(claim):
    price("2")
    hold(claim, NOON - 2 * HOUR, NOON - HOUR)
    found = of(claim, expires_at=NOON + HOUR)
    assert (found.so_far.amounts, found.per_hour, found.projected) == ({"EUR": Decimal("2.00")}, Cost(), None)
    assert (found.is_held, found.was_held) == (False, True)


def test_a_claim_that_held_nothing_costs_nothing(claim):
    found = of(claim, expires_at=NOON + HOUR)
    assert (found.lines, found.so_far, found.per_hour, found.projected) == ([], Cost(), Cost(), None)
    assert (found.is_held, found.was_held) == (False, False)


def test_prices_of_the_cluster_of_the_claim_count(claim):
    price("2")
    price("5", cluster=claim.cluster)
    hold(claim, NOON - HOUR)
    assert of(claim, expires_at=None).so_far.amounts == {"EUR": Decimal("5.00")}


def test_allocations_are_those_of_the_claim_in_the_order_in_which_they_began(claim, vision, alice, fra):
    other = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    late, second, first = (
        hold(claim, datetime(2026, 11, 2, tzinfo=UTC), device="gpu-0"),
        hold(claim, datetime(2026, 11, 1, tzinfo=UTC), device="gpu-9"),
        hold(claim, datetime(2026, 11, 1, tzinfo=UTC), NOON, device="gpu-8"),
    )
    hold(other, NOON)
    assert claim_allocations(claim) == [first, second, late]
