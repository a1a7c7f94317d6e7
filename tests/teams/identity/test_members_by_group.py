"""The page of members says through which group somebody has a role, and what a change by hand does."""

import pytest
from django.test import Client

from teams.identity.groups import set_groups_of
from teams.identity.services import save_rule
from teams.models import Membership, Role, User
from teams.services import change_role
from tests.factories import make_user

PEOPLE = "/teams/vision/people/"


@pytest.fixture
def nina(root, sso, vision) -> User:
    save_rule(by=root, provider=sso, pattern="gpu-*", team=vision, role="member")
    person = make_user("nina")
    set_groups_of(person, sso, ["gpu-vision", "gpu-all", "sales"], by=None)
    return person


@pytest.fixture
def owner(olga) -> Client:
    client = Client()
    client.force_login(olga)
    return client


def test_a_role_by_group_names_the_groups_that_give_it(owner, nina):
    page = owner.get(PEOPLE).text
    assert "member by group gpu-all of SSO, gpu-vision of SSO" in page
    assert "sales of SSO" not in page
    assert "You can raise it by hand, and that stays until you change it" in page
    assert 'nina,nina,member,"gpu-all of SSO, gpu-vision of SSO"' in (
        owner.get(PEOPLE, {"format": "csv"}).getvalue().decode()
    )


def test_what_was_raised_by_hand_is_named_beside_it_and_stays(owner, nina, olga, vision, sso):
    change_role(by=olga, team=vision, member=Membership.objects.get(user=nina), role=Role.LEAD)
    assert "member by group gpu-all of SSO, gpu-vision of SSO, lead by hand" in owner.get(PEOPLE).text
    set_groups_of(nina, sso, ["gpu-vision"], by=None)
    assert Membership.objects.get(user=nina).role == "lead"


def test_who_is_a_member_by_group_is_not_offered_for_removal(owner, nina, bob):
    page = owner.get(PEOPLE).text
    assert "Remove bob from the team" in page
    assert "Remove nina from the team" not in page
    refused = owner.post(f"{PEOPLE}{nina.pk}/remove", follow=True)
    assert "Take them out of the group there." in refused.text


def test_a_team_without_such_roles_says_nothing_of_groups(owner, sso):
    assert "by group" not in owner.get(PEOPLE).text


def test_more_members_cost_no_more_queries(owner, nina, sso, django_assert_max_num_queries):
    with django_assert_max_num_queries(40) as few:
        owner.get(PEOPLE)
    for number in range(5):
        set_groups_of(make_user(f"person-{number}"), sso, ["gpu-vision"], by=None)
    with django_assert_max_num_queries(len(few)):
        owner.get(PEOPLE)
