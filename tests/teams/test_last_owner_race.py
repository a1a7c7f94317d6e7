"""Two owners who step down at the same moment: one of them must stay."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Barrier, BrokenBarrierError

import pytest
from django.db import connection
from django.db.models import QuerySet

from core.errors import Conflict
from teams import services
from teams.models import Membership, Role
from tests.factories import make_team, make_user


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_two_owners_who_step_down_at_once_leave_one_owner(monkeypatch, locked):
    olga, otto = make_user("olga"), make_user("otto")
    team = make_team("vision", owners=(olga, otto))
    # With the lock only one arrives, and goes on after a moment; without it both come.
    both_counted = Barrier(2, timeout=0.5 if locked else 60)
    keep_an_owner = services.keep_an_owner

    def count_and_wait(*args, **kwargs):
        keep_an_owner(*args, **kwargs)
        with suppress(BrokenBarrierError):
            both_counted.wait()

    monkeypatch.setattr(services, "keep_an_owner", count_and_wait)
    if not locked:  # shows that this test is able to fail
        monkeypatch.setattr(QuerySet, "select_for_update", lambda self, **_: self)

    def step_down(person) -> bool:
        try:
            member = Membership.objects.select_related("user").get(user=person, team=team)
            services.change_role(by=person, team=team, member=member, role=Role.MEMBER)
        except Conflict:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(2) as threads:
        stepped_down = list(threads.map(step_down, (olga, otto)))
    assert stepped_down.count(True) == (1 if locked else 2)
    assert team.memberships.filter(role=Role.OWNER).count() == (1 if locked else 0)
