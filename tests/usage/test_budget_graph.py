"""The graph of a budget and of all monthly ones: what it draws, says and shows as a table; who sees it."""

import re
from datetime import date, timedelta
from decimal import Decimal

import pytest

from claims.budgets.cards import card_of
from claims.budgets.extra import request_extra
from claims.budgets.services import end_budget, set_budget
from claims.budgets.use import refresh
from claims.models import BudgetUse
from tests.claims.budgets.conftest import NOW, now
from tests.factories import make_claim, make_team
from tests.usage.conftest import hold, price
from usage.axis import short, steps
from usage.budget_graph import graph_of, month_budgets
from usage.daily import store_days
from usage.models import DailySum
from usage.spend_chart import HOURS

__all__ = ["now"]
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def held(claim, now):
    """A device at €2 per hour since 7 November, 10:00 UTC: €480 until now."""
    price("2.00")
    hold(claim, NOW - timedelta(days=10))
    store_days(now=NOW)
    return claim


@pytest.fixture
def budget(held, vision, root):
    return set_budget(by=root, team=vision, amount=Decimal(1000))


def graph(budget, pending=None):
    return graph_of(card_of(budget, BudgetUse.objects.get(budget=budget), now=NOW), pending)


def page_of(client, person, address):
    client.force_login(person)
    return " ".join(client.get(address).text.split())


def test_the_line_has_each_stored_day_and_ends_with_the_stored_use(budget):
    found = graph(budget)
    assert [row.day for row in found.days] == [date(2026, 11, day) for day in range(1, 17)]
    assert [row.spent for row in found.days[5:9]] == [0, 28, 48, 48]
    assert found.days[-1].so_far == 460
    assert (found.spent, found.limit, found.as_of) == (480, 1000, NOW)
    assert found.forecast == 1132
    assert found.runs_out_at == NOW + timedelta(hours=260)


def test_a_day_that_waits_to_be_stored_again_is_not_drawn(budget):
    DailySum.objects.filter(day=date(2026, 11, 16)).delete()
    assert graph(budget).days[-1].day == date(2026, 11, 15)
    assert graph(budget).spent == 480


def test_of_money_and_hours_the_scarcer_is_drawn(held, vision, root):
    both = set_budget(by=root, team=vision, amount=Decimal(1000), hours=Decimal(300))
    found = graph(both)
    assert (found.unit, found.limit, found.spent) == (HOURS, 300, 240)
    assert found.days[-1].so_far == 230


def test_a_pending_request_is_a_line_of_its_own(client, budget, lena, root):
    asked = request_extra(by=lena, budget=budget, amount=Decimal(500), reason="A release.", key="1")
    assert graph(budget, asked).with_extra == 1500
    for address in (f"/budgets/{budget.pk}/", "/budgets/"):
        assert "with the request €1,500" in page_of(client, root, address)
    page = page_of(client, root, "/budgets/")
    assert "lena asks for €500.00 more" in page
    assert f'{asked.pk}/">Decide…</a>' in page
    assert "1 request</div>" in page


def test_the_page_says_the_graph_in_words_and_shows_it_as_a_table(client, budget, alice):
    page = page_of(client, alice, f"/budgets/{budget.pk}/")
    assert (
        "Spend of vision from 1 November 2026 to 30 November 2026 (UTC): €480.00 until "
        "Tue 17 Nov 2026, 10:00 UTC, 48 % of €1,000.00; forecast €1,132.00 at the end; "
        "runs out on 28 November 2026."
    ) in page
    assert '<th scope="row">Mon 16 Nov</th><td class="dg-n">€48.00</td><td class="dg-n">€460.00</td>' in page
    assert "runs out Sat 28 Nov</text>" in page
    assert "50 %</text>" in page
    assert "style=" not in page[page.index("dg-spend") : page.index("Show as table")]


def test_the_line_ends_at_the_height_of_its_figure(client, budget, alice):
    page = page_of(client, alice, f"/budgets/{budget.pk}/")
    (line,) = re.findall(r'<polyline points="([^"]+)" class="spent">', page)
    heights = [float(point.split(",")[1]) for point in line.split()]
    assert heights == sorted(heights, reverse=True)  # it never falls
    (limit,) = re.findall(r'<line x2="100%" y1="([\d.]+)"[^>]+ class="limit">', page)
    assert (170 - heights[-1]) / (170 - float(limit)) == pytest.approx(0.48, abs=0.01)


def test_outsiders_and_viewers(client, budget, bob, eve):
    assert "Spend and budget" in page_of(client, bob, f"/budgets/{budget.pk}/")
    client.force_login(eve)
    assert client.get(f"/budgets/{budget.pk}/").status_code == 404


def test_the_list_shows_the_graph_of_the_one_that_runs_out_first_or_of_the_named_one(client, budget, root):
    other = set_budget(by=root, team=make_team("nlp"), amount=Decimal(50))
    page = page_of(client, root, "/budgets/")
    assert '<h2 id="graph-title">vision: monthly budget</h2>' in page
    assert '<h2 id="graph-title">nlp: monthly budget</h2>' in page_of(
        client, root, f"/budgets/?budget={other.pk}"
    )
    assert "vision: monthly budget</h2>" in page_of(client, root, "/budgets/?budget=nonsense")


def test_the_sum_row_adds_up_the_monthly_budgets_of_money(client, budget, root):
    assert "All monthly budgets" not in page_of(client, root, "/budgets/")
    set_budget(by=root, team=make_team("nlp"), amount=Decimal(200))
    page = page_of(client, root, "/budgets/")
    row = page[page.index('<tr class="sumrow"') :]
    row = re.sub(r"<[^>]*>", " ", row[: row.index("</tr>")])
    assert " ".join(row.split()) == "All monthly budgets €1,200.00 €480.00 40 % €1,132.00 94 % €2.00 / h"


def test_all_monthly_budgets_add_up_and_only_those_of_the_teams(budget, vision, root, fra, eve):
    nlp = make_team("nlp", members=(eve,))
    hold(make_claim(nlp, by=eve, cluster=fra, held=False, name="nlp"), NOW - timedelta(days=10))
    store_days(now=NOW)
    other = set_budget(by=root, team=nlp, amount=Decimal(500))
    refresh([budget, other], now=NOW)
    whole = month_budgets(None, "EUR", now=NOW)
    assert (whole.number, whole.graph.limit) == (2, Decimal(1500))
    assert whole.graph.spent == sum(BudgetUse.objects.values_list("used_amount", flat=True))
    assert whole.graph.forecast == sum(BudgetUse.objects.values_list("forecast_amount", flat=True))
    assert whole.forecast_shares.keys() == {vision.pk, nlp.pk}
    assert month_budgets([vision.pk], "EUR", now=NOW).graph.limit == 1000
    assert month_budgets(None, "USD", now=NOW) is None
    BudgetUse.objects.filter(budget=other).update(forecast_amount=None)
    assert month_budgets(None, "EUR", now=NOW).graph.forecast is None
    BudgetUse.objects.filter(budget=other).update(as_of=NOW - timedelta(hours=1))
    assert month_budgets(None, "EUR", now=NOW).graph.as_of == NOW - timedelta(hours=1)  # of the older figure
    end_budget(by=root, budget=other)
    whole = month_budgets(None, "EUR", now=NOW)
    assert (whole.number, whole.graph.limit, whole.graph.as_of) == (1, Decimal(1000), NOW)


def test_budget_that_lasts_beyond_its_period_does_not_run_out_in_the_graph(held, vision, root):
    found = graph(set_budget(by=root, team=vision, amount=Decimal(2000)))
    assert BudgetUse.objects.get().runs_out_at > found.end
    assert found.runs_out_at is None


def test_the_report_of_this_month_has_the_budgets_and_that_of_another_has_none(client, budget, root, lena):
    for person in (root, lena):
        page = page_of(client, person, "/report/")
        assert "Team budgets" in page
        assert '<td class="dg-n" data-l="Forecast of budget"><span class="dg-bad dg-nowrap">' in page
        assert "113 %" in page
    assert "Team budgets" not in page_of(client, root, "/report/?month=2026-10")
    assert "Team budgets" not in page_of(client, root, "/report/?range=7d")
    assert "Team budgets" not in page_of(client, root, "/report/?person=alice")


def test_the_report_draws_hours_or_money_by_day_or_week(client, budget, root):
    assert 'aria-label="GPU-hours by day, at most 24.00 h"' in page_of(client, root, "/report/")
    assert 'aria-label="Money by day, at most €48.00"' in page_of(client, root, "/report/?unit=money")
    weekly = page_of(client, root, "/report/?unit=money&per=week")
    assert 'aria-label="Money by week, at most €' in weekly
    assert "from Mon 9 Nov: €336.00 in all" in weekly
    client.force_login(root)
    assert client.get("/report/?unit=shoes").status_code == 422


def test_pages_need_a_constant_number_of_queries(
    client, budget, root, fra, eve, django_assert_max_num_queries
):
    for address in ("/budgets/", f"/budgets/{budget.pk}/", "/report/"):
        page_of(client, root, address)
        with django_assert_max_num_queries(15):
            page_of_again = client.get(address)
        assert page_of_again.status_code == 200


@pytest.mark.parametrize(
    ("top", "expected"),
    [
        ("1", "0 0.25 0.5 0.75 1"),
        ("24000", "0 5000 10000 15000 20000"),
        ("999", "0 200 400 600 800"),
        ("7", "0 2 4 6"),
    ],
)
def test_an_axis_has_few_round_amounts(top, expected):
    assert steps(Decimal(top)) == list(map(Decimal, expected.split()))


@pytest.mark.parametrize(
    ("amount", "unit", "text"),
    [
        ("0", "EUR", "0"),
        ("24000", "EUR", "€24k"),
        ("2500", HOURS, "2.5k h"),
        ("0.25", "CHF", "CHF 0.25"),
        ("1200000", "USD", "$1.2M"),
    ],
)
def test_amounts_of_an_axis_are_short(amount, unit, text):
    assert short(Decimal(amount), unit) == text
