"""What groups give: the plan, carrying it out, what is by hand, and who must stay."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from core.errors import Conflict, Invalid, PortalError
from teams.identity.groups import remove_group, save_group, set_groups_of, set_members
from teams.identity.models import ExternalGroup, GroupRule, IdentityProvider
from teams.identity.rules import access_lost, planned
from teams.identity.services import (
    held_back,
    preview,
    remove_provider,
    remove_rule,
    save_rule,
    sound_rule,
)
from teams.models import AuditEntry, Membership, Role, User
from teams.services import add_member, change_role, remove_member, role_changed, set_platform_admin
from tests.factories import make_user


@pytest.fixture
def sso(db) -> IdentityProvider:
    return IdentityProvider.objects.create(
        slug="sso", title="SSO", issuer="http://sso.example", client_id="dragoman"
    )


@pytest.fixture
def nina(db) -> User:
    return make_user("nina")


@pytest.fixture
def rule(root, sso, vision) -> GroupRule:
    return save_rule(by=root, provider=sso, pattern="gpu", team=vision, role="member")[0]


def given(user, team) -> tuple[str, str, str] | None:
    return (
        Membership.objects.filter(user=user, team=team).values_list("role", "group_role", "hand_role").first()
    )


# Groups give, and take what they gave.


def test_who_is_in_a_group_has_its_role_until_they_leave(nina, sso, vision, rule):
    (change,) = set_groups_of(nina, sso, ["gpu", "other"])
    assert given(nina, vision) == ("member", "member", "")
    assert (change.new_role, change.reason) == ("member", "through the group gpu")
    assert set_groups_of(nina, sso, ["gpu", "other"]) == []  # again: nothing
    (change,) = set_groups_of(nina, sso, ["other"])
    assert given(nina, vision) is None
    assert (change.old_role, change.new_role) == ("member", "")


@pytest.mark.parametrize(
    ("by_hand", "expected"),
    [("viewer", ("member", "member", "viewer")), ("lead", ("lead", "member", "lead"))],
)
def test_the_higher_of_group_and_hand_counts_and_that_by_hand_stays(
    root, nina, sso, vision, rule, by_hand, expected
):
    add_member(by=root, team=vision, username="nina", role=Role(by_hand))
    set_groups_of(nina, sso, ["gpu"])
    assert given(nina, vision) == expected
    set_groups_of(nina, sso, [])
    assert given(nina, vision) == (by_hand, "", "")


def test_the_highest_of_several_rules_counts(root, nina, sso, vision, rule):
    save_rule(by=root, provider=sso, pattern="gpu-*", team=vision, role="lead")
    set_groups_of(nina, sso, ["gpu", "gpu-leads"])
    assert given(nina, vision) == ("lead", "lead", "")
    set_groups_of(nina, sso, ["gpu"])
    assert given(nina, vision) == ("member", "member", "")


@pytest.mark.parametrize(
    ("pattern", "names", "matches"),
    [
        ("gpu", ["gpu"], True),
        ("gpu", ["GPU"], False),
        ("gpu", ["gpus"], False),
        ("gpu-*", ["gpu-"], True),
        ("*/ml/*", ["/org/ml/vision"], True),
        ("a[b]?", ["a[b]?"], True),
        ("a[b]?", ["ab1"], False),
        ("a.b", ["axb"], False),
    ],
)
def test_a_pattern_is_exact_but_for_its_stars(sso, pattern, names, matches):
    rule = GroupRule(provider=sso, pattern=pattern)
    assert any(rule.matches(name) for name in names) is matches


def test_a_rule_finds_a_group_by_its_external_id_too(root, nina, sso, vision):
    save_rule(by=root, provider=sso, pattern="7f3c", team=vision, role="member")
    group = save_group(sso, name="GPU users", external_id="7f3c")
    set_members(group, {nina.pk})
    assert given(nina, vision) == ("member", "member", "")


def test_groups_of_another_provider_give_nothing(nina, vision, rule):
    other = IdentityProvider.objects.create(slug="o", title="O", issuer="http://o.example", client_id="d")
    set_groups_of(nina, other, ["gpu"])
    assert given(nina, vision) is None


def test_two_providers_give_together(root, nina, sso, vision, rule):
    other = IdentityProvider.objects.create(slug="o", title="O", issuer="http://o.example", client_id="d")
    save_rule(by=root, provider=other, pattern="gpu", team=vision, role="lead")
    set_groups_of(nina, sso, ["gpu"])
    set_groups_of(nina, other, ["gpu"])
    assert given(nina, vision) == ("lead", "lead", "")
    set_groups_of(nina, other, [])
    assert given(nina, vision) == ("member", "member", "")


def test_an_archived_team_and_a_deactivated_person_are_left_alone(root, nina, sso, vision, rule):
    type(vision).objects.filter(pk=vision.pk).update(archived_at=timezone.now())
    assert set_groups_of(nina, sso, ["gpu"]) == []
    type(vision).objects.filter(pk=vision.pk).update(archived_at=None)
    User.objects.filter(pk=nina.pk).update(is_active=False)
    assert set_groups_of(nina, sso, ["gpu", "other"]) == []


def test_a_rule_is_applied_to_everybody_when_it_is_saved_changed_and_removed(root, nina, alice, sso, vision):
    for person in (nina, alice):
        set_groups_of(person, sso, ["gpu"])
    rule, changes = save_rule(by=root, provider=sso, pattern="gpu", team=vision, role="lead")
    assert {change.name for change in changes if change.is_visible} == {"nina", "alice"}
    assert given(alice, vision) == ("lead", "lead", "member")
    save_rule(by=root, provider=sso, pattern="gpu", team=vision, role="viewer", rule=rule)
    assert given(nina, vision) == ("viewer", "viewer", "")
    assert given(alice, vision) == ("member", "viewer", "member")
    remove_rule(by=root, rule=rule)
    assert given(nina, vision) is None
    assert given(alice, vision) == ("member", "", "")
    assert remove_rule(by=root, rule=rule) == []


def test_signals_are_sent_for_what_changed(nina, sso, vision, rule, root):
    lost: list[tuple[str, str]] = []
    changed: list[object] = []

    def note_loss(people, team, **_):
        lost.extend((person.username, team.slug) for person in people)

    def note_change(team_id, **_):
        changed.append(team_id)

    access_lost.connect(note_loss)
    role_changed.connect(note_change)
    try:
        set_groups_of(nina, sso, ["gpu"])
        save_rule(by=root, provider=sso, pattern="gpu", team=vision, role="lead", rule=rule)
        assert (lost, changed) == ([], [vision.pk])
        set_groups_of(nina, sso, [])
        assert lost == [("nina", "vision")]
    finally:
        access_lost.disconnect(note_loss)
        role_changed.disconnect(note_change)


# Who must stay.


def test_the_last_owner_stays_and_the_rules_say_so(root, nina, sso, vision, olga):
    save_rule(by=root, provider=sso, pattern="owners", team=vision, role="owner")
    set_groups_of(nina, sso, ["owners"])
    set_groups_of(olga, sso, [])
    remove_member(by=root, team=vision, member=Membership.objects.get(user=olga))
    (change,) = set_groups_of(nina, sso, [])
    assert "nina is the only owner of vision and stays owner" in change.refused
    assert given(nina, vision) == ("owner", "owner", "")
    assert [row.refused for row in held_back()] == [change.refused]
    add_member(by=root, team=vision, username="olga", role=Role("owner"))
    set_groups_of(nina, sso, ["x"])
    assert given(nina, vision) is None
    assert held_back() == []


def test_a_deactivated_owner_is_no_other_owner(root, nina, sso, vision, olga):
    save_rule(by=root, provider=sso, pattern="owners", team=vision, role="owner")
    set_groups_of(nina, sso, ["owners"])
    User.objects.filter(pk=olga.pk).update(is_active=False)
    (change,) = set_groups_of(nina, sso, [])
    assert "nina is the only owner of vision and stays owner" in change.refused
    assert given(nina, vision) == ("owner", "owner", "")


def test_of_two_owners_who_leave_their_group_at_once_one_stays(root, nina, bob, sso, vision, olga):
    save_rule(by=root, provider=sso, pattern="owners", team=vision, role="owner")
    group = save_group(sso, name="owners")
    set_members(group, {nina.pk, bob.pk})
    remove_member(by=root, team=vision, member=Membership.objects.get(user=olga))
    changes = set_members(group, set())
    assert sum(bool(change.refused) for change in changes) == 1
    assert Membership.objects.filter(team=vision, role="owner").count() == 1


def test_platform_admins_through_a_group(root, nina, sso):
    save_rule(by=root, provider=sso, pattern="admins")
    set_groups_of(nina, sso, ["admins"])
    nina.refresh_from_db()
    assert (nina.is_superuser, nina.is_staff, nina.admin_from_groups) == (True, True, True)
    set_groups_of(nina, sso, [])
    nina.refresh_from_db()
    assert (nina.is_superuser, nina.is_staff, nina.admin_from_groups) == (False, False, False)


def test_a_platform_admin_by_hand_stays_one(root, nina, sso):
    save_rule(by=root, provider=sso, pattern="admins")
    set_platform_admin(by=root, person=nina, admin=True)
    set_groups_of(nina, sso, ["admins"])
    set_groups_of(nina, sso, [])
    nina.refresh_from_db()
    assert nina.is_superuser


def test_who_is_made_admin_by_hand_meanwhile_stays_one(root, nina, sso):
    save_rule(by=root, provider=sso, pattern="admins")
    set_groups_of(nina, sso, ["admins"])
    set_platform_admin(by=root, person=nina, admin=True)
    set_groups_of(nina, sso, [])
    nina.refresh_from_db()
    assert nina.is_superuser


def test_an_admin_through_a_group_is_not_ended_by_hand(root, nina, sso):
    save_rule(by=root, provider=sso, pattern="admins")
    set_groups_of(nina, sso, ["admins"])
    nina.refresh_from_db()
    with pytest.raises(Conflict, match="through a group"):
        set_platform_admin(by=root, person=nina, admin=False)


def test_the_last_platform_admin_and_the_last_with_a_password_stay(root, nina, bob, sso):
    save_rule(by=root, provider=sso, pattern="admins")
    for person in (nina, bob):
        set_groups_of(person, sso, ["admins"])
    bob.refresh_from_db()
    bob.set_unusable_password()
    bob.save()
    User.objects.filter(pk=root.pk).update(is_superuser=False)
    (change,) = set_groups_of(nina, sso, [])
    assert "only platform admin with a password" in change.refused
    (change,) = set_groups_of(bob, sso, [])
    assert not change.refused
    (change,) = set_groups_of(nina, sso, ["x"])
    assert "nina is the only platform admin and stays one" in change.refused


# What owners do by hand.


def test_a_role_by_hand_beside_a_group_is_changed_up_and_not_below_it(root, nina, sso, vision, rule):
    set_groups_of(nina, sso, ["gpu"])
    member = Membership.objects.get(user=nina)
    change_role(by=root, team=vision, member=member, role=Role("lead"))
    assert given(nina, vision) == ("lead", "member", "lead")
    member.refresh_from_db()
    with pytest.raises(Conflict, match="nina is member through a group"):
        change_role(by=root, team=vision, member=member, role=Role("viewer"))
    change_role(by=root, team=vision, member=member, role=Role("member"))
    assert given(nina, vision) == ("member", "member", "member")
    set_groups_of(nina, sso, [])
    assert given(nina, vision) == ("member", "", "")


def test_a_member_through_a_group_is_removed_at_the_provider(root, nina, sso, vision, rule):
    set_groups_of(nina, sso, ["gpu"])
    with pytest.raises(Conflict, match="through a group"):
        remove_member(by=root, team=vision, member=Membership.objects.get(user=nina))


# SCIM and tokens.


def test_a_token_does_not_change_a_group_that_scim_keeps(root, nina, alice, sso, vision, rule):
    group = save_group(sso, name="gpu", external_id="g-1")
    set_members(group, {nina.pk})
    set_groups_of(nina, sso, [])
    assert given(nina, vision) == ("member", "member", "")
    set_groups_of(alice, sso, ["gpu"])
    assert set(group.members.all()) == {nina}


def test_scim_takes_over_a_group_that_tokens_told_of(nina, sso, vision, rule):
    set_groups_of(nina, sso, ["gpu"])
    group = save_group(sso, name="gpu", external_id="g-1")
    assert set(group.members.all()) == {nina}
    assert ExternalGroup.objects.get().kept_by == "scim"
    with pytest.raises(Conflict):
        save_group(sso, name="gpu", external_id="g-2")


def test_renaming_and_removing_a_group_apply_the_rules(nina, sso, vision, rule):
    group = save_group(sso, name="gpu")
    set_members(group, {nina.pk})
    save_group(sso, name="cpu", group=group)
    assert given(nina, vision) is None
    save_group(sso, name="gpu", group=group)
    assert given(nina, vision) == ("member", "member", "")
    remove_group(group)
    assert given(nina, vision) is None


def test_removing_a_provider_takes_what_its_groups_gave(root, nina, sso, vision, rule):
    set_groups_of(nina, sso, ["gpu"])
    (change,) = remove_provider(by=root, provider=sso)
    assert given(nina, vision) is None
    assert change.old_role == "member"
    assert AuditEntry.objects.filter(action="identity_provider.removed").count() == 1


# Before it is saved.


def test_the_preview_says_what_changes_and_writes_nothing(root, nina, alice, sso, vision):
    set_groups_of(nina, sso, ["gpu"])
    set_groups_of(alice, sso, ["gpu"])
    before = list(Membership.objects.values())
    changes = preview(sound_rule(provider=sso, pattern="g*", team=vision, role="lead"))
    assert {(row.name, row.old_role, row.new_role) for row in changes} == {
        ("nina", "", "lead"),
        ("alice", "member", "lead"),
    }
    assert list(Membership.objects.values()) == before
    assert not GroupRule.objects.exists()


def test_the_preview_of_a_removal(root, nina, sso, vision, rule):
    set_groups_of(nina, sso, ["gpu"])
    (change,) = preview(rule, removes=True)
    assert (change.name, change.old_role, change.new_role) == ("nina", "member", "")
    assert given(nina, vision) is not None


def test_the_plan_reads_as_much_for_one_person_as_for_many(root, nina, sso, vision, rule):
    def count() -> int:
        with CaptureQueriesContext(
            connection,
        ) as queries:
            planned(None, list(GroupRule.objects.all()))
        return len(queries)

    set_groups_of(nina, sso, ["gpu"])
    one = count()
    for number in range(20):
        set_groups_of(make_user(f"p{number}"), sso, ["gpu", f"g{number}"])
    assert count() == one


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"pattern": " "}, "1 to 200 characters"),
        ({"pattern": "x" * 201}, "1 to 200 characters"),
        ({"pattern": "*"}, "Every group would make its members platform admins"),
        ({"pattern": "**"}, "Every group would make its members platform admins"),
        ({"pattern": "g", "role": "lead"}, "belongs to a team"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(root, sso, fields, sentence):
    with pytest.raises(Invalid, match=sentence.replace("*", "[*]")):
        save_rule(by=root, provider=sso, **fields)


def test_two_rules_about_one_group_and_team_are_refused(root, sso, vision, rule):
    with pytest.raises(Conflict, match="There is a rule about gpu and vision already"):
        save_rule(by=root, provider=sso, pattern="gpu", team=vision, role="lead")


def test_only_platform_admins_write(olga, sso, vision, rule):
    for call in (
        lambda: save_rule(by=olga, provider=sso, pattern="x", team=vision, role="owner"),
        lambda: remove_rule(by=olga, rule=rule),
        lambda: remove_provider(by=olga, provider=sso),
    ):
        with pytest.raises(PortalError, match="Only platform admins"):
            call()
