"""Days of use that are stored: they add up to what allocations and rates say, whatever changed since."""

import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import cast

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.delivery.reconcile import sync_allocations
from claims.models import Allocation, Claim
from claims.observation.observations import Observation
from claims.signals import allocations_changed
from tests.factories import make_claim, make_cluster, make_team
from tests.recomputed import failed_check, recompute
from tests.usage.conftest import H100, NOON, hold, measure, price
from usage import daily
from usage.cost import UsageInterval, sums
from usage.models import DailyActivity, DailyUse, Rate, StoredDays
from usage.rates import RateCard
from usage.reports import Month, report
from usage.services import save_rate
from usage.telemetry import past_utilization

pytestmark = pytest.mark.django_db

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
TODAY = NOON.date()


def stored(now=NOON):
    daily.store_days(now=now)
    return daily.stored_until()


def plain_costs(team, span, now):
    """The same from every allocation of the team."""
    allocations = Allocation.objects.filter(claim__team=team).select_related("claim")
    intervals = [UsageInterval.from_allocation(row, row.claim.cluster_id) for row in allocations]
    costs = sums(intervals, RateCard.load(), until=now, within=span)
    owners = dict(Claim.objects.values_list("pk", "requested_by"))
    return {
        (key._replace(owner=owners[key.claim_id]), None): cost for key, cost in costs.items() if cost.held
    }


def team_costs(team, span, now):
    costs = daily.team_costs(team, span, RateCard.load(), now=now)
    return {key: cost for key, cost in costs.items() if cost.held}


# What is stored.


def test_a_day_is_stored_an_hour_after_its_end(claim):
    hold(claim, NOON - 3 * DAY, NOON - 2 * DAY)
    midnight = datetime(2026, 11, 18, tzinfo=UTC)
    assert stored(midnight + timedelta(minutes=59)) == date(2026, 11, 17)
    assert stored(midnight + HOUR) == date(2026, 11, 18)


def test_rows_have_hours_and_cost_of_each_day(claim):
    price("2.00")
    hold(claim, NOON - DAY - 13 * HOUR, NOON - DAY - 11 * HOUR, fraction=Decimal("0.5"))
    stored()
    columns = ("day", "currency", "held", "amount")
    rows: list[object] = list(DailyUse.objects.order_by("day").values_list(*columns))
    half_hour = 30 * 60 * 10**12
    assert rows == [
        (TODAY - 2 * DAY, "EUR", half_hour, half_hour * 20000),
        (TODAY - DAY, "EUR", half_hour, half_hour * 20000),
    ]


def test_a_day_with_two_rates_has_a_charge_of_each(claim):
    price("2.00")
    price("3.00", since=NOON - DAY, currency="USD")
    hold(claim, NOON - DAY - HOUR, NOON - DAY + HOUR)
    stored()
    rows: list[object] = list(DailyUse.objects.order_by("currency").values_list("currency", "held"))
    assert rows == [("EUR", 3600 * 10**12), ("USD", 3600 * 10**12)]


# Late changes.


def test_a_late_end_of_an_allocation_leaves_its_days_to_be_stored_again(claim):
    allocation = hold(claim, NOON - 5 * DAY)
    assert stored() == TODAY
    Allocation.objects.filter(pk=allocation.pk).update(ended_at=NOON - 3 * DAY)
    allocations_changed.send(sender=Allocation, since=NOON - 3 * DAY)
    assert daily.stored_until() == TODAY - 3 * DAY
    assert sum(cost.held for cost in team_costs(claim.team, NOVEMBER.span, NOON).values()) == 48 * HOURS
    assert stored() == TODAY
    assert DailyUse.objects.filter(day__gt=TODAY - 3 * DAY).count() == 0


def test_reconciliation_that_sees_a_late_end_moves_the_stored_days_back(claim):
    now = timezone.now()
    gone_at = now - 3 * DAY
    allocation = hold(claim, now - 5 * DAY)
    StoredDays.objects.create(pk=1, until=now.date())
    observation = SimpleNamespace(
        held=[], open=[allocation], known={allocation.object_uid: SimpleNamespace(gone_at=gone_at)}
    )
    assert sync_allocations(claim, cast(Observation, observation))
    assert daily.stored_until() == gone_at.date()


HOURS = 3600 * 10**12
NOVEMBER = Month(date(2026, 11, 1))


def test_changes_of_today_leave_stored_days_as_they_are(claim):
    hold(claim, NOON - 2 * DAY)
    assert stored() == TODAY
    daily.forget_from(NOON - 2 * HOUR, now=NOON)
    assert daily.stored_until() == TODAY


def test_a_rate_that_begins_in_the_past_prices_stored_days(claim, root):
    hold(claim, NOON - 3 * DAY, NOON - 2 * DAY)
    stored()
    assert report(claim.team, NOVEMBER, now=NOON).total.amounts == {}
    fields = {"title": "H100", "per_hour": Decimal("2.00"), "currency": "EUR"}
    Rate.objects.create(**fields, valid_from=NOON - 10 * DAY)
    for _ in range(2):
        assert report(claim.team, NOVEMBER, now=NOON).total.amounts == {"EUR": Decimal("48.00")}
        stored()


@pytest.mark.django_db(transaction=True)
def test_saving_a_rate_of_the_past_leaves_its_days_to_be_stored_again(claim, root):
    hold(claim, NOON - 3 * DAY, NOON - 2 * DAY)
    stored()
    save_rate(by=root, title="H100", per_hour=Decimal("2.00"), currency="EUR", valid_from=NOON - 30 * DAY)
    assert daily.stored_until() == TODAY - 30 * DAY


# The same as the plain computation.


@pytest.mark.parametrize("seed", range(4))
def test_months_add_up_as_allocations_and_rates_say(seed, vision, alice, fra):
    chance = random.Random(seed)
    other = make_team("nlp", members=(alice,))
    claims = [
        make_claim(team, by=alice, cluster=cluster, held=False, name=f"{team.slug}-{number}")
        for team, cluster in ((vision, fra), (other, make_cluster("ams-1", teams=(other, vision))))
        for number in range(3)
    ]
    start = datetime(2026, 9, 25, tzinfo=UTC)
    now = start

    def moment(latest):
        return start + chance.random() * (latest - start)

    for step in range(60):
        now += timedelta(hours=chance.choice([1, 5, 12, 30]))
        match chance.choice(["begin", "begin", "end", "late end", "rate", "store", "store", "repair"]):
            case "begin":
                since = now if chance.random() < 0.7 else moment(now)
                hold(
                    chance.choice(claims), since, fraction=chance.choice([1, Decimal("0.142857")]),
                    product=chance.choice([H100, "NVIDIA L4"]), partition=chance.choice(["", "1g.10gb"]),
                )  # fmt: skip
                daily.forget_from(since, now=now)
            case "end" | "late end" as kind:
                if held := Allocation.objects.filter(ended_at=None).order_by("?").first():
                    late = kind == "late end"
                    held.ended_at = (
                        held.started_at + chance.random() * (now - held.started_at) if late else now
                    )
                    held.save()
                    daily.forget_from(held.ended_at, now=now)
            case "rate":
                since = now + chance.choice([DAY, -DAY, -20 * DAY])
                price(
                    str(chance.randint(0, 9)), since=since, currency=chance.choice(["EUR", "EUR", "USD"]),
                    product=chance.choice(["", "H100", "L4"]),
                )  # fmt: skip
                daily.forget_from(since, now=now)
            case "store":
                daily.store_days(now=now)
            case "repair":
                assert daily.repair_chunk(chance.randint(0, 9)).total == 0
        if step % 6:
            continue
        for month in (9, 10, 11):
            span = Month(date(2026, month, 1)).span
            for team in (vision, other):
                assert team_costs(team, span, now) == plain_costs(team, span, now)
    assert StoredDays.objects.exists()
    assert daily.refresh_all(check=True).total == 0


def test_utilization_is_the_mean_of_all_rollups(claim, vision, alice, fra):
    allocation = hold(claim, NOON - 5 * DAY)
    for days, activities in ((4, [0.2, None, 0.4]), (2, [0.9]), (0, [0.1, 0.3])):
        measure(allocation, NOON - days * DAY - HOUR, activities)
    for since in (NOON - 10 * DAY, NOON - 4 * DAY - HOUR + timedelta(minutes=5), NOON - 2 * DAY):
        plain = daily.mean_activity([claim], since, now=NOON)
        stored()
        assert DailyActivity.objects.exists()
        assert daily.mean_activity([claim], since, now=NOON) == pytest.approx(plain)
        StoredDays.objects.all().delete()
    assert daily.mean_activity([claim], NOON - 10 * DAY, now=NOON) == pytest.approx(0.38)
    assert past_utilization([make_claim(vision, by=alice, cluster=fra, name="none")], NOON - 9 * DAY) is None


# Repair.


def test_recompute_spend_repairs_what_check_reports(claim):
    price("2.00")
    hold(claim, NOON - 4 * DAY, NOON - DAY)
    stored()
    first, second, *_rest = DailyUse.objects.order_by("day")
    DailyUse.objects.filter(pk=first.pk).update(held=1)
    second.delete()
    DailyUse.objects.create(
        team=claim.team, owner=claim.requested_by, claim=claim, day=TODAY - DAY, product="x", partition="",
        currency="EUR", held=1, amount=1,
    )  # fmt: skip
    # One of each; the sums of the days by team, person, profile, kind and capacity type, and of the month by
    # the first three; the rankings of claims of the month, of the last 7 and 30 days, and of them tomorrow.
    assert "20 rows to repair: 3 missing, 11 altered, 6 obsolete.\n" in failed_check("spend")
    recompute("spend")
    assert "0 rows to repair" in recompute("spend", "--check")


def test_a_month_reads_rows_of_past_days_and_allocations_of_today(client, alice, claim):
    hold(claim, NOON - 10 * DAY)
    ended = hold(claim, NOON - 10 * DAY, NOON - 8 * DAY)
    stored()
    Allocation.objects.filter(pk=ended.pk).delete()  # only its rows are left
    (cost,) = team_costs(claim.team, NOVEMBER.span, NOON).values()
    assert cost.held == (240 + 48) * HOURS


def test_queries_of_a_month_do_not_grow(client, alice, claim, vision, fra):
    client.force_login(alice)
    page = reverse("usage:team", args=[vision.slug])

    def queries():
        with CaptureQueriesContext(connection) as captured:
            assert client.get(page).status_code == 200
        return len(captured)

    hold(claim, NOON - 3 * DAY)
    stored()
    queries()
    before = queries()
    for number in range(10):
        hold(make_claim(vision, by=alice, cluster=fra, held=False, name=f"more-{number}"), NOON - 2 * DAY)
    assert queries() == before
