"""An extension asks the budgets of the team as a request does: when it is requested and when decided."""

from datetime import timedelta
from decimal import Decimal
from functools import partial

import pytest
from django.urls import reverse
from django.utils import timezone

from claims.budgets.services import change_budget
from claims.claim_list import bulk
from claims.lifecycle.extension_rules import ExtensionPolicy
from claims.lifecycle.services import approve_extension, extend, shorten
from claims.models import Approval, AtLimit, BudgetUse, Extension, ProfileVersion, RequestStatus
from claims.requests import budget_check
from claims.states import ClaimState
from core.errors import BudgetExceeded
from tests.claims.budgets.test_budget_check import offer, simple, used
from tests.claims.conftest import alice, ask, bob, eve, fra, gateway, lars, lena, quota, root, train, vision
from tests.factories import make_budget, make_claim, make_profile, make_token
from tests.threads import Race, without_lock
from tests.usage.conftest import price

__all__ = [
    "alice",
    "ask",
    "bob",
    "eve",
    "fra",
    "gateway",
    "lars",
    "lena",
    "quota",
    "root",
    "simple",
    "train",
    "vision",
]
pytestmark = pytest.mark.django_db(transaction=True)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
REFUSAL = (
    "vision has €6.00 of €1,000.00 left until 30 November 2026; this extension may cost €48.00. "
    "Extend it by less, or ask a platform admin to raise the budget."
)


@pytest.fixture
def running(vision, alice, fra, simple):
    """Return a function that makes a claim of one device at €2 per hour that ends in 12 hours."""

    def make(name="sam", profile=simple, left=12 * HOUR):
        now = timezone.now()
        return make_claim(
            vision,
            by=alice,
            cluster=fra,
            profile=profile,
            name=name,
            state=ClaimState.PROVISIONED,
            decided_at=now,
            duration=left,
            expires_at=now + left,
        )

    return make


@pytest.fixture
def asking(vision, alice, fra, now):
    """A profile as `simple`, of which each extension waits for a lead."""
    price("2.00")
    profile = make_profile("asking", approval=Approval.LEAD, max_duration=30 * DAY)
    offer(fra, profile)
    return profile


def extended(claim, by, span=DAY, key="k"):
    return extend(claim=claim, by=by, until=claim.expires_at + span, key=key)


def test_blocking_budget_refuses_an_extension_with_numbers_and_the_next_step(running, vision, alice):
    claim = running()
    used(make_budget(vision, at_limit=AtLimit.BLOCK), 970)  # and €24 are reserved until the present end
    with pytest.raises(BudgetExceeded) as refusal:
        extended(claim, alice)
    assert refusal.value.message == REFUSAL
    claim.refresh_from_db()
    assert claim.expires_at == timezone.now() + 12 * HOUR
    assert not Extension.objects.exists()
    assert extended(claim, alice, 3 * HOUR).status == RequestStatus.APPROVED


def test_end_that_was_granted_before_is_additional_cost_again(running, vision, alice):
    claim = running()
    granted = claim.expires_at
    used(make_budget(vision, at_limit=AtLimit.BLOCK), 976)
    shortened = shorten(claim=claim, by=alice, until=granted - 6 * HOUR)
    BudgetUse.objects.update(used_amount=Decimal(985))  # meanwhile others have used what it gave back
    with pytest.raises(BudgetExceeded):
        extend(claim=shortened, by=alice, until=granted, key="k")


def test_time_after_the_period_does_not_count(running, vision, alice, simple):
    make_budget(vision, at_limit=AtLimit.BLOCK)
    ProfileVersion.objects.filter(profile=simple).update(max_duration=60 * DAY)
    claim = running(left=BudgetUse.objects.get().ends_at - timezone.now())
    BudgetUse.objects.update(used_amount=Decimal(2000), share=2)
    assert extended(claim, alice).status == RequestStatus.APPROVED


@pytest.mark.parametrize("at_limit", [AtLimit.NOTIFY, AtLimit.RECLAIM])
def test_other_policies_let_an_extension_pass(running, vision, alice, at_limit):
    used(make_budget(vision, at_limit=at_limit), 1000)
    assert extended(running(), alice).status == RequestStatus.APPROVED


def test_budget_that_asks_for_approval_makes_an_extension_wait_for_a_lead(running, vision, alice, lena):
    claim = running()
    used(make_budget(vision, at_limit=AtLimit.APPROVAL), 970)
    option = ExtensionPolicy(claim, by=alice).option(claim.expires_at + DAY)
    assert not option.at_once
    assert option.summary.startswith("needs ")
    assert "lena" in option.summary
    assert option.why.endswith("this extension may cost €48.00. It needs the approval of a lead.")
    extension = extended(claim, alice)
    assert extension.status == RequestStatus.WAITING
    assert approve_extension(extension=extension, by=lena).status == RequestStatus.APPROVED


def test_decision_asks_the_budget_again(running, asking, vision, alice, lena, root):
    claim = running(profile=asking)
    budget = make_budget(vision, at_limit=AtLimit.BLOCK)
    extension = extended(claim, alice)
    assert extension.status == RequestStatus.WAITING
    used(budget, 970)
    with pytest.raises(BudgetExceeded) as refusal:
        approve_extension(extension=extension, by=lena)
    assert refusal.value.message == REFUSAL
    extension.refresh_from_db()
    assert extension.status == RequestStatus.WAITING
    change_budget(by=root, budget=budget, amount=Decimal(2000), at_limit=AtLimit.BLOCK)
    used(budget, 970)
    assert approve_extension(extension=extension, by=lena).status == RequestStatus.APPROVED


def test_extension_that_was_overtaken_costs_nothing(running, asking, vision, alice, lena):
    claim = running(profile=asking)
    budget = make_budget(vision, at_limit=AtLimit.BLOCK)
    extension = extended(claim, alice)
    type(claim).objects.filter(pk=claim.pk).update(expires_at=extension.until)
    used(budget, 1000)
    assert approve_extension(extension=extension, by=lena).status == RequestStatus.APPROVED


def test_page_offers_what_the_budget_allows_and_says_why_not_the_rest(client, running, vision, alice):
    claim = running()
    used(make_budget(vision, at_limit=AtLimit.BLOCK), 966)
    client.force_login(alice)
    page = client.get(f"/claims/{claim.pk}/extend/").text
    assert '<input type="radio" name="span" value="4h" checked>' in page
    assert '<input type="radio" name="span" value="24h" disabled>' in page
    assert "beyond the budget" in page
    assert "has €10.00 of €1,000.00 left until 30 November 2026" in page
    answer = client.post(f"/claims/{claim.pk}/extend/", {"span": "24h", "key": "k"})
    assert answer.status_code == 409
    assert "Extend it by less, or ask a platform admin to raise the budget." in answer.text
    assert 'name="span"' in answer.text  # the form, to choose less


def test_api_refuses_with_the_code_of_a_budget(client, running, vision, alice):
    claim = running()
    used(make_budget(vision, at_limit=AtLimit.BLOCK), 970)
    answer = client.post(
        f"/api/v1/claims/{claim.pk}/extend/",
        {"until": (claim.expires_at + DAY).isoformat()},
        content_type="application/json",
        headers={"Authorization": f"Bearer {make_token(alice)[1]}", "Idempotency-Key": "k"},
    )
    assert (answer.status_code, answer.json()["code"]) == (409, "budget-exceeded")
    assert answer.json()["detail"] == REFUSAL


def test_bulk_extension_is_refused_claim_by_claim(running, vision, alice):
    claims = [running("one"), running("two")]
    used(make_budget(vision, at_limit=AtLimit.BLOCK), 900)  # €48 reserved: enough for one more day
    request = bulk.BulkRequest(bulk.BulkAction.EXTEND, by=DAY, key="k")
    first, second = bulk.run(alice, claims, request)
    assert first.done == "Extended by 1 d."
    assert (second.done, second.code) == ("", "budget-exceeded")
    assert "this extension may cost €48.00" in second.refusal


def test_card_of_the_inbox_shows_the_budget_and_the_refusal(client, running, asking, vision, alice, lena):
    budget = make_budget(vision, at_limit=AtLimit.BLOCK)
    extension = extended(running(profile=asking), alice)
    used(budget, 970)
    client.force_login(lena)
    page = client.get(reverse("claims:extension", args=[extension.pk])).text
    assert "€994.00 → <b>€1,042.00</b> of €1,000.00" in page
    assert REFUSAL in page
    answer = client.post(reverse("claims:extension_approve", args=[extension.pk]))
    assert answer.status_code == 409
    assert "The budget of the team does not allow this" in answer.text
    preview = client.get("/approvals/bulk/", {"extension": extension.pk})
    assert REFUSAL in preview.text


@pytest.mark.parametrize("locked", [True, False])
@pytest.mark.parametrize("decided", [True, False])
def test_two_extensions_at_once_cannot_share_what_is_left_of_a_budget(
    running, asking, simple, vision, alice, lena, monkeypatch, locked, decided
):
    """They are of two claims, so only the budget is between them."""
    profile = asking if decided else simple
    claims = [running("one", profile), running("two", profile)]
    make_budget(vision, Decimal(100), at_limit=AtLimit.BLOCK)  # €48 reserved: enough for one more day
    calls = [partial(extended, claim, alice, key=claim.name) for claim in claims]
    if decided:
        calls = [partial(approve_extension, extension=call(), by=lena) for call in calls]
    race = Race(monkeypatch)
    race.hold_after(budget_check, "_hourly_costs")
    if not locked:
        without_lock(monkeypatch, "claims.budgets.use.lock_budgets")
    first, second = race.run(*calls)
    assert race.waited is locked
    assert isinstance(first, Extension)
    assert isinstance(second, BudgetExceeded if locked else Extension)


def test_extension_and_request_at_once_cannot_share_what_is_left(
    ask, running, simple, vision, alice, monkeypatch
):
    claim = running()
    make_budget(vision, Decimal(80), at_limit=AtLimit.BLOCK)  # €24 reserved: enough for one more day
    race = Race(monkeypatch)
    race.hold_after(budget_check, "_hourly_costs")
    first, second = race.run(partial(extended, claim, alice), partial(ask, profile=simple, duration=DAY))
    assert race.waited
    assert isinstance(first, Extension)
    assert isinstance(second, BudgetExceeded)
