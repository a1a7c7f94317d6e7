"""Who approves, by the rules of the reader's teams, on every page and in the API."""

import csv
import io
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.catalogue.listing import catalogue
from claims.models import Approval, ApprovalRule
from tests.factories import make_profile, make_team, make_user

pytestmark = pytest.mark.django_db

CATALOGUE = reverse("claims:catalogue")
API = "/api/v1/profiles/train-80/"


@pytest.fixture
def nlp(alice):
    return make_team("nlp", members=(alice,))


def approval_shown_to(user, slug="train-80"):
    return {entry.profile.slug: entry for entry in catalogue(user)}[slug].approval_sentence


def rule(team=None, profile=None, approval=Approval.ADMIN, **fields):
    return ApprovalRule.objects.create(team=team, profile=profile, approval=approval, **fields)


def test_profile_decides_without_a_rule(alice, vision, nlp, train):
    assert approval_shown_to(alice) == "A lead of your team approves."


def test_rule_of_the_team_overrides_the_profile(alice, vision, train):
    rule(vision, automatic_devices=2, automatic_duration=timedelta(hours=12))
    assert approval_shown_to(alice) == "A platform admin approves. Up to 2 devices for 12 h need no approval."


def test_rule_without_an_approval_changes_nothing(alice, vision, train):
    rule(vision, approval="", escalate_after=timedelta(hours=1))
    assert approval_shown_to(alice) == "A lead of your team approves."


def test_same_approval_in_every_team_is_one_sentence(alice, vision, nlp, train):
    rule(vision)
    rule(nlp)
    assert approval_shown_to(alice) == "A platform admin approves."


def test_different_approvals_name_the_teams(alice, vision, nlp, train):
    rule(vision, train, Approval.AUTOMATIC)
    assert approval_shown_to(alice) == "nlp: A lead of your team approves. vision: No approval needed."


def test_three_of_many_teams_are_named(root, vision, nlp, train):
    for name in ("one", "three", "two"):
        make_team(name)
    rule(vision, train, Approval.AUTOMATIC)
    assert (
        approval_shown_to(root)
        == "nlp, one, three and 1 more: A lead of your team approves. vision: No approval needed."
    )


def test_team_that_may_not_request_the_profile_does_not_count(alice, vision, nlp):
    make_profile("own", teams=(vision,))
    rule(nlp, approval=Approval.AUTOMATIC)
    assert approval_shown_to(alice, "own") == "A lead of your team approves."


def test_reader_without_a_team_sees_the_general_approval(eve, bob, vision, train):
    rule(vision)
    rule(profile=train, approval=Approval.BOTH)
    for person in (eve, bob):
        assert approval_shown_to(person) == "A lead of your team approves, then a platform admin."


def test_filter_without_approval_uses_the_rules_of_the_reader(client, alice, vision, train):
    client.force_login(alice)
    page = reverse("claims:profile", args=["train-80"])
    assert page not in client.get(f"{CATALOGUE}?automatic=1").text
    rule(vision, automatic_devices=1)
    assert page in client.get(f"{CATALOGUE}?automatic=1").text


def test_pages_csv_and_api_show_the_same_approval(client, alice, vision, nlp, train):
    rule(vision, train, Approval.AUTOMATIC)
    make_profile("other")
    sentence = "nlp: A lead of your team approves. vision: No approval needed."
    client.force_login(alice)
    profile = reverse("claims:profile", args=["train-80"])
    compared = reverse("claims:catalogue_compare") + "?profile=train-80&profile=other"
    for address in (
        CATALOGUE,
        f"{CATALOGUE}?view=table",
        profile,
        compared,
    ):
        assert sentence in client.get(address).text, address
    rows = csv.DictReader(io.StringIO(client.get(f"{CATALOGUE}?format=csv").text))
    assert {row["profile"]: row["approval"] for row in rows}["train-80"] == sentence
    profile = client.get(API).json()
    assert profile["approval_sentence"] == sentence
    assert [(one["team"], one["approval"]) for one in profile["approval_of_teams"]] == [
        ("nlp", "lead"),
        ("vision", "automatic"),
    ]
    assert profile["approval"] == "lead"  # what the version says itself


def test_outsider_sees_no_approval_of_a_profile_of_others(client, eve, vision):
    make_profile("own", teams=(vision,))
    client.force_login(eve)
    assert client.get(reverse("claims:profile", args=["own"])).status_code == 404
    assert client.get("/api/v1/profiles/own/").status_code == 404


def test_rules_are_read_once_for_all_profiles(client, alice, vision, nlp, train):
    rule(vision, train)
    client.force_login(alice)
    client.get(CATALOGUE)
    with CaptureQueriesContext(connection) as one:
        client.get(CATALOGUE)
    for number in range(12):
        profile = make_profile(f"more-{number}")
        rule(nlp, profile, automatic_devices=number)
    with CaptureQueriesContext(connection) as many:
        client.get(CATALOGUE)
    assert len(many) == len(one)


def test_rules_of_other_teams_are_not_read(alice, vision, train):
    stranger = make_team("secret", members=(make_user("mallory"),))
    rule(stranger, train, Approval.AUTOMATIC)
    assert approval_shown_to(alice) == "A lead of your team approves."


def test_list_of_the_api_names_only_teams_of_the_reader(client, root, alice, vision, nlp, train):
    def listed(user):
        client.force_login(user)
        (profile,) = client.get("/api/v1/profiles/").json()["results"]
        return [row["team"] for row in profile["approval_of_teams"]]

    assert (listed(alice), listed(root)) == (["nlp", "vision"], [])
    vision.memberships.create(user=root, role="member")
    assert listed(root) == ["vision"]
    assert [row["team"] for row in client.get(API).json()["approval_of_teams"]] == ["nlp", "vision"]


def test_profiles_with_the_same_rules_share_who_approves(client, alice, vision, nlp, train):
    make_profile("other", approval=Approval.ADMIN)
    make_profile("own", teams=(vision,))
    rule(vision, train, Approval.AUTOMATIC)
    rule(nlp, None, Approval.BOTH)
    client.force_login(alice)
    rows = csv.DictReader(io.StringIO(client.get(f"{CATALOGUE}?format=csv").text))
    both = "nlp: A lead of your team approves, then a platform admin. vision: "
    assert {row["profile"]: row["approval"] for row in rows} == {
        "train-80": f"{both}No approval needed.",
        "other": f"{both}A platform admin approves.",
        "own": "A lead of your team approves.",
    }


def test_rule_without_an_approval_takes_that_of_each_version(client, alice, vision, nlp):
    rule(nlp, approval="", escalate_after=timedelta(hours=1))
    for slug in ("lead", "admin"):
        rule(None, make_profile(slug, approval=Approval(slug)), Approval.AUTOMATIC)
    assert (
        approval_shown_to(alice, "lead") == "nlp: A lead of your team approves. vision: No approval needed."
    )
    assert approval_shown_to(alice, "admin") == "nlp: A platform admin approves. vision: No approval needed."
