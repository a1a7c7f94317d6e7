"""Two admins at one price, and a price beside a new price basis: with the lock, and without."""

from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from django.utils import timezone

from core.errors import Conflict
from inventory import price_bases
from inventory.models import BasisKey
from tests.factories import make_user
from tests.threads import Race, without_lock
from usage import rate_matches, services
from usage.models import Rate, RateMatch


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_change_of_a_removed_rate_is_a_conflict(root, monkeypatch, locked):
    fields: dict[str, Any] = {
        "title": "H100",
        "currency": "EUR",
        "valid_from": timezone.now() + timedelta(days=1),
    }
    rate = services.save_rate(by=root, per_hour=Decimal(2), **fields)
    other = make_user("ada", admin=True)
    race = Race(monkeypatch)
    race.hold_before(Rate, "delete")
    if not locked:
        without_lock(monkeypatch, "usage.services.lock_pending")
    _removed, changed = race.run(
        partial(services.remove_rate, by=root, rate=rate),
        partial(services.save_rate, by=other, rate=rate, per_hour=Decimal(3), **fields),
    )
    assert race.waited is locked
    assert isinstance(changed, Conflict if locked else Rate)
    assert not Rate.objects.exists()


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_rate_and_price_basis_of_the_same_moment_find_each_other(root, fra, monkeypatch, locked):
    race = Race(monkeypatch)
    race.hold_after(rate_matches, "_store")
    if not locked:
        without_lock(monkeypatch, "usage.rate_matches.lock_matches")
    fields: dict[str, Any] = {"title": "H100", "currency": "EUR", "valid_from": timezone.now()}
    condition = 'device.product == "H100"'
    race.run(
        partial(services.save_rate, by=root, per_hour=Decimal(2), expression=condition, **fields),
        partial(price_bases.add, [BasisKey(fra.pk, "gpu.nvidia.com", "H100", "", "")]),
    )
    assert race.waited is locked
    assert RateMatch.objects.count() == (1 if locked else 0)
