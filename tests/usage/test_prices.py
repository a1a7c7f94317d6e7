"""What devices would cost before they are held: the range per hour and the most that a request comes to."""

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.catalogue.listing import DeviceKind
from inventory import cluster_snapshot
from inventory.models import DeviceClass, ResourceSlice
from tests.dra.clusters import device_class, gpu, resource_slice
from tests.factories import make_claim, make_profile, make_quota, make_spec
from tests.usage.conftest import H100, price
from usage.cost import CURRENCY_UNIT, Cost
from usage.models import Rate
from usage.rates import Prices, RateCard, device_prices
from usage.templatetags.costs import (
    headline,
    order_by_price,
    price_of_all,
    price_of_duration,
    price_of_request,
    price_per_hour,
    price_together,
    priced,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)
DAY = timedelta(days=1)
FRA = UUID(int=1)


def kind(product: str = H100, fraction: Fraction = Fraction(1)) -> DeviceKind:
    return DeviceKind(FRA, "gpu.nvidia.com", product, fraction)


def rate(per_hour, product="", currency="EUR"):
    began = datetime(2026, 1, 1, tzinfo=UTC)
    return Rate(per_hour=Decimal(per_hour), product=product, currency=currency, valid_from=began)


CARD = RateCard([rate("2.90", "H100"), rate("0.80", "L4")])
SLICE, L4, A100 = kind(fraction=Fraction(1, 7)), kind("NVIDIA L4"), kind("NVIDIA A100")
B200 = kind("NVIDIA B200")


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ([], "—"),
        ([kind()], "€2.90 / h"),
        ([kind(), L4], "€0.80–2.90 / h"),
        ([SLICE], "€0.41 / h"),
        ([A100], "no rate"),
        ([A100, kind()], "€2.90 / h, some without a rate"),
    ],
)
def test_price_per_hour_is_a_range_that_names_missing_rates(kinds, said):
    assert price_per_hour(kinds, CARD) == said


@pytest.mark.parametrize(
    ("kinds", "devices", "said"),
    [
        ([], 1, "No matching device in this cluster, so no price is available."),
        ([kind()], 1, "€2.90 / h per device, 1 d: at most €69.60"),
        ([kind(), L4], 3, "€0.80–2.90 / h per device, 3 devices for 1 d: at most €208.80"),
        ([A100], 1, "No rate for the matching devices."),
        (
            [A100, L4],
            1,
            "€0.80 / h per device. Some matching devices have no rate, so no maximum is known.",
        ),
    ],
)
def test_price_of_a_request_has_a_maximum(kinds, devices, said):
    assert price_of_request(kinds, CARD, devices, DAY) == said


@dataclass(frozen=True)
class Alternative:
    profile: Any
    kinds: tuple[DeviceKind, ...]
    devices: int = 1
    fits: bool = True


H100_FIRST = Alternative(SimpleNamespace(title="Train"), (kind(),))
L4_NEXT = Alternative(SimpleNamespace(title="Infer"), (L4,))
INFER = "Infer fits now too and costs at most"
ORDER = "The first that fits is taken, whatever it costs."


@pytest.mark.parametrize(
    ("alternatives", "said"),
    [
        (
            [H100_FIRST, L4_NEXT],
            f"{INFER} €0.80 per hour instead of €2.90: put it before Train to pay less.",
        ),
        (
            [H100_FIRST, replace(L4_NEXT, devices=3)],
            f"{INFER} €2.40 per hour instead of €2.90: put it before Train to pay less.",
        ),
        ([L4_NEXT, H100_FIRST], "Of those that fit now, none costs less than the first."),
        ([H100_FIRST, replace(L4_NEXT, devices=4)], "Of those that fit now, none costs less than the first."),
        ([H100_FIRST, replace(L4_NEXT, fits=False)], ""),
        ([H100_FIRST, replace(L4_NEXT, kinds=(A100,))], ""),
    ],
)
def test_alternatives_say_which_one_costs_less(alternatives, said):
    order = order_by_price(alternatives, CARD)
    assert order.sentence == f"{ORDER} {said}".strip()
    assert order.cheaper == (L4_NEXT.profile if said.startswith(INFER) else None)


@pytest.mark.parametrize(
    ("kinds", "said"),
    [
        ([kind(), L4], "at most €69.60 for 1 d"),
        ([SLICE], "at most €9.95 for 1 d"),
        ([A100, kind()], ""),
        ([], ""),
    ],
)
def test_price_of_the_default_duration_is_the_most_that_a_device_costs(kinds, said):
    assert price_of_duration(kinds, CARD, DAY) == said


def test_currencies_are_not_added():
    card = RateCard([rate("2", "H100"), rate("3", "L4", "USD")])
    assert price_per_hour([kind(), L4], card) == "€2.00 / h or $3.00 / h"
    assert "at most €48.00 or $72.00" in price_of_request([kind(), L4], card, 1, DAY)


def test_small_price_has_four_digits_and_free_is_zero():
    assert price_per_hour([kind()], RateCard([rate("0.0042")])) == "€0.0042 / h"
    assert price_per_hour([kind()], RateCard([rate("0")])) == "€0.00 / h"


def test_maximum_cost_is_rounded_up():
    prices = device_prices([SLICE], CARD, at=NOW)
    assert prices.max_cost(1, timedelta(hours=1)) == {"EUR": Decimal("0.42")}  # 2.90 / 7 = 0.4143


def test_a_price_that_begins_later_does_not_count_yet():
    late = rate("9", "H100")
    late.valid_from = NOW + DAY
    assert device_prices([kind()], RateCard([late]), at=NOW).is_unknown


@pytest.fixture
def stock(fra, vision):
    """The cluster has two H100, and vision may ask for eight devices with the profile train-80."""
    cluster_snapshot.forget()
    DeviceClass.objects.create(cluster=fra, uid="c", name="gpu.nvidia.com", raw=device_class())
    raw = resource_slice(devices=[gpu(0), gpu(1)])
    columns = {"driver": "gpu.nvidia.com", "pool": "node-a", "generation": 1, "pool_slices": 1}
    ResourceSlice.objects.create(cluster=fra, uid="s", name="s", raw=raw, **columns)
    make_quota(vision, 8)
    make_profile("train-80", spec=make_spec())
    yield fra
    cluster_snapshot.forget()


CATALOGUE, PANEL = reverse("claims:catalogue"), reverse("claims:request_preview")
WHERE = {"team": "vision", "cluster": "fra-1"}
WISH = {**WHERE, "profile": "train-80", "devices": "1", "delivery": "claim", "duration": "24h"}


@pytest.mark.django_db
@pytest.mark.parametrize("address", [CATALOGUE, f"{CATALOGUE}?view=table", "/"])
def test_profiles_show_what_one_device_costs(fresh_availability, client, alice, stock, address):
    client.force_login(alice)
    assert "no rate" in client.get(address).text
    price("2.90", product="H100")
    page = client.get(address).text
    assert "€2.90 / h" in page.replace("<small>", "")
    assert "no rate" not in page


@pytest.mark.django_db
def test_request_panel_shows_the_maximum_cost(client, alice, stock):
    client.force_login(alice)
    assert "No rate for the matching devices." in client.get(PANEL, WISH).text
    price("2.90", product="H100")
    for devices, most in (("1", "€69.60"), ("2", "€139.20")):
        panel = client.get(PANEL, WISH | {"devices": devices}).text
        assert f'<h3>Price for 1 d</h3><b class="dg-fig m">{most}</b>' in panel
        assert f"{devices} × €2.90 / h" in panel


@pytest.mark.django_db
def test_approval_card_shows_the_maximum_cost(client, lena, alice, vision, stock):
    price("2.90", product="H100")
    claim = make_claim(vision, by=alice, cluster=stock, devices=2)
    client.force_login(lena)
    page = client.get(reverse("claims:approval_impact", args=[claim.pk])).text
    assert re.search(r'class="dg-fig m">(at most )?€139\.20<', page)
    assert "2 × €2.90 / h" in page


@pytest.mark.django_db
def test_user_without_a_team_sees_no_prices_of_clusters(client, eve, stock):
    price("2.90", product="H100")
    client.force_login(eve)
    page = client.get(CATALOGUE).text
    assert "Train 80" in page
    assert "€2.90" not in page


@pytest.mark.django_db
@pytest.mark.parametrize("address", [CATALOGUE, f"{CATALOGUE}?view=table", "/"])
def test_number_of_queries_is_the_same_for_many_profiles(client, alice, stock, address):
    price("2.90", product="H100")
    client.force_login(alice)
    client.get(address)
    with CaptureQueriesContext(connection) as one:
        client.get(address)
    for number in range(5):
        make_profile(f"more-{number}")
        price("1", product=f"GPU {number}")
    with CaptureQueriesContext(connection) as many:
        client.get(address)
    assert len(many) == len(one)


def test_prices_know_devices_and_missing_rates():
    assert device_prices([], CARD, at=NOW) == Prices(has_devices=False, unpriced=False, spans={})
    assert device_prices([A100], CARD, at=NOW) == Prices(has_devices=True, unpriced=True, spans={})
    card = RateCard([rate("2.90", "H100", "USD"), rate("0.80", "L4"), rate("5", "B200", "USD")])
    kinds = [kind("NVIDIA B200"), kind(), A100, L4, kind("NVIDIA B200", Fraction(1, 2))]
    assert device_prices(kinds, card, at=NOW) == Prices(
        has_devices=True,
        unpriced=True,
        spans={"EUR": (Decimal("0.80"), Decimal("0.80")), "USD": (Decimal("2.5"), Decimal(5))},
    )
    assert list(device_prices(kinds, card, at=NOW).spans) == ["EUR", "USD"]
    assert [device_prices(some, CARD, at=NOW).is_unknown for some in ([], [A100], [A100, L4])] == [
        False,
        True,
        False,
    ]


def test_maximum_cost_uses_the_most_expensive_kind():
    prices = device_prices([kind(), L4], CARD, at=NOW)
    assert prices.max_cost(3, timedelta(minutes=90)) == {"EUR": Decimal("13.05")}
    assert prices.max_cost(1, timedelta(microseconds=1)) == {"EUR": Decimal("0.01")}
    assert device_prices([kind(), A100], CARD, at=NOW).max_cost(1, DAY) == {}


def test_a_price_below_ten_cents_shows_its_hundredths_of_cents():
    said = [price_per_hour([kind()], RateCard([rate(text)])) for text in ("0.0999", "0.1", "0.1049")]
    assert said == ["€0.0999 / h", "€0.10 / h", "€0.10 / h"]


@dataclass
class Part:
    kinds: list[DeviceKind]
    devices: int
    duration: timedelta = DAY


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ([Part([kind()], 2), Part([L4, SLICE], 3)], "Together at most €196.80"),
        ([Part([kind()], 1), Part([B200], 1)], "Together at most €69.60 + $120.00"),
        ([Part([kind()], 1), Part([A100], 1)], ""),
        ([Part([], 1), Part([kind()], 1)], ""),
        ([Part([kind(), B200], 1)], ""),
    ],
)
def test_parts_of_a_request_have_a_sum_if_each_has_a_price(parts, said):
    card = RateCard([*CARD.rates, rate("5", "B200", "USD")])
    assert price_together(parts, card, DAY) == price_of_all(parts, card) == said


def test_sum_of_requests_counts_the_duration_of_each():
    requests = [Part([kind()], 2, DAY), Part([kind()], 1, DAY / 2)]
    assert price_of_all(requests, CARD) == "Together at most €174.00"


def test_cost_text_is_per_currency_and_never_zero_without_a_rate():
    hour = 3600 * 10**6 * 10**6
    several = Cost(2 * hour, 0, {"USD": 3 * CURRENCY_UNIT, "EUR": 1204 * CURRENCY_UNIT + CURRENCY_UNIT // 2})
    assert (priced(several), headline(several)) == ("€1,204.50 + $3.00", "€1,205 + $3")
    assert (priced(Cost(hour, hour)), headline(Cost(hour, hour))) == ("no rate", "no rate")
    assert (priced(Cost(hour, 0, {"EUR": 0})), priced(Cost()), priced(None)) == ("€0.00", "—", "—")
