"""Months and days of money are those of UTC on each page, whatever the reader's zone is."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from claims.budgets.services import set_budget
from tests.usage.conftest import NOON, hold, price
from usage.daily import store_days

pytestmark = pytest.mark.django_db(transaction=True)
LAST_MINUTES = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)  # the next day in Tokyo


@pytest.fixture
def reader(root, lena, client):
    """Return a function that signs in a person who is in Tokyo."""

    def read(person):
        person.timezone = "Asia/Tokyo"
        person.save(update_fields=["timezone"])
        client.force_login(person)
        return client

    return read


@pytest.fixture
def budget(claim, vision, root):
    """A budget that runs out on Wed 25 Nov, 18:00 UTC."""
    with time_machine.travel(NOON, tick=False):
        price("2")
        hold(claim, (NOON - timedelta(days=10)).replace(hour=0))
        store_days(now=NOON)
        return set_budget(by=root, team=vision, amount=Decimal(900))


@pytest.mark.parametrize(
    ("path", "said"),
    [("/teams/vision/cost/", ">Wed 25 Nov</div>"), ("/", "runs out on Wed 25 Nov at this rate")],
)
def test_the_day_on_which_a_budget_runs_out(reader, budget, lena, path, said):
    with time_machine.travel(NOON, tick=False):
        assert said in reader(lena).get(path).text


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/budgets/", "Monthly budgets, November"),
        ("/waste/", "Idle in November"),
        ("/teams/vision/", "Cost in November"),
    ],
)
def test_the_month_that_a_figure_is_of(reader, budget, root, path, said):
    with time_machine.travel(LAST_MINUTES, tick=False):
        page = reader(root).get(path).text
    assert said in page
    assert "December" not in page
