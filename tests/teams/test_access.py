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


def test_team_for_returns_a_team_of_the_reader(nlp, vision, alice):
    assert team_for(alice, "vision") == vision
    assert team_for(alice, "nlp") == nlp


def test_team_of_others_is_404_like_an_unknown_one(nlp, vision, eve):
    for slug in ("vision", "nonsense"):
        with pytest.raises(Http404):
            team_for(eve, slug)


def test_role_below_the_required_one_is_refused_by_name(nlp, vision, alice):
    assert team_for(alice, "nlp", at_least=Role.LEAD) == nlp
    with pytest.raises(PermissionDenied, match="You are member of vision; this requires the role lead"):
        team_for(alice, "vision", at_least=Role.LEAD)


def test_require_role_returns_the_role(vision, alice, root):
    assert require_role(alice, vision, at_least=Role.MEMBER) == Role.MEMBER
    assert require_role(root, vision, at_least=Role.OWNER) == Role.OWNER


def test_role_in_another_team_does_not_count(nlp, vision, eve):
    with pytest.raises(Http404):
        require_role(eve, vision, at_least=Role.VIEWER)


def test_teams_where_filters_by_role(nlp, vision, alice, bob, root):
    assert teams_where(alice, at_least=Role.LEAD) == [nlp]
    assert teams_where(alice, at_least=Role.MEMBER) == [nlp, vision]
    assert teams_where(bob, at_least=Role.MEMBER) == [nlp]
    assert teams_where(root, at_least=Role.OWNER) == [nlp, vision]


def test_people_in_filters_by_role_and_active(nlp, vision, olga, alice):
    left = make_user("left", is_active=False)
    vision.memberships.create(user=left, role=Role.OWNER)
    assert people_in(vision, at_least=Role.MEMBER) == [alice, olga]
    assert people_in(vision, at_least=Role.OWNER) == [olga]
