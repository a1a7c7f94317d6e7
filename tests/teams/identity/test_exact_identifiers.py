"""What a provider calls somebody is compared whole and exactly: nothing is cut, trimmed or folded before."""

from collections.abc import Callable
from typing import Any

import pytest
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from teams.identity.groups import set_groups_of
from teams.identity.models import IdentityGrant, IdentityProvider
from teams.identity.people import (
    SignInRefused,
    external_id_of,
    groups_in,
    identity_of,
    linked_person,
    person_signing_in,
)
from teams.identity.services import save_rule
from teams.identity.sync import read_groups_again
from teams.identity.tokens import session_of
from teams.models import Membership, Session, User
from tests.factories import make_user
from tests.teams.identity.conftest import NINA, due, sign_in

# Pairs that differ in one way only, with at most 200 characters: so many each identifier may have.
PAIRS = {
    "case": ("abc", "aBc"),
    "blank before": ("abc", " abc"),
    "blank after": ("abc", "abc "),
    "blank within": ("a b", "a  b"),
    "tab": ("a b", "a\tb"),
    "line break": ("abc", "abc\n"),
    "form": ("\u00e9", "e\u0301"),
    **{f"after {length}": ("x" * length, "x" * length + "y") for length in (40, 80, 150, 191, 199)},
}
both = pytest.mark.parametrize(("one", "other"), PAIRS.values(), ids=PAIRS)


@pytest.fixture
def provider(db) -> IdentityProvider:
    return IdentityProvider.objects.create(
        slug="p", title="P", issuer="https://p.example", client_id="c", admits_everybody=True
    )


READ: dict[str, Callable[[IdentityProvider, str], Any]] = {
    "sub": lambda provider, text: identity_of(provider, {"sub": text}).subject,
    "external id": lambda provider, text: external_id_of({"oid": text}, "oid"),
    "group": lambda provider, text: groups_in({"groups": [text]}, "groups")[0],
    "only group": lambda provider, text: groups_in({"groups": text}, "groups")[0],
    "group as a key": lambda provider, text: groups_in({"groups": {text: 1}}, "groups")[0],
    "sid": lambda provider, text: session_of(text),
}


@both
@pytest.mark.parametrize("read", READ.values(), ids=READ)
def test_two_identifiers_are_never_read_as_one(provider, read, one, other):
    assert read(provider, one) != read(provider, other)


@both
@pytest.mark.security("sign-in", "a subject that another one begins with, or that differs by case or blanks")
def test_two_subjects_have_two_accounts_that_are_found_again(provider, one, other):
    people = [
        person_signing_in(provider, identity_of(provider, {"sub": text})).person for text in (one, other)
    ]
    assert people[0] != people[1]
    for text, person in zip((one, other), people, strict=True):
        assert SocialAccount.objects.get(uid=text).user == person
        assert linked_person(provider, identity_of(provider, {"sub": text})) == person


@both
def test_two_groups_have_two_rows_and_give_their_own_roles(provider, vision, root, alice, one, other):
    save_rule(by=root, provider=provider, pattern=one.strip(), team=vision, role="lead")
    set_groups_of(alice, provider, [one, other])
    assert set(provider.groups.values_list("name", flat=True)) == {one, other}
    person = make_user("somebody")
    set_groups_of(person, provider, [other])
    assert Membership.objects.filter(user=person).exists() is (other == one.strip())


@pytest.mark.security("sign-in", "long subjects that begin alike, and what they do later")
def test_subject_of_255_characters_signs_in_is_read_again_and_signed_out(root, nina, issuer, vision):
    subjects = ["s" * 254 + end for end in "ab"]
    browsers = [Client(), Client()]
    for browser, subject, name in zip(browsers, subjects, ("ann", "ben"), strict=True):
        sign_in(browser, issuer, **NINA | {"sub": subject, "preferred_username": name})
    ann, ben = (User.objects.get(username=name) for name in ("ann", "ben"))
    due()
    IdentityGrant.objects.exclude(user=ben).update(due_at=None)
    issuer.claims = NINA | {"sub": subjects[1], "groups": []}
    assert read_groups_again() == {"read": 1}
    assert [person.memberships.count() for person in (ann, ben)] == [1, 0]
    token = issuer.logout_token(sub=subjects[0])
    assert Client().post("/accounts/oidc/sso/logout/", {"logout_token": token}).status_code == 200
    assert [browser.get("/me/").status_code for browser in browsers] == [302, 200]


def test_subject_of_256_characters_signs_nobody_in(nina, issuer):
    answer = sign_in(Client(), issuer, **NINA | {"sub": "s" * 256})
    assert "its subject has 1 to 255 characters" in answer.text


@pytest.mark.parametrize("length", [255, 256, 2_000])
def test_session_of_any_length_is_ended_by_its_own_name_only(nina, issuer, length):
    """The provider names a session; one whose name begins alike goes on."""
    names = ["s" * (length - 1) + end for end in "ab"]
    browsers = [Client(), Client()]
    for browser, sid in zip(browsers, names, strict=True):
        issuer.changes = {"sid": sid}
        sign_in(browser, issuer, **NINA)
    assert Session.objects.exclude(provider_session="").count() == 3
    token = issuer.logout_token(sub=None, sid=names[0])
    assert Client().post("/accounts/oidc/sso/logout/", {"logout_token": token}).status_code == 200
    assert [browser.get("/me/").status_code for browser in browsers] == [302, 200]


def test_long_address_is_no_address_and_never_a_shorter_one(provider):
    address = "a" * 60 + "@" + ".".join(["b" * 40] * 5) + ".example"
    assert len(address) > 254
    assert identity_of(provider, {"sub": "1", "email": address}).email == ""
    address = "mia@" + ".".join(["b" * 60, "c" * 60, "d" * 40]) + ".example"
    assert identity_of(provider, {"sub": "1", "email": address}).email == address


@pytest.mark.security("sign-in", "halves of characters in what a provider signs or says")
@pytest.mark.parametrize("where", ["id_token", "userinfo"])
@pytest.mark.parametrize("claim", ["sub", "preferred_username", "name", "email", "groups", "sid", "other"])
def test_half_of_a_character_signs_nobody_in_and_is_no_error(nina, issuer, where, claim):
    claims = {claim: "\ud800" if claim != "groups" else ["\ud800"]}
    if where == "id_token":
        issuer.changes = claims
    else:
        issuer.userinfo = NINA | claims
    browser = Client()
    answer = sign_in(browser, issuer, **NINA)
    assert answer.status_code in (200, 403)
    assert browser.get("/me/").status_code == 302


@pytest.mark.parametrize(
    "value", [True, "true", False, "false", "True", "yes", "1", 1, 1.0, None, [], [True]]
)
def test_address_is_verified_only_by_true(provider, value):
    told = {"sub": "1", "email": "mia@corp.example", "email_verified": value}
    assert identity_of(provider, told).email_verified is (value is True or value == "true")
    provider.trusts_email = True
    assert identity_of(provider, told).email_verified
    assert not identity_of(provider, told | {"email": "mia"}).email_verified


def test_address_of_two_accounts_leads_to_neither(provider):
    for name in ("mia", "mia-2"):
        person = make_user(name, email="mia@corp.example")
        person.set_unusable_password()
        person.save()
    told = identity_of(provider, {"sub": "1", "email": "mia@corp.example", "email_verified": True})
    with pytest.raises(SignInRefused, match="There is an account with the address"):
        person_signing_in(provider, told)
