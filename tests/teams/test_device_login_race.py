"""A program that asks twice at the same moment gets one token."""

from functools import partial

import pytest

from teams import device_login
from teams.device_login import NotAllowed
from teams.models import ApiToken
from tests.factories import make_user
from tests.threads import Race, without_lock


@pytest.mark.security("races", "two programs with one device code")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_of_two_questions_at_once_one_gets_the_token(monkeypatch, locked):
    started = device_login.start(client="CLI", scopes=["read"], address=None)
    device_login.decide(by=make_user("alice"), login=started.row, allow=True)
    race = Race(monkeypatch)
    race.hold_after(device_login, "_refusal")
    if not locked:
        without_lock(monkeypatch, "teams.device_login.answer")
    ask = partial(device_login.answer, started.device_code)
    _first, second = race.run(ask, ask)
    assert race.waited is locked
    assert isinstance(second, NotAllowed) is locked
    assert ApiToken.objects.count() == (1 if locked else 2)
