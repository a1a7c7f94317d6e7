"""The cost page of a team: the month under its budget, what could be saved, and what acting on it does."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.budgets.services import set_budget
from claims.states import ClaimState
from tests.factories import make_claim, make_profile
from tests.usage.conftest import NOON, hold, measure, price
from usage.cost import CURRENCY_UNIT, Cost
from usage.daily import store_days
from usage.models import IdlePeriod, SizeCheck
from usage.reports import Month
from usage.spend_chart import Forecast, MonthBudget, forecast_of, spend_data

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
PAGE = "/teams/vision/cost/"

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("at_noon")]


@pytest.fixture
def spent(claim):
    """€48 on each of ten whole days, half of the last one idle, and €24 today."""
    price("2")
    held = hold(claim, (NOON - 10 * DAY).replace(hour=0))
    measure(held, (NOON - DAY).replace(hour=0), [0.5] * 288)
    store_days(now=NOON)
    return claim


def open_page(client, person, query=""):
    client.force_login(person)
    return client.get(f"{PAGE}{query}")


def oversized(claim, saves, **fields):
    values = {"checked_at": NOON, "devices": 1, "per_hour": 2, "currency": "EUR", "activity": 0.1}
    values |= {"verdict": "oversized", "memory_bytes": 8 * 2**30, "saves": saves, **fields}
    profile = make_profile(f"small-{claim.name}")
    return SizeCheck.objects.create(claim=claim, team=claim.team, profile=profile, **values)


def idle(claim, per_hour="2"):
    return IdlePeriod.objects.create(
        claim=claim, team=claim.team, since=NOON - 5 * HOUR, noticed_at=NOON - 5 * HOUR, devices=1,
        per_hour=per_hour, currency="EUR" if per_hour else "",
    )  # fmt: skip


def test_the_graph_leads_from_what_was_spent_to_the_forecast_and_marks_the_run_out(client, spent, root, lena):
    set_budget(by=root, team=spent.team, amount=Decimal(900))
    page = open_page(client, lena)
    data = page.context["spend"]
    (spent_line, forecast) = data["spend"]
    assert [value for value in spent_line["values"] if value is not None][-1] == 504
    assert forecast["values"][-1] == 504 + 48 * 13.5
    assert data["level"] == {"value": 900.0, "label": "budget"}
    assert data["mark"]["label"] == "runs out Wed 25 Nov"
    for said in ("€504.00", "€396.00", "€1,152", "128 % of budget", "Request extra budget…", "at €2.00 / h"):
        assert said in page.text


def test_money_that_the_budget_does_not_count_is_named(client, spent, root, lena):
    set_budget(by=root, team=spent.team, amount=Decimal(900))
    assert "does not count it" not in open_page(client, lena).text
    price("3", product="L4", currency="USD")
    hold(spent, NOON - HOUR, product="NVIDIA L4")
    assert "$3.00 of this month is in another currency than the budget, which does not count it." in (
        open_page(client, lena).text
    )


def test_without_a_budget_the_forecast_is_the_rate_of_the_last_whole_days(client, spent, lena):
    page = open_page(client, lena)
    assert page.context["forecast"].amount == 504 + 48 * Decimal("13.5")
    assert page.context["spend"]["level"] is None
    assert "Runs out" not in page.text


def test_days_are_stacked_by_use_in_money_or_hours(client, spent, lena):
    bars = open_page(client, lena).context["bars"]
    labels = {line["label"]: line["values"] for line in bars["bars"]}
    assert (labels["used"][-2:], labels["idle"][-2:], labels["not yet split"][-2:]) == (
        [24, 0],
        [24, 0],
        [0, 24],
    )
    assert labels["no telemetry"][:9] == [48.0] * 9
    hours = open_page(client, lena, "?unit=hours").context["bars"]
    assert (hours["unit"], hours["bars"][-1]["values"][-1]) == ("h", 12.0)


def test_the_table_has_what_the_graphs_show(client, spent, lena):
    text = " ".join(open_page(client, lena).text.split())
    assert 'Mon 16 Nov</th><td class="dg-n">24.00</td><td class="dg-n">€48.00</td>' in text
    assert "not yet split" in text


def test_what_saves_most_stands_first_with_evidence_and_one_button(client, spent, root, lena, vision, fra):
    set_budget(by=root, team=vision, amount=Decimal(900))
    for name, saves in (("a-little", "0.10"), ("wide", "0.50")):
        other = make_claim(vision, by=lena, cluster=fra, state=ClaimState.ALLOCATED, held=False, name=name)
        oversized(other, Decimal(saves))
    idle(spent, "1")
    page = open_page(client, lena)
    waste = page.context["waste"]
    assert [(one.claim.name, one.action) for one in waste.shown] == [
        ("sam2-finetune", "Release…"),
        ("wide", "Resize…"),
        ("a-little", "Resize…"),
    ]
    text = " ".join(page.text.split())
    assert "idle for 5 h" in text
    assert "€5.00 idle" in text
    assert "p95 memory 8 GiB, compute 10 %" in text
    assert (
        "Acting on all 3 lowers the run rate from €2.00 to €0.40 / h: the budget then lasts until the end of "
        "the period." in text
    )
    assert reverse("claims:release", args=[spent.pk]) in text
    assert f"?replaces={other.pk}" in page.text


def test_acting_on_little_moves_the_day_on_which_the_budget_runs_out(client, spent, root, lena, vision):
    set_budget(by=root, team=vision, amount=Decimal(900))
    oversized(spent, Decimal("0.50"))
    # 396 left at 1.50 an hour are 11 days.
    assert "the budget then lasts until 28 November 2026." in open_page(client, lena).text


def test_a_claim_that_is_idle_and_oversized_is_listed_once(client, spent, lena):
    oversized(spent, Decimal("0.50"))
    idle(spent)
    waste = open_page(client, lena).context["waste"]
    assert [(one.action, one.saves) for one in waste.shown] == [("Release…", Decimal(2))]


def test_a_viewer_sees_waste_and_no_button_and_no_rate_is_no_saving(client, spent, bob):
    idle(spent, None)
    page = open_page(client, bob)
    (one,) = page.context["waste"].shown
    assert (one.action, one.saves, page.context["acting"]) == ("", None, "")
    assert "Request extra budget…" not in page.text
    assert "no rate" in page.text


def test_a_past_month_has_no_waste_and_no_forecast(client, spent, lena):
    later = NOON + 20 * DAY
    with time_machine.travel(later, tick=False):
        idle(spent)
        store_days(now=later)
        page = open_page(client, lena, "?month=2026-11")
    assert "waste" not in page.context
    assert "Forecast, 30 Nov" not in page.text
    assert len(page.context["spend"]["spend"]) == 1


def test_the_page_has_the_same_queries_for_many_claims(client, spent, root, lena, alice, vision, fra):
    set_budget(by=root, team=vision, amount=Decimal(900))
    client.force_login(lena)
    client.get(PAGE)
    with CaptureQueriesContext(connection) as for_one:
        client.get(PAGE)
    for number in range(6):
        more = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
        hold(more, NOON - HOUR)
        idle(more) if number % 2 else oversized(more, Decimal("0.10"))
    with CaptureQueriesContext(connection) as for_many:
        client.get(PAGE)
    assert len(for_many) == len(for_one) <= 15


def test_the_line_is_flat_on_days_on_which_nothing_was_held():
    month = Month(date(2026, 11, 1))
    days = [(date(2026, 11, 2), Cost(exact={"EUR": 5 * CURRENCY_UNIT}))]
    until = datetime(2026, 11, 4, 12, tzinfo=UTC)
    data = spend_data(days, month, until, Forecast(None), "EUR")
    assert data["spend"] == [{"label": "spent", "values": [0, 0, 5, 5, 5], "fill": True}]
    assert [datetime.fromtimestamp(at, UTC) for at in data["x"][-2:]] == [until.replace(hour=0), until]


def test_a_forecast_is_never_below_what_is_spent():
    budget = MonthBudget("EUR", Decimal(10), None, Decimal(9), None, None)
    month, until = Month(date(2026, 11, 1)), datetime(2026, 11, 4, tzinfo=UTC)
    forecast = forecast_of(budget, month, until, Cost(exact={"EUR": 12 * CURRENCY_UNIT}), None, "EUR")
    assert (forecast.amount, forecast.is_over, forecast.share) == (Decimal(12), True, "120 %")
