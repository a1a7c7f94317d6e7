from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from claims.models import Alternative, Profile
from claims.states import ClaimState
from core.errors import Invalid
from tests.factories import make_claim, make_profile, make_team
from tests.usage.conftest import H100, NOON, hold, price
from usage.reports import Month, report

NOVEMBER = Month(date(2026, 11, 1))


@pytest.mark.parametrize("text", ["", "2026", "2026-13", "november", "2026-11-01", "1969-01", "0001-01"])
def test_malformed_month_is_refused(text):
    with pytest.raises(Invalid):
        Month.parse(text)


def test_a_month_knows_its_neighbours_and_ends_where_the_next_begins():
    assert (str(NOVEMBER.previous), str(NOVEMBER), str(NOVEMBER.next.next)) == (
        "2026-10",
        "2026-11",
        "2027-01",
    )
    march = Month(date(2026, 3, 1)).span
    assert march.end - march.start == timedelta(days=31)


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
        assert sum(row.cost.held for row in rows) == found.total.held
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
    with django_assert_num_queries(8):
        found = report(vision, NOVEMBER, now=NOON)
        assert len(found.by_claim) == 5


@pytest.mark.parametrize(
    ("text", "previous", "following"),
    [
        ("1971-01", "1970-12", "1971-02"),
        ("2026-01", "2025-12", "2026-02"),
        ("2028-02", "2028-01", "2028-03"),
        ("2026-12", "2026-11", "2027-01"),
        ("9998-12", "9998-11", "9999-01"),
    ],
)
def test_a_month_of_any_length_has_its_neighbours(text, previous, following):
    month = Month.parse(text)
    assert (str(month.previous), str(month), str(month.next)) == (previous, text, following)
    assert month.previous.span.end == month.start
    assert month.span.end == month.next.start


@pytest.mark.parametrize("text", ["1970-12", "9999-01"])
def test_years_at_the_ends_of_the_calendar_have_no_costs(text):
    with pytest.raises(Invalid, match=f"no costs in the year {text[:4]}"):
        Month.parse(text)


def test_long_malformed_month_is_truncated_in_the_message():
    with pytest.raises(Invalid, match="“abcdefghijklmnopqrst” was sent"):
        Month.parse("abcdefghijklmnopqrstuvwxyz")


def test_month_is_that_of_utc_for_a_reader_in_any_zone(vision, alice, fra):
    price("1")
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED, held=False)
    hold(claim, datetime(2026, 10, 31, 20, tzinfo=UTC), datetime(2026, 11, 1, 0, 30, tzinfo=UTC))
    hold(claim, datetime(2026, 11, 30, 22, tzinfo=UTC), datetime(2026, 12, 1, 5, tzinfo=UTC))
    last_minutes = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
    with timezone.override("Asia/Tokyo"):
        assert str(Month.current(last_minutes)) == "2026-11"
        assert report(vision, NOVEMBER, now=last_minutes).total.hours == Decimal("2.00")
        later = report(vision, NOVEMBER, now=datetime(2027, 1, 1, tzinfo=UTC))
    assert (later.total.hours, later.total.amounts) == (Decimal("2.50"), {"EUR": Decimal("2.50")})


def test_the_month_counts_up_to_now_and_at_most_to_its_end(vision, alice, fra):
    hold(make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False), NOON)
    end = NOVEMBER.span.end
    found = [
        report(vision, NOVEMBER, now=now) for now in (NOON + timedelta(hours=2), end + timedelta(days=3))
    ]
    assert [(one.until, one.total.hours) for one in found] == [
        (NOON + timedelta(hours=2), Decimal("2.00")),
        (end, Decimal("324.00")),
    ]


def test_lines_of_a_month_name_claim_product_and_partition(vision, alice, lena, fra):
    price("2", product="H100")
    first = make_claim(vision, by=lena, cluster=fra, state=ClaimState.RELEASED, held=False, name="same")
    second = make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED, held=False, name="same")
    hour = timedelta(hours=1)
    hold(second, NOON - 9 * hour, NOON - 8 * hour, device="gpu-1")
    hold(first, NOON - 9 * hour, NOON - 7 * hour, device="gpu-0")
    hold(second, NOON - 8 * hour, NOON - 7 * hour, partition="1g.10gb", fraction="0.125")
    hold(second, NOON - 4 * hour, NOON - 3 * hour, product="")
    hold(second, NOON - 4 * hour, NOON - 3 * hour, device="gpu-1")
    found = report(vision, NOVEMBER, now=NOON)
    assert [
        (one.claim.pk, one.product, one.partition, one.cost.hours, one.cost.amounts) for one in found.lines
    ] == [
        (first.pk, H100, "", Decimal("2.00"), {"EUR": Decimal("4.00")}),
        (second.pk, "", "", Decimal("1.00"), {}),
        (second.pk, H100, "", Decimal("2.00"), {"EUR": Decimal("4.00")}),
        (second.pk, H100, "1g.10gb", Decimal("0.13"), {"EUR": Decimal("0.25")}),
    ]
    assert [(row.key, row.label, row.claim.pk, row.cost.hours) for row in found.by_claim] == [
        (str(second.pk), "same", second.pk, Decimal("3.13")),
        (str(first.pk), "same", first.pk, Decimal("2.00")),
    ]
    assert [(row.key, row.label, row.person, len(row.claims)) for row in found.by_person] == [
        (str(alice.pk), "alice", alice, 1),
        (str(lena.pk), "lena", lena, 1),
    ]
    assert [(row.label, row.cost.hours, len(row.claims)) for row in found.by_product] == [
        (H100, Decimal("4.00"), 2),
        (f"{H100} 1g.10gb", Decimal("0.13"), 1),
        ("unknown product", Decimal("1.00"), 1),
    ]


@pytest.mark.parametrize("together", [None, False, True])
def test_lines_name_all_profiles_of_their_claim(vision, alice, fra, together, django_assert_num_queries):
    claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.ALLOCATED, held=False)
    hold(claim, NOON - timedelta(hours=2))
    for position, slug in enumerate(("train-80", "nic") if together is not None else ()):
        profile = Profile.objects.filter(slug=slug).first() or make_profile(slug)
        Alternative.objects.create(
            claim=claim,
            position=position,
            name=slug,
            profile_version=profile.current,
            devices=1,
            together=together,
        )
    found = report(vision, NOVEMBER, now=NOON)
    with django_assert_num_queries(0):
        (line,), (row,) = found.lines, found.by_claim
        shown = line.claim.slugs, line.claim.titles, row.claim.titles, line.claim.name, line.claim.cluster
        person = line.owner.label
    assert shown == (claim.slugs, claim.titles, claim.titles, claim.name, "fra-1")
    assert person == "alice"


def test_rows_are_in_order_of_cost_then_hours_then_label(vision, alice, fra):
    price("2", product="H100")
    wanted = [("d", H100, 3), ("c", H100, 1), ("e", "L4", 9), ("a", "L4", 2), ("b", "L4", 2)]
    for name, product, hours in sorted(wanted, key=lambda row: row[2]):
        claim = make_claim(vision, by=alice, cluster=fra, state=ClaimState.RELEASED, held=False, name=name)
        hold(claim, NOON - timedelta(hours=hours), NOON, product=product)
    found = report(vision, NOVEMBER, now=NOON)
    assert [row.label for row in found.by_claim] == ["d", "c", "e", "a", "b"]
    assert (found.team, found.month, found.is_running) == (vision, NOVEMBER, True)
