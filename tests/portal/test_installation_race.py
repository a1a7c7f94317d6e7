"""Two admins who save the settings of the installation at the same moment."""

from functools import partial

import pytest

from core.models import Installation
from portal.setup import installation
from teams.models import AuditEntry
from tests.factories import make_user
from tests.threads import Race, without_lock


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_second_of_two_changes_records_what_the_first_has_saved(monkeypatch, locked):
    ruth, rosa = make_user("ruth", admin=True), make_user("rosa", admin=True)
    Installation.objects.create(pk=1, name="Lab", currency="EUR", timezone="UTC")
    race = Race(monkeypatch)
    race.hold_after(installation, "_locked_installation")
    if not locked:
        without_lock(monkeypatch, "portal.setup.installation._locked_installation")
    save = partial(installation.save_installation, currency="EUR", timezone="UTC", logo=None)
    race.run(partial(save, by=ruth, name="First"), partial(save, by=rosa, name="Second"))
    assert race.waited is locked
    (change,) = AuditEntry.objects.filter(by=rosa, in_activity=True)
    assert ("First → Second" in change.text) is locked
