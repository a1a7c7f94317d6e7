"""Two admins at the telemetry access of one cluster: with the lock of its row, and without."""

from functools import partial

import pytest

from inventory.models import TelemetryAccess
from inventory.telemetry_access import change_telemetry
from tests.factories import make_user
from tests.threads import Race, without_lock


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_of_two_changes_at_once_both_stay(fra, monkeypatch, locked):
    root = make_user("root", admin=True)
    addresses = {"prometheus_url": "http://prometheus:9090"}
    change_telemetry(
        name=fra.name, by=root, addresses=addresses, fields={"tenant": "a", "timeout_seconds": 5}
    )
    race = Race(monkeypatch)
    race.hold_before(TelemetryAccess, "full_clean")
    if not locked:
        without_lock(monkeypatch, "inventory.telemetry_access.change_telemetry")
    race.run(
        partial(change_telemetry, name=fra.name, by=root, fields={"tenant": "b"}),
        partial(change_telemetry, name=fra.name, by=root, fields={"timeout_seconds": 20}),
    )
    access = TelemetryAccess.objects.get()
    assert race.waited is locked
    assert (access.tenant, access.timeout_seconds) == ("b", 20 if locked else 5)
