import math
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usage.cost import (
    CENT,
    DEVICE_HOUR,
    Cost,
    Interval,
    LineKey,
    UsageInterval,
    cost_text,
    interval_cost,
    lines,
    millionths,
    per_hour,
    rounded,
    sums,
    total,
)
from usage.models import Rate
from usage.rates import PriceGroup, RateCard

START = datetime(2026, 11, 1, tzinfo=UTC)
FRA = uuid4()
CLAIM = uuid4()


def rate(price: str, *, hours: float = -1000, currency: str = "EUR", product: str = "H100") -> Rate:
    return Rate(
        per_hour=Decimal(price), valid_from=START + timedelta(hours=hours), currency=currency, product=product
    )


def held(
    begin: float, end: float | None, *, claim: UUID = CLAIM, fraction: str = "1", **fields: str
) -> UsageInterval:
    """Return what cost needs of an allocation, from `begin` to `end` hours after the start of November."""
    kind = PriceGroup(FRA, "gpu.nvidia.com", fields.get("product", "NVIDIA H100 80GB HBM3"))
    start = START + timedelta(hours=begin)
    stop = None if end is None else START + timedelta(hours=end)
    return UsageInterval(claim, kind, fields.get("partition", ""), millionths(Decimal(fraction)), start, stop)


def hours(count: float) -> datetime:
    return START + timedelta(hours=count)


def test_cost_is_time_times_price_times_fraction():
    cost = interval_cost(held(0, 10, fraction="0.5"), RateCard([rate("2.9")]), until=hours(99))
    assert cost.amounts == {"EUR": Decimal("14.50")}
    assert cost.hours == Decimal("5.00")


def test_open_allocation_costs_up_to_now():
    card = RateCard([rate("2")])
    assert interval_cost(held(0, None), card, until=hours(3)).amounts == {"EUR": Decimal("6.00")}
    assert interval_cost(held(5, None), card, until=hours(3)).amounts == {}


def test_a_price_that_changes_while_held_is_billed_by_segments():
    card = RateCard([rate("2"), rate("3", hours=4)])
    assert interval_cost(held(0, 10), card, until=hours(10)).amounts == {"EUR": Decimal("26.00")}


def test_only_time_in_the_period_is_billed():
    card = RateCard([rate("1")])
    within = Interval(hours(5), hours(8))
    assert interval_cost(held(0, 10), card, until=hours(99), within=within).amounts == {
        "EUR": Decimal("3.00")
    }
    assert interval_cost(held(8, 10), card, until=hours(99), within=within).held == 0
    assert interval_cost(held(0, 5), card, until=hours(99), within=within).held == 0


def test_without_a_rate_the_hours_are_unpriced_and_no_amount_is_zero():
    cost = interval_cost(held(0, 4), RateCard([]), until=hours(9))
    assert cost.amounts == {}
    assert cost.is_unknown
    assert cost.unpriced == Decimal("4.00")


def test_a_price_of_zero_is_a_price():
    cost = interval_cost(held(0, 4), RateCard([rate("0")]), until=hours(9))
    assert cost.amounts == {"EUR": Decimal("0.00")}
    assert not cost.is_unknown


def test_currencies_are_never_added_to_each_other():
    card = RateCard([rate("2"), rate("3", hours=1, currency="USD")])
    assert interval_cost(held(0, 2), card, until=hours(2)).amounts == {
        "EUR": Decimal("2.00"),
        "USD": Decimal("3.00"),
    }


def test_devices_of_one_product_are_one_cost_line():
    card = RateCard([rate("2"), rate("1", product="L40S")])
    found = list(lines([held(0, 3), held(0, 3), held(1, 2, product="NVIDIA L40S")], card, until=hours(9)))
    assert [line.cost.amounts["EUR"] for line in found] == [Decimal("12.00"), Decimal("1.00")]


def test_cost_per_hour_counts_devices_held_now():
    card = RateCard([rate("2"), rate("4", hours=5)])
    open_now = [held(0, None), held(0, None, fraction="0.25"), held(0, 1)]
    assert per_hour(open_now, card, at=hours(2)).amounts == {"EUR": Decimal("2.50")}
    assert per_hour(open_now, card, at=hours(6)).amounts == {"EUR": Decimal("5.00")}
    assert per_hour([held(0, 1)], card, at=hours(6)).amounts == {}


@pytest.mark.parametrize(
    ("value", "whole", "cents"),
    [(1, 200, "0.01"), (1, 201, "0.00"), (1, 3, "0.33"), (2, 3, "0.67"), (0, 7, "0.00")],
)
def test_money_is_rounded_half_up_to_cents(value, whole, cents):
    assert str(rounded(value, whole)) == cents


prices = st.decimals("0", "9999.9999", places=4)
fractions = st.decimals("0.000001", "1", places=6)
moments = st.integers(0, 40 * 24 * 3600 * 1000).map(lambda ms: ms / 3_600_000)
cards = st.lists(
    st.builds(
        rate, price=prices.map(str), hours=st.integers(-10, 900), currency=st.sampled_from(["EUR", "USD"])
    ),
    max_size=5,
).map(RateCard)


@given(cards, fractions.map(str), st.lists(moments, min_size=2, max_size=2).map(sorted), st.integers(0, 40))
def test_splitting_a_span_at_midnight_does_not_change_its_cost(card, fraction, edges, day):
    begin, end = edges
    middle = min(max(24 * day, begin), end)
    whole = interval_cost(held(begin, end, fraction=fraction), card, until=hours(end))
    parts = total(
        [
            interval_cost(held(begin, middle, fraction=fraction), card, until=hours(end)),
            interval_cost(held(middle, end, fraction=fraction), card, until=hours(end)),
        ]
    )
    assert parts == whole


@given(cards, st.lists(moments, min_size=2, max_size=2).map(sorted), st.integers(0, 40))
def test_consecutive_periods_of_days_add_up_to_the_whole_period(card, edges, day):
    allocation, cut = held(edges[0], edges[1]), 24 * day
    before, after = Interval(hours(-1), hours(cut)), Interval(hours(cut), hours(10_000))
    until = hours(edges[1])
    parts = [interval_cost(allocation, card, until=until, within=period) for period in (before, after)]
    assert total(parts) == interval_cost(allocation, card, until=until)


@given(cards, fractions.map(str), st.lists(st.tuples(moments, moments, st.integers(0, 1)), max_size=6))
def test_amounts_are_sums_of_days_each_rounded_once_per_rate(card, fraction, spans):
    claims = [UUID(int=number) for number in range(2)]
    usage = [held(min(a, b), max(a, b), claim=claims[number], fraction=fraction) for a, b, number in spans]
    found = sums(usage, card, until=hours(10_000))
    for claim in claims:
        expected: dict[str, Decimal] = defaultdict(Decimal)
        for day in range(42):
            times: dict[Rate, Fraction] = defaultdict(Fraction)
            for one in usage:
                if one.claim_id == claim and one.end:
                    start, end = max(one.start, hours(24 * day)), min(one.end, hours(24 * day + 24))
                    for segment in card.segments(one.kind, start, end):
                        if segment.rate:
                            time = (segment.end - segment.start) // timedelta(microseconds=1)
                            times[segment.rate] += Fraction(time * one.parts, 3_600_000_000 * 10**6)
            for applied, time in times.items():
                cents = math.floor(time * Fraction(applied.per_hour) * 100 + Fraction(1, 2))
                expected[applied.currency] += Decimal(cents) / 100
        cost = found.get(LineKey(claim, "NVIDIA H100 80GB HBM3", ""), Cost())
        assert cost.amounts == expected
        assert all(amount % CENT == 0 for amount in cost.exact.values())


@given(st.lists(st.tuples(st.integers(0, 10**18), st.one_of(st.none(), prices)), max_size=5))
def test_unpriced_hours_never_exceed_hours(charges):
    cost = Cost()
    for count, price in charges:
        cost.charge(count, price, "EUR")
    assert 0 <= cost.unpriced_held <= cost.held
    assert cost.unpriced <= cost.hours


@given(prices, fractions, moments)
def test_the_amount_is_the_exact_product_rounded_once_a_day(price, fraction, span):
    until = hours(span)
    cost = interval_cost(held(0, None, fraction=str(fraction)), RateCard([rate(str(price))]), until=until)
    exact = (
        Fraction(price)
        * Fraction(fraction)
        * Fraction((until - START) // timedelta(microseconds=1), 3_600_000_000)
    )
    days = int(span // 24) + 1
    assert abs(Fraction(cost.amounts.get("EUR", Decimal(0))) - exact) <= Fraction(days, 200)


def test_cost_lines_are_per_claim_product_and_partition_in_order():
    other = uuid4()
    intervals = [
        held(0, 1, product="NVIDIA L4"),
        held(0, 2),
        held(0, 4, partition="1g.10gb", fraction="0.125"),
        held(1, 3, claim=other),
        held(5, None),
        held(6, 6, product="A100"),
        held(12, None, product="A100"),
    ]
    found = list(lines(intervals, RateCard([rate("2")]), until=hours(8)))
    assert [(line.claim_id, line.product, line.partition, line.cost.hours) for line in found] == [
        (CLAIM, "NVIDIA L4", "", Decimal("1.00")),
        (CLAIM, "NVIDIA H100 80GB HBM3", "", Decimal("5.00")),
        (CLAIM, "NVIDIA H100 80GB HBM3", "1g.10gb", Decimal("0.50")),
        (other, "NVIDIA H100 80GB HBM3", "", Decimal("2.00")),
    ]
    assert [line.cost.amounts for line in found] == [
        {},
        {"EUR": Decimal("10.00")},
        {"EUR": Decimal("1.00")},
        {"EUR": Decimal("4.00")},
    ]
    assert [line.cost.unpriced for line in found] == [Decimal("1.00"), *[Decimal("0.00")] * 3]


def test_lines_are_clipped_to_the_period():
    period = Interval(hours(2), hours(5))
    intervals = [held(0, 3), held(4, None), held(0, 2, product="before"), held(5, 9, product="after")]
    (line,) = lines(intervals, RateCard([rate("2")]), until=hours(9), within=period)
    assert (line.product, line.cost.hours) == ("NVIDIA H100 80GB HBM3", Decimal("2.00"))


def test_money_is_rounded_half_up_per_day_and_time_only_where_it_is_shown():
    """A third of an hour twice is 0.33 + 0.33 of money and 0.67 of hours."""
    card = RateCard([rate("1"), rate("0.0050", product="L4")])
    third = [held(0, 1 / 3, claim=uuid4()) for _ in range(2)]
    billed = [line.cost for line in lines(third, card, until=hours(9))]
    assert [(cost.hours, cost.amounts) for cost in billed] == [
        (Decimal("0.33"), {"EUR": Decimal("0.33")})
    ] * 2
    assert (total(billed).hours, total(billed).amounts) == (Decimal("0.67"), {"EUR": Decimal("0.66")})
    assert [str(cost.exact_hours) for cost in billed] == ["0.333333"] * 2
    (over_midnight,) = lines([held(23, 25, product="L4")], card, until=hours(99))
    assert over_midnight.cost.amounts == {"EUR": Decimal("0.02")}
    (at_once,) = lines([held(1, 3, product="L4")], card, until=hours(99))
    assert at_once.cost.amounts == {"EUR": Decimal("0.01")}


def test_devices_of_one_charge_are_added_before_it_is_rounded():
    card = RateCard([rate("0.0040")])
    (line,) = lines([held(0, 1), held(0, 1), held(0, 1)], card, until=hours(9))
    assert line.cost.amounts == {"EUR": Decimal("0.01")}


def test_costs_add_up_by_currency_with_unpriced_hours():
    cost = total(
        [
            Cost(3600, 0, {"USD": 1, "EUR": 5}),
            Cost(10, 10),
            Cost(7, 2, {"EUR": 6, "CHF": 1}),
        ]
    )
    assert cost == Cost(3617, 12, {"USD": 1, "EUR": 11, "CHF": 1})
    assert total([]) == Cost(0, 0, {})


def test_amounts_are_sorted_by_currency():
    cost = interval_cost(
        held(0, 3),
        RateCard([rate("2", currency="USD"), rate("3", hours=1), rate("4", hours=2, currency="CHF")]),
        until=hours(3),
    )
    assert list(cost.amounts) == ["CHF", "EUR", "USD"]
    assert [(one.currency, one.amount) for one in cost.money] == [
        ("CHF", Decimal("4.00")),
        ("EUR", Decimal("3.00")),
        ("USD", Decimal("2.00")),
    ]


def test_cost_is_unknown_only_if_no_held_device_has_a_rate():
    card = RateCard([rate("2", hours=2)])
    assert [
        interval_cost(held(*span), card, until=hours(9)).is_unknown for span in ((0, 2), (0, 3), (2, 3))
    ] == [
        True,
        False,
        False,
    ]
    assert not Cost().is_unknown
    partly = interval_cost(held(0, 3), card, until=hours(9))
    assert (partly.hours, partly.unpriced) == (Decimal("3.00"), Decimal("2.00"))


def test_hours_of_which_none_has_a_rate_are_not_free_beside_an_amount_of_0():
    assert cost_text(Cost(DEVICE_HOUR, DEVICE_HOUR, {"EUR": 0})) == "no rate"
    assert cost_text(Cost(2 * DEVICE_HOUR, DEVICE_HOUR, {"EUR": 0})) == "€0.00"  # the other hour is free
    assert cost_text(Cost(DEVICE_HOUR, 0, {"EUR": 0})) == "€0.00"


def test_device_without_a_rate_has_no_cost_per_hour():
    intervals = [held(0, None), held(0, None, product="NVIDIA L40S", fraction="0.5")]
    cost = per_hour(intervals, RateCard([rate("2", currency="USD")]), at=hours(1))
    assert (cost.amounts, cost.hours, cost.unpriced) == (
        {"USD": Decimal("2.00")},
        Decimal("1.50"),
        Decimal("0.50"),
    )


def test_device_released_later_costs_up_to_the_given_instant():
    card = RateCard([rate("2")])
    assert interval_cost(held(0, 10), card, until=hours(3)).amounts == {"EUR": Decimal("6.00")}
    assert interval_cost(held(0, 2), card, until=hours(3)).amounts == {"EUR": Decimal("4.00")}
