"""Rules and groups that change at the same moment."""

from functools import partial

import pytest

from teams.identity import groups, rules, services
from teams.identity.groups import set_groups_of
from teams.identity.models import IdentityProvider
from teams.identity.services import save_rule
from teams.models import Membership, Role, User
from tests.factories import make_team, make_user
from tests.threads import Race, without_lock

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def sso() -> IdentityProvider:
    return IdentityProvider.objects.create(
        slug="sso", title="SSO", issuer="http://sso.example", client_id="dragoman"
    )


@pytest.mark.parametrize("locked", [True, False])
def test_who_joins_a_group_while_its_rule_is_saved_gets_the_role(monkeypatch, sso, locked):
    root, nina = make_user("root", admin=True), make_user("nina")
    team = make_team("vision", owners=(make_user("olga"),))
    race = Race(monkeypatch)
    race.hold_after(groups, "apply")
    if not locked:
        for module in (groups, rules, services):
            monkeypatch.setattr(module, "lock_rules", lambda **_: None)
    race.run(
        partial(set_groups_of, nina, sso, ["gpu"]),
        partial(save_rule, by=root, provider=sso, pattern="gpu", team=team, role="member"),
    )
    assert race.waited is locked
    assert Membership.objects.filter(user=nina, team=team).exists() is locked


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_admins_whose_groups_end_that_at_once_one_stays(monkeypatch, sso, locked):
    root, nina, nico = make_user("root", admin=True), make_user("nina"), make_user("nico")
    save_rule(by=root, provider=sso, pattern="admins")
    for person in (nina, nico):
        set_groups_of(person, sso, ["admins"])
    User.objects.filter(pk=root.pk).update(is_superuser=False)
    race = Race(monkeypatch)
    race.hold_before(rules, "_write_admin")
    if not locked:
        without_lock(monkeypatch, "teams.identity.rules.lock_people")
        monkeypatch.setattr(groups, "lock_people", rules.lock_people)
    race.run(partial(set_groups_of, nina, sso, []), partial(set_groups_of, nico, sso, []))
    assert race.waited is locked
    assert User.objects.filter(is_superuser=True).count() == (1 if locked else 0)


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_owners_whose_groups_end_that_at_once_one_stays(monkeypatch, sso, locked):
    root, nina, nico = make_user("root", admin=True), make_user("nina"), make_user("nico")
    team = make_team("vision")
    save_rule(by=root, provider=sso, pattern="owners", team=team, role=Role.OWNER)
    for person in (nina, nico):
        set_groups_of(person, sso, ["owners"])
    race = Race(monkeypatch)
    race.hold_after(rules, "planned")
    if not locked:
        without_lock(monkeypatch, "teams.identity.rules._standing")
    race.run(partial(set_groups_of, nina, sso, []), partial(set_groups_of, nico, sso, []))
    assert race.waited is locked
    assert Membership.objects.filter(team=team, role=Role.OWNER).count() == (1 if locked else 0)
