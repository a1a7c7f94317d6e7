from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest

from claims.states import ClaimState
from core.errors import Invalid
from tests.factories import make_claim, make_team
from tests.usage.conftest import NOON, hold, price
from usage.reports import Month, report

UTC_ZONE = ZoneInfo("UTC")
NOVEMBER = Month(date(2026, 11, 1), UTC_ZONE)


@pytest.mark.parametrize("text", ["", "2026", "2026-13", "november", "2026-11-01", "1969-01", "0001-01"])
def test_a_month_that_is_none_is_refused_with_what_was_sent(text):
    with pytest.raises(Invalid):
        Month.parse(text, UTC_ZONE)


def test_a_month_knows_its_neighbours_and_ends_where_the_next_begins():
    assert (str(NOVEMBER.previous), str(NOVEMBER), str(NOVEMBER.next.next)) == (
        "2026-10",
        "2026-11",
        "2027-01",
    )
    berlin = Month(date(2026, 3, 1), ZoneInfo("Europe/Berlin"))
    assert berlin.span.end - berlin.span.start == timedelta(days=31) - timedelta(hours=1)


def test_hours_and_cost_add_up_by_claim_person_and_product(vision, alice, lena, fra):
    price("3", product="H100")
    price("1", product="L40S")
    mine = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    hers = make_claim(vision, by=lena, cluster=fra, state=ClaimState.RELEASED)
    hold(mine, NOON - timedelta(hours=10))
    hold(mine, NOON - timedelta(hours=1), product="NVIDIA L40S")
    hold(hers, NOON - timedelta(hours=5, minutes=20), NOON - timedelta(hours=3))
    found = report(vision, NOVEMBER, now=NOON)
    assert found.total.amounts == {"EUR": Decimal("38.00")}  # 10 h at 3, 1 h at 1, 2 h 20 min at 3
    for rows in (found.by_claim, found.by_person, found.by_product):
        assert sum(row.cost.amounts["EUR"] for row in rows) == Decimal("38.00")
        assert sum(row.cost.hours for row in rows) == found.total.hours == Decimal("13.33")
    assert [row.label for row in found.by_person] == ["alice", "lena"]
    assert [row.label for row in found.by_product] == ["NVIDIA H100 80GB HBM3", "NVIDIA L40S"]


def test_a_month_runs_until_its_last_instant(vision):
    end = NOVEMBER.span.end
    moments = (NOON, end - timedelta(seconds=1), end, end + timedelta(days=9))
    assert [report(vision, NOVEMBER, now=now).is_running for now in moments] == [True, True, False, False]


def test_only_the_month_and_only_the_team_count(vision, alice, fra):
    price("1")
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    hold(claim, datetime(2026, 10, 31, 22, tzinfo=UTC), datetime(2026, 11, 1, 3, tzinfo=UTC))
    hold(claim, datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    hold(
        make_claim(make_team("nlp"), by=alice, cluster=fra, state=ClaimState.RELEASED),
        NOON - timedelta(hours=1),
    )
    assert report(vision, NOVEMBER, now=NOON).total.hours == Decimal("3.00")


def test_a_month_without_a_rate_has_hours_and_no_amount(vision, alice, fra):
    hold(make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED), NOON - timedelta(hours=1))
    found = report(vision, NOVEMBER, now=NOON)
    assert found.total.is_unknown
    assert found.total.hours == Decimal("1.00")


def test_the_number_of_queries_is_fixed(vision, alice, fra, django_assert_num_queries):
    price("1")
    for _ in range(5):
        hold(make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED), NOON - timedelta(hours=1))
    with django_assert_num_queries(4):
        found = report(vision, NOVEMBER, now=NOON)
        assert len(found.by_claim) == 5
