"""Who decides on the requests of a team."""

import pytest

from claims.approvals.authority import deciders
from claims.models import Approval
from teams.access import people_in
from teams.models import Role
from tests.factories import make_team, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture
def gone(db):
    """A lead who cannot sign in any more."""
    return make_user("gone", is_active=False)


@pytest.fixture
def audio(alice, bob, lena, lars, gone, eve):
    make_team("nlp", leads=(eve,))
    return make_team("audio", viewers=(bob,), members=(alice,), leads=(lena, gone), owners=(lars,))


@pytest.mark.parametrize(
    ("role", "names"),
    [
        (Role.VIEWER, ["alice", "bob", "lars", "lena"]),
        (Role.MEMBER, ["alice", "lars", "lena"]),
        (Role.LEAD, ["lars", "lena"]),
        (Role.OWNER, ["lars"]),
    ],
)
def test_people_of_a_role_are_those_of_the_team_who_can_sign_in(
    audio, role, names, django_assert_num_queries
):
    with django_assert_num_queries(1):
        assert [person.username for person in people_in(audio, at_least=role)] == names


def test_leads_decide_unless_the_profile_asks_for_a_platform_admin(audio, lars, lena, root):
    assert deciders(audio, Approval.LEAD) == [lars, lena]
    assert deciders(audio, Approval.ADMIN) == [root]


def test_platform_admins_who_can_sign_in_decide_under_a_rule_for_admins(audio, root):
    make_user("former", admin=True, is_active=False)
    assert deciders(audio, Approval.ADMIN) == [root]
