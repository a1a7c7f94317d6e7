"""Past use and a cheaper profile on the approval card."""

import re
from datetime import timedelta
from decimal import Decimal

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.states import ClaimState
from tests.claims.requests.test_match_pages import mirrored, take
from tests.dra.clusters import gpu, holds
from tests.factories import make_allocation, make_claim, make_extension, make_profile, make_spec, make_team
from usage.models import Rate, Rollup

pytestmark = pytest.mark.django_db

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
L4 = 'device.attributes["gpu.nvidia.com"].?productName.orValue("") == "NVIDIA L4"'


@pytest.fixture
def claim(ask):
    return ask(name="sam2")


def card(client, lena, claim):
    client.force_login(lena)
    return " ".join(client.get(reverse("claims:approval_impact", args=[claim.pk])).text.split())


# Past use


def held(team, cluster, by, *, begun, ended=None, fraction=1):
    """A claim that held one device, or a fraction of it, from one time before now to another."""
    now = timezone.now()
    over = make_claim(team, by=by, cluster=cluster, state=ClaimState.RELEASED, created_at=now - begun)
    make_allocation(over, now - begun, ended and now - ended, fraction=fraction)
    return over


def measured(claim, activity, ago=HOUR):
    start = timezone.now() - ago
    bucket = start.replace(minute=start.minute - start.minute % 5, second=0, microsecond=0)
    number = claim.rollups.count()
    Rollup.objects.create(
        claim=claim, driver="gpu.nvidia.com", pool="node-a", device=f"gpu-{number}", bucket=bucket,
        samples=10, activity=activity,
    )  # fmt: skip


def test_card_shows_past_use_and_utilization(client, lena, alice, vision, fra, claim):
    busy = held(vision, fra, alice, begun=3 * DAY, ended=2 * DAY)
    idle = held(vision, fra, alice, begun=2 * DAY, ended=DAY, fraction="0.5")
    measured(busy, 0.9)
    measured(idle, 0.3)
    # The request that waits counts as a claim, and holds nothing.
    said = "3 claims in the last 90 days held 36 GPU-hours; mean utilization 60 %."
    assert said in card(client, lena, claim)


def test_without_a_measurement_there_is_no_telemetry(client, lena, alice, vision, fra, claim):
    held(vision, fra, alice, begun=2 * HOUR)
    said = "2 claims in the last 90 days held 2 GPU-hours; no telemetry."
    assert said in card(client, lena, claim)


def test_zero_utilization_is_not_missing_telemetry(client, lena, alice, vision, fra, claim):
    measured(held(vision, fra, alice, begun=2 * HOUR), 0.0)
    assert "held 2 GPU-hours; mean utilization 0 %." in card(client, lena, claim)


def test_past_use_counts_only_the_last_90_days(client, lena, alice, vision, fra, claim):
    old = held(vision, fra, alice, begun=100 * DAY, ended=89 * DAY)
    held(vision, fra, alice, begun=100 * DAY, ended=91 * DAY)
    measured(old, 0.5, ago=95 * DAY)
    said = "2 claims in the last 90 days held 24 GPU-hours; no telemetry."
    assert said in card(client, lena, claim)


def test_past_use_excludes_other_people_and_teams(client, lena, alice, lars, vision, fra, claim):
    held(vision, fra, lars, begun=DAY)
    held(make_team("nlp", members=(alice,)), fra, alice, begun=DAY)
    assert "1 claim in the last 90 days held 0 GPU-hours; no telemetry." in card(client, lena, claim)


# What would cost less


def rate(product, price):
    Rate.objects.create(
        title=product, product=product, per_hour=Decimal(price), currency="EUR",
        valid_from=timezone.now() - DAY,
    )  # fmt: skip


@pytest.fixture
def small(db):
    return make_profile("small", spec=make_spec(selectors=[{"cel": {"expression": L4}}]))


DEVICES = [gpu(0), gpu(1), gpu(2, product="NVIDIA L4", memory="23034Mi")]


def test_card_names_a_cheaper_profile_that_fits_now(client, lena, fra, claim, small):
    mirrored(fra, DEVICES)
    rate("H100", "4.00")
    rate("L4", "1.00")
    page = card(client, lena, claim)
    assert "Small costs 75 % less and fits now: 1 matching device free." in page
    change = reverse("claims:change", args=[claim.pk])
    assert f'href="{change}?profile=small"' in page
    assert f"{change}?profile=small" not in card(client, claim.requested_by, claim)


def test_bulk_decision_and_extension_cost_what_the_card_says(client, lena, alice, vision, fra, claim):
    mirrored(fra, DEVICES)
    rate("H100", "4.00")
    rate("L4", "1.00")
    now = timezone.now()
    running = make_claim(
        vision, by=alice, cluster=fra, devices=1,
        state=ClaimState.PROVISIONED, decided_at=now, expires_at=now + DAY,
    )  # fmt: skip
    longer = make_extension(running)
    (most,) = re.findall(r"at most €[\d,.]+\d", card(client, lena, claim))
    page = client.get(reverse("claims:bulk_decisions"), {"claim": claim.pk, "extension": longer.pk}).text
    assert most in page
    assert "Together at most €" in page
    client.force_login(alice)
    page = client.get(reverse("claims:extend", args=[longer.claim_id])).text
    assert re.findall(r"at most €([\d,.]+\d)", page)[:2] == ["16.00", "96.00"]  # 4 h, a day


def test_profile_with_less_memory_than_the_claim_asks_for_is_not_suggested(
    client, lena, fra, ask, claim, small
):
    mirrored(fra, DEVICES)
    rate("H100", "4.00")
    rate("L4", "1.00")
    memory = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("40Gi")) >= 0'
    large = make_profile("large", spec=make_spec(selectors=[{"cel": {"expression": memory}}]))
    assert "Small costs 75 % less" in card(client, lena, claim)
    assert "less and fits now" not in card(client, lena, ask(profile=large, name="large"))


@pytest.mark.parametrize(
    ("small_price", "large_price"),
    [(None, None), ("1.00", None), (None, "4.00"), ("4.00", "4.00"), ("5", "4")],
)
def test_profile_without_a_known_lower_price_is_not_suggested(
    client, lena, fra, claim, small, small_price, large_price
):
    mirrored(fra, DEVICES)
    for product, price in (("L4", small_price), ("H100", large_price)):
        if price:
            rate(product, price)
    assert "less and fits now" not in card(client, lena, claim)


def test_profile_that_does_not_fit_is_not_suggested(client, lena, fra, claim, small):
    rate("H100", "4.00")
    rate("L4", "1.00")
    mirrored(fra, DEVICES)
    assert "less and fits now" in card(client, lena, claim)
    take(fra, holds("gpu-2", name="theirs"))
    assert "less and fits now" not in card(client, lena, claim)


def test_profile_closed_to_the_team_is_not_suggested(client, lena, fra, claim, small):
    mirrored(fra, DEVICES)
    rate("H100", "4.00")
    rate("L4", "1.00")
    assert "less and fits now" in card(client, lena, claim)
    small.teams.add(make_team("nlp"))
    assert "less and fits now" not in card(client, lena, claim)
