"""Whether a smaller device would have been enough, by what the claim has used."""

from decimal import Decimal
from fractions import Fraction

import pytest
import time_machine

from claims.models import ProfileAvailability
from claims.states import ClaimState
from tests.usage.conftest import H100, NOON, price
from usage.models import Rate
from usage.right_size import right_size


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOON, tick=False):
        yield


def advice(claim, alice):
    held = list(claim.allocations.all())
    return right_size(claim, held, alice, now=NOON)


SMALL = (H100, "1/4", Fraction(1, 7), 20)
HALF = (H100, "1/2", Fraction(3, 7), 40)


def test_a_partition_with_the_memory_and_compute_that_were_used_is_enough(claim, alice, used, offered):
    offered(slice_20=SMALL, slice_40=HALF)
    used(0.12, 14)
    found = advice(claim, alice)
    assert [(option.entry.profile.slug, option.lacks, option.saves) for option in found.options] == [
        ("slice-20", "", "75 %"),
        ("slice-40", "", "50 %"),
    ]
    assert (found.price, found.currency, found.best) == (Decimal("2.80"), "EUR", found.options[0])
    assert found.best.url.endswith(f"?replaces={claim.pk}&profile=slice-20&devices=1")


def test_the_price_of_a_device_has_the_four_digits_of_its_rate(claim, alice, used, offered):
    offered(slice_20=SMALL)
    Rate.objects.filter(product="H100").update(per_hour="2.8044")
    used(0.12, 14)
    assert advice(claim, alice).price == Decimal("2.8044")


def test_prices_in_another_currency_are_not_compared(claim, alice, used, offered):
    offered(l4=("L4", "1", Fraction(1), 24))
    used(0.12, 14)
    assert advice(claim, alice).best.price == Decimal("0.60")
    Rate.objects.filter(product="L4").update(currency="USD")
    assert advice(claim, alice) is None


@pytest.mark.parametrize(
    ("activity", "gib", "lacks"),
    [
        (0.12, 19, "20 GiB, 20.9 GiB needed"),
        (0.14, 14, "14 % of the GPU, 14 % used"),
        (0.12, 18, ""),
    ],
)
def test_memory_and_compute_need_a_tenth_more_than_was_used(
    claim, alice, used, offered, activity, gib, lacks
):
    offered(slice_20=SMALL)
    used(activity, gib)
    assert advice(claim, alice).options[0].lacks == lacks


def test_between_models_only_memory_is_compared(claim, alice, used, offered):
    offered(notebook=("L4", "1", None, 24))
    used(0.9, 14)
    (option,) = advice(claim, alice).options
    assert (option.lacks, option.caveat) == ("", "another model: measure its speed first")


def test_profile_that_may_give_another_model_is_compared_by_memory_only(claim, alice, used, offered):
    """Its compute is known of the device that is held, not of the one that a claim would get."""
    offered(either=[SMALL, ("L4", "1", None, 24)])
    used(0.9, 14)
    (option,) = advice(claim, alice).options
    assert (option.lacks, option.caveat) == ("", "another model: measure its speed first")
    assert option.activity is None


def test_a_program_that_took_all_memory_gets_no_advice(claim, alice, used, offered):
    offered(slice_20=SMALL)
    used(0.05, 75)
    found = advice(claim, alice)
    assert (found.options, found.why_not) == ((), "Its programs have taken 94 % of the memory.")


@pytest.mark.parametrize("rollups", [0, 143])
def test_nothing_is_said_before_twelve_hours_were_measured(claim, alice, used, offered, rollups):
    offered(slice_20=SMALL)
    used(0.12, 14, rollups)
    assert advice(claim, alice) is None


def test_nothing_is_said_of_a_claim_that_ends_or_has_no_rate(claim, alice, used, offered):
    offered(slice_20=SMALL)
    used(0.12, 14)
    assert advice(claim, alice) is not None
    Rate.objects.all().delete()
    assert advice(claim, alice) is None
    price("2.80", product="H100")
    assert advice(claim, alice) is not None
    claim.advance(ClaimState.RELEASING, why="done")
    assert advice(claim, alice) is None


def test_the_panel_shows_the_advice_and_is_empty_without(client, claim, alice, used, offered):
    client.force_login(alice)
    address = f"/claims/{claim.pk}/right-size/"
    assert client.get(address).status_code == 204
    offered(slice_20=SMALL)
    used(0.12, 14)
    text = " ".join(client.get(address).text.split())
    assert "would have been enough" in text
    assert '€2.80 → <b class="dg-b">€0.70 / h</b>' in text
    assert "saves 75 %, 14 free now" in text
    assert ProfileAvailability.objects.count() == 0  # the kinds are those of the test
