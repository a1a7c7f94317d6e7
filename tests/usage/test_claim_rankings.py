"""The stored order of claims: the report reads it where it is that of the days, and the days otherwise."""

from datetime import UTC, date, datetime, timedelta

import pytest

from tests.factories import make_claim, make_team, make_user
from tests.usage.conftest import hold, price
from usage import claim_rankings, daily
from usage.fleet_report import GroupBy, Period, fleet_report
from usage.models import ClaimRanking, DailyUse

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
TODAY = date(2026, 11, 17)
MONTH = Period(date(2026, 11, 1), date(2026, 12, 1))
LAST_30 = Period(TODAY - timedelta(days=30), TODAY)


@pytest.fixture
def claims(fra):
    """Five claims since October, each with more days than the one before."""
    price("2")
    team = make_team("vision", members=(make_user("ada"),))
    found = []
    for number in range(1, 6):
        claim = make_claim(team, cluster=fra, held=False, name=f"run-{number}")
        begin = datetime(2026, 10, 25, tzinfo=UTC)
        hold(claim, begin, begin + timedelta(days=2 * number))
        found.append(claim)
    return found


def names(period, *, now=NOW, most=2, offset=0, order="cost"):
    report = fleet_report(period, GroupBy.CLAIM, now=now, most=most, offset=offset, order=order)
    assert report.adds_up
    return [row.label.partition(" ")[0] for row in report.rows], report.row_count


@pytest.fixture
def days_unread(monkeypatch):
    """Fail when the report puts claims in order by their days."""

    def refuse(*_values, **_options):
        raise AssertionError("The days were read.")

    monkeypatch.setattr("usage.fleet_report.ranking", refuse)


def test_months_and_last_days_are_read_from_their_ranking(claims, days_unread):
    daily.store_days(now=NOW)
    assert names(LAST_30) == (["run-5", "run-4"], 5)
    assert names(LAST_30, offset=2) == (["run-3", "run-2"], 5)
    assert names(LAST_30, offset=4, order="hours") == (["run-1"], 5)
    assert names(MONTH) == (["run-5", "run-4"], 2)
    first, count = names(Period(date(2026, 10, 1), date(2026, 11, 1)))
    assert (set(first), count) == ({"run-4", "run-5"}, 5)
    assert names(Period(TODAY - timedelta(days=7), TODAY)) == ([], 0)


def test_after_midnight_the_last_days_are_still_ranked(claims, days_unread):
    """Until the day is stored, the report of the last 30 days has 29."""
    daily.store_days(now=NOW)
    midnight = datetime(2026, 11, 18, 0, 30, tzinfo=UTC)
    tomorrow = Period(LAST_30.first + timedelta(days=1), LAST_30.end + timedelta(days=1))
    assert names(tomorrow, now=midnight)[1] == 5


def test_a_later_page_than_is_stored_is_read_from_the_days(claims, monkeypatch):
    monkeypatch.setattr(claim_rankings, "MOST", 2)
    daily.store_days(now=NOW)
    assert names(LAST_30, offset=2) == (["run-3", "run-2"], 5)


def test_a_changed_past_is_read_from_the_days_until_it_is_ranked_again(claims):
    daily.store_days(now=NOW)
    hold(claims[0], datetime(2026, 10, 26, tzinfo=UTC), datetime(2026, 11, 16, tzinfo=UTC))
    daily.forget_from(datetime(2026, 10, 26, tzinfo=UTC), now=NOW)
    assert names(LAST_30)[1] == 5  # of the days that are still stored

    daily.store_days(now=NOW)
    assert names(LAST_30) == (["run-1", "run-5"], 5)
    assert daily.refresh_all(check=True).total == 0


def test_a_repaired_day_takes_its_rankings_with_it_and_the_next_run_stores_them(claims):
    daily.store_days(now=NOW)
    ranked = set(ClaimRanking.objects.values_list("first", "end"))
    DailyUse.objects.filter(day=date(2026, 11, 3)).update(amount=1)
    assert daily.repair_chunk(0).total
    wrong = ClaimRanking.objects.filter(first__lte=date(2026, 11, 3), end__gt=date(2026, 11, 3))
    assert not wrong.exists()
    daily.store_days(now=NOW)
    assert set(ClaimRanking.objects.values_list("first", "end")) == ranked
    assert daily.refresh_all(check=True).total == 0


def test_a_changed_ranking_is_found_and_repaired(claims):
    daily.store_days(now=NOW)
    ClaimRanking.objects.filter(end=TODAY, first=LAST_30.first).update(count=9)
    found = daily.refresh_all(check=True)
    assert (found.missing, found.altered, found.obsolete) == (0, 1, 0)
    assert daily.refresh_all().total == 1
    assert daily.refresh_all(check=True).total == 0


def test_rankings_of_yesterday_are_deleted(claims):
    daily.store_days(now=NOW)
    daily.store_days(now=NOW + timedelta(days=1))
    offered = set(claim_rankings.periods(date(2026, 10, 25), TODAY + timedelta(days=1)))
    assert set(ClaimRanking.objects.values_list("first", "end")) == offered
