"""Two owners, or two platform admins, who step down at the same moment: one of them must stay."""

from functools import partial

import pytest

from core.errors import Conflict
from teams import services
from teams.models import Membership, Role, User
from tests.factories import make_team, make_user
from tests.threads import Race, without_lock


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_concurrent_resignations_leave_one_owner(monkeypatch, locked):
    olga, otto = make_user("olga"), make_user("otto")
    team = make_team("vision", owners=(olga, otto))
    race = Race(monkeypatch)
    race.hold_after(services, "require_another_owner")
    if not locked:
        without_lock(monkeypatch, "teams.services.require_another_owner")

    def step_down(person):
        member = Membership.objects.select_related("user").get(user=person, team=team)
        return services.change_role(by=person, team=team, member=member, role=Role.MEMBER)

    _first, second = race.run(partial(step_down, olga), partial(step_down, otto))
    assert race.waited is locked
    assert isinstance(second, Conflict) is locked
    assert team.memberships.filter(role=Role.OWNER).count() == (1 if locked else 0)


@pytest.mark.security("races", "two platform admins who remove each other")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("locked", [True, False])
def test_two_admins_who_end_each_others_role_leave_one(monkeypatch, locked):
    ruth, rosa = make_user("ruth", admin=True), make_user("rosa", admin=True)
    race = Race(monkeypatch)
    race.hold_after(services, "_lock_person")
    if not locked:
        without_lock(monkeypatch, "teams.services._lock_person")
    _first, second = race.run(
        partial(services.set_platform_admin, by=ruth, person=rosa, admin=False),
        partial(services.deactivate_person, by=rosa, person=ruth),
    )
    assert race.waited is locked
    assert isinstance(second, Conflict) is locked
    left = User.objects.filter(is_superuser=True, is_active=True).count()
    assert left == (1 if locked else 0)
