from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usage.models import Rate
from usage.rates import PriceGroup, RateCard

JANUARY = datetime(2026, 1, 1, tzinfo=UTC)
FRA, LAB = uuid4(), uuid4()
H100 = PriceGroup(FRA, "gpu.nvidia.com", "NVIDIA H100 80GB HBM3")


def rate(per_hour: str, *, days: int = 0, **fields: object) -> Rate:
    return Rate(per_hour=Decimal(per_hour), valid_from=JANUARY + timedelta(days=days), **fields)


def test_without_a_rate_there_is_no_price():
    assert RateCard([]).at(H100, JANUARY) is None
    assert RateCard([rate("2", product="L40S")]).at(H100, JANUARY) is None
    assert RateCard([rate("2", days=1)]).at(H100, JANUARY) is None


def test_more_specific_rate_wins_whatever_its_date():
    anything, product = rate("1", days=30), rate("2", product="H100")
    product_here = rate("3", product="H100", cluster_id=FRA)
    elsewhere = rate("9", product="H100", cluster_id=LAB, driver="gpu.nvidia.com")
    card = RateCard([anything, product, product_here, elsewhere])
    assert card.at(H100, JANUARY + timedelta(days=31)) is product_here
    assert RateCard([anything, product]).at(H100, JANUARY + timedelta(days=31)) is product


def test_longer_product_wins_then_the_cluster():
    longer, shorter = rate("1", product="H100 80GB"), rate("2", product="H100", days=9)
    assert RateCard([shorter, longer]).at(H100, JANUARY + timedelta(days=10)) is longer
    cluster, driver = rate("1", cluster_id=FRA), rate("2", driver="gpu.nvidia.com", days=9)
    assert RateCard([driver, cluster]).at(H100, JANUARY + timedelta(days=10)) is cluster


def test_newest_of_equally_specific_rates_wins():
    old, new = rate("1", product="H100"), rate("2", product="H100", days=10)
    card = RateCard([new, old])
    assert card.at(H100, JANUARY + timedelta(days=10)) is new
    assert card.at(H100, JANUARY + timedelta(days=10) - timedelta(microseconds=1)) is old


def test_price_change_splits_the_span_into_segments():
    first, second = rate("1", product="H100", days=1), rate("2", product="H100", days=3)
    other = rate("5", product="L40S", days=2)
    segments = list(RateCard([first, second, other]).segments(H100, JANUARY, JANUARY + timedelta(days=5)))
    assert [segment.rate for segment in segments] == [None, first, second]
    assert [(segment.end - segment.start).days for segment in segments] == [1, 2, 2]


rates = st.builds(
    rate,
    per_hour=st.sampled_from(["0", "0.55", "2.9", "7"]),
    days=st.integers(0, 20),
    product=st.sampled_from(["", "H100", "H100 80GB", "L40S"]),
    cluster_id=st.sampled_from([None, FRA, LAB]),
    driver=st.sampled_from(["", "gpu.nvidia.com"]),
)


@given(st.lists(rates, max_size=8), st.integers(0, 25 * 24), st.integers(0, 25 * 24))
def test_segments_cover_the_span_once_with_the_price_of_each_instant(some, one, other):
    start, end = (JANUARY + timedelta(hours=hours) for hours in sorted((one, other)))
    card = RateCard(some)
    segments = list(card.segments(H100, start, end))
    if start == end:
        assert not segments
        return
    assert (segments[0].start, segments[-1].end) == (start, end)
    assert all(a.end == b.start and a.rate != b.rate for a, b in pairwise(segments))
    for segment in segments:
        middle = segment.start + (segment.end - segment.start) / 2
        for instant in (segment.start, middle, segment.end - timedelta(microseconds=1)):
            assert card.at(H100, instant) == segment.rate


@pytest.mark.parametrize(
    ("fields", "applies"),
    [
        ({}, True),
        ({"cluster_id": FRA}, True),
        ({"cluster_id": LAB}, False),
        ({"driver": "gpu.nvidia.com"}, True),
        ({"driver": "gpu.amd.com"}, False),
        ({"product": "h100  80gb"}, True),
        ({"product": "H100 8"}, False),
        ({"cluster_id": FRA, "driver": "gpu.nvidia.com", "product": "Tesla NVIDIA H100"}, True),
        ({"cluster_id": FRA, "driver": "gpu.nvidia.com", "product": "A100"}, False),
        ({"cluster_id": FRA, "driver": "gpu.amd.com", "product": "H100"}, False),
        ({"cluster_id": LAB, "driver": "gpu.nvidia.com", "product": "H100"}, False),
    ],
)
def test_a_rate_applies_where_all_of_its_conditions_hold(fields, applies):
    only = rate("2", **fields)
    assert RateCard([only]).at(H100, JANUARY) is (only if applies else None)


def test_rate_with_more_conditions_is_more_specific():
    """Each beats those before it, though it is older."""
    ranked = [
        rate("0", days=9),
        rate("1", days=8, driver="gpu.nvidia.com"),
        rate("2", days=7, cluster_id=FRA),
        rate("3", days=6, product="H100"),
        rate("4", days=5, product="H100 80GB"),
        rate("5", days=4, cluster_id=FRA, driver="gpu.nvidia.com"),
        rate("6", days=3, product="H100", driver="gpu.nvidia.com"),
        rate("7", days=2, product="H100", cluster_id=FRA),
        rate("8", days=1, product="H100", cluster_id=FRA, driver="gpu.nvidia.com"),
    ]
    assert RateCard(ranked).matching(H100) == ranked[::-1]
    assert RateCard(ranked[::-1]).matching(H100) == ranked[::-1]


@pytest.mark.parametrize(
    ("written", "driver", "product"),
    [
        ("MI300X", "gpu.amd.com", "AMD Instinct MI300X"),
        ("Instinct MI300X", "gpu.amd.com", "AMD Instinct MI300X"),
        ("amd instinct mi300x", "gpu.amd.com", "MI300X"),
        ("Max 1550", "gpu.intel.com", "Intel(R) Data Center GPU Max 1550"),
        ("Intel Data Center GPU Max 1550", "gpu.intel.com", "Max 1550"),
        ("Intel Gaudi3", "gaudi.intel.com", "Gaudi3"),
        ("TPU v5litepod", "tpu.google.com", "v5litepod"),
        ("NVIDIA-H100-80GB-HBM3", "gpu.nvidia.com", "NVIDIA H100 80GB HBM3"),
    ],
)
def test_rate_prices_devices_of_every_vendor_by_short_and_full_name(written, driver, product):
    device = PriceGroup(LAB, driver, product)
    only = rate("2.60", product=written)
    assert RateCard([only]).at(device, JANUARY) is only
    assert RateCard([rate("2.60", product="MI300A")]).at(device, JANUARY) is None


def test_rate_of_a_product_wins_over_the_rate_of_its_brand():
    brand, product = rate("1", product="AMD Instinct", days=9), rate("2", product="MI300X")
    card, later = RateCard([brand, product]), brand.valid_from
    assert card.at(PriceGroup(LAB, "gpu.amd.com", "AMD Instinct MI300X"), later) is product
    assert card.at(PriceGroup(LAB, "gpu.amd.com", "AMD Instinct MI250"), later) is brand


def test_brand_does_not_make_a_product_more_specific():
    shorter, longer = rate("1", product="NVIDIA Tesla H100", days=9), rate("2", product="H100 80GB")
    assert RateCard([shorter, longer]).at(H100, JANUARY + timedelta(days=9)) is longer


def test_order_of_equal_rates_is_stable():
    first, second = rate("1", id=UUID(int=1)), rate("2", id=UUID(int=2))
    for order in ([first, second], [second, first]):
        assert RateCard(order).at(H100, JANUARY) is second


def test_each_price_group_has_its_own_rate():
    card = RateCard([rate("1", cluster_id=FRA), rate("2", driver="gpu.amd.com"), rate("3", product="L4")])
    kinds = [
        H100,
        PriceGroup(LAB, "gpu.amd.com", "AMD MI300X"),
        PriceGroup(LAB, "gpu.nvidia.com", "NVIDIA L4"),
        PriceGroup(LAB, "gpu.nvidia.com", "NVIDIA H100 80GB HBM3"),
    ]
    prices = [found and str(found.per_hour) for found in (card.at(kind, JANUARY) for kind in kinds * 2)]
    assert prices == ["1", "2", "3", None] * 2


def test_price_change_at_the_edge_does_not_split_the_span():
    old, first, last = rate("1"), rate("2", days=1), rate("3", days=2)
    (segment,) = RateCard([old, first, last]).segments(H100, first.valid_from, last.valid_from)
    assert (segment.start, segment.end, segment.rate) == (first.valid_from, last.valid_from, first)


def test_price_change_below_a_more_specific_rate_does_not_split():
    hidden, particular = rate("9", days=1), rate("2", product="H100")
    (segment,) = RateCard([hidden, particular]).segments(H100, JANUARY, JANUARY + timedelta(days=2))
    assert segment.rate is particular
