"""The cost of a claim that several pods use, divided among them: on its page and in the API."""

import random
from datetime import timedelta
from decimal import Decimal

import pytest
import time_machine
from django.urls import reverse

from claims.models import Consumer, Delivery
from tests.usage.conftest import NOON, hold, price
from usage import consumers as by_pod
from usage.consumers import shared_cost, split_by_consumer
from usage.rates import RateCard
from usage.reports import claim_cost

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


@pytest.fixture
def as_alice(client, alice):
    client.force_login(alice)
    return client


def reserve(claim, name, started, ended=None, **fields):
    values = {"object_uid": f"uid-{claim.pk}", "resource": "pods", "uid": f"uid-{name}", "name": name}
    return Consumer.objects.create(claim=claim, started_at=started, ended_at=ended, **values | fields)


def split(claim):
    return split_by_consumer(
        claim, list(claim.allocations.all()), list(claim.consumers.all()), RateCard.load(), now=NOON
    )


def amounts(claim):
    return {row.name: row.cost.amounts.get("EUR", Decimal(0)) for row in split(claim).rows}


def test_pods_at_once_have_equal_shares_and_each_pays_for_its_own_time(claim):
    price("3")
    hold(claim, NOON - 6 * HOUR)
    reserve(claim, "a", NOON - 6 * HOUR, NOON - 2 * HOUR)
    reserve(claim, "b", NOON - 4 * HOUR)
    # 2 h alone, 2 h together, 2 h alone.
    assert amounts(claim) == {"a": 9, "b": 9}
    reserve(claim, "c", NOON - 4 * HOUR, NOON - 2 * HOUR)
    assert amounts(claim) == {"a": 8, "b": 8, "c": 2}


def test_time_without_a_pod_is_a_row_of_its_own(claim):
    price("3")
    hold(claim, NOON - 6 * HOUR, device="gpu-a")
    hold(claim, NOON - 6 * HOUR, device="gpu-b")
    reserve(claim, "a", NOON - 5 * HOUR, NOON - 2 * HOUR)
    reserve(claim, "b", NOON - HOUR)
    assert amounts(claim) == {"a": 18, "b": 6, "": 12}
    assert sum(row.cost.held for row in split(claim).rows) == split(claim).total.held


def test_a_pod_that_came_back_is_one_row(claim):
    price("3")
    hold(claim, NOON - 6 * HOUR)
    reserve(claim, "a", NOON - 6 * HOUR, NOON - 4 * HOUR)
    reserve(claim, "a", NOON - 2 * HOUR)
    reserve(claim, "b", NOON - 4 * HOUR, NOON - 2 * HOUR)
    first, second = split(claim).rows
    assert (first.name, first.since, first.until, first.cost.amounts) == (
        *("a", NOON - 6 * HOUR, None),
        {"EUR": Decimal("12.00")},
    )
    assert second.until == NOON - 2 * HOUR


@pytest.mark.parametrize("seed", range(6))
def test_rows_add_up_to_the_cost_of_the_claim_to_the_cent(claim, seed):
    dice = random.Random(seed)
    price("2.8973")
    price("3.0107", since=NOON - 40 * HOUR)
    price("1.37", product="L4", currency="USD")

    def moment():
        return NOON - timedelta(seconds=dice.randrange(1, 90 * 3600))

    for _ in range(4):
        start, end = sorted((moment(), moment()))
        product = dice.choice(["NVIDIA H100 80GB HBM3", "NVIDIA L4", "unpriced"])
        hold(claim, start, dice.choice([end, None]), product=product)
    for number in range(dice.randrange(2, 9)):
        start, end = sorted((moment(), moment()))
        reserve(claim, f"pod-{number}", start, dice.choice([end, None]))
    found = split(claim)
    so_far = claim_cost(claim, list(claim.allocations.all()), RateCard.load(), now=NOON).so_far
    assert found.total == so_far
    for currency, amount in so_far.amounts.items():
        parts = [row.cost.amounts.get(currency, Decimal(0)) for row in found.rows]
        assert sum(parts) == amount
        assert min(parts) >= 0
    assert abs(sum(row.cost.held for row in found.rows) - so_far.held) < 1000  # of 3.6e15 in an hour
    assert abs(sum(row.cost.unpriced_held for row in found.rows) - so_far.unpriced_held) < 1000


def test_a_claim_with_one_pod_or_from_a_template_is_not_divided_on_its_page(claim):
    held = [hold(claim, NOON - HOUR)]
    reserve(claim, "a", NOON - HOUR)
    assert shared_cost(claim, held, RateCard.load(), now=NOON) is None
    reserve(claim, "b", NOON - HOUR)
    assert shared_cost(claim, held, RateCard.load(), now=NOON) is not None
    claim.delivery = Delivery.TEMPLATE
    assert shared_cost(claim, held, RateCard.load(), now=NOON) is None


def test_more_pods_than_a_page_can_divide_are_not_divided(claim, monkeypatch):
    hold(claim, NOON - HOUR)
    for name in "abc":
        reserve(claim, name, NOON - HOUR)
    monkeypatch.setattr(by_pod, "MAX_PODS", 2)
    assert split(claim) is None


def test_the_page_shows_each_pod_and_who_pays(as_alice, claim):
    price("3")
    hold(claim, NOON - 6 * HOUR)
    reserve(claim, "train-0", NOON - 5 * HOUR, NOON - HOUR)
    reserve(claim, "train-1", NOON - 3 * HOUR)
    text = " ".join(as_alice.get(reverse("usage:claim_fragment", args=[claim.pk])).content.decode().split())
    assert "billed to Vision" in text
    card = text.partition('id="pod-cost-title"')[2].partition("</section>")[0]
    for part in ("train-0", "€9.00", "train-1", "€6.00", "Not used by a pod", "€3.00", "€18.00"):
        assert part in card


def test_the_page_adds_up_the_pods_that_it_does_not_show(as_alice, claim):
    price("3")
    hold(claim, NOON - 22 * HOUR)
    for number in range(22):
        reserve(claim, f"p-{number}", NOON - (number + 1) * HOUR, NOON - number * HOUR)
    text = as_alice.get(reverse("usage:claim_fragment", args=[claim.pk])).content.decode()
    assert "2 more pods" in text
    assert "€6.00" in text


def test_the_api_has_the_cost_of_each_pod(as_alice, claim):
    price("3")
    hold(claim, NOON - 2 * HOUR)
    path = f"/api/v1/claims/{claim.pk}/cost/"
    assert as_alice.get(path).json()["consumers"] is None
    reserve(claim, "a", NOON - HOUR)
    rows = as_alice.get(path).json()["consumers"]
    assert [(row["name"], row["cost"]["amounts"][0]["amount"]) for row in rows] == [
        ("", "3.00"),
        ("a", "3.00"),
    ]
    assert (rows[1]["since"], rows[1]["until"]) == ("2026-11-17T11:00:00Z", None)
