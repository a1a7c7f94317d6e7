"""Service accounts: of a team, for pipelines; they use tokens and never sign in."""

import re
from datetime import timedelta

import pytest
from django.contrib.auth import authenticate
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from claims.quotas.namespaces import archive_team
from core.errors import Conflict, Invalid
from core.scopes import Scope
from teams import service_accounts
from teams.access import people_in
from teams.models import Membership, Role, User, recorded_changes
from teams.service_accounts import create_service_account
from teams.services import add_member, set_platform_admin
from teams.tokens import find_token
from tests.factories import make_user
from tests.teams.conftest import confirmed

PEOPLE = "/teams/vision/people/"
API = "/api/v1/teams/vision/service-accounts/"


@pytest.fixture
def lena(vision) -> User:
    lena = make_user("lena")
    Membership.objects.create(user=lena, team=vision, role=Role.LEAD)
    return lena


@pytest.fixture
def ci(lena, vision) -> User:
    return create_service_account(by=lena, team=vision, name="ci-train")


def token_for(account, by, **fields):
    return service_accounts.create_account_token(by=by, account=account, title="nightly", **fields)


def page_of(account):
    return f"/teams/vision/service-accounts/{account.pk}/"


def test_it_is_named_with_its_team_and_has_a_role_there(ci, vision):
    assert (ci.username, ci.label) == ("ci-train@vision", "ci-train (service account of vision)")
    assert Membership.objects.get(user=ci).role == Role.MEMBER
    assert recorded_changes(vision)[0].text == "service account ci-train: created as member"


def test_its_token_works_in_its_team_as_its_role(api, ci, lena):
    _row, text = token_for(ci, lena)
    me = api(token=text).get("/api/v1/me/").json()
    assert (me["username"], me["service_account"]) == ("ci-train@vision", True)
    assert [(row["team"], row["role"]) for row in me["teams"]] == [("vision", "member")]
    assert me["token"]["team"] == "vision"


def test_it_cannot_sign_in_with_a_password_or_a_session(ci):
    assert not ci.has_usable_password()
    ci.set_password("let me in")
    ci.save(update_fields=["password"])
    person = Client()
    person.force_login(ci)
    answer = person.get("/me/tokens/")
    assert answer.status_code == 302
    assert "/accounts/login/" in answer.headers["Location"]
    assert person.get("/api/v1/me/").status_code == 401


def test_nobody_knows_its_password(ci):
    assert authenticate(username=ci.username, password="") is None


@pytest.mark.parametrize("role", [Role.LEAD, Role.OWNER])
def test_it_is_never_lead_or_owner_since_people_decide(lena, vision, role):
    with pytest.raises(Invalid, match="people decide"):
        create_service_account(by=lena, team=vision, name="ci", role=role)


@pytest.mark.parametrize("name", ["", "CI", "a b", "-x", "x" * 41, "a\n"])
def test_a_name_is_one_of_kubernetes(lena, vision, name):
    with pytest.raises(Invalid):
        create_service_account(by=lena, team=vision, name=name)


def test_a_name_is_given_once_in_a_team(ci, lena, vision):
    with pytest.raises(Conflict, match="has a service account “ci-train” already"):
        create_service_account(by=lena, team=vision, name="ci-train")


@pytest.mark.security("scopes", "approves with the token of a pipeline")
@pytest.mark.parametrize("scope", [Scope.APPROVE, Scope.ADMIN])
def test_its_tokens_neither_approve_nor_administer(ci, lena, scope):
    with pytest.raises(Invalid, match="cannot have"):
        token_for(ci, lena, scopes=[scope])


def test_it_is_no_person(ci, lena, vision, root, browse):
    assert ci not in people_in(vision, at_least=Role.VIEWER)
    with pytest.raises(Invalid, match="No user has the name"):
        add_member(by=root, team=vision, username=ci.username, role=Role.LEAD)
    with pytest.raises(Conflict, match="only people are platform admins"):
        set_platform_admin(by=root, person=ci, admin=True)
    people = browse(root)
    assert ci.username not in people.get("/people/").text
    assert people.get(f"/people/{ci.pk}/").status_code == 404
    rows = people.get(PEOPLE, {"format": "csv"}).text
    assert ci.username not in rows


def test_disabled_its_tokens_do_not_work_and_enabled_they_do_again(ci, lena):
    _row, text = token_for(ci, lena)
    service_accounts.set_enabled(by=lena, account=ci, enabled=False)
    assert find_token(text) is None
    service_accounts.set_enabled(by=lena, account=ci, enabled=True)
    assert find_token(text) is not None


def test_deleted_its_tokens_end_its_name_is_free_and_its_row_stays(ci, lena, vision):
    _row, text = token_for(ci, lena)
    service_accounts.delete_service_account(by=lena, account=ci)
    service_accounts.delete_service_account(by=lena, account=ci)
    assert find_token(text) is None
    ci.refresh_from_db()
    assert (ci.is_active, ci.label) == (False, "ci-train (service account of vision)")
    again = create_service_account(by=lena, team=vision, name="ci-train")
    assert again.username == "ci-train@vision"
    assert [row.pk for row in service_accounts.service_accounts_of(vision)] == [again.pk]
    texts = [entry.text for entry in recorded_changes(vision)]
    assert texts.count("service account ci-train: deleted") == 1


def test_it_ends_with_its_team(ci, lena, vision, root):
    _row, text = token_for(ci, lena)
    archive_team(by=root, team=vision)
    ci.refresh_from_db()
    assert not ci.is_active
    assert find_token(text) is None
    assert ci.api_tokens.get().revoked_at is not None


# Pages.


def test_leads_and_owners_make_accounts_and_others_do_not(browse, lena, olga, alice, eve, vision):
    for person, status in ((lena, 302), (olga, 302), (alice, 403), (eve, 404)):
        body = {"name": f"ci-{person.username}", "role": "member"}
        assert browse(person).post("/teams/vision/service-accounts/new", body).status_code == status
    made = User.objects.filter(service_of=vision).values_list("first_name", flat=True)
    assert sorted(made) == ["ci-lena", "ci-olga"]


def test_the_members_page_lists_accounts_to_everybody_in_the_team(browse, ci, bob, lena):
    assert "ci-train" in browse(bob).get(PEOPLE).text
    assert page_of(ci) not in browse(bob).get(PEOPLE).text
    assert page_of(ci) in browse(lena).get(PEOPLE).text


def test_the_number_of_queries_of_the_members_page_does_not_grow(browse, ci, lena, vision):
    person = browse(lena)
    person.get(PEOPLE)

    def queries():
        with CaptureQueriesContext(connection) as seen:
            assert person.get(PEOPLE).status_code == 200
        return len(seen)

    one = queries()
    for number in range(10):
        create_service_account(by=lena, team=vision, name=f"ci-{number}")
    assert queries() == one


def test_a_token_is_made_rotated_and_revoked_on_the_page_of_the_account(browse, ci, lena):
    person, address = confirmed(browse(lena), "lena"), page_of(ci)
    made = person.post(address, {"title": "nightly", "scopes": ["request"], "days": "90"})
    (first,) = set(re.findall(r"drg_\w{46}", made.text))
    row = find_token(first)
    assert row is not None
    assert (row.user, row.scopes) == (ci, ["read", "request"])
    rotated = person.post(f"{address}tokens/{row.pk}/rotate", {"overlap": "0"})
    (second,) = set(re.findall(r"drg_\w{46}", rotated.text))
    assert (find_token(first), find_token(second)) == (None, row)
    person.post(f"{address}tokens/{row.pk}/revoke")
    assert find_token(second) is None
    assert "drg_" not in person.get("/teams/vision/people/").text


def test_a_malformed_token_form_is_422(browse, ci, lena):
    answer = browse(lena).post(page_of(ci), {"title": "", "days": "90"})
    assert answer.status_code == 422


@pytest.mark.parametrize("rest", ["", "delete/", "switch", "tokens/{token}/revoke", "tokens/{token}/rotate"])
def test_pages_of_an_account_are_for_leads(browse, ci, lena, alice, eve, rest):
    row, text = token_for(ci, lena)
    address = page_of(ci) + rest.format(token=row.pk)
    method = "get" if rest in ("", "delete/") else "post"
    assert getattr(browse(alice), method)(address).status_code == 403
    assert getattr(browse(eve), method)(address).status_code == 404
    assert find_token(text) is not None


def test_the_page_disables_and_deletes(browse, ci, lena):
    person = browse(lena)
    assert "is disabled" in person.post(f"{page_of(ci)}switch", follow=True).text
    assert "is enabled" in person.post(f"{page_of(ci)}switch", {"enabled": "on"}, follow=True).text
    assert "Its claims" in person.get(f"{page_of(ci)}delete/").text
    assert "was deleted" in person.post(f"{page_of(ci)}delete/", follow=True).text
    assert person.get(page_of(ci)).status_code == 404


# The API.


def test_the_api_makes_lists_changes_and_deletes(api, lena, bob, eve, vision):
    person = api(lena)
    made = person.post(API, {"name": "ci"}, format="json")
    assert made.status_code == 201
    assert made.json()["username"] == "ci@vision"
    assert [row["name"] for row in api(bob).get(API).json()["results"]] == ["ci"]
    assert api(bob).post(API, {"name": "x"}, format="json").status_code == 403
    assert api(eve).get(API).status_code == 404
    assert person.post(API, {"name": "ci"}, format="json").status_code == 409
    assert person.post(API, {"name": "CI"}, format="json").status_code == 422
    one = f"{API}ci/"
    assert person.patch(one, {"enabled": False}, format="json").json()["enabled"] is False
    assert api(bob).patch(one, {"enabled": True}, format="json").status_code == 403
    assert person.delete(one).status_code == 204
    assert person.get(one).status_code == 404


def test_the_api_makes_rotates_and_revokes_tokens_of_an_account(api, ci, lena, bob):
    tokens, person = f"{API}ci-train/tokens/", api(lena)
    made = person.post(tokens, {"title": "nightly"}, format="json")
    assert made.status_code == 201
    first = made.json()
    assert find_token(first["token"]).user == ci
    assert person.post(tokens, {"title": "x", "scopes": ["approve"]}, format="json").status_code == 422
    assert api(bob).get(tokens).status_code == 403
    rotated = person.post(f"{tokens}{first['id']}/rotate/", {"overlap": "0h"}, format="json")
    assert (rotated.status_code, find_token(first["token"])) == (200, None)
    listed = person.get(tokens).json()["results"]
    assert [row["title"] for row in listed] == ["nightly"]
    assert "token" not in listed[0]
    assert person.delete(f"{tokens}{first['id']}/").status_code == 204
    assert find_token(rotated.json()["token"]) is None


def test_its_token_expires_within_a_year(ci, lena):
    row, _text = token_for(ci, lena)
    row.refresh_from_db()
    assert row.expires_at - row.created_at <= timedelta(days=90)


@pytest.mark.security("access", "a service account that takes the name of another one, or of a person")
def test_service_account_does_not_change_its_name(api, ci, lena, vision):
    create_service_account(by=lena, team=vision, name="other")
    _row, text = token_for(ci, lena)
    for fields in ({"first_name": "other"}, {"last_name": "Maier"}, {"timezone": "Europe/Berlin"}, {}):
        assert api(token=text).patch("/api/v1/me/", fields, format="json").status_code == 403
    ci.refresh_from_db()
    assert ci.label == "ci-train (service account of vision)"


def test_service_account_is_found_by_what_it_cannot_share(api, ci, lena, olga, vision):
    """One that had renamed itself, when that was possible, neither hides another one nor breaks its page."""
    other = create_service_account(by=lena, team=vision, name="other")
    User.objects.filter(pk=ci.pk).update(first_name="other")
    for name, account in (("other", other), ("ci-train", ci)):
        one = f"{API}{name}/"
        assert api(lena).get(one).json()["id"] == str(account.pk)
        assert api(lena).get(f"{one}tokens/").status_code == 200
        assert api(olga).get(f"{one}workloads/").status_code == 200
