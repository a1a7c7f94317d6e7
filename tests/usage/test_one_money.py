"""One month of one team is the same money everywhere, and teams and the rest are the whole fleet."""

import csv
import io
import random
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine
from django.urls import reverse

from inventory.models import FleetSpan
from tests.factories import make_claim, make_cluster, make_team
from tests.usage.conftest import H100, hold, measure, price
from usage.daily import store_days
from usage.fleet_report import GroupBy, fleet_report, month_of
from usage.focus import focus_lines
from usage.month_spend import month_spend
from usage.rates import RateCard
from usage.reports import Month, report

pytestmark = pytest.mark.django_db
START, END = datetime(2026, 11, 1, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NOVEMBER = Month(START.date())


def by_currency(rows, amount, currency):
    sums: dict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        if row[amount]:
            sums[row[currency]] += Decimal(row[amount])
    return sums


def history(chance, teams, alice, clusters):
    """Hold odd fractions for odd times over both borders of November, with prices of four digits."""
    price("2.4999", product="H100")
    price("0.3333", product="L4")
    price("3.3337", product="H100", since=START + 301 * HOUR + timedelta(minutes=7), currency="USD")
    price("2.7183", product="H100", since=START + 411 * HOUR + timedelta(minutes=13))
    for cluster in clusters:
        for use in FleetSpan.Use:
            for product in (H100, "NVIDIA L4"):
                FleetSpan.objects.create(
                    cluster=cluster, driver="gpu.nvidia.com", product=product, use=use,
                    parts=chance.choice([500_000, 40 * 10**6]), started_at=START - 9 * HOUR,
                )  # fmt: skip
    for number in range(14):
        team = chance.choice(teams)
        claim = make_claim(team, by=alice, cluster=chance.choice(clusters), held=False, name=f"run-{number}")
        for _ in range(3):
            start = START + timedelta(seconds=chance.randrange(-40_000, 2_500_000))
            held = hold(
                claim, start, start + timedelta(seconds=chance.choice([77, 4_000, 333_333])),
                product=chance.choice([H100, "NVIDIA L4", "unknown"]),
                fraction=Decimal(chance.choice(["1", "0.142857", "0.285714"])),
            )  # fmt: skip
            if chance.random() < 0.6:
                measure(held, start.replace(minute=0, second=0), [chance.random() for _ in range(4)])


@pytest.mark.parametrize("seed", range(3))
def test_a_month_of_a_team_is_the_same_money_everywhere(client, root, vision, alice, fra, seed):
    teams = [vision, make_team("nlp", members=(alice,)), make_team("speech", members=(alice,))]
    history(random.Random(seed), teams, alice, [fra, make_cluster("osl-1", teams=tuple(teams))])
    later = END + 30 * HOUR
    with time_machine.travel(later, tick=False):
        store_days(now=later)
        of_fleet = fleet_report(month_of(NOVEMBER.first), GroupBy.TEAM, now=later)
        rows = {row.key: row for row in of_fleet.rows}
        exported = list(csv.DictReader(io.StringIO("".join(focus_lines(of_fleet.period, now=later)))))
        client.force_login(root)
        for team in teams:
            found = report(team, NOVEMBER, now=later)
            amounts = found.total.amounts
            assert amounts == rows[str(team.pk)].cost.amounts
            assert found.total.held == rows[str(team.pk)].cost.held
            of_team = [
                row for row in exported if row["SubAccountId"] == team.slug and row["x_HasRate"] == "true"
            ]
            assert by_currency(of_team, "BilledCost", "BillingCurrency") == amounts
            hours = sum(
                Decimal(row["ConsumedQuantity"]) for row in exported if row["SubAccountId"] == team.slug
            )
            assert round(hours, 6) == round(found.total.exact_hours, 6)
            file = client.get(reverse("usage:team_csv", args=[team.slug]), {"month": "2026-11"})
            assert (
                by_currency(csv.DictReader(io.StringIO(file.getvalue().decode())), "amount", "currency")
                == amounts
            )
            body = client.get("/api/v1/costs/", {"team": team.slug, "month": "2026-11"}).json()
            assert {one["currency"]: Decimal(one["amount"]) for one in body["total"]["amounts"]} == amounts
            for grouped in (found.by_claim, found.by_person, found.by_product):
                sums: dict[str, Decimal] = defaultdict(Decimal)
                for row in grouped:
                    for currency, amount in row.cost.amounts.items():
                        sums[currency] += amount
                assert sums == amounts


@pytest.mark.parametrize("seed", range(3))
def test_rows_and_the_rest_are_the_fleet_to_the_cent(vision, alice, fra, seed):
    teams = [vision, make_team("nlp", members=(alice,))]
    history(random.Random(seed), teams, alice, [fra, make_cluster("osl-1", teams=tuple(teams))])
    store_days(now=END + 30 * HOUR)
    for group_by in GroupBy:
        found = fleet_report(month_of(NOVEMBER.first), group_by, now=END + 30 * HOUR)
        rest = [found.parts.unmanaged, found.parts.out_of_service, found.parts.unallocated]
        held = [getattr(row.parts, name) for row in found.rows for name in ("used", "idle", "no_telemetry")]
        sums: dict[str, Decimal] = defaultdict(Decimal)
        for cost in (*rest, *held):
            for currency, amount in cost.amounts.items():
                sums[currency] += amount
        assert sums == found.parts.fleet.amounts, group_by
        assert len(sums) == 2
        assert sum(cost.held for cost in (*rest, *held)) == found.parts.fleet.held, group_by
        of_days: dict[str, Decimal] = defaultdict(Decimal)
        for _day, parts in found.by_day:
            for currency, amount in parts.fleet.amounts.items():
                of_days[currency] += amount
        assert of_days == sums, group_by


def test_home_shows_the_amount_of_the_teams_page(vision, alice, fra):
    teams, now = [vision], START + 400 * HOUR
    history(random.Random(7), teams, alice, [fra])
    store_days(now=now)
    spent = month_spend(vision, alice, RateCard.load(), now=now)
    assert spent.total == report(vision, NOVEMBER, now=now).total
    assert spent.own == spent.total
