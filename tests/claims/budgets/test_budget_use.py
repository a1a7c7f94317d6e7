"""How much of a budget is used, from stored days and the hours since, and when it runs out."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db import transaction

from claims.budgets.services import add_extra, change_budget, end_budget, set_budget
from claims.budgets.use import (
    Spending,
    SpendingPeriod,
    past_uses,
    refresh_current,
    run_out_sentence,
    runs_out_soon,
    state_of,
    use_sentence,
)
from claims.models import AtLimit, Budget, BudgetTerms, BudgetUse
from claims.quotas.namespaces import archive_team
from core.errors import Conflict, Forbidden, Invalid
from teams.models import recorded_changes
from tests.claims.budgets.conftest import NOW, hold, price
from tests.factories import make_claim, make_team
from usage.daily import forget_from, store_days
from usage.reports import Month, report
from usage.spending import spending

pytestmark = pytest.mark.django_db(transaction=True)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)


def use_of(budget):
    return BudgetUse.objects.get(budget=budget)


def spend(claim, *, since, per_hour="2.00"):
    price(per_hour)
    hold(claim, since)


def test_the_run_rate_stays_while_days_wait_to_be_stored_again(claim, vision, root, now):
    spend(claim, since=NOW - 4 * DAY)
    store_days(now=NOW)
    period = SpendingPeriod(vision.pk, date(2026, 11, 1), date(2026, 11, 30))
    [before] = spending([period], now=NOW)
    forget_from(NOW - 2 * DAY, now=NOW)
    [after] = spending([period], now=NOW)
    assert before.amount_rates["EUR"] > 0
    assert after == before


def test_use_is_stored_days_and_today_to_the_cent_of_the_month_page(claim, vision, root, now):
    spend(claim, since=NOW - 10 * DAY)  # 7 November, 10:00
    store_days(now=NOW)
    budget = set_budget(by=root, team=vision, amount=Decimal(2000))
    assert use_of(budget).used_amount == Decimal("480.00")  # 240 h × €2
    assert use_of(budget).used_hours == Decimal("240.00")
    assert report(vision, Month.of(date(2026, 11, 1)), now=NOW).total.amounts == {"EUR": Decimal("480.00")}


def test_use_without_stored_days_is_the_same(claim, vision, root, now):
    spend(claim, since=NOW - 10 * DAY)
    budget = set_budget(by=root, team=vision, amount=Decimal(2000))
    assert use_of(budget).used_amount == Decimal("480.00")


def test_a_month_counts_nothing_of_the_month_before(claim, vision, root, now):
    spend(claim, since=datetime(2026, 10, 20, tzinfo=UTC))
    store_days(now=NOW)
    budget = set_budget(by=root, team=vision, amount=Decimal(2000))
    assert use_of(budget).used_hours == 16 * 24 + 10


def test_forecast_is_used_plus_the_mean_of_seven_days_and_the_run_out_follows(claim, vision, root, now):
    spend(claim, since=NOW - 10 * DAY)
    store_days(now=NOW)
    budget = set_budget(by=root, team=vision, amount=Decimal(1000))
    use = use_of(budget)
    assert use.amount_rate == Decimal("2.0000")
    assert use.forecast_amount == 480 + 2 * (13 * 24 + 14)  # until 1 December, 00:00
    assert use.runs_out_at == NOW + 260 * HOUR
    assert state_of(budget, use, now=NOW).key == "runs-out"
    assert run_out_sentence(use, now=NOW) == (
        "At the rate of the last seven days it runs out on 28 November 2026, before 30 November 2026."
    )
    assert not runs_out_soon(use, now=NOW)
    assert runs_out_soon(use, now=NOW + 5 * DAY)


def test_days_before_anybody_held_a_device_do_not_lower_the_rate(claim, vision, root, now):
    spend(claim, since=datetime(2026, 11, 15, tzinfo=UTC))
    store_days(now=NOW)
    budget = set_budget(by=root, team=vision, amount=Decimal(1000))
    assert use_of(budget).amount_rate == Decimal("2.0000")


def test_without_a_whole_day_there_is_no_forecast(claim, vision, root, now):
    spend(claim, since=NOW - 2 * HOUR)
    store_days(now=NOW)
    use = use_of(set_budget(by=root, team=vision, amount=Decimal(1000)))
    assert (use.amount_rate, use.forecast, use.runs_out_at) == (None, None, None)
    assert "No forecast yet" in run_out_sentence(use, now=NOW)


def test_hours_without_a_rate_are_in_no_amount_and_count_as_gpu_hours(claim, vision, root, now):
    hold(claim, NOW - 10 * HOUR)
    use = use_of(set_budget(by=root, team=vision, amount=Decimal(1000), hours=Decimal(20)))
    assert (use.used_amount, use.used_hours, use.unpriced_hours) == (0, 10, 10)
    assert use.share == 0.5


def test_use_counts_only_the_currency_of_the_budget(claim, vision, root, now):
    price("2.00", currency="USD")
    hold(claim, NOW - 10 * HOUR)
    use = use_of(set_budget(by=root, team=vision, amount=Decimal(100)))
    assert use.used_amount == 0


def test_the_sentence_has_share_and_numbers(claim, vision, root, now):
    spend(claim, since=NOW - 10 * HOUR)
    budget = set_budget(by=root, team=vision, amount=Decimal(16), hours=Decimal(40))
    use = use_of(budget)
    assert use_sentence(budget, use) == (
        "vision has used 125 % of its monthly budget: €20.00 of €16.00 and 10 of 40 GPU-hours."
    )
    assert state_of(budget, use, now=NOW).key == "used-up"
    assert use.runs_out_at is None


def test_a_fixed_period_counts_its_own_days(claim, vision, root, now):
    spend(claim, since=datetime(2026, 10, 20, tzinfo=UTC))
    store_days(now=NOW)
    budget = set_budget(
        by=root,
        team=vision,
        title="cvpr",
        first=date(2026, 10, 25),
        last=date(2026, 11, 2),
        hours=Decimal(500),
    )
    assert use_of(budget).used_hours == 9 * 24
    assert state_of(budget, use_of(budget), now=NOW).key == "over"


def test_a_budget_that_has_not_begun_has_used_nothing(claim, vision, root, now):
    spend(claim, since=NOW - 10 * DAY)
    store_days(now=NOW)
    later: dict[str, Any] = {"first": date(2026, 12, 5), "last": date(2026, 12, 24)}
    budget = set_budget(by=root, team=vision, title="later", amount=Decimal(960), **later)
    use = use_of(budget)
    assert use.used_amount == 0
    assert use.forecast_amount == 960
    assert use.runs_out_at == datetime(2026, 12, 25, tzinfo=UTC)
    assert state_of(budget, use, now=NOW).key == "upcoming"


def test_the_task_refreshes_all_budgets_with_a_number_of_queries_by_team(
    claim, vision, root, now, django_assert_max_num_queries
):
    spend(claim, since=NOW - 10 * DAY)
    store_days(now=NOW)
    budget = set_budget(by=root, team=vision, amount=Decimal(1000))
    before = use_of(budget).used_amount
    with django_assert_max_num_queries(12):
        refresh_current(NOW + 2 * HOUR)
    assert use_of(budget).used_amount == before + 4


def test_a_new_month_begins_with_nothing(claim, vision, root, now):
    spend(claim, since=NOW - 10 * DAY)
    budget = set_budget(by=root, team=vision, amount=Decimal(1000))
    refresh_current(datetime(2026, 12, 1, 3, tzinfo=UTC))
    use = use_of(budget)
    assert (use.first, use.used_hours) == (date(2026, 12, 1), 3)


def test_a_past_month_keeps_the_terms_that_it_had(claim, vision, root, now):
    spend(claim, since=NOW - 10 * DAY)
    budget = set_budget(by=root, team=vision, first=date(2026, 10, 1), amount=Decimal(1000))
    BudgetTerms.objects.filter(budget=budget).update(since=datetime(2026, 10, 1, tzinfo=UTC))
    change_budget(by=root, budget=budget, amount=Decimal(3000))
    (past,) = past_uses(vision, date(2026, 10, 1), Spending({"EUR": Decimal(900)}, Decimal(450)))
    assert (past.amount, past.share) == (Decimal(1000), 0.9)
    assert past_uses(vision, date(2026, 9, 1), Spending()) == []


# Setting, changing and ending.


def test_of_each_month_there_is_one_budget_and_more_with_names(vision, root, now):
    set_budget(by=root, team=vision, amount=Decimal(1000))
    with pytest.raises(Conflict, match="vision has a monthly budget already"):
        set_budget(by=root, team=vision, hours=Decimal(10))
    fixed: dict[str, Any] = {"title": "cvpr", "first": date(2026, 11, 1), "last": date(2027, 1, 31)}
    set_budget(by=root, team=vision, hours=Decimal(10), **fixed)
    assert Budget.objects.open().filter(team=vision).count() == 2


def test_a_change_is_a_row_of_terms_and_an_entry_and_the_same_terms_are_neither(vision, root, now):
    budget = set_budget(by=root, team=vision, amount=Decimal(1000))
    for _again in range(2):
        change_budget(by=root, budget=budget, amount=Decimal(1500), at_limit=AtLimit.BLOCK)
    assert [row.amount for row in budget.terms.all()] == [1000, 1500]
    assert {entry.text for entry in recorded_changes(budget)} == {
        "amount €1,000.00 → €1,500.00, at 100 % notify only → new requests are refused",
        "added: €1,000.00 each month, at 100 % notify only",
    }


def test_an_ended_budget_cannot_change_and_a_new_one_can_be_set(vision, root, now):
    budget = set_budget(by=root, team=vision, amount=Decimal(1000))
    end_budget(by=root, budget=budget)
    end_budget(by=root, budget=budget)
    with pytest.raises(Conflict, match="root has ended this budget"):
        change_budget(by=root, budget=budget, amount=Decimal(1))
    set_budget(by=root, team=vision, amount=Decimal(2000))
    refresh_current(NOW)


def test_extra_adds_to_one_period(vision, root, now):
    budget = set_budget(by=root, team=vision, amount=Decimal(1000))
    with transaction.atomic():
        add_extra(by=root, budget=budget, amount=Decimal(500))
    assert use_of(budget).amount == 1500
    refresh_current(datetime(2026, 12, 1, 3, tzinfo=UTC))
    assert use_of(budget).amount == 1000


@pytest.mark.parametrize(
    ("terms", "problem"),
    [
        ({}, "A budget limits money, GPU-hours, or both"),
        ({"amount": Decimal(0)}, "more than 0"),
        ({"amount": Decimal(10) ** 11}, "less than"),
        ({"amount": Decimal(1), "title": "cvpr"}, "a name and a last day, or neither"),
        ({"amount": Decimal(1), "last": date(2026, 12, 1)}, "a name and a last day, or neither"),
        ({"amount": Decimal(1), "title": "x", "last": date(2026, 11, 1)}, "before it begins"),
        (
            {"amount": Decimal(1), "title": "x", "first": date(1, 1, 1), "last": date(2026, 11, 1)},
            "A date lies",
        ),
        ({"amount": Decimal(1), "at_limit": "explode"}, "“explode” was sent"),
    ],
)
def test_terms_that_make_no_budget_are_refused_with_numbers(vision, root, now, terms, problem):
    with pytest.raises(Invalid, match=problem):
        set_budget(by=root, team=vision, **terms)


def test_only_platform_admins_set_budgets(vision, lena, now):
    with pytest.raises(Forbidden):
        set_budget(by=lena, team=vision, amount=Decimal(1))


def test_an_archived_team_has_no_budget(root, now):
    team = make_team("quiet")
    budget = set_budget(by=root, team=team, amount=Decimal(1))
    archive_team(by=root, team=team)
    budget.refresh_from_db()
    assert budget.ended_at == NOW
    with pytest.raises(Conflict, match="archived"):
        set_budget(by=root, team=team, amount=Decimal(1))


def test_costs_of_another_team_do_not_count(claim, vision, root, fra, alice, now):
    spend(claim, since=NOW - 10 * HOUR)
    other = make_team("speech")
    hold(make_claim(other, by=alice, cluster=fra, held=False), NOW - 5 * HOUR)
    store_days(now=NOW)
    assert use_of(set_budget(by=root, team=other, amount=Decimal(100))).used_amount == 10


@pytest.mark.parametrize(
    ("runs_out", "ends", "is_soon"),  # days from now
    [
        (6, 20, True),
        (7, 20, True),
        (8, 20, False),
        (-1, 1, True),
        (3, 3, False),  # with its period
        (5, 3, False),
        (-2, -1, False),  # its period is over
        (-1, 0, False),
        (None, 20, False),
    ],
)
def test_budget_runs_out_soon_only_within_its_running_period(runs_out, ends, is_soon):
    at = None if runs_out is None else NOW + runs_out * DAY
    use = BudgetUse(runs_out_at=at, ends_at=NOW + ends * DAY)
    assert runs_out_soon(use, now=NOW) is is_soon
