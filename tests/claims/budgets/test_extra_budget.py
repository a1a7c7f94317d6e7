"""Extra budget: requested by members and leads, decided by platform admins in the inbox."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial

import pytest
import time_machine
from django.core.exceptions import PermissionDenied
from django.http import Http404
from django.urls import reverse

from claims.budgets.extra import approve_extra, request_extra
from claims.budgets.services import end_budget
from claims.inbox.inbox import Inbox
from claims.models import Budget, BudgetExtra, BudgetUse, QuotaRequest, RequestStatus
from claims.quotas import services as quotas_services
from claims.quotas.quota_requests import end_overdue
from claims.quotas.services import deny_quota_request, withdraw_quota_request
from core.errors import Conflict, Forbidden, Invalid
from notify.models import Notice
from teams.models import recorded_changes
from tests.claims.budgets.conftest import NOW
from tests.factories import make_budget, make_token
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)
REASON = "Evaluation for the release."


@pytest.fixture
def budget(vision, root, now):
    return make_budget(vision, Decimal(1000))


@pytest.fixture
def asked(budget, lena):
    return request_extra(by=lena, budget=budget, amount=Decimal(500), reason=REASON, key="k")


def limit(budget):
    return BudgetUse.objects.get(budget=budget).amount


def test_an_approval_adds_to_this_period_and_everybody_hears(asked, budget, root, lena):
    assert Notice.objects.get(user=root).title == "lena requests €500.00 more budget for vision"
    approve_extra(quota_request=asked, by=root, note="Until the release.")
    assert limit(budget) == 1500
    assert Notice.objects.get(user=lena).title == "vision has €500.00 more budget"
    texts = {entry.text for entry in recorded_changes(budget)}
    assert texts == {
        "requested €500.00 more until 30 November 2026",
        "added €500.00 for the period from 2026-11-01",
    }
    assert BudgetExtra.objects.get().reason == "Requested by lena. Until the release."


def test_approving_twice_adds_once_and_another_admin_hears_who_was_first(asked, budget, root):
    for _again in range(2):
        approve_extra(quota_request=asked, by=root)
    assert limit(budget) == 1500
    with pytest.raises(Conflict, match="already approved by root"):
        deny_quota_request(quota_request=asked, by=root, reason="No")


def test_less_may_be_approved(asked, budget, root):
    approve_extra(quota_request=asked, by=root, amount=Decimal(200))
    assert limit(budget) == 1200


def test_denial_and_withdrawal_change_nothing(asked, budget, root, lena):
    deny_quota_request(quota_request=asked, by=root, reason="Release idle claims first.")
    again = request_extra(by=lena, budget=budget, amount=Decimal(1), reason=REASON, key="again")
    withdraw_quota_request(quota_request=again, by=lena)
    assert limit(budget) == 1000
    assert "vision: request for more budget denied" in set(Notice.objects.values_list("title", flat=True))


def test_an_approval_after_the_period_is_refused(asked, root):
    december = datetime(2026, 12, 1, 1, tzinfo=UTC)
    with (
        time_machine.travel(december, tick=False),
        pytest.raises(Conflict, match="The period that it was requested for is over"),
    ):
        approve_extra(quota_request=asked, by=root)
    assert QuotaRequest.objects.get().status == RequestStatus.WAITING


def test_an_undecided_request_expires(asked, lena):
    end_overdue(NOW + timedelta(days=30))
    assert QuotaRequest.objects.get().status == RequestStatus.EXPIRED
    assert Notice.objects.get(user=lena).title == "Budget request of vision expired"


def test_the_same_key_asks_once_and_another_waits_for_the_decision(asked, budget, lena, alice):
    ask = partial(request_extra, budget=budget, amount=Decimal(500), reason=REASON)
    assert ask(by=lena, key="k") == asked
    with pytest.raises(Conflict, match="lena has already requested €500"):
        ask(by=alice, key="other")


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_requests_at_once_the_second_hears_of_the_first(budget, lena, alice, monkeypatch, locked):
    race = Race(monkeypatch)
    race.hold_before(QuotaRequest.objects, "create")
    if not locked:
        without_lock(monkeypatch, "claims.quotas.services.lock_team")
    ask = partial(request_extra, budget=budget, amount=Decimal(5), reason=REASON)
    _first, second = race.run(partial(ask, by=lena, key="a"), partial(ask, by=alice, key="b"))
    assert race.waited is locked
    assert isinstance(second, Conflict if locked else QuotaRequest)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"amount": Decimal(0)}, "above 0"),
        ({"hours": Decimal(5)}, "limits money, not GPU-hours"),
        ({"amount": Decimal(5), "reason": " "}, "Say what it is for"),
        ({"amount": Decimal(5), "key": ""}, "needs a key"),
    ],
)
def test_requests_that_make_no_sense_are_refused(budget, lena, fields, problem):
    with pytest.raises(Invalid, match=problem):
        request_extra(**{"by": lena, "budget": budget, "reason": REASON, "key": "k", **fields})


def test_viewers_and_outsiders_may_not_ask_and_leads_may_not_decide(asked, budget, bob, eve, lena):
    ask = partial(request_extra, budget=budget, amount=Decimal(1), reason=REASON, key="k2")
    with pytest.raises(PermissionDenied):
        ask(by=bob)
    with pytest.raises(Http404):
        ask(by=eve)
    with pytest.raises(Forbidden):
        approve_extra(quota_request=asked, by=lena)


def test_an_ended_budget_takes_no_request_and_no_extra(asked, budget, root, lena):
    end_budget(by=root, budget=budget)
    with pytest.raises(Conflict, match="ended"):
        approve_extra(quota_request=asked, by=root)
    with pytest.raises(Conflict, match="ended"):
        request_extra(by=lena, budget=Budget.objects.get(), amount=Decimal(1), reason=REASON, key="z")


# Pages, inbox and API.


def test_the_inbox_has_the_request_and_the_card_its_effect(client, asked, budget, root):
    (item,) = Inbox(root).tab("mine")[:]
    assert (item.label, item.summary) == ("Budget", "€500.00 more")
    client.force_login(root)
    page = client.get(item.url).text
    for said in ("Budget request of vision", "€1,000.00 → <b>€1,500.00</b>", REASON, "Extra money (EUR)"):
        assert said in page
    answer = client.post(reverse("claims:quota_request_approve", args=[asked.pk]), {"amount": "300"})
    assert answer.status_code == 302
    assert limit(budget) == 1300
    assert "€300.00" in client.get(reverse("claims:budget", args=[budget.pk])).text
    assert "€300.00 more" in client.get("/approvals/?tab=decided").text


def test_bulk_decisions_say_the_effect_and_approve(client, asked, budget, root):
    headers = {"Authorization": f"Bearer {make_token(root)[1]}"}
    request = {"decision": "approve", "requests": [{"kind": "quota", "id": str(asked.pk)}]}
    send = partial(client.post, "/api/v1/approvals/decide/", content_type="application/json", headers=headers)
    said = send(request | {"preview": True}).json()
    assert said["results"][0]["message"] == (
        "vision: €500.00 more, budget €1,000.00 → €1,500.00, used 0 % → 0 %."
    )
    done = send(request).json()
    assert done["results"][0]["message"] == "Approved: €500.00 more."
    assert limit(budget) == 1500


def test_a_lead_asks_on_the_page_and_a_viewer_may_not(client, budget, lena, bob, eve):
    address = reverse("claims:budget_extra", args=[budget.pk])
    client.force_login(lena)
    page = client.get(address)
    assert "Extra money (EUR)" in page.text
    assert "Extra GPU-hours" not in page.text
    sent = {"amount": "50", "reason": REASON, "key": "page"}
    assert "Say how much more" in client.post(address, sent | {"amount": "0"}).text
    answer = client.post(address, sent)
    assert answer.status_code == 302
    assert "Only platform admins decide on budget." in client.get(answer.url).text
    assert client.post(address, sent | {"key": "second"}).status_code == 409
    client.force_login(bob)
    assert client.get(address).status_code == 403
    client.force_login(eve)
    assert client.get(address).status_code == client.get(answer.url).status_code == 404


def test_the_api_asks_lists_and_decides_and_hides_it_from_outsiders(client, budget, lena, root, eve):
    def bearer(user, **more):
        return {"Authorization": f"Bearer {make_token(user)[1]}", **more}

    made = client.post(
        "/api/v1/budgets/requests/",
        {"budget": str(budget.pk), "amount": "50.00", "reason": REASON},
        content_type="application/json",
        headers=bearer(lena, **{"Idempotency-Key": "api"}),
    )
    assert made.status_code == 201, made.content
    address = f"/api/v1/budgets/requests/{made.json()['id']}/"
    assert client.get(address, headers=bearer(eve)).status_code == 404
    assert client.get("/api/v1/quotas/requests/", headers=bearer(lena)).json()["results"] == []
    answer = client.post(f"{address}approve/", {}, content_type="application/json", headers=bearer(lena))
    assert answer.status_code == 403
    decided = client.post(f"{address}approve/", {}, content_type="application/json", headers=bearer(root))
    assert decided.json()["status"] == "approved"
    assert limit(budget) == 1050


def test_the_list_of_quota_requests_has_none_of_budgets(client, asked, lena):
    client.force_login(lena)
    assert "No quota requests" in client.get("/quotas/requests/").text
    assert quotas_services.QuotaRequest.objects.of_quota().count() == 0
