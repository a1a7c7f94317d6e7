"""Rules and groups that change at the same moment."""

from functools import partial

import pytest
from django.utils import timezone

from teams.identity import groups, rules, services, sync
from teams.identity.groups import save_group, set_groups_of, set_members
from teams.identity.models import IdentityGrant, IdentityProvider
from teams.identity.services import change_provider, save_rule
from teams.identity.suspension import set_break_glass
from teams.models import Membership, Role, User, recorded_changes
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
        without_lock(monkeypatch, "teams.identity.rules.lock_rules")
        for module in (groups, services):
            monkeypatch.setattr(module, "lock_rules", rules.lock_rules)
    race.run(
        partial(set_groups_of, nina, sso, ["gpu"]),
        partial(save_rule, by=root, provider=sso, pattern="gpu", team=team, role="member"),
    )
    assert race.waited is locked
    assert Membership.objects.filter(user=nina, team=team).exists() is locked


@pytest.mark.security("races", "the last two platform admins losing that at once")
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


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_lists_of_members_at_once_the_second_is_what_stays(monkeypatch, sso, locked):
    nina, nico = make_user("nina"), make_user("nico")
    group = save_group(sso, name="gpu")
    race = Race(monkeypatch)
    race.hold_before(groups, "apply")
    if not locked:
        without_lock(monkeypatch, "teams.identity.groups._lock")
    race.run(partial(set_members, group, {nina.pk}), partial(groups.set_members, group, {nico.pk}))
    assert race.waited is locked
    assert set(group.members.all()) == ({nico} if locked else {nina, nico})


@pytest.mark.parametrize("locked", [True, False])
def test_second_of_two_changes_records_what_the_first_has_saved(monkeypatch, sso, locked):
    root = make_user("root", admin=True)
    race = Race(monkeypatch)
    race.hold_after(services, "_locked")
    if not locked:
        without_lock(monkeypatch, "teams.identity.services._locked")
    race.run(
        partial(change_provider, by=root, provider=sso, title="First"),
        partial(change_provider, by=root, provider=sso, title="Second"),
    )
    assert race.waited is locked
    texts = {entry.text for entry in recorded_changes(sso)}
    assert ("title First → Second" in texts) is locked


@pytest.mark.security("races", "a refusal at the moment at which the mark of a break-glass account ends")
@pytest.mark.parametrize("locked", [True, False])
def test_of_the_end_of_a_mark_and_a_refusal_at_once_one_sees_the_other(monkeypatch, sso, locked):
    root, nina, now = make_user("root", admin=True), make_user("nina"), timezone.now()
    set_break_glass(by=root, person=nina, marked=True)
    grant = IdentityGrant.objects.create(
        user=nina, provider=sso, subject="n", signed_in_at=now, read_at=now, due_at=now
    )
    race = Race(monkeypatch)
    race.hold_before(sync, "suspend_tokens")
    if not locked:
        without_lock(monkeypatch, "teams.identity.rules.lock_people")
    race.run(
        partial(sync._end, sso, grant, sync.GrantOver()),
        partial(set_break_glass, by=root, person=nina, marked=False),
    )
    assert race.waited is locked
    nina.refresh_from_db()
    assert (nina.break_glass, nina.has_suspended_tokens) == (False, locked)


@pytest.mark.parametrize("locked", [True, False])
def test_of_two_runs_at_once_one_reads_a_person(monkeypatch, sso, locked):
    now = timezone.now()
    IdentityGrant.objects.create(
        user=make_user("nina"), provider=sso, subject="n", signed_in_at=now, read_at=now, due_at=now
    )
    race = Race(monkeypatch)
    race.hold_before(sync, "_take")
    if not locked:
        without_lock(monkeypatch, "teams.identity.sync.due_grants")
    first, second = race.run(lambda: sync.due_grants(sso, now), lambda: sync.due_grants(sso, now))
    assert len(first) == 1
    assert len(second) == (0 if locked else 1)
