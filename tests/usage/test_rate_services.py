"""Changing prices: every column of what is saved, who may, and from when on a price stands."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
import time_machine

from core.errors import Conflict, Forbidden, Invalid
from tests.usage.conftest import NOON, price
from usage.models import Rate
from usage.services import remove_rate, save_rate

COLUMNS = ("title", "per_hour", "currency", "valid_from", "product", "driver", "cluster")
MICROSECOND = timedelta(microseconds=1)


@pytest.fixture(autouse=True)
def clock():
    with time_machine.travel(NOON, tick=False) as traveller:
        yield traveller


def rate_fields(**fields):
    return {"title": "L4", "per_hour": Decimal("0.5500"), "currency": "usd", "valid_from": NOON, **fields}


def rows():
    return sorted(Rate.objects.values_list(*COLUMNS))


def test_a_rate_is_saved_with_every_column(root, fra):
    save_rate(by=root, **rate_fields(product="L4", driver="gpu.nvidia.com", cluster=fra))
    save_rate(by=root, **rate_fields(title="everything"))
    assert rows() == [
        ("L4", Decimal("0.5500"), "USD", NOON, "L4", "gpu.nvidia.com", fra.pk),
        ("everything", Decimal("0.5500"), "USD", NOON, "", "", None),
    ]


def test_pending_rate_is_changed_in_every_column(root, fra):
    later = NOON + timedelta(days=1)
    kept = price("7", since=later, title="kept")
    changed = price("8", since=later, title="changed")
    saved = save_rate(
        by=root,
        rate=changed,
        **rate_fields(
            product="L4", driver="gpu.nvidia.com", cluster=fra, valid_from=later + timedelta(hours=1)
        ),
    )
    assert (saved.pk, saved.title) == (changed.pk, "L4")
    assert rows() == [
        ("L4", Decimal("0.5500"), "USD", later + timedelta(hours=1), "L4", "gpu.nvidia.com", fra.pk),
        ("kept", Decimal("7.0000"), "EUR", later, "", "", None),
    ]
    assert Rate.objects.get(pk=kept.pk).title == "kept"


def test_pending_rate_moved_to_the_past_cannot_be_changed_again(root):
    rate = price("8", since=NOON + timedelta(days=1))
    save_rate(by=root, rate=rate, **rate_fields(valid_from=NOON - timedelta(days=1)))
    with pytest.raises(Conflict, match="has applied since"):
        save_rate(by=root, rate=rate, **rate_fields())


@pytest.mark.parametrize(
    ("since", "stands"), [(-MICROSECOND, True), (timedelta(0), True), (MICROSECOND, False)]
)
def test_rate_cannot_be_changed_once_it_applies(root, since, stands):
    for change in (
        lambda one: save_rate(by=root, rate=one, **rate_fields()),
        lambda one: remove_rate(by=root, rate=one),
    ):
        rate = price("8", since=NOON + since)
        if stands:
            with pytest.raises(Conflict, match=r"“H100” has applied since .*17.* and has been billed"):
                change(rate)
            rate.refresh_from_db()
            assert (rate.title, rate.per_hour) == ("H100", Decimal(8))
        else:
            change(rate)
            assert not Rate.objects.filter(pk=rate.pk, title="H100").exists()


def test_removing_a_rate_leaves_the_others(root):
    later = NOON + timedelta(days=1)
    kept, removed = price("7", since=later), price("8", since=later)
    remove_rate(by=root, rate=removed)
    assert list(Rate.objects.all()) == [kept]


def test_removed_rate_is_a_conflict_with_its_title(root):
    rate = price("7", since=NOON + timedelta(days=1), title="gone")
    Rate.objects.all().delete()
    for change in (
        lambda: save_rate(by=root, rate=rate, **rate_fields()),
        lambda: remove_rate(by=root, rate=rate),
    ):
        with pytest.raises(Conflict, match="The rate “gone” has been removed"):
            change()
    assert rows() == []


def test_only_a_platform_admin_changes_prices(lena, vision):
    rate = price("7", since=NOON + timedelta(days=1))
    for change in (
        lambda: save_rate(by=lena, **rate_fields()),
        lambda: save_rate(by=lena, rate=rate, **rate_fields()),
        lambda: remove_rate(by=lena, rate=rate),
    ):
        with pytest.raises(Forbidden, match="platform admins"):
            change()
    assert rows() == [("H100", Decimal("7.0000"), "EUR", rate.valid_from, "", "", None)]


def test_negative_price_is_refused(root):
    save_rate(by=root, **rate_fields(per_hour=Decimal(0)))
    with pytest.raises(Invalid, match=r"must not be negative; -0\.0001 was sent"):
        save_rate(by=root, **rate_fields(per_hour=Decimal("-0.0001")))
    assert [row[1] for row in rows()] == [Decimal("0.0000")]


def test_date_out_of_range_is_refused(root):
    with pytest.raises(Invalid, match="the year 9999 was sent"):
        save_rate(by=root, **rate_fields(valid_from=datetime(9999, 12, 31, tzinfo=UTC)))
    assert rows() == []
