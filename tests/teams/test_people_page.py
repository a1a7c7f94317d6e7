import pytest

from core.errors import Conflict
from teams.models import Membership, Role, User, recorded_changes
from teams.services import change_role
from tests.factories import make_user

PEOPLE = "/teams/vision/people/"


def role_of(user, team) -> str | None:
    return Membership.objects.filter(user=user, team=team).values_list("role", flat=True).first()


def role_url(user) -> str:
    return f"{PEOPLE}{user.pk}/role"


def remove_url(user) -> str:
    return f"{PEOPLE}{user.pk}/remove"


def test_members_see_the_member_list(browse, vision, bob):
    page = browse(bob).get(PEOPLE)
    assert page.status_code == 200
    assert "Alice Ames" in page.text
    assert "Add a member" not in page.text


def test_members_who_may_do_most_come_first(browse, vision, bob, alice):
    Membership.objects.filter(user=bob).update(role=Role.OWNER)
    Membership.objects.filter(user=alice).update(role=Role.VIEWER)
    shown = [row.user.username for row in browse(bob).get(PEOPLE).context["members"]]
    assert shown.index("bob") < shown.index("alice")
    assert Role(Membership.objects.get(user__username=shown[-1]).role) == Role.VIEWER


def test_team_is_404_for_an_outsider(browse, vision, eve, alice):
    outsider = browse(eve)
    assert outsider.get(PEOPLE).status_code == 404
    assert outsider.post(PEOPLE, {"username": "eve", "role": "owner"}).status_code == 404
    assert outsider.post(role_url(alice), {"role": "viewer"}).status_code == 404
    assert outsider.post(remove_url(alice)).status_code == 404
    assert outsider.get("/teams/nonsense/people/").status_code == 404


def test_anonymous_reader_is_sent_to_sign_in(client, vision):
    assert client.get(PEOPLE).headers["Location"] == f"/accounts/login/?next={PEOPLE}"


def test_owner_adds_a_member_by_user_name(browse, vision, olga, eve):
    answer = browse(olga).post(PEOPLE, {"username": "eve", "role": "lead"}, follow=True)
    assert "eve was added to vision." in answer.text
    assert role_of(eve, vision) == Role.LEAD


def test_platform_admin_may_manage_members(browse, vision, root, eve, alice):
    admin = browse(root)
    admin.post(PEOPLE, {"username": "eve", "role": "viewer"})
    admin.post(role_url(alice), {"role": "owner"})
    assert (role_of(eve, vision), role_of(alice, vision)) == (Role.VIEWER, Role.OWNER)


@pytest.mark.parametrize("who", ["alice", "bob"])
def test_non_owner_cannot_manage_members(browse, vision, alice, bob, eve, olga, who):
    person = browse(make_user(who))
    assert person.post(PEOPLE, {"username": "eve", "role": "owner"}).status_code == 403
    assert person.post(role_url(olga), {"role": "viewer"}).status_code == 403
    assert person.post(remove_url(olga)).status_code == 403
    assert role_of(eve, vision) is None
    assert role_of(olga, vision) == Role.OWNER


def test_unknown_user_name_is_refused_and_input_is_kept(browse, vision, olga):
    page = browse(olga).post(PEOPLE, {"username": "nobody", "role": "lead"})
    assert page.status_code == 422
    assert "No user has the name “nobody”." in page.text
    assert 'value="nobody"' in page.text


def test_inactive_user_cannot_be_added(browse, vision, olga, eve):
    User.objects.filter(pk=eve.pk).update(is_active=False)
    page = browse(olga).post(PEOPLE, {"username": "eve", "role": "member"})
    assert "No user has the name “eve”." in page.text
    assert role_of(eve, vision) is None


def test_member_cannot_be_added_twice(browse, vision, olga, bob):
    page = browse(olga).post(PEOPLE, {"username": "bob", "role": "owner"})
    assert "bob is already viewer of vision." in page.text
    assert role_of(bob, vision) == Role.VIEWER


def test_unknown_role_is_422(browse, vision, olga, bob):
    owner = browse(olga)
    assert owner.post(PEOPLE, {"username": "bob", "role": "king"}).status_code == 422
    assert owner.post(role_url(bob), {"role": "king"}).status_code == 422
    assert role_of(bob, vision) == Role.VIEWER


def test_last_owner_cannot_resign_or_leave(browse, vision, olga):
    owner = browse(olga)
    page = owner.post(role_url(olga), {"role": "viewer"}, follow=True)
    assert "olga is the only owner of vision." in page.text
    owner.post(remove_url(olga))
    assert role_of(olga, vision) == Role.OWNER


def test_one_of_two_owners_may_resign(browse, vision, olga, alice):
    owner = browse(olga)
    owner.post(role_url(alice), {"role": "owner"})
    owner.post(role_url(olga), {"role": "member"})
    assert (role_of(olga, vision), role_of(alice, vision)) == (Role.MEMBER, Role.OWNER)


def test_member_who_left_gets_404(browse, vision, bob):
    leaver = browse(bob)
    assert leaver.post(remove_url(bob)).headers["Location"] == "/"
    assert leaver.get(PEOPLE).status_code == 404


def test_non_member_cannot_be_changed_or_removed(browse, vision, olga, eve):
    owner = browse(olga)
    assert owner.post(role_url(eve), {"role": "owner"}).status_code == 404
    assert owner.post(remove_url(eve)).status_code == 404


def test_changes_of_members_are_recorded_and_shown_to_owners(browse, vision, olga, bob, eve):
    owner = browse(olga)
    owner.post(PEOPLE, {"username": "eve", "role": "viewer"})
    for role in ("lead", "lead", "member"):
        owner.post(role_url(bob), {"role": role})
    owner.post(remove_url(eve))
    recorded = [
        "eve: removed, was viewer",
        "bob: lead → member",
        "bob: viewer → lead",
        "eve: added as viewer",
    ]
    page = owner.get(PEOPLE)
    assert [entry.text for entry in page.context["changes"]] == recorded
    assert {entry.by for entry in page.context["changes"]} == {olga}
    assert all(change in page.text for change in recorded)
    assert recorded[0] not in browse(bob).get(PEOPLE).text


def test_refused_change_of_a_role_is_not_recorded(browse, vision, olga, alice):
    browse(alice).post(role_url(olga), {"role": "viewer"})
    browse(olga).post(role_url(olga), {"role": "viewer"})  # the only owner
    assert not recorded_changes(vision)


def test_role_that_has_changed_meanwhile_is_not_overwritten(vision, olga, bob):
    read_before = Membership.objects.get(user=bob)
    Membership.objects.filter(user=bob).update(role=Role.LEAD)
    with pytest.raises(Conflict, match="The role of bob has changed in the meantime"):
        change_role.__wrapped__(by=olga, team=vision, member=read_before, role=Role.MEMBER)
    assert role_of(bob, vision) == Role.LEAD


def test_member_page_query_count_is_constant(browse, vision, olga, django_assert_max_num_queries):
    owner = browse(olga)
    with django_assert_max_num_queries(20) as few:
        owner.get(PEOPLE)
    for number in range(30):
        Membership.objects.create(user=make_user(f"person-{number}"), team=vision)
    with django_assert_max_num_queries(len(few)):
        assert "person-29" in owner.get(PEOPLE).text


def test_changed_role_is_undone_from_the_message(browse, vision, olga, bob):
    client = browse(olga)
    before, undone = role_of(bob, vision), f"{role_url(bob)}?role={role_of(bob, vision)}"
    assert before != Role.LEAD
    page = client.post(role_url(bob), {"role": "lead"}, follow=True)
    assert role_of(bob, vision) == Role.LEAD
    assert f'action="{undone}"' in page.text
    client.post(undone, follow=True)
    assert role_of(bob, vision) == before
