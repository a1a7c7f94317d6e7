"""The first sign-in of somebody whom SCIM made finds the account by `externalId`, and never another one."""

from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from core.errors import Invalid
from teams.identity.services import change_provider
from teams.models import User
from teams.scim.people import ProvisionedPerson, create, delete
from teams.services import reactivate_person
from tests.factories import make_user
from tests.teams.conftest import confirm
from tests.teams.identity.conftest import configured, sign_in

MIRA: dict[str, Any] = {"sub": "00u1", "preferred_username": "mira", "groups": []}


@pytest.fixture
def mira(sso) -> User:
    return create(sso, ProvisionedPerson("mira@example.org", external_id="00u1")).user


def subjects(person: User) -> list[str]:
    return list(SocialAccount.objects.filter(user=person).values_list("uid", flat=True))


def test_the_account_is_found_without_any_address(issuer, sso, mira):
    browser = Client()
    assert sign_in(browser, issuer, **MIRA).status_code == 302
    assert subjects(mira) == ["00u1"]
    assert browser.get("/me/").wsgi_request.user == mira


def test_the_claim_is_chosen_for_each_provider(root, issuer, sso, mira):
    change_provider(by=root, provider=sso, external_id_claim="oid")
    browser = Client()
    assert sign_in(browser, issuer, **MIRA | {"sub": "pairwise-7", "oid": "00u1"}).status_code == 302
    assert subjects(mira) == ["pairwise-7"]


def test_without_a_claim_only_the_address_counts(root, issuer, sso, mira):
    change_provider(by=root, provider=sso, external_id_claim="")
    assert sign_in(Client(), issuer, **MIRA).status_code == 403
    assert subjects(mira) == []


@pytest.mark.security("sign-in", "the externalId that SCIM of another provider gave to somebody")
def test_an_external_id_of_another_provider_finds_nobody(root, issuer, sso, mira):
    configured(root, issuer, "partners", client_id="dragoman-2")
    change_provider(by=root, provider=sso, client_id="dragoman-1")
    type(sso).objects.filter(slug="partners").update(client_id="dragoman")
    assert sign_in(Client(), issuer, "partners", **MIRA).status_code == 403
    assert subjects(mira) == []


@pytest.mark.security("sign-in", "a second subject with the externalId of a linked account")
def test_an_account_that_is_linked_is_given_to_no_second_subject(root, issuer, sso, mira):
    change_provider(by=root, provider=sso, external_id_claim="oid")
    sign_in(Client(), issuer, **MIRA | {"sub": "first", "oid": "00u1"})
    refused = sign_in(Client(), issuer, **MIRA | {"sub": "second", "oid": "00u1"})
    assert refused.status_code == 403
    assert "somebody else signs in to it" in refused.text
    assert subjects(mira) == ["first"]


@pytest.mark.security("sign-in", "the externalId of an account with a password, or of another provider")
def test_an_account_with_a_password_or_of_another_provider_is_linked_in_the_profile_only(root, issuer, sso):
    bob = make_user("bob@example.org")
    create(sso, ProvisionedPerson("bob@example.org", external_id="00u2"))
    refused = sign_in(Client(), issuer, sub="00u2", preferred_username="bob", groups=[])
    assert refused.status_code == 403
    assert "which has a password. Sign in as you did before" in refused.text
    SocialAccount.objects.create(provider="elsewhere", uid="1", user=bob)
    User.objects.filter(pk=bob.pk).update(password="!")
    refused = sign_in(Client(), issuer, sub="00u2", preferred_username="bob", groups=[])
    assert "through another provider" in refused.text
    assert subjects(bob) == ["1"]


def test_who_is_signed_in_links_their_own_account_and_not_that_of_another(issuer, sso, mira):
    other = make_user("otto")
    browser = Client()
    browser.force_login(other)
    confirm(browser, "otto")
    issuer.claims = MIRA
    back = browser.post("/accounts/oidc/sso/login/", query_params={"process": "connect"})
    answer = issuer.authorize(back.headers["Refresh"].removeprefix("0; url="))
    refused = browser.get("/accounts/oidc/sso/login/callback/", answer)
    assert refused.status_code == 403
    assert "belongs to somebody else here" in refused.text
    assert not SocialAccount.objects.exists()


def test_a_person_whom_scim_deleted_is_not_found(issuer, sso, mira):
    delete(mira.scim_user)
    assert sign_in(Client(), issuer, **MIRA).status_code == 403
    assert subjects(mira) == []


def test_a_person_whom_scim_deleted_and_an_admin_restored_is_not_found(root, issuer, sso, mira):
    delete(mira.scim_user)
    reactivate_person(by=root, person=User.objects.get(pk=mira.pk))
    assert sign_in(Client(), issuer, **MIRA).status_code == 403
    assert subjects(mira) == []


@pytest.mark.parametrize("value", ["00u1\x00", "x" * 201, 7, ["00u1"], ""])
def test_only_the_exact_text_is_an_external_id(root, issuer, sso, mira, value):
    change_provider(by=root, provider=sso, external_id_claim="oid")
    assert sign_in(Client(), issuer, **MIRA | {"sub": "x", "oid": value}).status_code == 403
    assert subjects(mira) == []


@pytest.mark.parametrize("claim", ["email", "preferred_username", "upn"])
def test_a_claim_that_people_choose_is_refused(root, sso, claim):
    with pytest.raises(Invalid, match="People can change"):
        change_provider(by=root, provider=sso, external_id_claim=claim)


def test_scim_finds_who_signed_in_before_only_where_the_claim_is_the_subject(root, issuer, sso):
    nora = User.objects.create_user("nora")
    SocialAccount.objects.create(provider="sso", uid="00u9", user=nora)
    change_provider(by=root, provider=sso, external_id_claim="oid")
    sso.refresh_from_db()
    assert create(sso, ProvisionedPerson("another@example.org", external_id="00u9")).user != nora
