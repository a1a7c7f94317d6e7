"""The claim with the groups, in each shape that providers give it; what cannot be read changes nothing."""

from typing import Any

import pytest
from django.test import Client

from teams.identity.models import IdentityProvider
from teams.identity.people import groups_in
from teams.identity.services import change_provider
from teams.identity.sync import read_groups_again
from teams.models import Membership, User
from tests.teams.identity.conftest import NINA, due, sign_in

URL = "https://portal.example.org/groups"
READABLE: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "list": ("groups", {"groups": ["gpu", "ml"]}, ("gpu", "ml")),
    "text": ("groups", {"groups": "gpu"}, ("gpu",)),
    "text with commas": ("groups", {"groups": "gpu, ml"}, ("gpu", "ml")),
    "list as text": ("groups", {"groups": '["gpu","ml"]'}, ("gpu", "ml")),
    "text that only begins as a list": ("groups", {"groups": "[gpu"}, ("[gpu",)),
    "distinguished name": ("groups", {"groups": "CN=gpu,OU=x"}, ("CN=gpu,OU=x",)),
    "list of names with commas": ("groups", {"groups": ["Sales, EMEA"]}, ("Sales, EMEA",)),
    "map": ("roles", {"roles": {"gpu": {"1": "x"}, "ml": {}}}, ("gpu", "ml")),
    "empty map": ("roles", {"roles": {}}, ()),
    "nothing": ("groups", {}, ()),
    "null": ("groups", {"groups": None}, ()),
    "empty text": ("groups", {"groups": ""}, ()),
    "address": (URL, {URL: ["gpu"]}, ("gpu",)),
    "path": ("realm_access.roles", {"realm_access": {"roles": ["gpu"]}}, ("gpu",)),
    "path with a dot": ("r.gpu.portal.roles", {"r": {"gpu.portal": {"roles": ["gpu"]}}}, ("gpu",)),
    "escaped dot": (r"r.gpu\.portal.roles", {"r": {"gpu.portal": {"roles": ["gpu"]}}}, ("gpu",)),
    "path with an address": (f"r.{URL}.roles", {"r": {URL: {"roles": ["gpu"]}}}, ("gpu",)),
    "longer path beside a shorter one": ("a.b.c", {"a": {"x": 1}, "a.b": {"c": ["gpu"]}}, ("gpu",)),
    "path of nothing": ("realm_access.roles", {"realm_access": "x"}, ()),
    "NUL": ("groups", {"groups": ["gpu", "ml\0"]}, ("gpu",)),
}
UNREADABLE: dict[str, tuple[dict[str, Any], str]] = {
    "numbers": ({"groups": [1, 2]}, "numbers"),
    "a number": ({"groups": 5}, "numbers"),
    "true": ({"groups": True}, "true or false"),
    "objects": ({"groups": [{"name": "gpu"}]}, "objects"),
    "objects beside names": ({"groups": ["gpu", {"name": "ml"}]}, "objects"),
    "lists in a list": ({"groups": [["gpu"], ["ml"]]}, "lists in a list"),
    "null in a list": ({"groups": ["gpu", None]}, "no text"),
    "hasgroups": ({"hasgroups": True}, "too many"),
    "elsewhere": ({"_claim_names": {"groups": "src1"}}, "too many"),
}


@pytest.mark.parametrize(("claim", "claims", "groups"), READABLE.values(), ids=READABLE)
def test_groups_are_read_in_each_shape(claim, claims, groups):
    assert groups_in(claims, claim) == (groups, "")


@pytest.mark.parametrize(("claims", "problem"), UNREADABLE.values(), ids=UNREADABLE)
def test_groups_that_cannot_be_read_are_unknown_with_a_reason(claims, problem):
    groups, said = groups_in(claims, "groups")
    assert groups is None
    assert problem in said


def test_without_a_claim_nothing_is_read():
    assert groups_in({"groups": ["gpu"]}, "") == (None, "")


@pytest.mark.security("access", "groups in a form that passes for no groups")
@pytest.mark.parametrize("way", ["sign-in", "read again"])
@pytest.mark.parametrize("shape", ["numbers", "objects", "hasgroups"])
def test_unreadable_groups_keep_roles_and_show_on_the_page_until_readable(
    nina, issuer, root, client, sso, way, shape
):
    unread = {name: value for name, value in NINA.items() if name != "groups"} | UNREADABLE[shape][0]

    def read(claims: dict[str, Any]) -> None:
        if way == "sign-in":
            sign_in(Client(), issuer, **claims)
        else:
            issuer.claims = claims
            due()
            issuer.renews_id_token = True
            assert read_groups_again() == {"read": 1}

    client.force_login(root)
    page = "/settings/sign-in/providers/sso/"
    read(unread)
    assert Membership.objects.get(user__username="nina").role == "member"
    assert "The groups of nina cannot be read from “groups”" in client.get(page).text
    read(NINA)
    assert "cannot be read" not in client.get(page).text
    assert Membership.objects.filter(user__username="nina").exists()


def test_who_is_new_and_has_unreadable_groups_is_told_so(nina, issuer):
    answer = sign_in(Client(), issuer, sub="new", preferred_username="new", groups=[7])
    assert "your groups cannot be read: the claim has numbers" in answer.text
    assert not User.objects.filter(username="new").exists()


def test_map_of_roles_gives_its_roles(root, nina, issuer, sso):
    change_provider(by=root, provider=sso, groups_claim="urn:zitadel:iam:org:project:roles")
    IdentityProvider.objects.update(enabled=True)
    claims: dict[str, Any] = {name: value for name, value in NINA.items() if name != "groups"}
    roles: dict[str, Any] = {"urn:zitadel:iam:org:project:roles": {"gpu-vision": {"1": "corp.example"}}}
    sign_in(Client(), issuer, **claims, **roles)
    assert Membership.objects.filter(user__username="nina").exists()
