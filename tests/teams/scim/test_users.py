"""People whom a provider keeps: linked, made, changed and ended, as Entra ID and Okta ask for it."""

import json
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.test import Client

from core.origin import Source
from notify.models import Notice
from teams.models import AuditEntry, Membership, User
from teams.scim.models import ScimUser
from teams.services import deactivate_person, reactivate_person
from teams.tokens import find_token
from tests.factories import make_claim, make_team, make_token, make_user
from tests.teams.scim.conftest import PATCH

ENTERPRISE = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"


def entries(user) -> list[tuple[str, str, str, str]]:
    rows = AuditEntry.objects.filter(object_id=str(user.pk)).order_by("at", "pk")
    return [(row.action, row.actor, row.actor_kind, row.source) for row in rows]


def test_user_of_entra_id_gets_an_account(entra):
    made = entra.add_user(
        "mia@corp.example",
        externalId="58342554-38d6-4ec8-948c-50044d0a33fd",
        active=True,
        displayName="Mia Maier",
        name={"givenName": "Mia", "familyName": "Maier", "formatted": "Mia Maier"},
        emails=[{"primary": True, "type": "work", "value": "mia@corp.example"}],
        schemas=["urn:ietf:params:scim:schemas:core:2.0:User", ENTERPRISE],
        **{ENTERPRISE: {"department": "Vision"}},
    )
    user = User.objects.get(username="mia@corp.example")
    assert (user.first_name, user.last_name, user.email) == ("Mia", "Maier", "mia@corp.example")
    assert (user.is_active, user.is_superuser, user.is_staff) == (True, False, False)
    assert not user.has_usable_password()
    assert made["id"] == str(ScimUser.objects.get(user=user).pk)
    assert made["meta"]["location"] == f"http://testserver/scim/v2/Users/{made['id']}"
    assert made["externalId"] == "58342554-38d6-4ec8-948c-50044d0a33fd"
    assert ENTERPRISE not in made
    assert entries(user) == [
        ("person.created", "entra", "provider", Source.TOKEN),
        ("identity.provisioned", "entra", "provider", Source.TOKEN),
    ]
    assert AuditEntry.objects.filter(address="127.0.0.1", via="SCIM of Entra").count() == 2


@pytest.mark.security("access", "a password and rights as attributes of a user of SCIM")
@pytest.mark.parametrize(
    "fields", [{"isSuperuser": True}, {"is_superuser": True, "is_staff": True}, {"password": "secret-123"}]
)
def test_what_is_not_served_cannot_be_set(okta, fields):
    made = okta.add_user("mia", **fields)
    okta.patch(f"Users/{made['id']}", {"op": "replace", "value": fields})
    for name, value in fields.items():
        okta.patch(f"Users/{made['id']}", {"op": "add", "path": name, "value": value})
    answer = okta.send(
        "PUT", f"Users/{made['id']}", {"schemas": made["schemas"], "userName": "mia", **fields}
    )
    assert answer.status_code == 200
    user = User.objects.get(username="mia")
    assert (user.is_superuser, user.is_staff, user.has_usable_password()) == (False, False, False)
    assert "secret-123" not in answer.content.decode()


def test_account_is_found_by_the_subject_before_the_user_name(okta):
    by_subject, by_name = make_user("mia.old"), make_user("mia")
    SocialAccount.objects.create(provider="okta", uid="00u1", user=by_subject)
    okta.add_user("mia", externalId="00u1")
    assert ScimUser.objects.get().user == by_subject
    by_subject.refresh_from_db()
    assert by_subject.username == "mia.old"  # the name that the person has here stays
    assert not ScimUser.objects.filter(user=by_name).exists()


def test_account_is_linked_by_user_name_and_never_doubled(okta):
    before = make_user("Mia", first_name="Mia")
    made = okta.add_user("mia", name={"givenName": "Mia", "familyName": "Maier"})
    assert User.objects.filter(username__iexact="mia").get() == before
    okta.add_user("MIA", status=409)
    assert okta.add_user("other", status=201)["id"] != made["id"]
    assert okta.find("Users", 'userName eq "MIA"')[0]["id"] == made["id"]


def test_conflict_is_said_in_scims_form(okta):
    okta.add_user("mia", externalId="1")
    for name, external in (("mia", "2"), ("noah", "1")):
        error = okta.add_user(name, status=409, externalId=external)
        assert error["schemas"] == ["urn:ietf:params:scim:api:messages:2.0:Error"]
        assert (error["status"], error["scimType"]) == ("409", "uniqueness")


OUT_OF_REACH = {
    "break-glass": {"break_glass": True},
    "promoted": {"is_superuser": True, "is_staff": True},
    "promoted without a password": {"is_superuser": True, "password": "!"},
}


@pytest.mark.security(
    "access", "ending a platform admin or break-glass account over SCIM, linked before or not"
)
@pytest.mark.parametrize("columns", OUT_OF_REACH.values(), ids=OUT_OF_REACH)
def test_promoted_and_break_glass_accounts_are_out_of_reach_of_scim(okta, columns):
    kept, other = okta.add_user("mia", emails=[{"value": "mia@corp.example"}]), make_user("noah")
    path = f"Users/{kept['id']}"
    User.objects.filter(username__in=("mia", "noah")).update(**columns)
    root = make_user("root", admin=True)
    before = [*User.objects.order_by("username").values()]
    okta.add_user(other.username, status=409)
    assert not Notice.objects.exists()
    assert okta.get(path).json()["active"] is True
    changes: list[dict[str, Any]] = [{"userName": "x"}, {"emails": []}, {"active": False}]
    for fields in ({"name": {"givenName": "X"}}, *changes):
        assert not Notice.objects.exists()
        okta.patch(path, {"op": "replace", "value": fields}, status=409)
        assert okta.send("PUT", path, {**kept, **fields}).status_code == 409
    assert okta.send("DELETE", path).status_code == 409
    (told,) = Notice.objects.filter(user=root)
    assert told.title == "Okta ends mia, who keeps their account here"
    assert not Notice.objects.filter(user__username="mia").exists()
    assert okta.send("PUT", path, kept).status_code == 200  # which changes nothing
    assert [*User.objects.order_by("username").values()] == before


@pytest.mark.parametrize(
    "columns", [{"is_superuser": True, "admin_from_groups": True}, {}], ids=["group", "no"]
)
def test_platform_admin_by_a_group_is_in_reach_of_scim(okta, columns):
    made = okta.add_user("mia")
    User.objects.filter(username="mia").update(**columns)
    assert okta.patch(f"Users/{made['id']}", {"op": "replace", "value": {"active": False}})["active"] is False


def test_service_accounts_are_never_linked(okta):
    make_user("ci@vision", service_of=make_team("vision"))
    assert "service account" in okta.add_user("ci@vision", status=409)["detail"]


@pytest.mark.security("access", "taking over a person of another provider over SCIM")
def test_person_of_another_provider_is_not_taken_over(okta, entra):
    okta.add_user("mia")
    assert "another identity provider" in entra.add_user("mia", status=409)["detail"]
    noah = make_user("noah")
    SocialAccount.objects.create(provider="okta", uid="1", user=noah)
    assert "another identity provider" in entra.add_user("noah", status=409)["detail"]
    SocialAccount.objects.create(provider="entra", uid="2", user=noah)  # who signs in through both
    entra.add_user("noah")
    assert ScimUser.objects.get(user=noah).provider == entra.row


DEACTIVATIONS = [
    [{"op": "replace", "path": "active", "value": False}],  # RFC 7644
    [{"op": "Replace", "path": "active", "value": "False"}],  # Entra ID
    [{"op": "replace", "value": {"active": False}}],  # Okta
    [{"op": "Replace", "value": {"active": "false"}}],
]


@pytest.mark.security("sign-in", "sessions and tokens of a person whom the provider has ended")
@pytest.mark.parametrize("operations", DEACTIVATIONS)
def test_deactivation_ends_sessions_and_tokens_and_leaves_claims(okta, operations):
    made = okta.add_user("mia")
    mia, lead = User.objects.get(username="mia"), make_user("lead")
    team = make_team("vision", leads=(lead,), members=(mia,))
    claim = make_claim(by=mia, team=team)
    _token, text = make_token(mia)
    browser = Client()
    browser.force_login(mia)
    assert okta.patch(f"Users/{made['id']}", *operations)["active"] is False
    mia.refresh_from_db()
    assert not mia.is_active
    assert browser.get("/me/").status_code == 302
    assert find_token(text) is None
    assert not mia.sessions.exists()
    claim.refresh_from_db()
    assert (claim.requested_by, claim.team) == (mia, team)
    notice = Notice.objects.get(user=lead)
    assert "mia" in notice.title
    assert "1 live claim stays with vision" in notice.body
    assert "Okta" in notice.body
    okta.patch(f"Users/{made['id']}", *operations)  # again changes nothing
    assert Notice.objects.filter(user=lead).count() == 1
    actions = [action for action, *_ in entries(mia)]
    assert actions.count("person.deactivated") == 1


def test_user_who_was_made_inactive_is_activated_by_the_provider(okta):
    made = okta.add_user("mia", active=False)
    assert made["active"] is False
    answer = okta.patch(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": True})
    assert answer["active"] is True


def test_reactivation_gives_the_account_back_with_its_roles(okta):
    made = okta.add_user("mia")
    mia = User.objects.get(username="mia")
    make_team("vision", members=(mia,))
    for active in (False, True):
        assert (
            okta.patch(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": active})["active"]
            is active
        )
    mia.refresh_from_db()
    assert mia.is_active
    assert Membership.objects.filter(user=mia).count() == 1


def test_what_a_platform_admin_ended_stays_ended(okta, root):
    made = okta.add_user("mia")
    mia = User.objects.get(username="mia")
    deactivate_person(by=root, person=mia)
    answer = okta.patch(f"Users/{made['id']}", {"op": "replace", "path": "active", "value": True})
    assert answer["active"] is False
    reactivate_person(by=root, person=mia)
    assert okta.get(f"Users/{made['id']}").json()["active"] is True


def test_deleted_user_is_gone_for_the_provider_and_comes_back_as_the_same_person(okta):
    made = okta.add_user("mia", externalId="1")
    mia = User.objects.get(username="mia")
    assert okta.send("DELETE", f"Users/{made['id']}").status_code == 204
    mia.refresh_from_db()
    assert not mia.is_active
    for method in ("GET", "DELETE", "PATCH", "PUT"):
        assert okta.send(method, f"Users/{made['id']}", {}).status_code == 404
    assert okta.find("Users", 'externalId eq "1"') == []
    again = okta.add_user("mia", externalId="2")
    assert again["active"] is True
    mia.refresh_from_db()
    assert mia.is_active
    assert User.objects.filter(username="mia").count() == 1


def test_patches_as_entra_id_and_okta_send_them(entra):
    made = entra.add_user("mia", emails=[{"value": "old@corp.example", "type": "work", "primary": True}])
    path = f"Users/{made['id']}"
    entra.patch(
        path,
        {"op": "Replace", "path": 'emails[type eq "work"].value', "value": "mia@corp.example"},
        {"op": "Add", "path": "name.givenName", "value": "Mia"},
        {"op": "Add", "path": "name.familyName", "value": "Maier"},
        {"op": "Replace", "path": "externalId", "value": "42"},
        {"op": "Add", "path": f"{ENTERPRISE}:department", "value": "Vision"},
        {"op": "Replace", "path": "title", "value": "Engineer"},
    )
    mia = User.objects.get(username="mia")
    assert (mia.email, mia.first_name, mia.last_name) == ("mia@corp.example", "Mia", "Maier")
    entra.patch(
        path,
        {
            "op": "replace",
            "value": {"name.givenName": "M.", 'emails[type eq "work"].value': "m@corp.example"},
        },
    )
    entra.patch(path, {"op": "Remove", "path": "name.familyName"})
    mia.refresh_from_db()
    assert (mia.email, mia.first_name, mia.last_name) == ("m@corp.example", "M.", "")
    assert ScimUser.objects.get().external_id == "42"


def test_first_address_of_a_user_without_one_is_added_by_entra_id(entra):
    made = entra.add_user("mia")
    entra.patch(
        f"Users/{made['id']}",
        {"op": "Add", "path": 'emails[type eq "work"].value', "value": "mia@corp.example"},
    )
    assert User.objects.get(username="mia").email == "mia@corp.example"


def test_renamed_user_is_renamed_here_unless_somebody_chose_another_name(okta):
    made = okta.add_user("mia")
    path, mia = f"Users/{made['id']}", User.objects.get(username="mia")
    make_user("noah")
    okta.add_user("ada")
    rename = {"op": "replace", "path": "userName"}
    for said, name in (("o'hara", "o-hara"), ("Noah", "Noah-2"), ("mia.maier", "mia.maier")):
        assert okta.patch(path, rename | {"value": said})["userName"] == said
        mia.refresh_from_db()
        assert mia.username == name
    okta.patch(path, rename | {"value": "ADA"}, status=409)  # another user of the provider
    assert ScimUser.objects.get(user=mia).user_name == "mia.maier"
    User.objects.filter(pk=mia.pk).update(username="chosen")
    okta.patch(path, rename | {"value": "mia"})
    mia.refresh_from_db()
    assert mia.username == "chosen"


NAMES = [
    *("o'brien@example.com", "guest_gmail.com#EXT#@contoso.onmicrosoft.com", "CORP\\carol", "dave smith"),
    *("x!y@example.com", "auth0|5f7c8ec7c33c6c004bbafe82", "müller@example.com", "李", "$", " mia", "mia "),
    *("a" * 200, "mia\t", "🙂", "../etc", "<b>x</b>"),
]


def test_any_user_name_is_taken_kept_and_found_as_it_is(okta):
    made = {name: okta.add_user(name) for name in NAMES}
    assert [one["userName"] for one in made.values()] == NAMES
    for name, one in made.items():
        assert okta.get(f"Users/{one['id']}").json()["userName"] == name
        (found,) = okta.find("Users", f"userName eq {json.dumps(name)}")
        assert found["id"] == one["id"]
    names = [row.user.username for row in ScimUser.objects.select_related("user")]
    assert len({name.lower() for name in names}) == len(NAMES)
    assert {"o-brien@example.com", "CORP-carol", "dave-smith", "mia", "mia-2", "person"} <= {*names}
    for name in names:
        UnicodeUsernameValidator()(name)


@pytest.mark.parametrize(
    ("addresses", "primary", "email"),
    [
        (["frank@corp", "frank@corp.example"], 0, "frank@corp.example"),  # no mail reaches the first
        (["old@corp.example", "frank@corp.example"], 1, "frank@corp.example"),
        (["frank@corp.example", "old@corp.example"], 0, "frank@corp.example"),
        (["frank@corp.example", "old@corp.example"], None, "frank@corp.example"),
        (["frank@corp"], 0, ""),
    ],
)
def test_mail_goes_to_primary_address_that_is_sound(okta, addresses, primary, email):
    emails = [{"value": one, "primary": place == primary} for place, one in enumerate(addresses)]
    made = okta.add_user("frank", emails=emails)
    assert [one["value"] for one in made["emails"]] == addresses
    assert User.objects.get(username="frank").email == email


# What is accepted and dropped, and what a deactivation may stand beside.

WHAT_RFC_7643_HAS = {
    **{"displayName": "Zoe R", "nickName": "Z", "profileUrl": "https://x.example", "title": "Dr"},
    **{"userType": "Employee", "preferredLanguage": "de", "locale": "de-DE", "timezone": "Europe/Berlin"},
    **{"password": "x", "groups": [], "meta": {"resourceType": "User"}, "x509Certificates": [{"value": "x"}]},
    **{name: [{"value": "x", "primary": True}] for name in ("phoneNumbers", "ims", "photos", "roles")},
    **{"entitlements": [{"value": "x"}], "addresses": [{"formatted": "x"}]},
    ENTERPRISE: {"department": "Vision", "manager": {"value": "1"}, "employeeNumber": "7"},
    "urn:example:1.0:User": {"any": "thing"},
}


@pytest.mark.parametrize("value", [None, "x", 5, [], {}, "its own"], ids=str)
def test_attributes_that_are_not_kept_are_dropped_in_post_put_and_patch(okta, value):
    fields = {name: own if value == "its own" else value for name, own in WHAT_RFC_7643_HAS.items()}
    made = okta.add_user("zoe", name={"givenName": "Zoe"}, **fields)
    path = f"Users/{made['id']}"
    assert okta.send("PUT", path, {**made, **fields}).status_code == 200
    named = [{"op": "Add", "path": name, "value": one} for name, one in fields.items()]
    removed = [{"op": "remove", "path": name} for name in fields]
    kept = {"op": "replace", "path": "name.familyName", "value": "R"}
    okta.patch(path, {"op": "replace", "value": fields}, *named, *removed, kept)
    okta.patch(path, *named)
    zoe = User.objects.get(username="zoe")
    assert (zoe.label, zoe.is_active) == ("Zoe R", True)
    del fields["displayName"]  # which a group has
    group = okta.add_group("gpu", made["id"], **fields)
    path = f"Groups/{group['id']}"
    okta.patch(path, *(one for one in named if one["path"] in fields))
    assert okta.get(path).json()["members"][0]["value"] == made["id"]


# What stands beside a deactivation: what is kept as it is, or not kept; and what no user can have.
TAKEN: list[dict[str, Any]] = [
    *({name: value} for name, value in WHAT_RFC_7643_HAS.items()),
    *({"userName": name} for name in ("o'brien", "mia@corp", "Zoë Maier", "a" * 500)),
    *({"emails": [{"value": "x"}]}, {"emails": []}, {"name": {}}),
    *({"displayName": "Zoe"}, {"name": {"givenName": "Zoe", "familyName": "Maier"}}),
]
REFUSED: list[dict[str, Any]] = [
    *({"userName": name} for name in ("taken", "", 5, "a" * 600, "\x00")),
    *({"externalId": "x" * 300}, {"externalId": {}}, {"emails": [{"value": 5}]}, {"emails": [5]}),
    *({"name": {"givenName": "x" * 300}}, {"name": [1]}),
]


def deactivations(made, fields) -> list[tuple[str, dict[str, Any]]]:
    """Return a PUT and PATCHes, as Entra ID and Okta send them, that deactivate and say `fields`."""
    ((name, value),) = fields.items()
    patches: list[list[dict[str, Any]]] = [
        [
            {"op": "Replace", "path": "active", "value": "False"},
            {"op": "Replace", "path": name, "value": value},
        ],
        [{"op": "replace", "value": {name: value, "active": False}}],
        [{"op": "add", "path": name, "value": value}, {"op": "replace", "value": {"Active": False}}],
    ]
    bodies = [{"schemas": [PATCH], "Operations": operations} for operations in patches]
    return [*(("PATCH", body) for body in bodies), ("PUT", {**made, **fields, "active": False})]


@pytest.mark.parametrize("fields", TAKEN, ids=lambda fields: str(fields)[:50])
def test_deactivation_counts_whatever_else_it_says_of_the_user(okta, fields):
    made = okta.add_user("zoe")
    path, account = f"Users/{made['id']}", ScimUser.objects.get(pk=made["id"]).user
    for method, body in deactivations(made, fields):
        answer = okta.send(method, path, body)
        assert (answer.status_code, answer.json()["active"]) == (200, False), (method, answer.content)
        account.refresh_from_db()
        assert not account.is_active
        back = [{"op": "replace", "value": {"active": True, "userName": "zoe"}}]
        assert okta.send("PATCH", path, {"schemas": [PATCH], "Operations": back}).json()["active"] is True


@pytest.mark.security("sign-in", "a write of SCIM of which a part is refused: nothing of it is done")
@pytest.mark.parametrize("fields", REFUSED, ids=lambda fields: str(fields)[:50])
def test_write_of_which_a_part_is_refused_changes_nothing(okta, fields):
    okta.add_user("taken")
    made = okta.add_user("zoe", externalId="z-1", emails=[{"value": "zoe@corp.example"}])
    row = ScimUser.objects.get(pk=made["id"])
    stored = [*ScimUser.objects.order_by("pk").values(), *User.objects.order_by("pk").values()]
    said = AuditEntry.objects.count()
    for method, body in deactivations(made, fields):
        answer = okta.send(method, f"Users/{row.pk}", body)
        assert answer.status_code in (400, 409), (method, answer.content)
        assert answer.json()["detail"]
        assert [*ScimUser.objects.order_by("pk").values(), *User.objects.order_by("pk").values()] == stored
    assert AuditEntry.objects.count() == said


def test_put_replaces_everything_and_repeating_it_changes_nothing(okta):
    made = okta.add_user("mia", name={"givenName": "Mia"}, emails=[{"value": "mia@corp.example"}])
    body = {"schemas": made["schemas"], "userName": "mia", "active": True, "name": {"familyName": "Maier"}}
    first = okta.send("PUT", f"Users/{made['id']}", body)
    count = AuditEntry.objects.count()
    second = okta.send("PUT", f"Users/{made['id']}", body)
    assert first.content == second.content
    assert AuditEntry.objects.count() == count
    mia = User.objects.get(username="mia")
    assert (mia.first_name, mia.last_name, mia.email) == ("", "Maier", "")


def test_list_is_paged_and_filtered(okta):
    for number in range(5):
        okta.add_user(
            f"person-{number}", externalId=str(number), emails=[{"value": f"p{number}@corp.example"}]
        )
    page = okta.get("Users?startIndex=2&count=2").json()
    assert (page["totalResults"], page["startIndex"], page["itemsPerPage"]) == (5, 2, 2)
    assert [one["userName"] for one in page["Resources"]] == ["person-1", "person-2"]
    assert okta.get("Users?startIndex=9").json()["Resources"] == []
    assert okta.get("Users?count=0").json()["totalResults"] == 5
    for condition, names in (
        ('userName eq "PERSON-3"', ["person-3"]),
        ('externalId eq "2"', ["person-2"]),
        ('emails.value eq "p1@corp.example"', ["person-1"]),
        ('emails[type eq "work" and value eq "p1@corp.example"]', ["person-1"]),
        ('emails[type eq "work"].value eq "p1@corp.example"', ["person-1"]),
        ('userName eq "person-1" or externalId eq "4"', ["person-1", "person-4"]),
        ('userName eq "person-1" and externalId eq "4"', []),
        ('displayName eq "person-1"', []),
        ('id eq "nobody"', []),
        ('userName eq "nobody"', []),
        ("active eq false", []),
    ):
        assert [one["userName"] for one in okta.find("Users", condition)] == names, condition


def test_list_has_as_many_queries_for_one_as_for_fifty(okta, django_assert_max_num_queries):
    okta.add_user("person")
    okta.get("Users")
    with django_assert_max_num_queries(4):
        okta.get("Users")
    for number in range(50):
        okta.add_user(f"person-{number}")
    with django_assert_max_num_queries(4):
        assert len(okta.get("Users").json()["Resources"]) == 51


def test_etags(okta):
    made = okta.add_user("mia")
    path = f"Users/{made['id']}"
    read = okta.get(path)
    assert read.headers["ETag"] == made["meta"]["version"]
    assert okta.get(path, **{"If-None-Match": read.headers["ETag"]}).status_code == 304
    assert okta.send("DELETE", path, **{"If-Match": 'W/"other"'}).status_code == 412
    okta.patch(path, {"op": "replace", "path": "name.givenName", "value": "Mia"})
    assert okta.send("DELETE", path, **{"If-Match": read.headers["ETag"]}).status_code == 412
    assert okta.get(path, **{"If-None-Match": read.headers["ETag"]}).status_code == 200
    assert okta.send("DELETE", path, **{"If-Match": "*"}).status_code == 204


@pytest.mark.parametrize("path", ["Users/", "/Users", "/Users/"])
def test_slashes_too_many_in_an_address_are_ignored(okta, path):
    okta.add_user("mia")
    assert okta.get(path).json()["totalResults"] == 1
