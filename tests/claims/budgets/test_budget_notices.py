"""Notices at 50, 80 and 100 % of a budget, each once per period, and what Prometheus is told."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from claims.budgets.metrics import BudgetCollector
from claims.models import AtLimit, BudgetUse
from claims.tasks import watch_budgets
from notify.models import Notice
from tests.claims.budgets.conftest import NOW, hold, price
from tests.factories import make_budget, make_team

pytestmark = pytest.mark.django_db


@pytest.fixture
def spends(claim, now):
    """The claim costs €10 per hour from now on."""
    price("10.00")
    hold(claim, NOW)


def notices():
    rows = Notice.objects.order_by("created_at", "user__username").values_list("user__username", "title")
    return [(person, title) for person, title in rows]


def test_leads_hear_of_each_threshold_once_and_admins_of_the_last(spends, vision, root, lena):
    make_budget(vision, Decimal(100))
    heard = []
    for hours in (4, 5, 6, 8, 9, 10, 11):
        with time_machine.travel(NOW + timedelta(hours=hours), tick=False):
            watch_budgets()
            watch_budgets()
            heard.append((hours, len(notices())))
    assert heard == [(4, 0), (5, 1), (6, 1), (8, 2), (9, 2), (10, 4), (11, 4)]
    assert notices() == [
        ("lena", "vision has used 50 % of the monthly budget"),
        ("lena", "vision has used 80 % of the monthly budget"),
        *[(person, "vision has used 100 % of the monthly budget") for person in ("lena", "root")],
    ]


def test_of_two_thresholds_at_once_the_higher_is_told(spends, vision, lena):
    make_budget(vision, Decimal(100))
    with time_machine.travel(NOW + timedelta(hours=9), tick=False):
        watch_budgets()
    assert notices() == [("lena", "vision has used 90 % of the monthly budget")]


def test_the_next_month_begins_anew(spends, vision, lena):
    make_budget(vision, Decimal(100))
    with time_machine.travel(NOW + timedelta(hours=6), tick=False):
        watch_budgets()
    with time_machine.travel(datetime(2026, 12, 1, 6, tzinfo=UTC), tick=False):
        watch_budgets()
    assert [title for _person, title in notices()] == [
        "vision has used 60 % of the monthly budget",
        "vision has used 60 % of the monthly budget",
    ]


def test_the_notice_at_the_limit_says_what_happens_and_leads_to_the_budget(spends, vision, lena):
    budget = make_budget(vision, Decimal(100), at_limit=AtLimit.BLOCK)
    with time_machine.travel(NOW + timedelta(hours=12), tick=False):
        watch_budgets()
    notice = Notice.objects.get(user=lena)
    assert notice.body.startswith(
        "vision has used 120 % of its monthly budget: €120.00 of €100.00. It is used up"
    )
    assert "A request or an extension that may cost more than is left is refused." in notice.body
    assert notice.url == f"/budgets/{budget.pk}/"


def test_members_and_other_teams_hear_nothing(spends, vision, alice, eve):
    make_team("speech", leads=(eve,))
    make_budget(vision, Decimal(100))
    with time_machine.travel(NOW + timedelta(hours=9), tick=False):
        watch_budgets()
    assert not Notice.objects.filter(user__in=[alice, eve]).exists()


def test_prometheus_sees_budgets_by_state_without_a_team(vision, now, django_assert_num_queries):
    for number, (share, days) in enumerate([(0.2, None), (0.3, 3), (0.4, 10), (1.2, None)]):
        use = BudgetUse.objects.filter(budget=make_budget(make_team(f"team-{number}")))
        use.update(share=share, runs_out_at=days and NOW + timedelta(days=days))
    with django_assert_num_queries(1):
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for metric in BudgetCollector().collect()
            for sample in metric.samples
        }
    assert found == {
        ("dragoman_budgets", "enough"): 1,
        ("dragoman_budgets", "runs-out"): 2,
        ("dragoman_budgets", "used-up"): 1,
        ("dragoman_budget_run_out_soon",): 1,
        ("dragoman_budget_use_age_seconds",): 0,
    }
