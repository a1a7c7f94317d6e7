"""A month closes while its days are stored, or a rate begins in it: with the lock of the days and without."""

from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError, IntegrityError

from claims.models import Allocation
from core.errors import Conflict
from tests.threads import Race, without_lock
from tests.usage.conftest import hold, price
from usage import closing, daily, services
from usage.models import ClosedMonth, DailyUse, Rate
from usage.reports import Month, report

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 5, 12, tzinfo=UTC)
OCTOBER = Month(date(2026, 10, 1))


@pytest.fixture(autouse=True)
def _now():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.mark.parametrize("locked", [True, False])
def test_month_closes_after_whoever_stores_its_days(claim, vision, root, monkeypatch, locked):
    price("2")
    held = hold(claim, datetime(2026, 10, 30, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC))
    daily.store_days(now=NOW)
    Allocation.objects.filter(pk=held.pk).update(ended_at=datetime(2026, 10, 30, 12, tzinfo=UTC))
    race = Race(monkeypatch)
    race.hold_before(daily, "_refresh_use")
    if not locked:
        without_lock(monkeypatch, "usage.daily.lock_days")

    def repair() -> Any:
        try:
            return daily.repair_chunk(0)
        except DatabaseError as refused:  # by the trigger
            return refused

    repaired, closed = race.run(repair, partial(closing.close_month, by=root, month=OCTOBER))
    assert race.waited is locked
    assert isinstance(closed, ClosedMonth)
    assert isinstance(repaired, daily.RowDifferences if locked else DatabaseError)
    assert report(vision, OCTOBER, now=NOW).total.hours == (Decimal(12) if locked else Decimal(24))
    assert DailyUse.objects.count() == 1


@pytest.mark.parametrize("locked", [True, False])
def test_rate_of_a_month_that_closes_is_refused(claim, root, monkeypatch, locked):
    hold(claim, datetime(2026, 10, 30, tzinfo=UTC), datetime(2026, 10, 31, tzinfo=UTC))
    daily.store_days(now=NOW)
    race = Race(monkeypatch)
    race.hold_before(ClosedMonth.objects, "create")
    if not locked:
        without_lock(monkeypatch, "usage.daily.lock_days")
    fields: dict[str, Any] = {"title": "H100", "currency": "EUR", "per_hour": Decimal(2)}
    save = partial(services.save_rate, by=root, valid_from=datetime(2026, 10, 2, tzinfo=UTC), **fields)

    def close() -> Any:
        try:
            return closing.close_month(by=root, month=OCTOBER)
        except IntegrityError as refused:  # by the constraint: the rate leaves its days to be stored again
            return refused

    closed, saved = race.run(close, save)
    assert race.waited is locked
    assert isinstance(closed, ClosedMonth if locked else IntegrityError)
    assert isinstance(saved, Conflict if locked else Rate)
