"""Two accounts that are made at once never have one name with other capitals."""

from functools import partial

import pytest
from django.db import transaction

from teams import names
from teams.models import User
from tests.threads import Race, without_lock


@transaction.atomic
def make(name):
    return User.objects.create(username=names.account_name(name)).username


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_of_two_accounts_made_at_once_one_gets_a_number(monkeypatch, locked):
    race = Race(monkeypatch)
    race.hold_after(names, "_taken_like")
    if not locked:
        without_lock(monkeypatch, "teams.names.hold_names")
    made = race.run(partial(make, "Nina"), partial(make, "nina"))
    assert race.waited is locked
    assert sorted(made) == (["Nina", "nina-2"] if locked else ["Nina", "nina"])
