"""Who may know of a team, and who may do what in it: the functions that every page and service asks."""

import pytest
from django.core.exceptions import PermissionDenied
from django.http import Http404

from teams.access import people_in, require_role, team_for, teams_where
from teams.models import Role
from tests.factories import make_team, make_user


@pytest.fixture
def nlp(alice, bob, eve):
    """Another team, which comes before vision: alice leads it, bob is a member, eve its owner."""
    return make_team("nlp", leads=(alice,), members=(bob,), owners=(eve,))


def test_a_team_is_found_by_its_slug_among_those_of_the_reader(nlp, vision, alice):
    assert team_for(alice, "vision") == vision
    assert team_for(alice, "nlp") == nlp


def test_a_team_of_others_is_404_as_one_that_is_not_there(nlp, vision, eve):
    for slug in ("vision", "nonsense"):
        with pytest.raises(Http404):
            team_for(eve, slug)


def test_a_role_below_what_is_asked_is_refused_by_name(nlp, vision, alice):
    assert team_for(alice, "nlp", at_least=Role.LEAD) == nlp
    with pytest.raises(PermissionDenied, match="You are member of vision; this needs lead"):
        team_for(alice, "vision", at_least=Role.LEAD)


def test_the_role_that_was_required_is_returned(vision, alice, root):
    assert require_role(alice, vision, at_least=Role.MEMBER) == Role.MEMBER
    assert require_role(root, vision, at_least=Role.OWNER) == Role.OWNER


def test_a_role_in_another_team_is_none_here(nlp, vision, eve):
    with pytest.raises(Http404):
        require_role(eve, vision, at_least=Role.VIEWER)


def test_teams_are_those_in_which_the_person_has_the_role(nlp, vision, alice, bob, root):
    assert teams_where(alice, at_least=Role.LEAD) == [nlp]
    assert teams_where(alice, at_least=Role.MEMBER) == [nlp, vision]
    assert teams_where(bob, at_least=Role.MEMBER) == [nlp]
    assert teams_where(root, at_least=Role.OWNER) == [nlp, vision]


def test_people_of_a_team_have_the_role_there_and_can_sign_in(nlp, vision, olga, alice):
    left = make_user("left", is_active=False)
    vision.memberships.create(user=left, role=Role.OWNER)
    assert people_in(vision, at_least=Role.MEMBER) == [alice, olga]
    assert people_in(vision, at_least=Role.OWNER) == [olga]
