"""Sums of months: the report puts its rows in order by them, as it would by the days."""

import random
from datetime import UTC, date, datetime, timedelta

import pytest
from django.db import IntegrityError, transaction

from claims.models import Allocation
from tests.factories import make_claim, make_team, make_user
from tests.usage.conftest import hold, price
from usage import daily
from usage.claim_rankings import periods, stored_ranking
from usage.fleet_report import GroupBy, Period, fleet_report
from usage.models import DailyActivity, MonthlySum, StoredDays
from usage.monthly_sums import whole_months

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)
ORDERED = {  # of rows in one currency
    "cost": lambda parts: sum(parts.allocated.exact.values()),
    "hours": lambda parts: parts.allocated.held,
    "idle": lambda parts: sum(parts.idle.exact.values()),
}
RANKED = (GroupBy.TEAM, GroupBy.PERSON, GroupBy.PROFILE, GroupBy.CLAIM)


@pytest.mark.parametrize(
    ("first", "end", "months_until", "whole"),
    [
        (date(2026, 10, 1), date(2026, 11, 1), date(2026, 11, 17), (date(2026, 10, 1), date(2026, 11, 1))),
        (date(2026, 9, 30), date(2026, 11, 2), date(2026, 11, 17), (date(2026, 10, 1), date(2026, 11, 1))),
        # This month, as far as it is stored.
        (date(2026, 11, 1), date(2026, 11, 17), date(2026, 11, 17), (date(2026, 11, 1), date(2026, 11, 17))),
        (date(2026, 10, 20), date(2026, 11, 17), date(2026, 11, 17), (date(2026, 11, 1), date(2026, 11, 17))),
        # Days were forgotten since, or the period ends earlier.
        (date(2026, 11, 1), date(2026, 11, 9), date(2026, 11, 17), (date(2026, 11, 9), date(2026, 11, 9))),
        (date(2026, 10, 2), date(2026, 10, 31), date(2026, 11, 17), (date(2026, 10, 31), date(2026, 10, 31))),
        (date(2026, 10, 1), date(2026, 11, 1), None, (date(2026, 11, 1), date(2026, 11, 1))),
    ],
)
def test_only_months_whose_days_are_all_asked_for_are_read_as_a_whole(first, end, months_until, whole):
    assert whole_months(first, end, months_until) == whole


@pytest.mark.parametrize("seed", range(3))
def test_order_count_and_total_are_those_of_the_days_after_any_changes(seed, fra, monkeypatch):
    chance = random.Random(seed)
    people = tuple(make_user(name) for name in ("ada", "bo", "cleo"))
    teams = [make_team(name, members=people) for name in ("vision", "nlp")]
    claims = [
        make_claim(team, by=person, cluster=fra, held=False, name=f"{team.slug}-{person.username}")
        for team in teams
        for person in people
    ]
    start = now = datetime(2026, 9, 20, tzinfo=UTC)
    price("2", since=start)
    compared, ranked = 0, []

    def read(*values, **options):
        found = stored_ranking(*values, **options)
        ranked.append(found is not None)
        return found

    monkeypatch.setattr("usage.fleet_report.stored_ranking", read)
    for _number in range(25):
        now += timedelta(hours=chance.choice([12, 40, 70]))
        step = chance.choice(["begin", "begin", "end", "rate", "store", "measure"])
        match step:
            case "begin":
                since = max(start, now - chance.choice([0, 1, 9]) * DAY)
                hold(chance.choice(claims), since)
                daily.forget_from(since, now=now)
            case "end":
                if held := Allocation.objects.filter(ended_at=None).order_by("pk").first():
                    held.ended_at = held.started_at + chance.random() * (now - held.started_at)
                    held.save()
                    daily.forget_from(held.ended_at, now=now)
            case "rate":
                since = now - chance.choice([0, 3, 25]) * DAY
                price(str(chance.randint(1, 9)), since=since)
                daily.forget_from(since, now=now)
            case "measure":
                DailyActivity.objects.update(measured=0, used=0)
                daily.forget_from(start, now=now)
            case "store":
                daily.store_days(now=now)
        first = (start + chance.randint(0, 30) * DAY).date()
        offered = list(periods(start.date(), now.date()))
        period = Period(first, max(first + DAY, (now - chance.choice([0, 0, 4]) * DAY).date()))
        if offered and (step == "store" or chance.random() < 0.5):
            period = Period(*chance.choice(offered))
        for group in RANKED:
            for order, value in ORDERED.items():
                whole = fleet_report(period, group, now=now, order=order)
                page = fleet_report(period, group, now=now, order=order, most=2, offset=0)
                values = {row.key: value(row.parts) for row in whole.rows}
                assert [values[row.key] for row in page.rows] == sorted(values.values(), reverse=True)[:2]
                assert page.row_count == whole.row_count
                assert page.adds_up
                compared += whole.row_count
    assert compared
    assert True in ranked
    assert False in ranked
    assert daily.refresh_all(check=True).total == 0


def test_a_changed_sum_of_a_month_is_found_and_repaired(claim):
    price("2")
    hold(claim, datetime(2026, 11, 3, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC))
    daily.store_days(now=datetime(2026, 11, 17, 12, tzinfo=UTC))
    assert set(MonthlySum.objects.values_list("dimension", flat=True)) == set(MonthlySum.Dimension)
    MonthlySum.objects.filter(dimension="profile").update(amount=1)
    MonthlySum.objects.filter(dimension="team").delete()
    MonthlySum.objects.filter(dimension="person").update(key=claim.pk)

    found = daily.refresh_all(check=True)
    assert (found.missing, found.altered, found.obsolete) == (2, 1, 1)
    assert daily.refresh_all().total == 4
    assert daily.refresh_all(check=True).total == 0


def test_sums_of_a_closed_month_do_not_change(claim):
    price("2")
    hold(claim, datetime(2026, 10, 3, tzinfo=UTC), datetime(2026, 11, 4, tzinfo=UTC))
    daily.store_days(now=datetime(2026, 11, 17, 12, tzinfo=UTC))
    StoredDays.objects.update(closed_until=date(2026, 11, 1))
    closed = MonthlySum.objects.filter(month=date(2026, 10, 1))
    for change in (lambda: closed.update(amount=1), closed.delete):
        with pytest.raises(IntegrityError, match="2026-10-01 is in a closed month"), transaction.atomic():
            change()
    assert MonthlySum.objects.filter(month=date(2026, 11, 1)).update(amount=1)
