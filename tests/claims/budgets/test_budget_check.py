"""What a request may cost, what is left of the budget, and what follows where that is less."""

from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest
from django.utils import timezone

from claims.approvals.decide import approve
from claims.budgets.services import change_budget
from claims.budgets.use import reclaimable_namespaces
from claims.inbox.impact import claim_impact
from claims.models import (
    Approval,
    AtLimit,
    Budget,
    BudgetUse,
    Claim,
    ClusterAvailability,
    ProfileAvailability,
)
from claims.requests import budget_check
from claims.requests.preview import preview
from claims.states import ClaimState
from core.errors import BudgetExceeded
from tests.claims.conftest import alice, ask, bob, eve, fra, gateway, lars, lena, quota, root, train, vision
from tests.factories import (
    make_budget,
    make_claim,
    make_profile,
    make_quota,
    make_spec,
    make_team,
    make_token,
)
from tests.threads import Race, without_lock
from tests.usage.conftest import price
from usage.models import Rate

__all__ = ["alice", "ask", "bob", "eve", "fra", "gateway", "lars", "lena", "quota", "root", "train", "vision"]
pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def offer(cluster, profile, *, product="NVIDIA H100 80GB HBM3", fraction="1"):
    """Say that the cluster has devices of this product for the profile."""
    computed = {"revision": 1, "computed_at": timezone.now()}
    computation, _made = ClusterAvailability.objects.get_or_create(cluster=cluster, defaults=computed)
    kind = {"driver": "gpu.nvidia.com", "product": product, "fraction": fraction, "memory_bytes": None}
    ProfileAvailability.objects.create(computation=computation, version=profile.current, kinds=[kind])


@pytest.fixture
def simple(now, vision, fra, monkeypatch):
    """A profile without approval whose devices cost €2 per hour; nothing is delivered."""
    monkeypatch.setattr("claims.delivery.tasks.deliver.delay", lambda _id: None)
    price("2.00")
    profile = make_profile("simple", approval=Approval.AUTOMATIC)
    offer(fra, profile)
    return profile


def used(budget, amount):
    """Say that this much of the budget is used."""
    BudgetUse.objects.filter(budget=budget).update(used_amount=amount, share=Decimal(amount) / 1000)


def line_of(team, fra, profile, **fields):
    (line,) = preview(
        by=team.members.get(username="alice"), team=team, cluster=fra, profile=profile, **fields
    ).budget_lines
    return line


def test_the_sentence_has_what_is_left_and_what_the_request_may_cost(vision, fra, simple, quota):
    used(make_budget(vision), 880)
    line = line_of(vision, fra, simple, devices=2, duration=2 * DAY)
    assert line.sentence == (
        "vision has €120.00 of €1,000.00 left until 30 November 2026; this request may cost €192.00. "
        "You can send it: at 100 %, leads and platform admins are notified."
    )
    (limit,) = line.limits
    assert (limit.before, limit.after, limit.fits) == ("€880.00", "€1,072.00", False)


def test_what_falls_into_the_next_month_does_not_count(vision, fra, simple, quota):
    make_budget(vision)
    (limit,) = line_of(vision, fra, simple, duration=30 * DAY).limits
    assert limit.cost == 2 * (13 * 24 + 14)


def test_live_claims_reserve_what_they_may_still_cost_and_other_teams_do_not(
    vision, fra, simple, quota, alice, now
):
    make_budget(vision)
    times = {"cluster": fra, "by": alice, "profile": simple}
    make_claim(vision, state=ClaimState.REQUESTED, duration=DAY, **times)
    make_claim(vision, state=ClaimState.ALLOCATED, expires_at=now + DAY / 2, devices=2, **times)
    make_claim(vision, state=ClaimState.RELEASED, **times)
    make_claim(make_team("speech"), state=ClaimState.REQUESTED, duration=DAY, **times)
    (limit,) = line_of(vision, fra, simple, duration=DAY).limits
    assert limit.reserved == 48 + 48
    assert (limit.before, limit.after) == ("€96.00", "€144.00")


def test_hours_of_a_partition_count_as_its_fraction(vision, fra, now, quota, simple):
    slice_profile = make_profile("slice", approval=Approval.AUTOMATIC)
    offer(fra, slice_profile, fraction="3/7")
    make_budget(vision, None, hours=Decimal(10))
    (limit,) = line_of(vision, fra, slice_profile, devices=7, duration=timedelta(hours=4)).limits
    assert (limit.cost, limit.left, limit.fits) == (12, 10, False)


def test_a_price_that_is_not_known_is_not_zero_and_blocks_only_when_nothing_is_left(
    vision, fra, quota, train, now
):
    budget = make_budget(vision, at_limit=AtLimit.BLOCK)
    line = line_of(vision, fra, train)
    assert line.limits[0].cost is None
    assert line.fits
    assert "is not known: a matching device has no rate" in line.sentence
    used(budget, 1000)
    assert not line_of(vision, fra, train).fits


def test_a_price_in_another_currency_is_not_known_in_that_of_the_budget(
    vision, fra, simple, quota, alice, now
):
    make_budget(vision)
    Rate.objects.update(currency="USD")
    make_claim(vision, cluster=fra, by=alice, profile=simple, state=ClaimState.REQUESTED, duration=DAY)
    line = line_of(vision, fra, simple)
    assert (line.limits[0].cost, line.limits[0].reserved) == (None, 0)
    assert "is not known: a matching device has no rate in EUR." in line.sentence


def test_block_refuses_with_numbers_and_the_next_step(ask, vision, simple):
    used(make_budget(vision, at_limit=AtLimit.BLOCK), 970)
    with pytest.raises(BudgetExceeded) as refusal:
        ask(profile=simple, duration=DAY)
    assert refusal.value.message == (
        "vision has €30.00 of €1,000.00 left until 30 November 2026; this request may cost €48.00. "
        "Request fewer devices or a shorter time, or ask a platform admin to raise the budget."
    )
    assert ask(profile=simple, duration=DAY / 2).state == ClaimState.APPROVED


@pytest.mark.parametrize("at_limit", [AtLimit.NOTIFY, AtLimit.RECLAIM])
def test_the_other_policies_let_a_request_pass(ask, vision, simple, at_limit):
    used(make_budget(vision, at_limit=at_limit), 1000)
    assert ask(profile=simple, duration=DAY).state == ClaimState.APPROVED


def test_a_request_beyond_the_budget_needs_a_lead_who_sees_why(ask, vision, simple, lena, alice, fra):
    used(make_budget(vision, at_limit=AtLimit.APPROVAL), 970)
    asked = preview(by=alice, team=vision, cluster=fra, profile=simple, duration=DAY)
    assert not asked.approval.automatic
    assert "lena" in asked.approval.sentence
    assert asked.approval.rule.endswith("It needs the approval of a lead.")
    claim = ask(profile=simple, duration=DAY)
    assert claim.state == ClaimState.REQUESTED
    impact = claim_impact(claim)
    assert impact.short_reason == "over budget"
    assert impact.rule.startswith("vision has €30.00 of €1,000.00 left")
    assert impact.budgets[0].limits[0].reserved == 0  # the request does not count twice
    assert claim.history.filter(reason__startswith="vision has €30.00").exists()
    assert approve(claim=claim, by=lena, spec_hash=claim.spec_hash).state == ClaimState.APPROVED


def test_a_request_within_the_budget_is_approved_as_before(ask, vision, simple):
    used(make_budget(vision, at_limit=AtLimit.APPROVAL), 900)
    assert ask(profile=simple, duration=DAY).state == ClaimState.APPROVED


def test_without_a_budget_nothing_is_asked(ask, vision, fra, simple):
    assert ask(profile=simple, duration=DAY).state == ClaimState.APPROVED
    assert (
        preview(
            by=vision.members.get(username="alice"), team=vision, cluster=fra, profile=simple
        ).budget_lines
        == ()
    )


def test_a_replacement_does_not_pay_for_what_it_replaces(ask, vision, simple):
    make_budget(vision, Decimal(60), at_limit=AtLimit.BLOCK)
    first = ask(profile=simple, duration=DAY)
    assert ask(profile=simple, duration=DAY, replaces=first).replaces == first
    with pytest.raises(BudgetExceeded):
        ask(profile=simple, duration=DAY)


def test_a_raised_budget_applies_to_the_next_request(ask, vision, simple, root):
    budget = make_budget(vision, Decimal(10), at_limit=AtLimit.BLOCK)
    with pytest.raises(BudgetExceeded):
        ask(profile=simple, duration=DAY)
    change_budget(by=root, budget=budget, amount=Decimal(50), at_limit=AtLimit.BLOCK)
    assert ask(profile=simple, duration=DAY).state == ClaimState.APPROVED


@pytest.mark.parametrize("locked", [True, False])
def test_two_requests_at_once_cannot_share_what_is_left_of_a_budget(
    ask, vision, fra, simple, monkeypatch, locked
):
    """They are charged to quotas of different classes, so only the budget is between them."""
    other = make_profile("other", spec=make_spec(device_class="other.com"), approval=Approval.AUTOMATIC)
    make_quota(vision, device_class="other.com")
    offer(fra, other)
    make_budget(vision, Decimal(60), at_limit=AtLimit.BLOCK)
    race = Race(monkeypatch)
    race.hold_after(budget_check, "budget_lines")
    if not locked:
        without_lock(monkeypatch, "claims.budgets.use.lock_budgets")
    first, second = race.run(
        partial(ask, profile=simple, duration=DAY), partial(ask, profile=other, duration=DAY)
    )
    assert race.waited is locked
    assert isinstance(first, Claim)
    assert isinstance(second, BudgetExceeded if locked else Claim)


def test_the_panel_and_the_api_show_before_and_after(client, alice, vision, fra, simple, quota):
    used(make_budget(vision, at_limit=AtLimit.BLOCK), 970)
    client.force_login(alice)
    wish = {"team": "vision", "cluster": "fra-1", "profile": "simple", "devices": "1", "duration": "24h"}
    page = client.get("/claims/request/preview/", wish).text
    assert "€970.00 → <b>€1,018.00</b> of €1,000.00" in page
    assert "vision has €30.00 of €1,000.00 left until 30 November 2026; this request may cost €48.00." in page
    headers = {"Authorization": f"Bearer {make_token(alice)[1]}"}
    body = client.post(
        "/api/v1/match/", wish | {"devices": 1}, content_type="application/json", headers=headers
    ).json()
    assert body["fits_budget"] is False
    assert body["budget"][0]["limits"][0]["left"] == "30.00"
    request = wish | {"devices": 1, "reason": "x"}
    answer = client.post(
        "/api/v1/claims/",
        request,
        content_type="application/json",
        headers=headers | {"Idempotency-Key": "k"},
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "budget-exceeded")


def test_a_budget_costs_a_fixed_number_of_queries_however_many_claims_are_live(
    vision, fra, simple, quota, alice, django_assert_max_num_queries
):
    make_budget(vision)
    for _ in range(20):
        make_claim(vision, by=alice, cluster=fra, profile=simple)
    line_of(vision, fra, simple)
    with django_assert_max_num_queries(7):
        budget_check.lines_of_claim(Claim.objects.select_related("team", "profile_version__profile").first())


def test_namespaces_of_teams_with_used_up_budgets_are_reclaimable(vision, fra, now):
    budget = make_budget(vision, at_limit=AtLimit.RECLAIM)
    assert reclaimable_namespaces(fra) == []
    used(budget, 1000)
    assert reclaimable_namespaces(fra) == ["vision"]
    Budget.objects.update(at_limit=AtLimit.NOTIFY)
    assert reclaimable_namespaces(fra) == []


def test_budget_whose_period_is_over_makes_nothing_reclaimable(vision, fra, now):
    budget = make_budget(vision, at_limit=AtLimit.RECLAIM)
    used(budget, 1000)
    BudgetUse.objects.update(ends_at=timezone.now())
    assert reclaimable_namespaces(fra) == []
    BudgetUse.objects.update(ends_at=timezone.now() + DAY)
    assert reclaimable_namespaces(fra) == ["vision"]


def test_card_in_inbox_does_not_reserve_for_replaced_claim(vision, alice, fra, simple):
    make_budget(vision, at_limit=AtLimit.APPROVAL)
    first = make_claim(vision, by=alice, cluster=fra, profile=simple, state=ClaimState.ALLOCATED)
    successor = make_claim(vision, by=alice, cluster=fra, profile=simple, replaces=first)
    alone = make_claim(vision, by=alice, cluster=fra, profile=simple, state=ClaimState.WITHDRAWN)
    reserved = {}
    for claim in (successor, alone):
        read = Claim.objects.select_related("team", "profile_version__profile").get(pk=claim.pk)
        [line] = budget_check.lines_of_claim(read)
        reserved[claim.pk] = line.limits[0].reserved
    assert reserved[successor.pk] == 0
    assert reserved[alone.pk] > 0


@pytest.mark.parametrize(("devices", "parallel"), [(2, 1), (1, 3), (2, 3)])
def test_card_and_extension_cost_what_the_form_said(vision, alice, fra, simple, quota, devices, parallel):
    make_budget(vision, at_limit=AtLimit.APPROVAL)
    shape = {"devices": devices, "parallel": parallel, "duration": DAY}
    (said,) = line_of(vision, fra, simple, **shape, delivery="template").limits
    assert said.cost == 2 * 24 * devices * parallel
    made = make_claim(vision, by=alice, cluster=fra, profile=simple, **shape)
    read = Claim.objects.select_related("team", "profile_version__profile").get(pk=made.pk)
    [line] = budget_check.lines_of_claim(read)
    assert line.limits == (said,)
    read.expires_at = timezone.now() + DAY  # as if it ran
    extension = budget_check.ExtensionBudgets(read, budget_check.current_uses(vision))
    [line] = extension.lines(read.expires_at + DAY)
    assert [limit.cost for limit in line.limits] == [said.cost]
