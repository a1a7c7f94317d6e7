"""Groups of a provider, and the roles that rules give their members."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from notify.models import Notice
from teams.identity.groups import set_groups_of
from teams.identity.models import ExternalGroup, GroupRule
from teams.models import AuditEntry, Membership, Role, User
from teams.scim.models import ScimUser
from tests.factories import make_team, make_user
from tests.teams.scim.conftest import GROUP, PATCH


@pytest.fixture
def vision(okta):
    team = make_team("vision", owners=(make_user("olga"),))
    GroupRule.objects.create(provider=okta.row, pattern="gpu-vision", team=team, role=Role.MEMBER)
    return team


def members() -> set[str]:
    return set(Membership.objects.exclude(user__username="olga").values_list("user__username", flat=True))


def test_members_of_a_group_get_its_role_and_lose_it(okta, vision):
    mia, noah = (okta.add_user(name)["id"] for name in ("mia", "noah"))
    made = okta.add_group("gpu-vision", mia, externalId="g1")
    path = f"Groups/{made['id']}"
    assert members() == {"mia"}
    okta.patch(path, {"op": "add", "path": "members", "value": [{"value": noah}]})
    assert members() == {"mia", "noah"}
    okta.patch(path, {"op": "Remove", "path": f'members[value eq "{mia}"]'})
    assert members() == {"noah"}
    okta.patch(path, {"op": "Remove", "path": "members", "value": [{"value": noah}]})
    assert members() == set()
    okta.patch(path, {"op": "Replace", "path": "members", "value": [{"value": mia}, {"value": noah}]})
    assert members() == {"mia", "noah"}
    assert okta.send("DELETE", path).status_code == 204
    assert members() == set()
    assert okta.get(path).status_code == 404
    changes = AuditEntry.objects.filter(action="member.added")
    assert set(changes.values_list("actor", "actor_kind")) == {("okta", "provider")}


def test_whole_group_is_replaced_as_okta_does(okta, vision):
    mia, noah = (okta.add_user(name)["id"] for name in ("mia", "noah"))
    made = okta.add_group("gpu-vision", mia)
    body = {
        "schemas": made["schemas"],
        "displayName": "gpu-vision",
        "members": [{"value": noah, "display": "x"}],
    }
    for _twice in range(2):
        answer = okta.send("PUT", f"Groups/{made['id']}", body)
        assert [one["value"] for one in answer.json()["members"]] == [noah]
    assert members() == {"noah"}
    renamed = {"id": made["id"], "displayName": "other"}
    okta.patch(f"Groups/{made['id']}", {"op": "replace", "value": renamed})
    assert okta.get(f"Groups/{made['id']}").json()["displayName"] == "other"
    assert members() == set()


def test_deleted_user_is_in_no_group_any_more(okta, vision):
    mia = okta.add_user("mia")["id"]
    made = okta.add_group("gpu-vision", mia)
    assert okta.send("DELETE", f"Users/{mia}").status_code == 204
    assert members() == set()
    assert okta.get(f"Groups/{made['id']}").json().get("members") is None


def test_groups_that_changed_while_somebody_was_inactive_count_again(okta, vision):
    mia, noah = (okta.add_user(name)["id"] for name in ("mia", "noah"))
    left = okta.add_group("gpu-vision", mia)
    for one in (mia, noah):
        okta.patch(f"Users/{one}", {"op": "replace", "value": {"active": False}})
    okta.send("PUT", f"Groups/{left['id']}", left | {"members": [{"value": noah}]})
    for one in (mia, noah):
        okta.patch(f"Users/{one}", {"op": "replace", "value": {"active": True}})
    assert members() == {"noah"}


def test_role_by_hand_stays(okta, vision):
    mia = okta.add_user("mia")["id"]
    Membership.objects.create(user=User.objects.get(username="mia"), team=vision, role=Role.LEAD)
    made = okta.add_group("gpu-vision", mia)
    okta.send("DELETE", f"Groups/{made['id']}")
    assert Membership.objects.get(user__username="mia").role == Role.LEAD


def test_group_that_tokens_told_of_is_taken_over(okta, vision):
    noah = make_user("noah")
    set_groups_of(noah, okta.row, ["gpu-vision"])
    assert okta.find("Groups", 'displayName eq "gpu-vision"') == []
    mia = okta.add_user("mia")["id"]
    okta.add_group("gpu-vision", mia)
    assert members() == {"mia"}
    assert ExternalGroup.objects.get().kept_by == ExternalGroup.Keeper.SCIM


def test_a_user_is_in_the_groups_that_scim_keeps_and_not_in_those_of_tokens(okta):
    mia = okta.add_user("mia")["id"]
    made = okta.add_group("gpu-vision", mia)
    set_groups_of(User.objects.get(username="mia"), okta.row, ["gpu-nlp"])
    assert [group["value"] for group in okta.get(f"Users/{mia}").json()["groups"]] == [made["id"]]


def test_groups_are_listed_filtered_and_conflict(okta):
    mia = okta.add_user("mia")["id"]
    first = okta.add_group("one", mia, externalId="1")
    okta.add_group("two")
    assert okta.add_group("one", status=409)["scimType"] == "uniqueness"
    assert okta.add_group("three", status=409, externalId="1")["scimType"] == "uniqueness"
    for condition, names in (
        ('displayName eq "ONE"', ["one"]),
        ('externalId eq "1"', ["one"]),
        (f'members.value eq "{mia}"', ["one"]),
        (f'members eq "{mia}"', ["one"]),
        ('members.value eq "x"', []),
        (f'displayName eq "two" or id eq "{first["id"]}"', ["one", "two"]),
    ):
        assert sorted(one["displayName"] for one in okta.find("Groups", condition)) == names, condition
    assert [one["value"] for one in okta.get(f"Users/{mia}").json()["groups"]] == [first["id"]]
    without = okta.find("Groups", 'displayName eq "one"', excludedAttributes="members")
    assert "members" not in without[0]
    with_members = okta.find("Groups", 'displayName eq "one"', attributes="members")
    assert with_members[0]["members"][0]["value"] == mia


@pytest.mark.parametrize("member", ["nobody", "01890000-0000-7000-8000-000000000000", "\x00", ""])
def test_members_that_nobody_is_are_refused(okta, member):
    error = okta.add_group("one", member, status=400 if member else 201)
    assert member == "" or error["scimType"] == "invalidValue"


def many(okta, count: int, name: str = "p") -> list[str]:
    """Let the provider keep so many people; return their ids."""
    people = User.objects.bulk_create(
        [User(username=f"{name}{number}", password="!") for number in range(count)]
    )
    rows = [ScimUser(provider=okta.row, user=user, user_name=user.username) for user in people]
    return [str(row.pk) for row in ScimUser.objects.bulk_create(rows)]


def statements(ask: Callable[[], object]) -> int:
    with CaptureQueriesContext(connection) as queries:
        ask()
    return len(queries)


def every_write_of_a_group(okta, name: str, ids: list[str]) -> dict[str, int]:
    """Return how many statements each request about a group needs, whose rule gives a role in vision."""
    half = len(ids) // 2
    path = f"Groups/{okta.add_group(name)['id']}"
    single = {"op": "Remove", "path": f'members[value eq "{ids[0]}"]'}
    whole = {"displayName": name, "schemas": [GROUP]}

    def members(some: list[str]) -> list[dict[str, str]]:
        return [{"value": pk} for pk in some]

    return {
        "joined": statements(
            lambda: okta.patch(path, {"op": "Add", "path": "members", "value": members(ids)})
        ),
        "one left": statements(lambda: okta.patch(path, single)),
        "one joined": statements(
            lambda: okta.patch(path, {"op": "Add", "path": "members", "value": members(ids[:1])})
        ),
        "half left": statements(lambda: okta.send("PUT", path, whole | {"members": members(ids[half:])})),
        "read": statements(lambda: okta.get(path)),
        "without members": statements(lambda: okta.client.get(f"/scim/v2/{path}?excludedAttributes=members")),
        "removed": statements(lambda: okta.send("DELETE", path)),
    }


def test_a_group_of_thousands_needs_the_statements_of_a_small_one(okta, vision):
    """Reading, adding, removing, replacing; each person gets the role, its entry and its notice."""
    GroupRule.objects.update(pattern="gpu-*")
    few = every_write_of_a_group(okta, "gpu-few", many(okta, 4, "few"))
    large = every_write_of_a_group(okta, "gpu-large", many(okta, 400, "large"))
    assert large == few
    added = AuditEntry.objects.filter(action="member.added", text__startswith="large")
    assert added.count() == 401  # one of them twice
    assert Notice.objects.filter(
        user__username__startswith="large", title="You are no longer in vision"
    ).exists()
    assert Notice.objects.filter(user__username="olga", title="200 people are no longer in vision").exists()
    assert members() == set()


def test_a_patch_of_members_is_what_the_whole_group_would_be(okta, vision):
    """Of all that is added and removed in one request the last counts, and nothing is read for it."""
    mia, noah, lea = (okta.add_user(name)["id"] for name in ("mia", "noah", "lea"))
    path = f"Groups/{okta.add_group('gpu-vision', mia)['id']}"
    okta.patch(
        path,
        {"op": "Add", "path": "members", "value": [{"value": noah, "display": "Noah"}, {"value": lea}]},
        {"op": "remove", "path": f'Members[value eq "{lea}"]'},
        {"op": "remove", "path": "members", "value": [{"value": mia}]},
        {"op": "add", "path": "members", "value": [{"value": mia}]},
    )
    assert members() == {"mia", "noah"}
    okta.patch(path, {"op": "remove", "path": f'members[value eq "{lea}"]'})  # no member: as it is
    okta.patch(path, {"op": "remove", "path": 'members[value eq "nobody"]'})
    assert members() == {"mia", "noah"}
    okta.patch(path, {"op": "remove", "path": "members"})
    assert members() == set()


def test_a_patch_of_members_of_another_version_is_refused(okta, vision):
    mia = okta.add_user("mia")["id"]
    path = f"Groups/{okta.add_group('gpu-vision', mia)['id']}"
    body = {
        "schemas": [PATCH],
        "Operations": [{"op": "remove", "path": f'members[value eq "{mia}"]'}],
    }
    assert okta.send("PATCH", path, body, **{"If-Match": 'W/"another"'}).status_code == 412
    assert members() == {"mia"}


def test_a_group_has_a_limit_of_members(okta, monkeypatch):
    monkeypatch.setattr("teams.scim.groups.MAX_MEMBERS", 2)
    ids = [okta.add_user(name)["id"] for name in ("mia", "noah", "lea")]
    path = f"Groups/{okta.add_group('one', *ids[:2])['id']}"
    add = {"op": "Add", "path": "members", "value": [{"value": ids[1]}]}
    okta.patch(path, add)
    add["value"] = [{"value": ids[2]}]
    assert okta.patch(path, add, status=400)["scimType"] == "invalidValue"
    assert ExternalGroup.objects.get().members.count() == 2
