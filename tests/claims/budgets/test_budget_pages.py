"""Pages and API of budgets: what they show, who may see them; nothing is saved before it is confirmed."""

import csv
from datetime import timedelta
from decimal import Decimal
from io import StringIO

import pytest
from django.urls import reverse

from claims.budgets.services import change_budget, end_budget, set_budget
from claims.models import Allocation, Budget, BudgetTerms, BudgetUse
from core.models import Installation
from tests.claims.budgets.conftest import NOW, hold, price
from tests.factories import make_budget, make_team, make_token
from usage.daily import forget_from, store_days

pytestmark = pytest.mark.django_db(transaction=True)
LIST, NEW = "/budgets/", "/budgets/new/"


@pytest.fixture
def budget(claim, vision, root, now):
    """Of which €480 of €1,000 are used, at €2 per hour."""
    price("2.00")
    hold(claim, NOW - timedelta(days=10))
    store_days(now=NOW)
    return set_budget(by=root, team=vision, amount=Decimal(1000))


@pytest.fixture
def as_root(client, root):
    client.force_login(root)
    return client


def test_the_list_shows_share_forecast_and_run_out_as_text(as_root, budget):
    page = as_root.get(LIST).text
    for said in (
        "vision",
        "€1,000.00",
        "€480.00",
        "48 %",
        "Runs out",
        "€1,132.00",
        "Sat 28 Nov 2026",
        "Notify only",
    ):
        assert said in page
    assert 'aria-label="vision has used 48 % of its monthly budget: €480.00 of €1,000.00.' in page


def test_a_list_of_many_needs_no_more_queries_than_one(as_root, budget, django_assert_max_num_queries):
    as_root.get(LIST)
    for number in range(20):
        make_budget(make_team(f"team-{number}"), hours=20)
    with django_assert_max_num_queries(12):
        assert "21 budgets" in as_root.get(LIST).text


def test_options_of_the_effect_begin_as_those_around_them(as_root, budget):
    for page in (as_root.get(LIST).text, as_root.get(NEW).text):
        assert ">Notify only</option>" in page
        assert ">New requests need approval</option>" in page


@pytest.mark.parametrize(
    ("state", "teams"),
    [
        ("used-up", ["over"]),
        ("runs-out", ["vision"]),
        ("soon", []),
        ("enough", ["calm"]),
        ("ended", ["gone"]),
        ("", ["calm", "over", "vision"]),
    ],
)
def test_filters_by_state(as_root, budget, root, state, teams):

    make_budget(make_team("calm"))
    BudgetUse.objects.filter(budget=make_budget(make_team("over"))).update(share=1.04)
    end_budget(by=root, budget=make_budget(make_team("gone")))
    page = as_root.get(LIST, {"state": state, "format": "csv"})
    rows = list(csv.DictReader(StringIO(b"".join(page.streaming_content).decode())))
    assert sorted(row["Team"] for row in rows) == teams


def test_search_finds_a_team_and_a_name(as_root, budget):
    make_budget(make_team("speech"))
    assert as_root.get(LIST, {"q": "vision"}).context["listing"].total == 1


def test_without_budgets_the_list_says_the_next_step(as_root, now):
    assert "No budgets yet" in as_root.get(LIST).text


def sent(**more):
    return {"team": "vision", "amount": "900", "at_limit": "block", **more}


def test_a_new_budget_is_saved_only_after_its_effect_was_shown(as_root, root, claim, vision, now):
    price("2.00")
    hold(claim, NOW - timedelta(days=10))
    store_days(now=NOW)
    page = as_root.post(NEW, sent())
    assert page.status_code == 200
    assert not Budget.objects.exists()
    assert (
        "vision has used 53 % of its monthly budget: €480.00 of €900.00. It has 1 running claim." in page.text
    )
    assert "it runs out on 26 November 2026" in page.text
    assert "A request or an extension that may cost more than is left is refused." in page.text
    answer = as_root.post(NEW, sent(confirm="1"))
    assert answer.status_code == 302
    saved = Budget.objects.get()
    assert (saved.amount, saved.at_limit, saved.set_by) == (Decimal(900), "block", root)


def test_the_currency_is_that_of_the_installation(as_root, vision, now):
    Installation.objects.create(currency="CHF")
    as_root.post(NEW, sent(confirm="1"))
    assert Budget.objects.get().currency == "CHF"


@pytest.mark.parametrize(
    ("fields", "status", "problem"),
    [
        (sent(amount=""), 422, "Give an amount of money above 0, GPU-hours, or both."),
        (sent(amount="x"), 422, "Enter a number."),
        (sent(team="nobody"), 422, "Select a valid choice"),
        (sent(title="cvpr"), 422, "Give both a name and a last day, or neither."),
        (sent(confirm="1", title="cvpr"), 422, "Give both a name and a last day, or neither."),
        (sent(title="cvpr", first="2026-11-30", last="2026-11-01"), 422, "before it begins"),
    ],
)
def test_bad_input_is_shown_at_the_form(as_root, vision, now, fields, status, problem):
    page = as_root.post(NEW, fields)
    assert page.status_code == status
    assert problem in page.text.replace("&quot;", '"')


def test_a_second_monthly_budget_is_a_conflict(as_root, budget):
    page = as_root.post(NEW, sent(confirm="1"))
    assert page.status_code == 409
    assert "vision has a monthly budget already" in page.text


def test_a_change_shows_its_effect_first_and_the_history_after(as_root, budget):
    address = reverse("claims:budget_change", args=[budget.pk])
    terms = {"amount": "400", "at_limit": "reclaim"}
    page = as_root.post(address, terms).text
    assert "vision has used 120 % of its monthly budget" in page
    assert "platform admins see its claims first as soon as you save" in page
    assert as_root.post(address, terms | {"confirm": "1"}).status_code == 302
    page = as_root.get(reverse("claims:budget", args=[budget.pk])).text
    assert "amount €1,000.00 → €400.00" in page
    assert "Exhausted" in page


def test_ending_asks_first(as_root, budget):
    address = reverse("claims:budget_end", args=[budget.pk])
    assert "vision has used 48 %" in as_root.get(address).text
    assert Budget.objects.open().exists()
    as_root.post(address)
    assert not Budget.objects.open().exists()


def test_a_viewer_sees_the_budget_of_their_team_and_may_not_change_it(client, bob, budget):
    client.force_login(bob)
    page = client.get(reverse("claims:budget", args=[budget.pk]))
    assert "€480.00 of €1,000.00" in page.text
    assert "Change…" not in page.text
    for name in ("budget_change", "budget_end"):
        assert client.post(reverse(f"claims:{name}", args=[budget.pk])).status_code == 403
    assert client.get(LIST).status_code == client.get(NEW).status_code == 403


def test_an_outsider_does_not_know_of_a_budget(client, eve, budget):
    client.force_login(eve)
    assert client.get(reverse("claims:budget", args=[budget.pk])).status_code == 404
    answer = client.get(f"/api/v1/budgets/{budget.pk}/", headers=bearer(eve))
    assert answer.status_code == 404
    assert client.get("/api/v1/budgets/", headers=bearer(eve)).json()["results"] == []


@pytest.mark.parametrize("address", ["/teams/vision/", "/teams/vision/cost/"])
def test_the_pages_of_the_team_show_budget_forecast_and_run_out(client, lena, budget, address):
    client.force_login(lena)
    page = client.get(address).text
    assert "48 %" in page
    assert "€480.00 of €1,000.00" in page
    assert "it runs out on 28 November 2026" in page


def test_a_budget_that_runs_out_soon_is_a_banner_on_the_page_of_the_month(client, lena, budget, root):

    client.force_login(lena)
    assert "dg-banner warn" not in client.get("/teams/vision/cost/").text
    change_budget(by=root, budget=budget, amount=Decimal(600))
    assert "At 100 %: notify only." in client.get("/teams/vision/cost/").text


def test_a_past_month_has_no_budget_that_was_set_later(client, lena, budget):
    client.force_login(lena)
    assert "€1,000.00" not in client.get("/teams/vision/cost/?month=2026-10").text


# API


def bearer(user):
    return {"Authorization": f"Bearer {make_token(user)[1]}"}


def test_the_api_has_use_and_state(client, bob, budget):
    body = client.get("/api/v1/budgets/", headers=bearer(bob)).json()["results"][0]
    assert (body["team"], body["amount"], body["at_limit"], body["state"]) == (
        *("vision", "1000.00", "notify", "runs-out"),
    )
    use = body["use"]
    assert (use["used_amount"], use["share"], use["runs_out_in_period"]) == ("480.00", 0.48, True)
    assert use["runs_out_at"].startswith("2026-11-28T06:00")


def test_the_api_sets_changes_and_ends(client, root, vision, now):
    headers = bearer(root)
    made = client.post(
        "/api/v1/budgets/",
        {"team": "vision", "amount": "900.00"},
        content_type="application/json",
        headers=headers,
    )
    assert made.status_code == 201, made.content
    address = f"/api/v1/budgets/{made.json()['id']}/"
    changed = client.put(
        address, {"hours": "50", "at_limit": "block"}, content_type="application/json", headers=headers
    )
    assert (changed.json()["amount"], changed.json()["hours"]) == (None, "50.00")
    assert client.delete(address, headers=headers).status_code == 204
    assert client.get(address, headers=headers).status_code == 404


def test_the_api_refuses_what_only_admins_may_do(client, lena, budget):
    headers = bearer(lena)
    new = {"team": "vision", "amount": "900.00", "title": "x", "first": "2026-11-01", "last": "2026-12-01"}
    assert (
        client.post("/api/v1/budgets/", new, content_type="application/json", headers=headers).status_code
        == 403
    )
    address = f"/api/v1/budgets/{budget.pk}/"
    changed = client.put(address, {"hours": "50"}, content_type="application/json", headers=headers)
    assert changed.status_code == 403
    assert client.delete(address, headers=headers).status_code == 403


def earlier(budget, root):
    """Let October have had another amount, and use: 16 days at €2 per hour."""
    hold_from = NOW.replace(month=10, day=16, hour=0)
    Allocation.objects.update(started_at=hold_from)
    forget_from(hold_from, now=NOW)
    store_days(now=NOW)
    october = NOW.replace(month=10, day=1)
    budget.terms.create(since=october, by=root, first=october.date(), amount=Decimal(900), at_limit="block")
    BudgetTerms.objects.filter(amount=1000).update(since=NOW)
    Budget.objects.update(first=october.date())


def test_an_earlier_month_has_the_terms_and_the_use_of_then(as_root, budget, root):
    earlier(budget, root)
    assert 'href="?month=2026-10" aria-label="Earlier: October 2026"' in as_root.get(LIST).text
    page = as_root.get(LIST, {"month": "2026-10"}).text
    for said in (
        "October 2026",
        "vision",
        "€900.00",
        "€768.00",
        "85 %",
        "€132.00",
        "new requests are refused",
    ):
        assert said in page
    assert 'href="?month=2026-11" aria-label="Later: November 2026"' in page
    (row,) = csv.DictReader(StringIO(as_root.get(LIST, {"month": "2026-10", "format": "csv"}).text))
    assert (row["Team"], row["Amount"], row["Used"]) == ("vision", "900.00", "768.00")
    assert "No team had a monthly budget" in as_root.get(LIST, {"month": "2026-08"}).text


def test_any_other_month_is_the_current_page(as_root, budget):
    for text in ("2026-11", "2027-01", "x", "0001-01", "2026-13"):
        assert "New budget" in as_root.get(LIST, {"month": text}).text


def test_an_earlier_month_needs_no_more_queries_for_many_budgets(
    as_root, budget, root, django_assert_max_num_queries
):
    earlier(budget, root)
    with django_assert_max_num_queries(20) as one:
        as_root.get(LIST, {"month": "2026-10"})
    for number in range(5):
        more = make_budget(make_team(f"team-{number}"), amount=Decimal(100))
        more.terms.create(
            since=NOW.replace(month=10, day=2),
            first=NOW.replace(month=10, day=1).date(),
            amount=5,
            at_limit="notify",
        )
    with django_assert_max_num_queries(len(one)):
        assert "6 monthly budgets" in as_root.get(LIST, {"month": "2026-10"}).text


def test_the_api_has_earlier_months_for_the_team_only(client, budget, root, alice, eve):
    earlier(budget, root)
    client.force_login(alice)
    (row,) = client.get("/api/v1/budgets/past/?month=2026-10").json()["results"]
    assert (row["team"], row["amount"], row["use"]["used_amount"]) == ("vision", "900.00", "768.00")
    assert client.get("/api/v1/budgets/past/").status_code == 422
    assert client.get("/api/v1/budgets/past/?month=2026-11").status_code == 422
    client.force_login(eve)
    assert client.get("/api/v1/budgets/past/?month=2026-10").json()["results"] == []
    assert client.get(LIST, {"month": "2026-10"}).status_code == 403
