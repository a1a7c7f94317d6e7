"""Roles as a table: for everybody, in every team, by function, page and service alike."""

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import PermissionDenied
from django.http import Http404

from core.errors import Conflict, Forbidden, Invalid
from notify.models import Notice, NoticeKind
from notify.services import notify
from teams import services
from teams.access import (
    is_platform_admin,
    people_in,
    require_admin,
    require_role,
    role_in,
    team_for,
    teams_where,
)
from teams.models import ApiToken, Membership, Role, Team, User
from tests.factories import make_team, make_token, make_user


@pytest.fixture
def everybody(db):
    """One person of each role in vision, each of whom is something else in nlp; an outsider, an admin."""
    people: dict[str, Any] = {
        name: make_user(name) for name in ("viewer", "member", "lead", "owner", "outsider")
    }
    people["admin"] = make_user("admin", admin=True)
    people["nobody"] = AnonymousUser()
    make_team(
        "vision",
        viewers=(people["viewer"],),
        members=(people["member"],),
        leads=(people["lead"],),
        owners=(people["owner"],),
    )
    make_team("nlp", owners=(people["viewer"],), viewers=(people["owner"],))
    return people


ROLES = {
    "viewer": Role.VIEWER,
    "member": Role.MEMBER,
    "lead": Role.LEAD,
    "owner": Role.OWNER,
    "outsider": None,
    "admin": Role.OWNER,
    "nobody": None,
}


def test_role_in_for_each_person(everybody):
    vision = Team.objects.get(slug="vision")
    assert {name: role_in(person, vision) for name, person in everybody.items()} == ROLES
    assert [role.rank for role in Role] == [0, 1, 2, 3]


@pytest.mark.parametrize("least", Role)
def test_require_role_for_each_person(everybody, least):
    vision = Team.objects.get(slug="vision")

    def asked(call):
        try:
            return call()
        except Http404:
            return 404
        except PermissionDenied as refusal:
            return str(refusal)

    for name, person in everybody.items():
        role = ROLES[name]
        if role is None:
            expected: Any = (404, 404)
        elif role.rank >= least.rank:
            expected = (role, vision)
        else:
            told = f"You are {role.label} of vision; this requires the role {least.label}."
            expected = (told, told)
        answers = (
            asked(lambda person=person: require_role(person, vision, at_least=least)),
            asked(lambda person=person: team_for(person, "vision", at_least=least)),
        )
        assert answers == expected, name


def test_teams_where_for_each_person(everybody):
    found = {
        name: [[team.slug for team in teams_where(person, at_least=role)] for role in Role]
        for name, person in everybody.items()
    }
    both = ["nlp", "vision"]
    assert found == {
        "viewer": [both, ["nlp"], ["nlp"], ["nlp"]],
        "member": [["vision"], ["vision"], [], []],
        "lead": [["vision"], ["vision"], ["vision"], []],
        "owner": [both, ["vision"], ["vision"], ["vision"]],
        "outsider": [[], [], [], []],
        "admin": [both, both, both, both],
        "nobody": [[], [], [], []],
    }


def test_people_in_is_ordered_by_user_name(everybody):
    vision = Team.objects.get(slug="vision")
    another = make_user("another")
    vision.memberships.create(user=another, role=Role.MEMBER)
    found = [[person.username for person in people_in(vision, at_least=role)] for role in Role]
    assert found == [
        ["another", "lead", "member", "owner", "viewer"],
        ["another", "lead", "member", "owner"],
        ["lead", "owner"],
        ["owner"],
    ]


def test_require_admin_for_each_person(everybody):
    for name, person in everybody.items():
        assert is_platform_admin(person) is (name == "admin")
        if name == "admin":
            require_admin(person)
        else:
            with pytest.raises(Forbidden, match="Only platform admins may do this"):
                require_admin(person)


# What the pages check, the services check again: the next caller may be another one.


@pytest.mark.django_db
@pytest.mark.parametrize("who", ["viewer", "member", "lead", "outsider"])
def test_member_services_refuse_non_owners(everybody, who):
    vision, person = Team.objects.get(slug="vision"), everybody[who]
    other = vision.memberships.get(user__username="member" if who != "member" else "viewer")
    before = list(Membership.objects.order_by("pk").values())
    for call in (
        lambda: services.add_member(by=person, team=vision, username="outsider", role=Role.OWNER),
        lambda: services.change_role(by=person, team=vision, member=other, role=Role.LEAD),
        lambda: services.remove_member(by=person, team=vision, member=other),
    ):
        with pytest.raises(Http404 if who == "outsider" else PermissionDenied):
            call()
    assert list(Membership.objects.order_by("pk").values()) == before


@pytest.mark.parametrize("who", ["owner", "admin"])
def test_owner_adds_changes_and_removes_a_member(everybody, who):
    vision, person = Team.objects.get(slug="vision"), everybody[who]
    made = services.add_member(by=person, team=vision, username="outsider", role=Role.LEAD)
    assert (made.user.username, made.team, made.role) == ("outsider", vision, Role.LEAD)
    services.change_role(by=person, team=vision, member=made, role=Role.VIEWER)
    viewer = vision.memberships.get(user=everybody["viewer"])
    services.remove_member(by=person, team=vision, member=viewer)
    assert set(Membership.objects.values_list("team__slug", "user__username", "role")) == {
        ("vision", "outsider", "viewer"),
        ("vision", "member", "member"),
        ("vision", "lead", "lead"),
        ("vision", "owner", "owner"),
        ("nlp", "viewer", "owner"),
        ("nlp", "owner", "viewer"),
    }


def test_last_owner_stays_even_if_other_teams_have_owners(everybody):
    vision, owner = Team.objects.get(slug="vision"), everybody["owner"]
    mine = vision.memberships.get(user=owner)
    told = "owner is the only owner of vision. Make another member an owner first."
    for call in (
        lambda: services.change_role(by=owner, team=vision, member=mine, role=Role.LEAD),
        lambda: services.remove_member(by=owner, team=vision, member=mine),
        lambda: services.remove_member(by=everybody["admin"], team=vision, member=mine),
    ):
        with pytest.raises(Conflict) as refusal:
            call()
        assert refusal.value.message == told
    services.change_role(by=owner, team=vision, member=mine, role=Role.OWNER)
    lead = vision.memberships.get(user=everybody["lead"])
    services.remove_member(by=owner, team=vision, member=lead)
    assert mine.__class__.objects.get(pk=mine.pk).role == Role.OWNER


def test_refused_additions_name_field_and_role(everybody):
    vision, owner = Team.objects.get(slug="vision"), everybody["owner"]
    with pytest.raises(Invalid) as unknown:
        services.add_member(by=owner, team=vision, username="nobody", role=Role.VIEWER)
    assert unknown.value.message == "No user has the name “nobody”."
    assert unknown.value.extra == {"field": "username"}
    with pytest.raises(Conflict) as known:
        services.add_member(by=owner, team=vision, username="lead", role=Role.VIEWER)
    assert known.value.message == "lead is already lead of vision."


def test_members_are_listed_by_role_in_page_and_csv(everybody, browse):
    User.objects.filter(username="lead").update(first_name="Lea", last_name="Lead")
    for who, may_change in (("viewer", False), ("lead", False), ("owner", True), ("admin", True)):
        person = browse(everybody[who])
        context = person.get("/teams/vision/people/").context
        assert context["may_change"] is may_change
        names = [member.user.username for member in context["members"]]
        assert names == ["owner", "lead", "member", "viewer"]
        answer = person.get("/teams/vision/people/?format=csv")
        assert answer.headers["Content-Disposition"] == 'attachment; filename="people-vision.csv"'
        assert answer.getvalue().decode("utf-8-sig").splitlines() == [
            "User name,Name,Role,By group",
            "owner,owner,owner,",
            "lead,Lea Lead,lead,",
            "member,member,member,",
            "viewer,viewer,viewer,",
        ]
    assert browse(everybody["outsider"]).get("/teams/vision/people/?format=csv").status_code == 404


def test_non_owner_is_refused_before_the_form_is_checked(everybody, browse):
    empty = {"username": "", "role": ""}
    assert browse(everybody["lead"]).post("/teams/vision/people/", empty).status_code == 403
    assert browse(everybody["owner"]).post("/teams/vision/people/", empty).status_code == 422


def test_api_teams_show_the_readers_role(everybody, api):
    def listed(who):
        rows = api(everybody[who]).get("/api/v1/teams/").json()["results"]
        return [(row["slug"], row["title"], row["role"], row["members"]) for row in rows]

    assert listed("owner") == [("nlp", "Nlp", "viewer", 2), ("vision", "Vision", "owner", 4)]
    assert listed("lead") == [("vision", "Vision", "lead", 4)]
    assert listed("admin") == [("nlp", "Nlp", None, 2), ("vision", "Vision", None, 4)]
    detail = api(everybody["viewer"]).get("/api/v1/teams/nlp").json()
    assert sorted(detail.pop("people"), key=lambda one: one["username"]) == [
        {"username": "owner", "name": "owner", "role": "viewer"},
        {"username": "viewer", "name": "viewer", "role": "owner"},
    ]
    nlp = Team.objects.get(slug="nlp")
    assert detail == {
        "id": str(nlp.pk),
        "slug": "nlp",
        "title": "Nlp",
        "efficiency_goal": None,
        "archived_at": None,
        "role": "owner",
        "members": 2,
    }
    assert api(everybody["lead"]).get("/api/v1/teams/nlp").status_code == 404


def test_notice_list_filters_searches_and_sorts(everybody, browse, api):
    lead, other = everybody["lead"], everybody["member"]
    for key, title, body, important in (
        ("1", "first", "apple", True),
        ("2", "second", "pear", False),
        ("3", "third", "apple", False),
    ):
        notify(
            [lead],
            kind=NoticeKind.CHANGE,
            key=key,
            title=title,
            body=body,
            url=f"/{key}/",
            important=important,
        )
        notify([other], kind=NoticeKind.CHANGE, key=key, title="of another", body=body)
    Notice.objects.filter(user=lead, key="3").update(read_at="2026-01-01T00:00Z")

    def shown(query=""):
        page = browse(lead).get(f"/me/notices/{query}")
        return [notice.title for notice in page.context["listing"].page]

    assert shown() == ["third", "second", "first"]
    assert shown("?show=unread") == ["second", "first"]
    assert shown("?show=important") == ["first"]
    assert shown("?q=apple") == ["third", "first"]
    assert shown("?q=second") == ["second"]
    assert shown("?sort=created") == ["first", "second", "third"]
    rows = api(lead).get("/api/v1/notices/").json()["results"]
    assert [
        (row["title"], row["body"], row["url"], row["important"], bool(row["read_at"])) for row in rows
    ] == [
        ("third", "apple", "/3/", False, True),
        ("second", "pear", "/2/", False, False),
        ("first", "apple", "/1/", True, False),
    ]


def test_marking_notices_shows_how_many_were_unread(everybody, browse):
    lead = everybody["lead"]
    for key in ("1", "2", "3"):
        notify([lead], kind=NoticeKind.CHANGE, key=key, title="t")
    one = Notice.objects.filter(user=lead).first()
    person = browse(lead)
    response = person.post("/me/notices/read/", {"id": str(one.pk)}, follow=True)
    assert "1 notice marked as read." in response.text
    assert "2 notices marked as read." in person.post("/me/notices/read/", follow=True).text
    assert "0 notices marked as read." in person.post("/me/notices/read/", follow=True).text


def test_notice_without_url_leads_to_the_list(everybody, browse):
    notify([everybody["lead"]], kind=NoticeKind.CHANGE, key="k", title="t")
    notice = Notice.objects.get()
    answer = browse(everybody["lead"]).get(f"/me/notices/{notice.pk}/")
    assert answer.headers["Location"] == "/me/notices/"


def test_active_tokens_are_listed_newest_first(everybody, browse, api):
    lead = everybody["lead"]
    for title in ("old", "new", "revoked"):
        make_token(lead, title)
    make_token(everybody["member"], "of another")
    ApiToken.objects.filter(title="revoked").update(revoked_at="2026-01-01T00:00Z")
    ApiToken.objects.filter(title="old").update(created_at="2026-01-01T00:00Z")
    page = browse(lead).get("/me/tokens/")
    assert [token.title for token in page.context["tokens"]] == ["new", "old"]
    lines = browse(lead).get("/me/tokens/?format=csv").getvalue().decode("utf-8-sig").splitlines()
    assert [line.split(",")[0] for line in lines] == ["Token", "new", "old"]
    rows = api(lead).get("/api/v1/tokens/").json()["results"]
    assert {row["title"] for row in rows} == {"new", "old"}
    assert set(rows[0]) == {
        *("id", "title", "start", "scopes", "team", "created_at", "expires_at", "last_used_at"),
        *("last_used_from", "rotated_at", "previous_ends_at"),
    }
    revoked = ApiToken.objects.get(title="revoked")
    assert api(lead).delete(f"/api/v1/tokens/{revoked.pk}").status_code == 404
    assert browse(lead).post(f"/me/tokens/{uuid.uuid4()}/revoke").status_code == 404


def test_theme_and_profile_change_one_person_only(everybody, browse):
    lead = browse(everybody["lead"])
    lead.post("/me/theme", {"theme": "dark"})
    assert dict(User.objects.values_list("username", "theme"))["lead"] == "dark"
    assert set(User.objects.exclude(username="lead").values_list("theme", flat=True)) == {"system"}
    form = {"first_name": "L", "last_name": "E", "email": "",
            "timezone": "Asia/Tokyo", "theme": "light"}  # fmt: skip
    answer = lead.post("/me/", form)
    assert User.objects.filter(username="lead").values(*form).get() == form
    assert set(User.objects.exclude(username="lead").values_list("timezone", flat=True)) == {""}
    cookie = answer.cookies["theme"]
    assert (cookie.value, cookie["max-age"], cookie["httponly"], cookie["samesite"]) == (
        "light", 365 * 24 * 3600, True, "Lax",
    )  # fmt: skip


def test_current_team_can_be_cleared_and_redirects_back(everybody, browse):
    lead = browse(everybody["lead"])
    answer = lead.post("/me/team", {"team": "vision", "next": "/me/tokens/"})
    assert (answer.headers["Location"], answer.cookies["team"].value) == ("/me/tokens/", "vision")
    answer = lead.post("/me/team", {"team": ""})
    assert (answer.headers["Location"], answer.cookies["team"].value) == ("/", "")
