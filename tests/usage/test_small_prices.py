"""Prices per hour on pages: a small one never looks like 0, and one of some of the devices says so."""

from decimal import Decimal

import pytest

from tests.usage.conftest import NOON, hold, price

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client


def test_rates_show_the_digits_of_a_small_price(as_alice):
    price("0.0042")
    assert "€0.0042" in as_alice.get("/rates/").text


@pytest.mark.parametrize("path", ["/claims/{}/", "/claims/{}/usage/", "/teams/vision/", "/"])
def test_a_claim_shows_the_digits_of_a_small_price(as_alice, claim, path):
    price("0.40")
    hold(claim, NOON, fraction=Decimal("0.142857"), partition="1g.10gb")
    assert "€0.0571" in as_alice.get(path.format(claim.pk)).text


@pytest.mark.parametrize("path", ["/claims/{}/", "/claims/{}/usage/"])
def test_a_claim_says_that_its_price_is_of_some_devices_only(as_alice, claim, path):
    price("2.90", product="H100")
    hold(claim, NOON)
    page = path.format(claim.pk)
    assert "at current rates" in as_alice.get(page).text
    hold(claim, NOON, product="NVIDIA L4")
    text = as_alice.get(page).text
    assert "some of its devices have no rate" in text
    assert "€2.90" in text
